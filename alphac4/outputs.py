"""Where results go: whether they can be written there, asked before the work begins, and by nobody else meanwhile."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from alphac4.files import is_file_to_be
from alphac4.locks import FileLock


def check_output(path: Path | None) -> None:
    """Raise what writing to a file would raise later: its folder can be made and written, and it is no folder itself.

    Raises:
        OSError: naming the file.
    """
    if path is None:
        return
    if path.is_dir():
        raise OSError(errno.EISDIR, "is a folder, not a file", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "cannot be written", str(path))
    if is_file_to_be(path):
        check_folder(path.resolve().parent, path)


def check_folder(folder: Path, asked: Path | None = None) -> None:
    """The same for a folder, which is made if it is not there.

    Args:
        folder: where files are to be written.
        asked: what to name in the error; by default the folder.

    Raises:
        OSError: naming ``asked``.
    """
    named = str(asked or folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".alphac4-{os.getpid()}"
        probe.touch()  # a killed process of the same number may have left it
        probe.unlink(missing_ok=True)
    except FileExistsError as error:
        raise OSError(errno.ENOTDIR, "is in a file's place: a folder is needed there", named) from error
    except OSError as error:
        raise OSError(error.errno, error.strerror, named) from error


@contextlib.contextmanager
def own_file(path: Path | None) -> Iterator[None]:
    """Keep other processes from appending to the same file: their lines would mix. Devices and pipes are free to all.

    Raises:
        LockedError: naming the file and the process that has it.
        OSError: naming the file, if it could not be written.
    """
    check_output(path)
    if path is None or not is_file_to_be(path):
        yield
        return
    with _locked(path.resolve().with_name(f".{path.resolve().name}.lock"), path):
        yield


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """The same for a folder, which is made if it is not there; a run's folder has the same lock."""
    check_folder(folder)
    with _locked(folder / "lock", folder):
        yield


@contextlib.contextmanager
def _locked(path: Path, of: Path) -> Iterator[None]:
    lock = FileLock(path, of)
    try:
        yield
    finally:
        lock.release()

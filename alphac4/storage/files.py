"""Files and folders that are either complete or do not exist."""

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = ".alphac4-tmp"  # the end of temporary names


class FileError(ValueError):
    """A file cannot be used; the message says why in one line."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, flush, rename over ``path``, flush the folder.

    The new file has the permissions of the old one. A symbolic link stays, and its target is written.

    Raises:
        OSError: if it cannot be written; the old file, if any, is untouched and nothing is left behind.
    """
    check_regular(path)
    with naming(path):
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY}")
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # there was no file, or the system has no modes
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        flush_folder(target.parent)


def append_line(path: Path, line: str) -> None:
    """Append one line in one write, after ending a line cut short by an earlier kill."""
    check_regular(path)
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            before = file.tell()
            file.seek(max(0, before - 1))
            cut = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * cut + line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if before == 0:
            flush_folder(path.parent)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, none without a file; bytes that are not UTF-8 become U+FFFD."""
    check_regular(path)
    if not path.exists():
        return []
    return path.read_bytes().decode("utf-8", errors="replace").split("\n")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed calls of `write_atomically`; no other process may write there."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        if path.is_file():
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure; impossible on Windows, which opens no folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_not_existing(folder: Path) -> None:
    """Raise ValueError if a folder exists: nothing is replaced."""
    if folder.exists():
        raise ValueError(f"{folder} exists already: remove it, or choose a new folder")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to ``folder`` at the end of the block, or removed if something fails.

    Raises:
        ValueError: if the folder exists.
    """
    check_not_existing(folder)
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
        new = Path(beside) / "new"  # a temporary folder is private to its owner; this one has the usual permissions
        new.mkdir()
        yield new
        new.rename(target)
    flush_folder(target.parent)


def check_output(path: Path | None) -> None:
    """Check that a file can be written later: it is a regular file, and its folder can be made and written.

    Raises:
        OSError: naming the file.
    """
    if path is None:
        return
    check_regular(path)
    if path.exists() and not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "cannot be written", str(path))
    check_folder(path.resolve().parent, path)


def check_regular(path: Path) -> None:
    """Check that a path is a regular file or does not exist.

    Raises:
        OSError: naming it, for a folder, a device or a pipe.
    """
    if path.is_dir():
        raise OSError(errno.EISDIR, "is a folder, not a file", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is a device or a pipe, not a file", str(path))


def check_folder(folder: Path, asked: Path | None = None) -> None:
    """Make a folder if it does not exist, and check that it can be written.

    Raises:
        OSError: naming ``asked``, by default the folder.
    """
    with naming(asked or folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise OSError(errno.ENOTDIR, "is a file, but a folder is needed there") from error
        tempfile.TemporaryFile(dir=folder).close()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors of the block; that of a full disk has none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error

"""Files that are either whole or not there."""

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = ".alphac4-tmp"  # the ending of temporary names


class FileError(ValueError):
    """A file that cannot be used, and why, in one line."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, flush, rename over ``path``, flush the folder.

    The new file has the permissions of the old one. A symbolic link stays, and the file that it names is written.

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
            with contextlib.suppress(OSError):  # nothing was there, or its system knows no modes
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        flush_folder(target.parent)


def append_line(path: Path, line: str) -> None:
    """Append one line in one write; a line cut short by an earlier kill is ended first."""
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
    """The lines of a text file, none if there is no file; bytes that are not UTF-8 become replacement characters."""
    check_regular(path)
    if not path.exists():
        return []
    return path.read_bytes().decode("utf-8", errors="replace").split("\n")


def remove_leftovers(folder: Path) -> None:
    """Remove what `write_atomically` left directly in a folder when it was killed; nobody else may be writing there."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        if path.is_file():
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder outlast a power failure, where the system can: Windows opens no folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_output(path: Path | None) -> None:
    """Check now that a file can be written later: it is a regular one, and its folder can be made and written.

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
    """The same for a folder, which is made if it is not there; an error names ``asked``, or else the folder.

    Raises:
        OSError: naming it.
    """
    with naming(asked or folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise OSError(errno.ENOTDIR, "is in a file's place: a folder is needed there") from error
        tempfile.TemporaryFile(dir=folder).close()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors name the file that was asked for: a full disk does not say which file a write was for."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error

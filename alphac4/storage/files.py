"""Files that are either whole or not there."""

import contextlib
import errno
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = ".alphac4-tmp"  # the ending of temporary names


class FileError(ValueError):
    """A file that cannot be used, and why, in one line."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, flush, rename over ``path``, flush the folder.

    What is replaced keeps its permissions. A symbolic link stays, and the file that it names is written. Devices and
    pipes are written through, as there is nothing to be replaced; so is the standard output where it is a file.

    Raises:
        OSError: if it cannot be written; the old file, if any, is untouched and nothing is left behind.
    """
    with naming(path):
        if not is_file_to_be(path):
            _write_through(path, content)
            return
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
    """Append one line in one write; a line cut short by an earlier kill is ended first.

    What is no file is written through, as by `write_atomically`.
    """
    with naming(path):
        if not is_file_to_be(path):
            _write_through(path, line.encode() + b"\n")
            return
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
    """The lines of a text file, none if there is no file; bytes that are not UTF-8 become replacement characters.

    Of what `append_line` writes through there are none: reading a pipe of one's own would wait for ever.
    """
    if not (path.exists() and is_file_to_be(path)):
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
    """Check now that a file can be written later: it is no folder, and its own folder can be made and written.

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


def is_file_to_be(path: Path) -> bool:
    """Whether writing to ``path`` makes or changes a file, rather than going through a device, a pipe or a stream."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and _stream_into(found) is None


def _write_through(path: Path, content: bytes) -> None:
    number = _stream_into(path.stat())
    if number is None:
        path.write_bytes(content)
        return
    # Opened anew, a file in the place of the standard output would lose what is in it, or be written over later.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with open(os.dup(number), "wb") as file:  # noqa: PTH123 - a descriptor has no path
        file.write(content)


def _stream_into(found: os.stat_result) -> int | None:
    """The descriptor of the standard output or error, if what is written there goes to this file."""
    for number in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            if os.path.samestat(found, os.fstat(number)):
                return number
    return None

"""Files that are either whole or not there."""

import contextlib
import errno
import os
import secrets
import stat
import sys
from pathlib import Path

_TEMPORARY = ".alphac4-tmp"  # the ending of temporary names
_NO_FOLDER_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)


class FileError(ValueError):
    """A file that cannot be used, and why, in one line."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, flush, rename over ``path``, flush the folder.

    What is replaced keeps its permissions. A symbolic link stays, and the file that it names is written. Devices and
    pipes are written through, as there is nothing to be replaced; so is the standard output where it is a file.

    Raises:
        OSError: if it cannot be written; the old file, if any, is untouched and nothing is left behind.
    """
    try:
        target = _target(path)
        if target is None:
            _write_through(path, content)
            return
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
    except OSError as error:  # writes to a full disk do not say which file they were for
        raise OSError(error.errno, error.strerror, str(path)) from error


def append_line(path: Path, line: str) -> None:
    """Append one line in one write; a line cut short by an earlier kill is ended first.

    What is no file is written through, as by `write_atomically`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    try:
        if _target(path) is None:
            _write_through(path, line.encode() + b"\n")
            return
        with path.open("ab+") as file:
            start = b""
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    start = b"\n"
            file.write(start + line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    if is_new:
        flush_folder(path.parent)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, none if there is no file; bytes that are not UTF-8 become replacement characters.

    Of what `append_line` writes through there are none: reading a pipe of one's own would wait for ever.
    """
    if not is_file_to_be(path):
        return []
    try:
        return path.read_bytes().decode("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []


def remove_leftovers(folder: Path) -> None:
    """Remove what `write_atomically` left directly in a folder when it was killed; nobody else may be writing there."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        if path.is_file():
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder outlast a power failure, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:  # Windows opens no folders
        if error.errno in _NO_FOLDER_FLUSH:
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_FLUSH:
            raise
    finally:
        os.close(descriptor)


def is_file_to_be(path: Path) -> bool:
    """Whether writing to ``path`` makes or changes a file, rather than going through a device or a pipe."""
    return path.is_dir() or _target(path) is not None


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


def _target(path: Path) -> Path | None:
    """The file to be replaced for ``path``; None if it must be written through."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return path.resolve()  # new, or a link to what is not there yet
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
    return path.resolve() if stat.S_ISREG(found.st_mode) and _stream_into(path) is None else None


def _write_through(path: Path, content: bytes) -> None:
    number = _stream_into(path)
    if number is None:
        path.write_bytes(content)
        return
    # Opened anew, a file in the place of the standard output would lose what is in it, or be written over later.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with open(os.dup(number), "wb") as file:  # noqa: PTH123 - a descriptor has no path
        file.write(content)


def _stream_into(path: Path) -> int | None:
    """The descriptor of the standard output or error, if what is written there goes to ``path``."""
    for number in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            if os.path.samestat(path.stat(), os.fstat(number)):
                return number
    return None

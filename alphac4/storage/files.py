"""Atomic writes of files and folders, and checks of paths."""

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = ".alphac4-tmp"  # suffix of temporary names


class FileError(ValueError):
    """Error for a file that cannot be used; the message gives the reason in one line."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file in the same folder, flush it, rename it to ``path``, and flush the folder.

    The new file keeps the permissions of the old one. If ``path`` is a symbolic link, its target is written. After an
    OSError, an old file is unchanged, and no temporary file remains.
    """
    check_regular(path)
    with add_path_to_errors(path):
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY}")
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # there is no old file, or the system has no modes
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        flush_folder(target.parent)


def append_line(path: Path, line: str) -> None:
    """Append a line; on an error, leave the file unchanged. If a kill has truncated the last line, end it first."""
    check_regular(path)
    with add_path_to_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            before = file.tell()
            file.seek(max(0, before - 1))
            is_truncated = file.read(1) not in (b"", b"\n")
            rest = b"\n" * is_truncated + line.encode() + b"\n"
            try:
                while rest:
                    rest = rest[file.write(rest) :]  # all of it, unless the disk is full
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(before)
                raise
        if before == 0:
            flush_folder(path.parent)


def read_bytes(path: Path) -> bytes:
    """Return a file's content. An OSError always names the file, even that of a failing disk."""
    with add_path_to_errors(path):
        return path.read_bytes()


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file; none if it does not exist. Bytes that are not UTF-8 become U+FFFD."""
    check_regular(path)
    if not path.exists():
        return []
    return read_bytes(path).decode("utf-8", errors="replace").split("\n")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed `write_atomically` calls. No other process may write in the folder."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        if path.is_file():
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, so that they survive a power failure; does nothing on Windows."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_not_existing(folder: Path) -> None:
    """Raise ValueError if a folder exists, so that nothing is replaced."""
    if folder.exists():
        raise ValueError(f"{folder} exists already: remove it, or choose a new folder")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; rename it to ``folder`` at the end of the block, or remove it if the block raises."""
    check_not_existing(folder)
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
        new = Path(temporary) / "new"  # with the usual permissions: temporary folders are private to their owner
        try:
            new.mkdir()
            yield new
            new.rename(target)
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(temporary):
                raise  # a file that was read
            raise OSError(error.errno, error.strerror, str(folder)) from error
    flush_folder(target.parent)


def check_output(path: Path | None, *suffixes: str, overwrite: bool = True) -> None:
    """Raise an OSError or FileError unless a file can be written later; create its folder.

    Nothing may exist at the path except, with ``overwrite``, a regular file. If ``suffixes`` are given, the name must
    end in one of them.
    """
    if path is None:
        return
    check_regular(path)
    if suffixes and path.suffix not in suffixes:
        raise FileError(f"{path}: the name must end in {' or '.join(suffixes)}")
    if path.exists() and not overwrite:
        raise FileError(f"{path} exists already: choose another name, or replace it by --overwrite")
    if path.exists() and not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "is not writable", str(path))
    ensure_folder(path.resolve().parent, path)


def check_regular(path: Path) -> None:
    """Raise an OSError that names the path, if it is a folder, a device or a pipe."""
    if path.is_dir():
        raise OSError(errno.EISDIR, "is a folder, not a file", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is a device or a pipe, not a file", str(path))


def ensure_folder(folder: Path, requested: Path | None = None) -> None:
    """Create a missing folder; raise an OSError that names ``requested``, or else the folder, if it is not writable."""
    with add_path_to_errors(requested or folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise OSError(errno.ENOTDIR, "is a file, but a folder is needed there") from error
        tempfile.TemporaryFile(dir=folder).close()


@contextlib.contextmanager
def add_path_to_errors(path: Path) -> Iterator[None]:
    """Make all OSErrors of the block name this path: some, such as that of a full disk, do not name a file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error

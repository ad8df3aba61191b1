"""Files that are either whole or not there."""

import errno
import os
import re
import secrets
import socket
import stat
import time
from pathlib import Path

from alphac4.machine import process_runs

# The name tells whose temporary file it is, so that nobody else's is ever taken for one of ours.
_TEMPORARY = re.compile(r"\..+\.(?P<host>[\w-]*)\+(?P<pid>\d+)\+[0-9a-f]{8}\.alphac4-tmp")
_ABANDONED_SECONDS = 24 * 3600.0  # a temporary file of another machine, whose processes cannot be asked after
_NO_FOLDER_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, flush, rename over ``path``, flush the folder.

    A symbolic link stays, and the file that it names is written. A device, a pipe, and what lies in ``/dev`` (such as
    ``/dev/stdout``) is written through, as there is nothing to be replaced.

    Raises:
        OSError: if it cannot be written; the old file, if any, is untouched and nothing is left behind.
    """
    try:
        target = _target(path)
        if target is None:
            path.write_bytes(content)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(target)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        flush_folder(target.parent)
    except OSError as error:  # writes to a full disk do not say which file they were for
        raise OSError(error.errno, error.strerror, str(path)) from error


def link_atomically(source: Path, path: Path) -> None:
    """Give a file that is whole and flushed a second name, replacing what had that name; a copy where links fail."""
    temporary = _temporary(path)
    try:
        os.link(source, temporary)
    except OSError:  # some file systems know no links
        write_atomically(path, source.read_bytes())
        return
    try:
        temporary.replace(path)
    finally:  # renaming one of two names of a file to the other leaves both
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Append one line in one write; a line cut short by an earlier kill is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    try:
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
    """The lines of a text file, none if there is no file; bytes that are not UTF-8 become replacement characters."""
    try:
        return path.read_bytes().decode("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that killed processes of this program left directly in ``folder``.

    Only regular files with a name that `write_atomically` makes count, and none of a process that still runs.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        found = _TEMPORARY.fullmatch(path.name)
        if found is None or path.is_symlink() or not path.is_file():
            continue
        if found["host"] == _host():
            abandoned = not process_runs(int(found["pid"]))
        else:
            abandoned = time.time() - path.stat().st_mtime > _ABANDONED_SECONDS
        if abandoned:
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


def _target(path: Path) -> Path | None:
    """The file to be replaced for ``path``; None if it must be written through."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path.resolve()  # new, or a link to what is not there yet
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
    if not stat.S_ISREG(mode) or path.absolute().is_relative_to("/dev") or path.absolute().is_relative_to("/proc"):
        return None
    return path.resolve()


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_host()}+{os.getpid()}+{secrets.token_hex(4)}.alphac4-tmp")


def _host() -> str:
    return re.sub(r"[^\w-]", "-", socket.gethostname())

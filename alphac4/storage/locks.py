"""Locks, so that two processes or threads do not write to the same run or file.

The library filelock uses the operating system's lock on a file. The lock ends with its process, so a killed process
does not block others. The file stays: if it were removed, a waiting process that has opened it and another that creates
it again could both hold the lock. filelock notices a removal only on local disks: NFS renames a removed file that is
open.

On a file system without locks, filelock creates a marker file and removes it. If a process on another machine was
killed, you have to remove its marker by hand.
"""

import contextlib
import os
import socket
import time
from pathlib import Path

import filelock

from alphac4.storage.files import check_output, ensure_folder

LOCK_FILE = ".alphac4.lock"  # in a locked folder; a name that no file of the user has
TIMEOUT_S = 0.2  # time in which another process may release the lock


class LockedError(ValueError):
    """Error for a lock that is held already; the message names the process if it is known."""


class FileLock:
    """A lock held until `close` or until the process ends; raises LockedError if it is held, even by this process."""

    def __init__(self, path: Path, of: Path | None = None) -> None:
        self.path = path.resolve()
        self._lock = filelock.FileLock(self.path, timeout=TIMEOUT_S, thread_local=False)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            holder = "another process"
            with contextlib.suppress(OSError):  # it was released meanwhile, or is unreadable on Windows
                text = self.path.read_text(errors="replace").strip()
                holder = text if text.startswith("process ") and len(text) < 200 else holder
            raise LockedError(f"{of or self.path.parent} is in use by {holder}") from None
        if not isinstance(self._lock, filelock.SoftFileLock):  # only filelock writes its marker
            with contextlib.suppress(OSError):  # the holder's name is optional
                since = time.strftime("%Y-%m-%d %H:%M:%S")
                self.path.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since}\n")

    def close(self) -> None:
        self._lock.release()


def lock_file(path: Path | None) -> contextlib.AbstractContextManager[object]:
    """Lock a file, or nothing if ``path`` is None; return a context manager whose end releases the lock."""
    check_output(path)
    if path is None:
        return contextlib.nullcontext()
    return contextlib.closing(FileLock(path.resolve().with_name(f".{path.resolve().name}.lock"), path))


def lock_folder(folder: Path) -> contextlib.AbstractContextManager[object]:
    """Create a folder if it does not exist, and lock it; return a context manager whose end releases the lock."""
    ensure_folder(folder)
    return contextlib.closing(FileLock(folder / LOCK_FILE, folder))

"""Locks, so that two processes do not write to the same run or record.

The library filelock takes the operating system's lock on a file. The lock ends with its process, so a killed process
blocks nobody, and file systems that machines share pass it on (NFS, SMB, CephFS, GPFS, Lustre mounted with `flock`). On
a file system without such locks, filelock marks the file instead; you must remove another machine's mark by hand.
"""

import contextlib
import os
import socket
import time
from pathlib import Path

import filelock

from alphac4.storage.files import check_folder, check_output

TIMEOUT_S = 0.2  # another process may be about to release the lock


class LockedError(ValueError):
    """Another process holds a lock; the message names it."""


class FileLock:
    """A lock held by this process until `close`, or until it ends; several holders in one process share it.

    Args:
        path: the lock's file, which names its holder.
        of: the file or folder that it protects, for the error; by default the lock's folder.

    Raises:
        LockedError: if another process holds it.
        OSError: if the file cannot be made.
    """

    def __init__(self, path: Path, of: Path | None = None) -> None:
        self.path = path.resolve()
        self._lock = filelock.FileLock(self.path, timeout=TIMEOUT_S, is_singleton=True, thread_local=False)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            holder = "another process"
            with contextlib.suppress(OSError):  # released meanwhile, or unreadable on Windows
                text = self.path.read_text(errors="replace").strip()
                holder = text if text.startswith("process ") and len(text) < 200 else holder
            raise LockedError(f"{of or self.path.parent} is in use by {holder}") from None
        if self._is_ours():
            with contextlib.suppress(OSError):  # the name is optional
                since = time.strftime("%Y-%m-%d %H:%M:%S")
                self.path.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since}\n")

    def close(self) -> None:
        """Release the lock."""
        if self._is_ours():
            with contextlib.suppress(OSError):  # Windows does not remove open files
                self.path.unlink()
        self._lock.release()

    def _is_ours(self) -> bool:
        """Whether this is the only holder here, and filelock stores no mark in the file."""
        return self._lock.lock_counter == 1 and not isinstance(self._lock, filelock.SoftFileLock)


def lock_file(path: Path | None) -> contextlib.AbstractContextManager[object]:
    """Keep other processes from appending to the same file until the end of the block.

    Raises:
        LockedError: naming the file and the process that has it.
        OSError: naming the file, if it cannot be written.
    """
    check_output(path)
    if path is None:
        return contextlib.nullcontext()
    return contextlib.closing(FileLock(path.resolve().with_name(f".{path.resolve().name}.lock"), path))


def lock_folder(folder: Path) -> contextlib.AbstractContextManager[object]:
    """Keep other processes out of a folder, which is made if it does not exist, by the lock of a run's folder."""
    check_folder(folder)
    return contextlib.closing(FileLock(folder / "lock", folder))

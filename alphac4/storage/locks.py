"""Locks, so that two processes do not write to the same run or record.

The operating system's file lock decides, by the library filelock. It ends with its process, so that one left behind by
a kill blocks nobody, and disks that machines share pass it on: NFS, SMB, CephFS, GPFS, Lustre mounted with `flock`. On
a file system without such locks filelock marks the file instead; what a killed process of this machine has marked is
free again, and a mark of another machine's must be removed by hand.
"""

import contextlib
import os
import socket
import time
from pathlib import Path

import filelock

from alphac4.storage.files import check_folder, check_output

_RETRY_SECONDS = 0.2  # a lock may be given back just now


class LockedError(ValueError):
    """Another process holds a lock; who, in one line."""


class FileLock:
    """A lock held by this process until `close`, or until it ends; several holders in one process share it.

    Args:
        path: the lock's file, which is there as long as it is held, and after a kill.
        of: what it keeps others from writing to, for the error; by default the file's folder.

    Raises:
        LockedError: if another process holds it.
        OSError: if the file cannot be made.
    """

    def __init__(self, path: Path, of: Path | None = None) -> None:
        self.path = path.resolve()
        self._lock = filelock.FileLock(self.path, timeout=_RETRY_SECONDS, is_singleton=True, thread_local=False)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise LockedError(f"{of or self.path.parent} is in use by {_holder(self.path)}") from None
        if self._is_ours():
            with contextlib.suppress(OSError):  # a lock without a name holds as well
                self.path.write_text(
                    f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
                )

    def close(self) -> None:
        """Give the lock back."""
        if self._is_ours():
            with contextlib.suppress(OSError):  # Windows removes no open file: it stays
                self.path.unlink()
        self._lock.release()

    def _is_ours(self) -> bool:
        """Whether the file is this holder's to write: it is the only one here, and filelock keeps no mark in it."""
        return self._lock.lock_counter == 1 and not isinstance(self._lock, filelock.SoftFileLock)


def own_file(path: Path | None) -> contextlib.AbstractContextManager[object]:
    """Keep other processes from appending to the same file: their lines would mix.

    The lock is taken at once, and given back at the end of the block.

    Raises:
        LockedError: naming the file and the process that has it.
        OSError: naming the file, if it could not be written.
    """
    check_output(path)
    if path is None:
        return contextlib.nullcontext()
    return contextlib.closing(FileLock(path.resolve().with_name(f".{path.resolve().name}.lock"), path))


def own_folder(folder: Path) -> contextlib.AbstractContextManager[object]:
    """The same for a folder, which is made if it is not there; a run's folder has the same lock."""
    check_folder(folder)
    return contextlib.closing(FileLock(folder / "lock", folder))


def _holder(path: Path) -> str:
    """The process that holds a lock, as its file says."""
    try:
        text = path.read_text(errors="replace").strip()
    except OSError:  # given back meanwhile, or Windows keeps others from reading it
        text = ""
    return text if text.startswith("process ") and len(text) < 200 else "another process"

"""Locks, so that two processes do not write to the same run or record.

On one machine the operating system's file lock decides; it ends with its process, so that one left behind by a kill
blocks nobody. On a disk shared between machines that lock may not reach the others. Therefore the lock file also
says who holds it, and its holder touches it every few seconds: a file of another machine that was touched within the
last two minutes counts as held. What cannot be had there: two machines that start in the same second may both
succeed, and after a kill another machine waits for up to two minutes.
"""

import contextlib
import errno
import json
import logging
import os
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from alphac4.machine import boot_id, process_runs
from alphac4.storage.files import check_folder, check_output, is_file_to_be
from alphac4.storage.records import parse_json, read_record

logger = logging.getLogger(__name__)

TOUCH_SECONDS = 15.0
STALE_SECONDS = 120.0


class LockedError(ValueError):
    """Another process holds a lock; who, in one line."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who holds a lock, as its file says."""

    host: str = field(default_factory=socket.gethostname)
    boot: str = field(default_factory=boot_id)  # tells machines apart, and a machine from itself before a restart
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S"))

    @property
    def is_here(self) -> bool:
        """Whether it runs, or ran, on this machine since it was started: then the operating system's lock decides."""
        return self.boot == boot_id() if self.boot else self.host == socket.gethostname()


class FileLock:
    """A lock held by this process until `release`, or until it ends; several holders in one process share it.

    Args:
        path: the lock's file, which is there as long as it is held, and after a kill.
        of: what it keeps others from writing to, for the error; by default the file's folder.

    Raises:
        LockedError: if another process holds it.
        OSError: if the file cannot be made.
    """

    def __init__(self, path: Path, of: Path | None = None) -> None:
        self.path = path.resolve()
        with _guard:
            held = _held.get(self.path)
            if held is None:
                held = _held[self.path] = _Held(self.path, of or self.path.parent)
            held.count += 1
        self._finalizer = weakref.finalize(self, _release, self.path)

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        self._finalizer()


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


def _release(path: Path) -> None:
    with _guard:
        held = _held.get(path)
        if held is None:  # a parent's, in its child
            return
        held.count -= 1
        if held.count == 0:
            del _held[path]
            held.end()


class _Held:
    """A lock file that this process holds."""

    def __init__(self, path: Path, of: Path) -> None:
        self.path = path
        self.count = 0
        self.file, locked = _open_locked(path)
        try:
            holder = _read_holder(self.file)
            for _ in range(20):  # its holder locks it first, and then says who that is
                if holder is not None or locked is not False:
                    break
                time.sleep(0.05)
                holder = _read_holder(self.file)
            if locked is False or (holder is not None and _still_held(holder, path, locked)):
                raise LockedError(_describe(of, holder, seen=locked is not False))
            self._holder = Holder()
            self.file.truncate(0)
            self.file.write(json.dumps(asdict(self._holder)).encode())
            self.file.flush()
        except BaseException:
            self.file.close()
            raise
        self._ended = threading.Event()
        threading.Thread(target=self._touch, name="lock", daemon=True).start()

    def end(self) -> None:
        """Remove the file, where an open one can be removed; or else it stays, empty."""
        self._ended.set()
        with contextlib.suppress(OSError):
            if self._is_ours():
                self.file.truncate(0)
                self.path.unlink()
        self.file.close()  # and with it the operating system's lock

    def _is_ours(self) -> bool:
        """Whether no other machine has taken it over, as one may while this one sleeps."""
        return _read_holder(self.file) == self._holder

    def _touch(self) -> None:
        while not self._ended.wait(TOUCH_SECONDS):
            with contextlib.suppress(OSError, ValueError):  # closed meanwhile
                if not self._is_ours():
                    logger.warning("%s: another machine has taken this lock over", self.path)
                    return
                os.utime(self.path)


_held: dict[Path, _Held] = {}
_guard = threading.RLock()  # the garbage collector may release one lock while another is taken


def _forget_after_fork() -> None:
    """A child does not own what its parent holds, and must not keep it locked beyond its parent's end."""
    global _guard
    _guard = threading.RLock()
    for held in _held.values():
        held.file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _open_locked(path: Path) -> tuple[IO[bytes], bool | None]:
    """A lock's file, and what `_lock` says of it."""
    while True:
        file = path.open("a+b")
        try:
            locked = _lock(file)
            if not locked or _is_at(file, path):
                return file, locked
        except BaseException:
            file.close()
            raise
        file.close()  # its holder has removed it meanwhile, and another may have made the next one


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock(file: IO[bytes]) -> bool | None:
    """Whether the operating system's lock is ours now; None where the file system has none."""
    try:
        if os.name == "nt":
            import msvcrt

            windows: Any = msvcrt
            file.seek(1 << 20)  # a byte beyond the text: what is locked cannot be read there
            windows.locking(file.fileno(), windows.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK) else None
    return True


def _read_holder(file: IO[bytes]) -> Holder | None:
    file.seek(0)
    try:
        return read_record(Holder, parse_json(file.read(10_000)))
    except ValueError:  # given back, or cut short by a kill
        return None


def _still_held(holder: Holder, path: Path, locked: bool | None) -> bool:
    """Whether the holder that a file names may still run although the operating system's lock was free."""
    if holder.is_here and locked:
        return False
    if holder.is_here and holder.host == socket.gethostname():
        return holder.pid != os.getpid() and process_runs(holder.pid)  # in a container numbers come again
    return _age(path) < STALE_SECONDS


def _age(path: Path) -> float:
    """Seconds since a file was touched, by the clock of the disk that it lies on."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".clock-") as probe:
        return os.fstat(probe.fileno()).st_mtime - path.stat().st_mtime


def _describe(of: Path, holder: Holder | None, *, seen: bool) -> str:
    who = f"process {holder.pid} on {holder.host}, since {holder.since}" if holder else "another process"
    stale = f"; if that was killed, wait {STALE_SECONDS / 60:.0f} minutes" if seen and holder else ""
    return f"{of} is in use by {who}{stale}"

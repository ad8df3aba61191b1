"""The machine: its cores, memory, folders and terminal, and how to install what is missing."""

import contextlib
import ctypes
import importlib
import logging
import math
import os
import pickle
import platform
import queue
import re
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, TextIO, TypeVar

MAX_CORES = 4096
NOTICE_DELAY_S = 1.0  # before a message explains a wait
CACHE_VARIABLE = "ALPHAC4_CACHE"
COLOUR_CODE = re.compile("\033\\[[0-9]+m")  # ANSI
ROOT = Path("/")
NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"  # variable that onnxruntime reads when it is imported
BINDING_VARIABLE = "OMP_PROC_BIND"  # environment variable by which OpenMP binds threads to cores
CHECK_INTERVAL_S = 0.1  # longest time between two checks while threads work
# Ctrl-C; the signal of Slurm and `docker stop`; the signal of a closed terminal (not on Windows).
END_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

logger = logging.getLogger(__name__)
Event = TypeVar("Event")
Result = TypeVar("Result")


class _Thread(threading.local):
    has_block_ended: Callable[[], bool] = staticmethod(lambda: False)


_thread = _Thread()


class WorkerThreadsEndedError(Exception):
    """Error for work in a thread whose `worker_threads` block has ended."""


def cores() -> int:
    """Return the number of cores to use: those of `core_limit`, rounded up, because a thread can use half a core."""
    return math.ceil(core_limit()[0])


def describe_cores() -> str:
    """Return the number of cores to use and the reason, such as "1 of 8 cores (a CPU quota of 0.5)"."""
    total, (limit, reason) = os.cpu_count() or 1, core_limit()
    noun = "core" if total == 1 else "cores"
    return f"{total} {noun}" if limit == total else f"{cores()} of {total} {noun} ({reason})"


def core_limit() -> tuple[float, str]:
    """Return the cores that this process may use on average, and what limits them.

    This is ``ALPHAC4_CORES``, which may exceed the machine's cores; by default, the lower of affinity and CPU quota.
    """
    requested = os.environ.get("ALPHAC4_CORES", "")
    if requested:
        if not (requested.isascii() and requested.isdigit() and 0 < int(requested) <= MAX_CORES):
            raise ValueError(f"ALPHAC4_CORES must be a number of cores, 1 to {MAX_CORES}, not {requested!r}")
        return int(requested), "ALPHAC4_CORES"
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    is_bound = os.environ.get(BINDING_VARIABLE, "false").lower() != "false"  # when a program loads PyTorch
    affinity = f"CPU affinity, perhaps because {BINDING_VARIABLE} is set" if is_bound else "CPU affinity"
    quota = cpu_quota()
    return min((allowed, affinity), (quota, f"a CPU quota of {quota:.3g}"))


def cpu_quota(root: Path = ROOT) -> float:
    """Return the CPU seconds per second that the control groups of this process allow; infinity without a quota.

    Control groups of version 2 have quota and period in ``cpu.max``
    (https://docs.kernel.org/admin-guide/cgroup-v2.html). Those of version 1 have a file for each, with -1 for no quota
    (https://docs.kernel.org/scheduler/sched-bwc.html).
    """
    limits = [*_group_limits("cpu", "cpu.max", root=root)]
    limits += _group_limits("cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us", root=root)
    return min((quota / period for quota, period in limits if quota > 0), default=math.inf)


def memory_limit(root: Path = ROOT) -> float:
    """Return the bytes that the control groups of this process allow; infinity without a limit.

    For control groups of version 1 without a limit, it may be about 2^63
    (https://docs.kernel.org/admin-guide/cgroup-v1/memory.html).
    """
    names = ("memory.max", "memory.limit_in_bytes")
    return min((limit for name in names for (limit,) in _group_limits("memory", name, root=root)), default=math.inf)


def _group_limits(controller: str, *names: str, root: Path) -> Iterator[list[int]]:
    """Yield the numbers in files of this process's control group and of its parents, which also limit it.

    ``/proc/self/cgroup`` has lines "number:controllers:path", without controllers in version 2
    (https://man7.org/linux/man-pages/man7/cgroups.7.html). In a container, the folders of outer groups are missing.
    Files with text other than numbers, such as "max", are left out.
    """
    with contextlib.suppress(OSError):  # another system
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or controller in controllers.split(","):
                mount, group = root / "sys/fs/cgroup" / (controllers and controller), PurePosixPath(path[1:])
                for folder in (group, *group.parents):
                    with contextlib.suppress(OSError, ValueError):
                        yield [int(word) for name in names for word in (mount / folder / name).read_text().split()]


def check_memory(user: str, needed: int, settings: str, *, is_certain: bool = True) -> None:
    """Check that this process may use ``needed`` more bytes, because Linux silently ends one that uses too much.

    Raise MemoryError if this machine, a container or ``ulimit`` has too little. Log a warning instead if the need is
    not certain, or if only other programs, which may end, use the memory. The message begins with ``user``, such as
    "the games need", and ends with the settings to lower.
    """
    import psutil  # every start loads this module, few need psutil

    process, machine = psutil.Process(), psutil.virtual_memory()
    used = process.memory_info()
    spare = psutil.swap_memory().total - used.rss + getattr(used, "shared", 0)  # pages of files can be dropped
    room = {
        "this machine leaves": machine.total + spare,
        "the limit of this container or job leaves": memory_limit() + spare,
    }
    if psutil.LINUX and (limit := process.rlimit(psutil.RLIMIT_AS)[0]) != psutil.RLIM_INFINITY:
        room["ulimit -v leaves"] = limit - used.vms
    source = min(room, key=room.__getitem__)
    if needed <= room[source]:
        source, is_certain = "other programs leave", False
        room[source] = machine.available
    if needed > room[source]:
        text = f"{user} {needed / 1e9:,.2f} GB, but {source} {max(room[source], 0) / 1e9:,.2f} GB: lower {settings}"
        if is_certain:
            raise MemoryError(text)
        logger.warning(text)


def install_advice(extra: str) -> str:
    """Return the command (the clone's script, or pip) that installs an extra, or with "" the package."""
    if (Path(__file__).parents[1] / "scripts" / "setup.sh").is_file():
        return f"./scripts/setup.sh {extra}".rstrip()
    return f"pip install 'alphac4[{extra}]'" if extra else "pip install alphac4"


def processor_name() -> str:
    """Return the processor's name, such as "AMD EPYC 7B13", or its architecture, such as "x86_64"."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", errors="replace") as lines:  # noqa: PTH123 - a kernel file
        if match := re.search(r"^model name\s*:\s*(.+)$", lines.read(), re.MULTILINE):
            return match[1].strip()
    return platform.processor() or platform.machine()


def resident_memory_mb() -> float:
    """Return the resident memory of this process in MB."""
    import psutil  # every start loads this module, few need psutil

    return float(psutil.Process().memory_info().rss / 1e6)


def cache_folder() -> Path:
    """Return the folder for files that can be recreated: ``ALPHAC4_CACHE``, or the system's; the folder may be missing.

    Raise RuntimeError if the user has no home folder.
    """
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE])
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "alphac4"


def adapt_process() -> None:
    """Configure a process of this program's own, such as a command's. Importing the package changes nothing.

    Call it before PyTorch is loaded. Child processes inherit the environment. Environment variables that the user has
    set stay, except that OpenMP must not bind threads to cores: it would bind the thread that loads PyTorch to the
    first core, and all threads and processes that this thread starts would share that core.

    PyTorch's threads spin at their barriers for half a millisecond, then sleep. GNU's OpenMP spins for 15 ms by
    default: while another program ran, a search took 100 times as long as on an idle machine. Less than half a
    millisecond is slower on an idle machine, because waking takes longer than most operations.

    glibc keeps the memory that a forward pass frees, instead of returning it to the system. Otherwise page faults take
    a third of the time of a forward pass in PyTorch.
    """
    os.environ[BINDING_VARIABLE] = "false"
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    options = {  # by the environment variables with the same effect
        "MALLOC_TRIM_THRESHOLD_": (-1, 2**31 - 1),
        "MALLOC_TOP_PAD_": (-2, 64 * 2**20),
        "MALLOC_MMAP_THRESHOLD_": (-3, 32 * 2**20),  # the most that glibc accepts
    }
    if not sys.platform.startswith("linux") or not os.environ.keys().isdisjoint(options):
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        for number, value in options.values():
            libc.mallopt(number, value)


def raise_on_end_signals() -> None:
    """Let SIGTERM and SIGHUP end this process like Ctrl-C: SIGTERM raises KeyboardInterrupt with its number.

    SIGHUP raises SIGTERM, which libraries such as web servers handle as well. A signal that is ignored, as SIGHUP is
    under nohup, stays ignored. Without a handler, the first process of a container would ignore both.
    """

    def interrupt(number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt(number)

    for number in END_SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            is_term = number == signal.SIGTERM
            signal.signal(number, interrupt if is_term else lambda *_: signal.raise_signal(signal.SIGTERM))


@contextlib.contextmanager
def delayed_interrupts() -> Iterator[None]:
    """Let signals that end the process wait for the end of the block, such as a pair of writes that belong together."""
    received = list[int]()
    is_main = threading.current_thread() is threading.main_thread()  # the only one in which Python handles signals
    handled = [number for number in END_SIGNALS if is_main and callable(signal.getsignal(number))]
    before = {number: signal.signal(number, lambda number, _frame: received.append(number)) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


@contextlib.contextmanager
def picklable_errors() -> Iterator[None]:
    """Raise a RuntimeError with the text of an exception that cannot be pickled, instead of that exception.

    For functions that run in a child process: an exception that the parent cannot unpickle looks like a crash.
    """
    try:
        yield
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # such as for a class that takes other arguments than its text
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise


@contextlib.contextmanager
def worker_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a thread pool for the block. The end of the block does not wait for unfinished work.

    This lets an error or Ctrl-C end the block immediately. Unfinished work ends at its next call of `check_block`, and
    so does work in blocks that this work has begun.
    """
    ended, outer = threading.Event(), _thread.has_block_ended
    values = _thread, "has_block_ended", lambda: ended.is_set() or outer()
    pool = ThreadPoolExecutor(count, initializer=setattr, initargs=values)
    try:
        yield pool
    finally:
        ended.set()
        pool.shutdown(wait=False, cancel_futures=True)


def run_in_threads(
    works: Sequence[Callable[[Callable[[Event], None]], Result]],  # each gets a function to call with its events
    on_event: Callable[[Event], object],  # called with each event in the calling thread
    check: Callable[[], object],  # called there at least once per `CHECK_INTERVAL_S`; may raise to end the work
) -> list[Result]:
    """Call each function in a thread of its own; return their results.

    An error, of a function or of the calling thread, is raised immediately and ends the others as in `worker_threads`.
    """
    events = queue.SimpleQueue[Event | Future[Result]]()
    with worker_threads(len(works)) as pool:
        futures = [pool.submit(work, events.put) for work in works]
        for future in futures:
            future.add_done_callback(events.put)
        running = len(futures)
        while running:
            check()
            try:
                event = events.get(timeout=CHECK_INTERVAL_S)
            except queue.Empty:
                continue
            if isinstance(event, Future):
                event.result()  # raises its error
                running -= 1
            else:
                on_event(event)
        return [future.result() for future in futures]


def has_block_ended() -> bool:
    """Return whether this thread's `worker_threads` block, if any, has ended."""
    return _thread.has_block_ended()


def check_block() -> None:
    """Raise WorkerThreadsEndedError if this thread's `worker_threads` block has ended.

    Long work must call this regularly, because at exit the program waits for its threads.
    """
    if has_block_ended():
        raise WorkerThreadsEndedError


class SharedSetting:
    """Setting of the process that threads change for a block; the last of overlapping blocks restores it."""

    def __init__(self, get: Callable[[], Any], change: Callable[[Any], object]) -> None:
        self._before: Any = None  # the value from before the first of the current blocks
        self._latest: Any = None
        self._get, self._change = get, change
        self._lock = threading.Lock()
        self._blocks = 0

    @contextlib.contextmanager
    def changed_to(self, value: Any) -> Iterator[None]:
        """Change the setting for the block, and restore it unless other code has changed it meanwhile."""
        with self._lock:
            if self._blocks == 0:
                self._before = self._get()
            self._blocks += 1
            self._latest = value
            self._change(value)
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if self._blocks == 0 and self._get() == self._latest:
                    self._change(self._before)


_disabled_logging = SharedSetting(lambda: logging.root.manager.disable, logging.disable)


def quiet_logging(level: int) -> contextlib.AbstractContextManager[None]:
    """Return a context in which log messages up to this level are off, for libraries that log every step."""
    return _disabled_logging.changed_to(max(logging.root.manager.disable, level))


_onnxruntime_telemetry = SharedSetting(
    lambda: os.environ.get(NO_TELEMETRY),
    lambda value: os.environ.pop(NO_TELEMETRY, None) if value is None else os.environ.update({NO_TELEMETRY: value}),
)


def import_onnxruntime() -> Any:
    """Return the module `onnxruntime`, imported without its telemetry.

    Telemetry would give the user an identifier, keep a database in the user's folder open, and send data.
    """
    with _onnxruntime_telemetry.changed_to("1"):
        return importlib.import_module("onnxruntime")


@contextlib.contextmanager
def notify_if_slow(write: Callable[[], object], stream: TextIO) -> Iterator[None]:
    """Call ``write`` if the block takes longer than `NOTICE_DELAY_S` and the stream is a terminal."""
    timer = threading.Timer(NOTICE_DELAY_S, write)
    timer.daemon = True
    if stream.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def terminal_width(stream: TextIO) -> int | None:
    """Return the characters per line of the stream's terminal; None for other streams, whose lines may be long."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrap_text(text: str, stream: TextIO, *, indent: str = "    ") -> str:
    """Wrap the lines of a text between words to the width of the terminal; return it unchanged for other streams.

    Continuation lines start with ``indent``.
    """
    width = terminal_width(stream)
    if width is None:
        return text
    options = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        line if len(COLOUR_CODE.sub("", line)) <= width else textwrap.fill(line, width, **options)  # type: ignore[arg-type]
        for line in text.split("\n")
    )


def format_table(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (), gap: str = "  ") -> list[str]:
    """Return the lines of a table with right-aligned columns; those with the indices ``left`` are left-aligned.

    A row of one cell is a line of its own, which does not affect the widths.
    """
    widths = [max(map(len, cells)) for cells in zip(*(row for row in rows if len(row) > 1), strict=True)]
    return [
        gap.join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        if len(row) > 1
        else row[0]
        for row in rows
    ]

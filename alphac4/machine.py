"""The machine: its cores, memory, folders and terminal, and how to install what is missing."""

import contextlib
import ctypes
import os
import platform
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

MAX_CORES = 4096
NOTICE_DELAY_S = 1.0  # a person waits this long before being told what takes time
CACHE, STATE = "ALPHAC4_CACHE", "ALPHAC4_STATE"  # variables of the environment
COLOUR_CODE = re.compile("\033\\[[0-9]+m")  # of a terminal

_thread = threading.local()


class BlockEndedError(Exception):
    """The block that this thread works for has ended."""


def cores() -> int:
    """Return the number of cores to use: ``ALPHAC4_CORES``, which may be more than there are, or all allowed ones.

    Raises:
        ValueError: in one line, if the variable is no whole number above 0.
    """
    asked = os.environ.get("ALPHAC4_CORES", "")
    if asked:
        if not (asked.isascii() and asked.isdigit() and 0 < int(asked) <= MAX_CORES):
            raise ValueError(f"ALPHAC4_CORES must be a number of cores, 1 to {MAX_CORES}, not {asked!r}")
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def install_advice(extra: str) -> str:
    """Return the command that installs a missing extra, or the package alone: a clone's own script, or pip."""
    if (Path(__file__).parents[1] / "scripts" / "setup.sh").is_file():
        return f"./scripts/setup.sh {extra}".rstrip()
    return f"pip install 'alphac4[{extra}]'" if extra else "pip install alphac4"


def processor_name() -> str:
    """Return the processor's name, such as "AMD EPYC 7B13"; its kind, such as "x86_64", if that is unknown."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", errors="replace") as lines:  # noqa: PTH123 - a kernel file
        if found := re.search(r"^model name\s*:\s*(.+)$", lines.read(), re.MULTILINE):
            return found[1].strip()
    return platform.processor() or platform.machine()


def resident_memory_mb() -> float:
    """Return the resident memory of this process in MB."""
    import psutil  # only where it is needed, as this module is loaded at every start

    return float(psutil.Process().memory_info().rss / 2**20)


def cache_folder() -> Path:
    """Return the folder for files that can be made again, which may not exist: ``ALPHAC4_CACHE`` or the system's.

    Raises:
        RuntimeError: if the system does not know a home folder of the user.
    """
    return _folder(CACHE, mac="Caches", variable="XDG_CACHE_HOME", usual=".cache")


def state_folder() -> Path:
    """Return the folder for files that a person would miss: ``ALPHAC4_STATE`` or the system's."""
    return _folder(STATE, mac="Application Support", variable="XDG_STATE_HOME", usual=".local/state")


def _folder(named: str, *, mac: str, variable: str, usual: str) -> Path:
    if os.environ.get(named):
        return Path(os.environ[named])
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / mac
    else:
        base = os.environ.get(variable) or Path.home() / usual
    return Path(base) / "alphac4"


def adapt_process() -> None:
    """Set up a process of this program, such as a command's; the package changes no other process.

    Call it before PyTorch is loaded. Settings of the user stay, and child processes inherit the first one.

    Threads of PyTorch's operations spin at their barriers for half a millisecond, then sleep. GNU's OpenMP spins for
    15 ms by default, so that a search beside another program took 100 times as long as on an idle machine. A shorter
    time costs speed on an idle machine, as waking takes longer than most operations.

    glibc keeps the memory that each forward frees instead of returning it to the system. The page faults of getting it
    back took a third of the time of a forward by PyTorch.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    options = {  # by the variables of the environment that set the same
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


@contextlib.contextmanager
def worker_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads until the end of the block, which does not wait for their work when it raises.

    So an error or Ctrl-C ends the block at once. The threads' work ends at its next call of `check_block`.
    """
    ended = threading.Event()
    pool = ThreadPoolExecutor(count, initializer=setattr, initargs=(_thread, "block_ended", ended))
    try:
        yield pool
    finally:
        ended.set()
        pool.shutdown(wait=False, cancel_futures=True)


def check_block() -> None:
    """End this thread's work if its `worker_threads` block is over: at its exit the program would wait for it.

    Raises:
        BlockEndedError: in such a thread.
    """
    ended = getattr(_thread, "block_ended", None)
    if ended is not None and ended.is_set():
        raise BlockEndedError


@contextlib.contextmanager
def announced(write: Callable[[], object], stream: TextIO) -> Iterator[None]:
    """Call ``write`` if the block takes more than `NOTICE_DELAY_S` and the stream is a terminal."""
    timer = threading.Timer(NOTICE_DELAY_S, write)
    timer.daemon = True
    if stream.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def wrapped(text: str, stream: TextIO, *, indent: str = "    ") -> str:
    """Break the lines of a text between words if the stream is a terminal, which would break them inside words.

    Lines after the first start with the ``indent``; lines that fit stay as they are.
    """
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    options = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        line if len(COLOUR_CODE.sub("", line)) <= width else textwrap.fill(line, width, **options)  # type: ignore[arg-type]
        for line in text.split("\n")
    )

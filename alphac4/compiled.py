"""Compilation of hot functions with Numba."""

import contextlib
import functools
import hashlib
import logging
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import event

from alphac4.machine import SharedSetting, cache_folder, delayed_interrupts

logger = logging.getLogger(__name__)

MAX_CACHED_SOURCES = 4  # versions of the source, so that switching between two branches does not recompile
cache_problems: list[str] = []  # messages that were logged because machine code could not be saved
_MACHINE_CODE = "machine-code-"
_COMPILED = re.compile(rb"\n(?:@(?:compiled|inlined|force_inlined|allocating|kernel)\s|class \w+\(NamedTuple\))")

# Numba reads its setting while it decorates a function.
_CACHE_DIR = SharedSetting(lambda: numba.config.CACHE_DIR, lambda folder: setattr(numba.config, "CACHE_DIR", folder))  # type: ignore[attr-defined]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function at its first call, cache the machine code on disk, and run it without the GIL.

    The function may read and write arrays but not create any: use `allocating` for that. This lets Numba omit reference
    counting, which slows a tree search down. Division by zero follows IEEE 754 instead of raising, so that loops over
    actions can be vectorised.
    """
    return _njit(function, nrt=False)


def allocating(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile as `compiled` does, for functions that create arrays; only Python may call the result.

    Signals wait for the end of a call, because Numba crashes if Ctrl-C raises an exception while it returns arrays.
    This adds 12 microseconds to a call.
    """
    dispatcher = _njit(function, nrt=True)

    @functools.wraps(function)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        with delayed_interrupts():
            return dispatcher(*arguments, **options)

    return call


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile as `compiled` does, and copy the function's source into its callers.

    Use it for functions of a few instructions.
    """
    return _njit(function, nrt=False, inline="always")


def force_inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile as `compiled` does, and copy the compiled code into its callers.

    Use it for longer functions that get the trees in inner loops: passing twenty arrays takes longer than running the
    function, and `inlined` would compile it again in every caller.
    """
    return _njit(function, nrt=False, forceinline=True)


@functools.cache
def users_compiled(function: Any) -> Any:
    """Compile a user's function once per process, without the cache on disk.

    It may create arrays, unlike the search that calls it.
    """
    njit: Any = numba.njit
    source = getattr(function, "py_func", function)  # of a function that the user has compiled
    return njit(nogil=True, error_model="numpy", _nrt=True)(source)


def _njit(function: Callable[_P, _R], *, nrt: bool, **options: object) -> Callable[_P, _R]:
    """Compile with Numba, with the machine code in `machine_code_folder`.

    ``_nrt`` is an undocumented option of Numba, which has no public counterpart. With reference counting, a tree search
    takes 2.5 times as long. A version of Numba that lacks the option raises an error at the first compilation.
    """
    njit: Any = numba.njit  # its type lacks some options
    return cached_on_disk(njit(nogil=True, error_model="numpy", _nrt=nrt, **options)(function))  # type: ignore[no-any-return]


def cached_on_disk(dispatcher: Any) -> Any:
    """Let Numba's dispatcher of a function or kernel store its code in `machine_code_folder`; return the dispatcher.

    Numba has no public interface for another format of its cache, hence the private names here and below.
    """
    folder = machine_code_folder()
    if folder is not None:
        with _CACHE_DIR.changed_to(str(folder)):
            dispatcher.enable_caching()
        cache = dispatcher._cache
        cache._cache_file = _MachineCode(cache, folder)
        cache._guard_against_spurious_io_errors = _logged_errors
    return dispatcher


class _MachineCode:
    """Files with a function's machine code, one per combination of argument types. Each starts with a digest.

    They replace Numba's index and its numbered files, which get mixed up if several processes compile at the same time.
    Numba would even run a file that a crash has damaged. A file that does not match its digest is compiled again and
    replaced.

    Code for a user's `alphac4.mcts.simulation.Selection` is not saved: the cache would not notice an edit of it.
    """

    def __init__(self, cache: Any, folder: Path) -> None:
        self._numba = cache._cache_file
        self._start = f"{cache.cache_path}/{cache._impl.filename_base}"
        self._source = folder.name, cache._impl.locator.get_source_stamp(), numba.__version__

    def load(self, key: object) -> Any:
        """Return the machine code saved for a key (argument types, processor and bytecode); None without a match."""
        if _has_foreign_type(key):
            return None
        digest, _, content = self._path(key).read_bytes().partition(b"\n")
        if digest != self._digest(key, content):
            return None
        saved_key, machine_code = pickle.loads(content)
        return machine_code if saved_key == key else None  # a key's `repr` lacks the fields of named tuples

    def save(self, key: object, machine_code: Any) -> None:
        """Write the machine code for a key to a temporary file, and rename that."""
        if _has_foreign_type(key):
            return
        content = self._numba._dump((key, machine_code))
        with self._numba._open_for_write(self._path(key)) as file:
            file.write(self._digest(key, content) + b"\n" + content)

    def _path(self, key: object) -> Path:
        return Path(f"{self._start}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc")

    def _digest(self, key: object, content: bytes) -> bytes:
        return hashlib.sha256(repr((self._source, key)).encode() + content).hexdigest().encode()


def _has_foreign_type(key: Any) -> bool:
    """Return whether a function has an argument of a class, such as a named tuple, from outside the package."""
    classes = [kind.instance_class for kind in getattr(key[0], "args", key[0]) if hasattr(kind, "instance_class")]
    return any(kind.__module__.partition(".")[0] != "alphac4" for kind in classes)


@contextlib.contextmanager
def _logged_errors() -> Iterator[None]:
    """Log an error of reading or writing machine code, and continue: what cannot be read is compiled."""
    try:
        yield
    except FileNotFoundError:  # not compiled yet
        pass
    except OSError as error:
        _report_uncached(f"{machine_code_folder()}: {error.strerror}")


@functools.cache
def _report_uncached(problem: str) -> None:
    advice = "so code is compiled at each start: make room, or set NUMBA_CACHE_DIR to another folder"
    cache_problems.append(f"{problem}, {advice}")
    logger.warning(cache_problems[-1])


@functools.cache
def machine_code_folder() -> Path | None:
    """Create the folder of this source's machine code and return it; None if no folder is writable.

    To decide whether machine code is outdated, Numba looks only at the function's own file. But machine code includes
    the functions it calls and depends on the fields of named tuples, which may be in other files. So the folder's name
    contains a digest of all files with such code.
    """
    digest = _sources_digest()
    requested = numba.config.CACHE_DIR  # type: ignore[attr-defined] # NUMBA_CACHE_DIR
    candidates: list[Callable[[], Path]] = [lambda: Path(__file__).parent / "__pycache__", cache_folder]
    if requested:
        candidates = [lambda: Path(requested)]
    for candidate in candidates:
        try:
            base = candidate()
            folder = base / f"{_MACHINE_CODE}{digest}"
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, RuntimeError):  # not writable, or the user has no home folder
            continue
        if is_new:
            _remove_outdated(base)
        return folder
    _report_uncached("no cache folder is writable")
    return None


def _remove_outdated(base: Path) -> None:
    """Remove the machine code of all but the `MAX_CACHED_SOURCES` latest sources.

    The empty folders remain: a process that was started with an older source may still write there.
    """
    folders = sorted(base.glob(f"{_MACHINE_CODE}*"), key=lambda folder: -folder.stat().st_mtime)
    for folder in folders[MAX_CACHED_SOURCES:]:
        for file in folder.glob("*/*.nb*"):
            file.unlink(missing_ok=True)


def _sources_digest() -> str:
    """Return a digest of all files of the package with compiled functions or named tuples."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        content = path.read_bytes()
        if _COMPILED.search(content):
            digest.update(content)
    return digest.hexdigest()[:16]


class _Announcement(event.Listener):
    """Hook that calls ``announce`` before the first compilation."""

    def __init__(self, announce: Callable[[], None]) -> None:
        self._announce = functools.cache(announce)

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        """Announce a compilation. Numba calls this for functions that are not cached on disk."""
        self._announce()

    def on_end(self, event: event.Event) -> None:
        """Do nothing; Numba's interface requires this method."""


@functools.cache
def announce_compilation(announce: Callable[[], None]) -> None:
    """Call ``announce`` once, before the first compilation; never if all machine code is cached on disk.

    Passing the same function again has no effect.
    """
    event.register("numba:compile", _Announcement(announce))  # type: ignore[no-untyped-call]

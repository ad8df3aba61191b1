"""Compilation of every hot function: one place for Numba's options."""

import contextlib
import functools
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import event

from alphac4.machine import cache_folder

MAX_CACHED_SOURCES = 4  # so that switching between two branches compiles nothing again
_MACHINE_CODE = "machine-code-"
_COMPILED = re.compile(rb"\n(?:@(?:compiled|inlined|allocating|kernel)\s|class \w+\(NamedTuple\))")

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile on first call and keep the machine code on disk; runs without the interpreter's lock.

    The function reads and writes the arrays that it is given, and makes none. So Numba need not count the references to
    them, which took half of a tree search's time; one that makes arrays is `allocating`. Division by zero follows
    IEEE 754 instead of raising, which lets loops over actions be vectorised.
    """
    return _njit(function, cache=True, nrt=False)


def allocating(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`compiled`, for functions that make arrays. Those that they return go to Python, or to another of their kind."""
    return _njit(function, cache=True, nrt=True)  # or else it would be as in the function that calls it


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`compiled`, copied into its callers.

    For functions of a few instructions, and for those that get the trees in inner loops: to pass twenty arrays takes
    longer than what they do.
    """
    return _njit(function, cache=True, nrt=False, inline="always")


@functools.cache
def recompiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A `compiled` function without what is kept on disk.

    For arguments whose types bring code from outside the package: Numba would not see edits of that code, and could
    not read its own index again in a program that does not know the types. That code may make arrays.
    """
    return _njit(function.py_func, cache=False, nrt=True)  # type: ignore[attr-defined]


def _njit(function: Callable[_P, _R], *, cache: bool, nrt: bool, **options: object) -> Callable[_P, _R]:
    """Compile by Numba, with its machine code in `machine_code_folder`.

    ``_nrt`` is the one option here that Numba does not document. It has no public counterpart, and without it a tree
    search takes 2.5 times as long. A Numba that does not know it raises an error at the first compilation.
    """
    njit: Any = numba.njit  # whose type does not know all of its options
    with machine_code_cache() as keeps:
        decorate = njit(nogil=True, error_model="numpy", cache=cache and keeps, _nrt=nrt, **options)
        return decorate(function)  # type: ignore[no-any-return]


@contextlib.contextmanager
def machine_code_cache() -> Iterator[bool]:
    """Let Numba keep the machine code of functions decorated in this block; gives False where it cannot be kept."""
    folder = machine_code_folder()
    config: Any = numba.config
    before = config.CACHE_DIR  # which Numba reads while it decorates a function
    try:
        config.CACHE_DIR = "" if folder is None else str(folder)
        yield folder is not None
    finally:
        config.CACHE_DIR = before


@functools.cache
def machine_code_folder() -> Path | None:
    """Return the folder of this source's machine code, made if need be; None where none can be written.

    Numba looks at a function's own file only to see whether its machine code is outdated. The machine code contains
    that of the functions it calls as well, and reads named tuples by the order of their fields; both may be in other
    files. So the folder is named after the content of all these files.
    """
    digest = _sources_digest()
    named = numba.config.CACHE_DIR  # type: ignore[attr-defined] # NUMBA_CACHE_DIR
    places: list[Callable[[], Path]] = [lambda: Path(__file__).parent / "__pycache__", cache_folder]
    if named:
        places = [lambda: Path(named)]
    for find in places:
        try:
            base = find()
            folder = base / f"{_MACHINE_CODE}{digest}"
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, RuntimeError):  # it cannot be written, or the user has no home folder
            continue
        if is_new:
            _remove_outdated(base)
        return folder
    return None


def _remove_outdated(base: Path) -> None:
    """Remove the machine code of all but the `MAX_CACHED_SOURCES` latest sources.

    The folders stay, for a process that was started with such a source and compiles more.
    """
    folders = sorted(base.glob(f"{_MACHINE_CODE}*"), key=lambda folder: -folder.stat().st_mtime)
    for folder in folders[MAX_CACHED_SOURCES:]:
        for file in folder.glob("*/*.nb[ci]"):
            file.unlink(missing_ok=True)


def _sources_digest() -> str:
    """Return a digest of all files of the package with compiled functions, or types that these take."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        content = path.read_bytes()
        if _COMPILED.search(content):
            digest.update(content)
    return digest.hexdigest()[:16]


class _Announcement(event.Listener):
    """Calls ``announce`` before the first compilation."""

    def __init__(self, announce: Callable[[], None]) -> None:
        self._announce = functools.cache(announce)

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        """Numba compiles a function that it did not find on disk."""
        self._announce()

    def on_end(self, event: event.Event) -> None:
        """Nothing: the next function may follow."""


@functools.cache
def announce_compilation(announce: Callable[[], None]) -> None:
    """Call ``announce`` once, before anything is compiled; never if all is found on disk or it was passed before."""
    event.register("numba:compile", _Announcement(announce))  # type: ignore[no-untyped-call]

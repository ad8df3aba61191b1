"""Compilation of every hot function: one place for Numba's options."""

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import event

_COMPILED = re.compile(rb"\n(?:@(?:compiled|inlined|allocating|kernel)\s|class \w+\(NamedTuple\))")

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile on first call and keep the machine code on disk; runs without the interpreter's lock.

    The function reads and writes the arrays that it is given, and makes none. So Numba need not count the references to
    them, which took half of a tree search's time; one that makes arrays is `allocating`. Division by zero follows
    IEEE 754 instead of raising, which lets loops over actions be vectorised.
    """
    return _njit(function, cache=True, _nrt=False)


def allocating(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`compiled`, for functions that make arrays. Those that they return go to Python, or to another of their kind."""
    return _njit(function, cache=True, _nrt=True)  # or else it would be as in the function that calls it


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`compiled`, copied into its callers.

    For functions of a few instructions, and for those that get the trees in inner loops: to pass twenty arrays takes
    longer than what they do.
    """
    return _njit(function, cache=True, _nrt=False, inline="always")


@functools.cache
def recompiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A `compiled` function without what is kept on disk.

    For arguments whose types bring code from outside the package: Numba would not see edits of that code, and could
    not read its own index again in a program that does not know the types. That code may make arrays.
    """
    return _njit(function.py_func, _nrt=True)  # type: ignore[attr-defined]


def _njit(function: Callable[_P, _R], **options: object) -> Callable[_P, _R]:
    njit: Any = numba.njit  # whose type does not know all of its options
    return keep_current(njit(nogil=True, error_model="numpy", **options)(function))  # type: ignore[no-any-return]


def keep_current(dispatcher: Any) -> Any:
    """Let what is kept on disk of a function be outdated by a change of any compiled source of the package."""
    # Numba looks at the function's own file alone to see whether what is on disk is outdated. Its machine code holds
    # that of the functions it calls as well, which may be in any other of these files.
    kept: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(kept, "_source_stamp"):
        kept._source_stamp = (kept._source_stamp, _sources_digest())
    if hasattr(kept, "_load_index"):
        kept._load_index = _without_what_has_moved(kept._load_index)
    return dispatcher


def _without_what_has_moved(load_index: Callable[[], dict[Any, str]]) -> Callable[[], dict[Any, str]]:
    """Numba unpickles an index before it checks whether it is outdated; types in it may have moved."""

    def load() -> dict[Any, str]:
        try:
            return load_index()
        except (ImportError, AttributeError):
            return {}

    return load


@functools.cache
def _sources_digest() -> str:
    """Of all files of the package that hold compiled functions, or types whose fields these know by their order."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        content = path.read_bytes()
        if _COMPILED.search(content):
            digest.update(content)
    return digest.hexdigest()


class _Announcement(event.Listener):
    """Calls ``announce`` before the first compilation."""

    def __init__(self, announce: Callable[[], None]) -> None:
        self._announce = functools.cache(announce)

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        """Numba compiles a function that it did not find on disk."""
        self._announce()

    def on_end(self, event: event.Event) -> None:
        """Nothing: the next function may follow."""


def announce_compilation(announce: Callable[[], None]) -> None:
    """Call ``announce`` once, before anything is compiled; never if all is found on disk."""
    event.register("numba:compile", _Announcement(announce))  # type: ignore[no-untyped-call]

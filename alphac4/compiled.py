"""How every hot function is compiled: one place for Numba's options."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba
from numba.core import event

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile on first call and keep the machine code on disk; runs without the interpreter's lock.

    Division by zero follows IEEE 754 instead of raising, which lets loops over actions be vectorised.
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`compiled`, copied into its callers: for the few-instruction functions of the rules."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function)  # type: ignore[no-any-return]


@functools.cache
def recompiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A `compiled` function without what is kept on disk.

    For arguments whose types bring code from outside the package: Numba would not see edits of that code, and could
    not read its own index again in a program that does not know the types.
    """
    return numba.njit(nogil=True, error_model="numpy")(function.py_func)  # type: ignore[attr-defined, no-any-return]


class _Announcement(event.Listener):
    """Calls ``announce`` before the first compilation of this process."""

    def __init__(self) -> None:
        self.announce: Callable[[], None] | None = None

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        """Numba compiles a function that it did not find on disk."""
        announce, self.announce = self.announce, None
        if announce is not None:
            announce()

    def on_end(self, event: event.Event) -> None:
        """Nothing: the next function may follow."""


_announcement = _Announcement()
event.register("numba:compile", _announcement)  # type: ignore[no-untyped-call]


def announce_compilation(announce: Callable[[], None]) -> None:
    """Call ``announce`` once, before anything is compiled; never if all is found on disk."""
    _announcement.announce = announce

"""How every hot function is compiled: one place for Numba's options."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

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

"""Single machine instructions that Numba has no name for."""
# ruff: noqa: ARG001 - Numba prescribes the parameters of an intrinsic

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic


def _count_bits(typingctx: Any, word: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), lower


def _lowest_bit(typingctx: Any, word: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.int64(types.uint64), lower


def _pointer(typingctx: Any, array: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view: Any = cgutils.create_struct_proxy(signature.args[0])  # type: ignore[no-untyped-call]
        return view(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), lower  # type: ignore[no-untyped-call]


def _offset(typingctx: Any, start: Any, index: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return start(start, types.int64), lower


def _prefetch(typingctx: Any, words: Any, index: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        address = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), byte_pointer)
        read, keep, data = (ir.Constant(flag, value) for value in (0, 3, 1))
        builder.call(function, [address, read, keep, data])
        return context.get_dummy_value()

    return types.void(words, types.uint64), lower


def _as_function(rule: Callable[..., Any]) -> Any:
    """The intrinsic without Numba's own annotations, which describe how it is typed, not how it is called."""
    return intrinsic(rule)


count_bits: Callable[[np.uint64], int] = _as_function(_count_bits)
"""The number of set bits."""

lowest_bit: Callable[[np.uint64], int] = _as_function(_lowest_bit)
"""The index of the lowest set bit; 64 for an empty word."""

pointer: Callable[[Any], Any] = _as_function(_pointer)
"""A pointer to the first element of a contiguous array, indexed like it.

It is one value to pass where an array is seven, and what the solver is given where it runs as WebAssembly. The array
must outlive it.
"""

offset: Callable[[Any, int], Any] = _as_function(_offset)
"""The pointer to a later element."""

prefetch: Callable[[Any, np.uint64], None] = _as_function(_prefetch)
"""``prefetch(pointer, index)`` starts to load one element into the cache, without waiting for it."""

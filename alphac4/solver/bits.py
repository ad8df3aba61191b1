"""Single machine instructions that Numba has no name for."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def count_bits(typingctx: Any, word: Any) -> Any:
    """``count_bits(word: uint64) -> int64``: the number of set bits."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), lower


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typingctx: Any, word: Any) -> Any:
    """``lowest_bit(word: uint64) -> int64``: the index of the lowest set bit; 64 for an empty word."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.int64(types.uint64), lower


@intrinsic  # type: ignore[untyped-decorator]
def pointer(typingctx: Any, array: Any) -> Any:
    """``pointer(array) -> pointer``: to the first element of a contiguous array, indexed like it.

    A pointer costs no reference counting, which took half of the search's time; the array must be kept alive.
    """

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), lower


@intrinsic  # type: ignore[untyped-decorator]
def offset(typingctx: Any, start: Any, index: Any) -> Any:
    """``offset(start: pointer, index: int64) -> pointer``: to a later element."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return start(start, types.int64), lower


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typingctx: Any, words: Any, index: Any) -> Any:
    """``prefetch(words: pointer, index: uint64)``: start to load one element into the cache, without waiting."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag]), "llvm.prefetch.p0"
        )
        address = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), byte_pointer)
        read, keep, data = (ir.Constant(flag, value) for value in (0, 3, 1))
        builder.call(function, [address, read, keep, data])
        return context.get_dummy_value()

    return types.void(words, types.uint64), lower

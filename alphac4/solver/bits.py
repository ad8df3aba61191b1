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
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """``prefetch(array: uint64[:], index: uint64)``: start to load one element into the cache, without waiting."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(view.data, [arguments[1]])
        byte_pointer = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag]), "llvm.prefetch.p0"
        )
        read, keep, data = (ir.Constant(flag, value) for value in (0, 3, 1))
        builder.call(function, [builder.bitcast(address, byte_pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.uint64), lower

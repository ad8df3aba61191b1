"""Memory of the solver's search: the transposition table, a stack that survives a pause, and pointers to both.

A bijection hashes the key of a position, so that the slot number and the tag together determine the position: an entry
is never mistaken for another position's. An entry is read and written as one word, so that threads may share a table; a
lost race only costs a stored bound. An entry, from the highest bit: tag, lower bound + `BOUND_BIAS` (7 bits), upper
bound + `BOUND_BIAS` (7 bits). 0 is an empty slot.
"""
# ruff: noqa: ARG001 - Numba prescribes the parameters of an intrinsic

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from alphac4.compiled import compiled
from alphac4.game.rules import U64_0, U64_1, Board, Words

Integers = npt.NDArray[np.int64]

BOUND_BIAS = 64  # scores reach at most +-32, so that a biased bound fits 7 bits and is never 0
UNBOUNDED = 63  # an unknown position has the bounds -UNBOUNDED and UNBOUNDED

_BOUND_BITS = np.uint64(7)
_BOUND_MASK = np.uint64(127)
_BOTH_BOUNDS_BITS = np.uint64(14)
_ODD_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Fibonacci hashing, Knuth, TAOCP 3, 6.4
_WORD_BITS = 64

UNPAUSED = -1  # in `Stack.paused`
NODES, LIMIT, PAUSED_AT, WINDOW, _COUNTERS = 0, 1, 2, 3, 5  # counters' indices in a stack's integers, and their number


# Single machine instructions that Numba does not offer.
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
    """Return the intrinsic without Numba's annotations, which describe its typing, not its calls."""
    return intrinsic(rule)


count_bits: Callable[[np.uint64], int] = _as_function(_count_bits)
"""Return the number of set bits."""

lowest_bit: Callable[[np.uint64], int] = _as_function(_lowest_bit)
"""Return the index of the lowest set bit; 64 for an empty word."""

pointer: Callable[[Any], Any] = _as_function(_pointer)
"""Return a pointer to the first element of a contiguous array, indexed like the array.

A pointer is passed as one value, an array as seven; the solver compiled to WebAssembly gets pointers only. The array
must outlive the pointer.
"""

offset: Callable[[Any, int], Any] = _as_function(_offset)
"""Return the pointer to a later element."""

prefetch: Callable[[Any, np.uint64], None] = _as_function(_prefetch)
"""``prefetch(pointer, index)``: start to load one element into the cache, without waiting for it."""


class Table(NamedTuple):
    """Bounds by position key. Build one with `make_table`."""

    entries: npt.NDArray[np.uint64]  # [2 ** slot_bits]
    key_mask: np.uint64  # the bits that keys of this board use
    half_key_bits: np.uint64  # half the length of a key, for mixing
    tag_bits: np.uint64  # number of key bits that are not in the slot number


def make_table(board: Board, table_bits: int) -> Table:
    """Return an empty table of ``2 ** table_bits`` entries of 8 bytes, or fewer if the board has fewer keys."""
    key_bits = (board.rows + 1) * board.columns
    slot_bits = min(table_bits, key_bits)
    if not key_bits - slot_bits + int(_BOTH_BOUNDS_BITS) <= _WORD_BITS:
        raise ValueError(
            f"table_bits must be at least {key_bits - _WORD_BITS + int(_BOTH_BOUNDS_BITS)}, not {table_bits}"
        )
    return Table(
        np.zeros(1 << slot_bits, dtype=np.uint64),
        np.uint64((1 << key_bits) - 1),
        np.uint64(key_bits // 2),
        np.uint64(key_bits - slot_bits),
    )


@compiled
def slot_and_tag(table: Table, key: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the slot and the tag of a position; each step is a bijection on keys, so the two together determine it."""
    mixed = key ^ (key >> table.half_key_bits)
    mixed = (mixed * _ODD_MULTIPLIER) & table.key_mask
    mixed ^= mixed >> table.half_key_bits
    return mixed >> table.tag_bits, mixed & ((U64_1 << table.tag_bits) - U64_1)


@compiled
def bounds(table: Table, key: np.uint64) -> tuple[int, int]:
    """Return the bounds ``(lower, upper)`` of a position's score, for its side to move."""
    slot, tag = slot_and_tag(table, key)
    entry = table.entries[slot]
    if entry == U64_0 or (entry >> _BOTH_BOUNDS_BITS) != tag:
        return -UNBOUNDED, UNBOUNDED
    lower = int((entry >> _BOUND_BITS) & _BOUND_MASK) - BOUND_BIAS
    upper = int(entry & _BOUND_MASK) - BOUND_BIAS
    return lower, upper


@compiled
def tighten(table: Table, key: np.uint64, lower: int, upper: int) -> None:
    """Narrow the stored bounds of a position; if its slot holds another position, replace that."""
    slot, tag = slot_and_tag(table, key)
    entry = table.entries[slot]
    if entry != U64_0 and (entry >> _BOTH_BOUNDS_BITS) == tag:
        lower = max(lower, int((entry >> _BOUND_BITS) & _BOUND_MASK) - BOUND_BIAS)
        upper = min(upper, int(entry & _BOUND_MASK) - BOUND_BIAS)
    packed = (np.uint64(lower + BOUND_BIAS) << _BOUND_BITS) | np.uint64(upper + BOUND_BIAS)
    table.entries[slot] = (tag << _BOTH_BOUNDS_BITS) | packed


class Stack(NamedTuple):
    """Working memory of one search, as pointers: D = cells + 1 depths, A columns. Build one with `make_stack`."""

    own: Words  # [D]
    occupied: Words  # [D]
    best: Integers  # [D] best value of the children so far
    following: Integers  # [D] index of the next child to search
    children: Integers  # [D] number of children
    moves: Words  # [D * A] the cell that leads to the child, best first
    replies: Words  # [D * A] the opponent's non-losing cells after that
    ranks: Integers  # [D * A] larger ranks are searched earlier
    nodes: Integers  # [1] positions whose moves were generated, a running total
    limit: Integers  # [1] the total at which the search pauses
    paused: Integers  # [1] the depth at which the search has paused, or `UNPAUSED`
    window: Integers  # [2] the bounds of the bisected score at the pause


def make_memory(board: Board) -> tuple[Words, Integers]:
    """Return the arrays of an empty `Stack`; the caller sets the limit of nodes."""
    size = _COUNTERS + (board.cells + 1) * (4 + 2 * board.columns)
    words, integers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    integers[PAUSED_AT] = UNPAUSED
    return words, integers


@compiled
def make_stack(board: Board, words: Words, integers: Integers) -> Stack:
    """Return a stack deep and wide enough for any position, in arrays of `make_memory` that must outlive it.

    ``integers`` begins with the counters: nodes, limit, paused, and the two of the window.
    """
    depths = board.cells + 1
    wide = depths * board.columns
    word_start: Words = pointer(words)
    integer_start: Integers = pointer(integers)
    return Stack(
        word_start,
        offset(word_start, depths),
        offset(integer_start, _COUNTERS),
        offset(integer_start, _COUNTERS + depths),
        offset(integer_start, _COUNTERS + 2 * depths),
        offset(word_start, 2 * depths),
        offset(word_start, 2 * depths + wide),
        offset(integer_start, _COUNTERS + 3 * depths),
        integer_start,
        offset(integer_start, LIMIT),
        offset(integer_start, PAUSED_AT),
        offset(integer_start, WINDOW),
    )

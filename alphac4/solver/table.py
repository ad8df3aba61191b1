"""The transposition table: proven score bounds of positions, one 64-bit word each.

The key of a position is hashed by a bijection, so that the slot number and the tag together name the position
exactly: an entry is never mistaken for another position's. As an entry is read and written as one word,
threads may share a table; a lost race only costs a stored bound.

An entry, from the highest bit: tag, lower bound + `BOUND_BIAS` (7 bits), upper bound + `BOUND_BIAS` (7 bits).
0 is an empty slot.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game.rules import Geometry
from alphac4.solver.bits import pointer

BOUND_BIAS = 64  # scores reach at most +-32, so that a biased bound fits 7 bits and is never 0
UNBOUNDED = 63  # the bounds of a position about which nothing is known are -UNBOUNDED and UNBOUNDED

_ONE = np.uint64(1)
_BOUND_BITS = np.uint64(7)
_BOUND_MASK = np.uint64(127)
_BOTH_BOUNDS_BITS = np.uint64(14)
_ODD_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Fibonacci hashing, Knuth, TAOCP 3, 6.4
_WORD_BITS = 64


class Table(NamedTuple):
    """Bounds by position key. Build one with `make_table`."""

    entries: npt.NDArray[np.uint64]  # [2 ** slot_bits]
    key_mask: np.uint64  # the bits that keys of this geometry use
    half_key_bits: np.uint64  # half the length of a key, for mixing
    tag_bits: np.uint64  # key bits that are not in the slot number


def make_table(geometry: Geometry, table_bits: int) -> Table:
    """An empty table of ``2 ** table_bits`` entries of 8 bytes, fewer if the geometry has fewer keys.

    Raises:
        ValueError: if a tag would not fit beside the bounds.
    """
    key_bits = (geometry.rows + 1) * geometry.columns
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
def with_pointer(table: Table) -> Table:
    """The same table, its array seen through a pointer."""
    return Table(pointer(table.entries), table.key_mask, table.half_key_bits, table.tag_bits)


@compiled
def slot_and_tag(table: Table, key: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Where a position belongs; each step is a bijection on keys, so slot and tag determine the key."""
    mixed = key ^ (key >> table.half_key_bits)
    mixed = (mixed * _ODD_MULTIPLIER) & table.key_mask
    mixed ^= mixed >> table.half_key_bits
    return mixed >> table.tag_bits, mixed & ((_ONE << table.tag_bits) - _ONE)


@compiled
def bounds(table: Table, key: np.uint64) -> tuple[int, int]:
    """``(lower, upper)`` score bounds of a position, for its side to move."""
    slot, tag = slot_and_tag(table, key)
    entry = table.entries[slot]
    if entry == np.uint64(0) or (entry >> _BOTH_BOUNDS_BITS) != tag:
        return -UNBOUNDED, UNBOUNDED
    lower = int((entry >> _BOUND_BITS) & _BOUND_MASK) - BOUND_BIAS
    upper = int(entry & _BOUND_MASK) - BOUND_BIAS
    return lower, upper


@compiled
def tighten(table: Table, key: np.uint64, lower: int, upper: int) -> None:
    """Store bounds, together with those the table already has for this position; another position's are replaced."""
    slot, tag = slot_and_tag(table, key)
    entry = table.entries[slot]
    if entry != np.uint64(0) and (entry >> _BOTH_BOUNDS_BITS) == tag:
        lower = max(lower, int((entry >> _BOUND_BITS) & _BOUND_MASK) - BOUND_BIAS)
        upper = min(upper, int(entry & _BOUND_MASK) - BOUND_BIAS)
    packed = (np.uint64(lower + BOUND_BIAS) << _BOUND_BITS) | np.uint64(upper + BOUND_BIAS)
    table.entries[slot] = (tag << _BOTH_BOUNDS_BITS) | packed

"""Working memory of one alpha-beta search, which outlives it so that a paused search can go on."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game.rules import Geometry
from alphac4.solver.bits import offset, pointer

UNPAUSED = -1  # in `Stack.paused`

Words = npt.NDArray[np.uint64]  # in compiled code often a pointer to its first element
Integers = npt.NDArray[np.int64]
NODES, LIMIT, PAUSED_AT, WINDOW, _COUNTERS = 0, 1, 2, 3, 5  # where the counters lie in a stack's integers


class Stack(NamedTuple):
    """Working memory of one search, as pointers. Build one with `make_stack`. D = cells + 1 depths, A columns."""

    own: Words  # [D]
    occupied: Words  # [D]
    best: Integers  # [D] best value among the children so far
    following: Integers  # [D] index of the next child to search
    children: Integers  # [D] how many children there are
    moves: Words  # [D * A] the cell that leads to the child, best first
    replies: Words  # [D * A] the opponent's non-losing cells then
    ranks: Integers  # [D * A] larger is searched earlier
    nodes: Integers  # [1] positions whose moves were generated, a running total
    limit: Integers  # [1] the total at which the search pauses
    paused: Integers  # [1] the depth at which it has paused, or `UNPAUSED`
    window: Integers  # [2] the bounds of the score that was being bisected when it paused


def stack_size(geometry: Geometry) -> int:
    """How many 8-byte elements the arrays behind a `Stack` have, each for words and for integers."""
    return _COUNTERS + (geometry.cells + 1) * (4 + 2 * geometry.columns)


def make_memory(geometry: Geometry) -> tuple[Words, Integers]:
    """The arrays behind a `Stack`, at its beginning; the limit of nodes is still to be set."""
    size = stack_size(geometry)
    words, integers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    integers[PAUSED_AT] = UNPAUSED
    return words, integers


@compiled
def make_stack(geometry: Geometry, words: Words, integers: Integers) -> Stack:
    """A stack deep and wide enough for any position, in arrays of `make_memory` that outlive it.

    ``integers`` starts with the counters: nodes, limit, paused, and the two of the window.
    """
    depths = geometry.cells + 1
    wide = depths * geometry.columns
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

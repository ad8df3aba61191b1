"""Exact scores of single positions, then of batches, from null-window searches."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game import rules
from alphac4.game.rules import Geometry
from alphac4.solver.bits import count_bits
from alphac4.solver.search import PAUSED, Layout, exceeds, layout_with_pointer, position_key
from alphac4.solver.stack import UNPAUSED, Stack, make_stack
from alphac4.solver.table import Table, with_pointer
from alphac4.solver.threats import non_losing

FULL_COLUMN = -128  # in batches: the score of a move that cannot be made

_NONE = np.uint64(0)
_MIRROR_PLIES = 14  # from here on mirror images met in one search are too few to pay for the mirroring


class KnownScores(NamedTuple):
    """Scores found earlier, such as an opening book's."""

    keys: npt.NDArray[np.uint64]  # [N] ascending; the lesser key of a position and its mirror image
    scores: npt.NDArray[np.int8]  # [N] exact, side to move
    plies: int  # no position with more stones is among them


def no_known_scores() -> KnownScores:
    """An empty book."""
    return KnownScores(np.zeros(0, np.uint64), np.zeros(0, np.int8), -1)


@compiled
def look_up(known: KnownScores, key: np.uint64) -> int:
    """The score stored for a key; `FULL_COLUMN` if there is none."""
    low, high = 0, len(known.keys)
    while low < high:
        middle = (low + high) // 2
        if known.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < len(known.keys) and known.keys[low] == key:
        return int(known.scores[low])
    return FULL_COLUMN


@compiled
def score_position(
    geometry: Geometry,
    layout: Layout,
    table: Table,
    known: KnownScores,
    stack: Stack,
    own: np.uint64,
    occupied: np.uint64,
    weak: bool,
) -> int:
    """The exact score for the side to move, with ``weak`` only its sign is right; `PAUSED` if the search has paused.

    A finished position scores as its last move did: ``-((cells + 2 - plies) // 2)`` if that won, 0 for a full board.
    """
    cells = geometry.cells
    plies = count_bits(occupied)
    opponent = own ^ occupied
    if rules.has_run(geometry, opponent):
        return -((cells + 2 - plies) // 2)
    if rules.has_run(geometry, own):
        return (cells + 2 - plies) // 2
    if plies == cells:
        return 0
    legal = rules.legal_cells(geometry, occupied)
    if legal & rules.winning_cells(geometry, own, occupied) != _NONE:
        return (cells + 1 - plies) // 2
    moves = non_losing(legal, rules.winning_cells(geometry, opponent, occupied))
    if moves == _NONE:
        return -((cells - plies) // 2)
    if plies >= cells - 2:
        return 0
    if plies <= known.plies:
        found = look_up(known, position_key(geometry, own, occupied, True))
        if found != FULL_COLUMN:
            return found
    # No game can pass through both a position and its mirror image once a pair of opposite cells differs in colour.
    mirrors = geometry.columns > 1 and own & rules.mirror(geometry, opponent) == _NONE
    mirror_empties = cells - _MIRROR_PLIES if mirrors else cells + 1
    # Bisect, but who wins is asked first and long wins before short ones: those searches prove more (Pons, part 8).
    low, high = -((cells - 2 - plies) // 2), (cells - 1 - plies) // 2
    if weak:
        low, high = max(low, -1), min(high, 1)
    if stack.paused[0] != UNPAUSED:
        low, high = stack.window[0], stack.window[1]
    while low < high:
        threshold = low + (high - low) // 2
        if threshold <= 0 and low // 2 < threshold:
            threshold = -(-low // 2)
        elif threshold >= 0 and high // 2 > threshold:
            threshold = high // 2
        bound = exceeds(geometry, layout, table, stack, own, occupied, moves, threshold, mirror_empties)
        if bound == PAUSED:
            stack.window[0], stack.window[1] = low, high
            return PAUSED
        if bound > threshold:
            low = max(low, bound)
        else:
            high = min(high, bound)
    return low


@compiled
def score_batch(
    geometry: Geometry,
    layout: Layout,
    table: Table,
    known: KnownScores,
    words: npt.NDArray[np.uint64],
    integers: npt.NDArray[np.int64],
    own: npt.NDArray[np.uint64],
    occupied: npt.NDArray[np.uint64],
    weak: bool,
    scores: npt.NDArray[np.int8],
    start: int,
) -> int:
    """`score_position` of each position [B] from ``start`` on into ``scores`` [B]; how many are done.

    Those are fewer than all if the search has paused; with ``start`` set to their number, it goes on.
    ``words`` and ``integers`` are the working memory as `make_memory` makes it.
    """
    stack = make_stack(geometry, words, integers)
    pointed_table, pointed_layout = with_pointer(table), layout_with_pointer(layout)
    for index in range(start, len(own)):
        score = score_position(geometry, pointed_layout, pointed_table, known, stack, own[index], occupied[index], weak)
        if score == PAUSED:
            return index
        scores[index] = score
    return len(own)


@compiled
def score_columns_batch(
    geometry: Geometry,
    layout: Layout,
    table: Table,
    known: KnownScores,
    words: npt.NDArray[np.uint64],
    integers: npt.NDArray[np.int64],
    own: npt.NDArray[np.uint64],
    occupied: npt.NDArray[np.uint64],
    weak: bool,
    scores: npt.NDArray[np.int8],
    start: int,
) -> int:
    """The score of each move from the ``start``-th of B x A on into ``scores`` [B, A]; how many are done.

    Those are fewer than all if the search has paused; with ``start`` set to their number, it goes on.
    ``words`` and ``integers`` are the working memory as `make_memory` makes it.
    A column that is full, or any column once the game is over, gets `FULL_COLUMN`.
    """
    stack = make_stack(geometry, words, integers)
    pointed_table, pointed_layout = with_pointer(table), layout_with_pointer(layout)
    for cell in range(start, scores.size):
        index, column = cell // geometry.columns, cell % geometry.columns
        mine, stones = own[index], occupied[index]
        landing = rules.landing_cell(geometry, stones, column)
        if landing == _NONE or rules.has_run(geometry, mine) or rules.has_run(geometry, mine ^ stones):
            scores[index, column] = FULL_COLUMN
            continue
        score = score_position(
            geometry, pointed_layout, pointed_table, known, stack, mine ^ stones, stones | landing, weak
        )
        if score == PAUSED:
            return cell
        scores[index, column] = -score
    return int(scores.size)

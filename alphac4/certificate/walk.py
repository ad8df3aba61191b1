"""The walk over every reply, compiled: which positions need a move, and which positions follow from the moves.

Positions in which the first player is to move are walked in levels of equal numbers of stones, in the order of their
canonical keys; a position and its mirror image are one.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating, compiled
from alphac4.game.rules import (
    U64_0,
    U64_1,
    Geometry,
    canonical_key,
    column_cells,
    count_stones,
    has_run,
    legal_cells,
    play,
    winning_cells,
)

Keys = npt.NDArray[np.uint64]
Columns = npt.NDArray[np.int8]

WINS_NOW = -1
"""No move needs to be named: the player completes a run."""
ASK = -2
"""No rule says the move."""
LOST = -3
"""The opponent has two immediate wins and the player none."""

NOT_WON = 0
"""Of `expand`: the move ends the game otherwise, or lets the opponent do so."""
GOES_ON = 1
"""Of `expand`: every reply leads to a position in which the player is to move, or the player has won."""


@compiled
def unpack_key(geometry: Geometry, key: np.uint64) -> tuple[np.uint64, np.uint64]:
    """``(own, occupied)`` of a position, from its `alphac4.game.rules.position_key`."""
    own, occupied = U64_0, U64_0
    one_column = (U64_1 << geometry.height) - U64_1
    for column in range(geometry.columns):
        shift = np.uint64(column) * geometry.height
        part = (key >> shift) & one_column
        stones = U64_0  # as many ones as there are stones: own + stones = part, with own <= stones
        while ((stones << U64_1) | U64_1) <= part:
            stones = (stones << U64_1) | U64_1
        occupied |= stones << shift
        own |= (part - stones) << shift
    return own, occupied


@allocating
def stones_of(geometry: Geometry, keys: Keys) -> Columns:
    """How many stones each position [B] has."""
    stones = np.empty(len(keys), np.int8)
    for row in range(len(keys)):
        stones[row] = count_stones(unpack_key(geometry, keys[row])[1])
    return stones


@allocating
def rule_moves(geometry: Geometry, keys: Keys) -> Columns:
    """The column of the only move that does not lose at once, or WINS_NOW, ASK or LOST, of each position [B]."""
    moves = np.empty(len(keys), np.int8)
    for row in range(len(keys)):
        own, occupied = unpack_key(geometry, keys[row])
        legal = legal_cells(geometry, occupied)
        threats = winning_cells(geometry, own ^ occupied, occupied) & legal
        if winning_cells(geometry, own, occupied) & legal != U64_0:
            moves[row] = WINS_NOW
        elif threats == U64_0:
            moves[row] = ASK
        elif threats & (threats - U64_1) != U64_0:
            moves[row] = LOST
        else:
            for column in range(geometry.columns):
                if threats & column_cells(geometry, column) != U64_0:
                    moves[row] = column
    return moves


@allocating
def expand(geometry: Geometry, keys: Keys, moves: Columns) -> tuple[npt.NDArray[np.int8], Keys, npt.NDArray[np.int64]]:
    """Play each position's move [B] and then every reply to it.

    Returns GOES_ON or NOT_WON for each position [B], the positions that follow [N], each as often as it comes about,
    and the rows [N] of what they follow from. WINS_NOW and moves below it are passed over.
    """
    verdicts = np.empty(len(keys), np.int8)
    following = np.empty(len(keys) * geometry.columns, np.uint64)
    parents = np.empty(len(following), np.int64)
    count = 0
    for row in range(len(keys)):
        verdicts[row] = GOES_ON
        if moves[row] < 0:
            continue
        own, occupied = unpack_key(geometry, keys[row])
        if legal_cells(geometry, occupied) & column_cells(geometry, moves[row]) == U64_0:
            verdicts[row] = NOT_WON
            continue
        theirs, occupied = play(geometry, own, occupied, moves[row])
        if has_run(geometry, theirs ^ occupied):
            continue
        if occupied == geometry.board:
            verdicts[row] = NOT_WON
            continue
        before = count
        for column in range(geometry.columns):
            if legal_cells(geometry, occupied) & column_cells(geometry, column) == U64_0:
                continue
            ours, after = play(geometry, theirs, occupied, column)
            if has_run(geometry, ours ^ after) or after == geometry.board:
                verdicts[row] = NOT_WON
                count = before
                break
            following[count] = canonical_key(geometry, ours, after)
            parents[count] = row
            count += 1
    return verdicts, following[:count], parents[:count]


@allocating
def after_moves(geometry: Geometry, keys: Keys, moves: Columns) -> tuple[Keys, Keys]:
    """``(own, occupied)`` [B] of the opponent, after each position's move [B]; an impossible one changes nothing."""
    owns, occupieds = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
    for row in range(len(keys)):
        own, occupied = unpack_key(geometry, keys[row])
        if moves[row] >= 0 and legal_cells(geometry, occupied) & column_cells(geometry, moves[row]) != U64_0:
            own, occupied = play(geometry, own, occupied, moves[row])
        owns[row], occupieds[row] = own, occupied
    return owns, occupieds


def leading_to(geometry: Geometry, keys: Keys, moves: Columns, targets: Keys) -> npt.NDArray[np.bool_]:
    """Whether some reply to each position's move [B] leads to one of the targets [N]."""
    _, following, parents = expand(geometry, keys, moves)
    leading = np.zeros(len(keys), np.bool_)
    leading[parents[np.isin(following, targets)]] = True
    return leading


def longest_games(
    geometry: Geometry, levels: Sequence[tuple[Keys, Columns]], on_level: Callable[[], object] = lambda: None
) -> list[Columns]:
    """In each position [B] of each level of a won walk: in how many plies the player has won at the latest.

    ``on_level`` is called before each level, and ends this by raising.
    """
    plies: list[Columns] = []
    after = (np.empty(0, np.uint64), np.empty(0, np.int8))  # the positions of the next level, and their plies
    for keys, moves in reversed(levels):
        on_level()
        _, following, parents = expand(geometry, keys, moves)
        longest = np.ones(len(keys), np.int8)
        np.maximum.at(longest, parents, after[1][np.searchsorted(after[0], following)] + np.int8(2))
        after = keys, longest
        plies.append(longest)
    return plies[::-1]


def follow(geometry: Geometry, keys: Keys, moves: Columns) -> tuple[Keys, npt.NDArray[np.bool_]]:
    """The positions of the next level, sorted, and which of these [B] are not won by their move."""
    verdicts, following, _ = expand(geometry, keys, moves)
    found = np.sort(following)  # sorting is many times as fast as NumPy's `unique`, which hashes
    return found[np.append(True, found[1:] != found[:-1])[: len(found)]], verdicts != GOES_ON

"""Claims, and what the rules decide in the positions of their walk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating
from alphac4.game.rules import U64_0, U64_1, Geometry, column_cells, legal_cells, winning_cells
from alphac4.game.walk import CAN_WIN, NO_MOVE, Columns, Games, Keys, Replies, play_moves, play_replies, unpack_key

LOST = -3
"""In place of a move: the opponent threatens two immediate wins, and the player has none."""


@dataclass(frozen=True, kw_only=True)
class Claim(Games):
    """Claim that a player wins, or at least draws, all of these games."""

    result: Literal["win", "draw"] = "win"  # outcome that the player reaches at least

    @property
    def min_outcome(self) -> int:
        """The worst outcome that the claim allows: 1 win, 0 draw."""
        return 1 if self.result == "win" else 0

    def __str__(self) -> str:
        after = f"after {self.after} " if self.after else ""
        return f"{after}the {self.side} player {'always wins' if self.result == 'win' else 'never loses'}"


class Level(NamedTuple):
    """The B positions of a walk with one number of stones; the player is to move."""

    stones: int
    keys: Keys  # [B]
    moves: Columns  # [B] 0-based, or CAN_WIN


@allocating
def forced_moves(geometry: Geometry, keys: Keys) -> Columns:
    """Return the only move of each position [B] that does not lose immediately, or CAN_WIN, NO_MOVE or LOST."""
    moves = np.empty(len(keys), np.int8)
    for row in range(len(keys)):
        own, occupied = unpack_key(geometry, keys[row])
        legal = legal_cells(geometry, occupied)
        threats = winning_cells(geometry, own ^ occupied, occupied) & legal
        if winning_cells(geometry, own, occupied) & legal != U64_0:
            moves[row] = CAN_WIN
        elif threats == U64_0:
            moves[row] = NO_MOVE
        elif threats & (threats - U64_1) != U64_0:
            moves[row] = LOST
        else:
            for column in range(geometry.columns):
                if threats & column_cells(geometry, column) != U64_0:
                    moves[row] = column
    return moves


def has_reply_in(geometry: Geometry, keys: Keys, moves: Columns, targets: Keys) -> npt.NDArray[np.bool_]:
    """Return for each position [B] whether some reply to its move leads to one of the targets [N]."""
    replies = _replies_to(geometry, keys, moves)
    leading = np.zeros(len(keys), np.bool_)
    leading[replies.parents[np.isin(replies.keys, targets)]] = True
    return leading


def plies_to_win(
    geometry: Geometry, levels: Sequence[Level], on_level: Callable[[], object] = lambda: None
) -> list[Columns]:
    """Return the largest number of plies until the player wins, for each position [B] of each level of a won walk.

    ``on_level`` is called before each level and may raise to stop.
    """
    plies: list[Columns] = []
    after = (np.empty(0, np.uint64), np.empty(0, np.int8))  # keys of the next level, and their plies
    for _, keys, moves in reversed(levels):
        on_level()
        replies = _replies_to(geometry, keys, moves)
        longest = np.ones(len(keys), np.int8)
        np.maximum.at(longest, replies.parents, after[1][np.searchsorted(after[0], replies.keys)] + np.int8(2))
        after = keys, longest
        plies.append(longest)
    return plies[::-1]


def _replies_to(geometry: Geometry, keys: Keys, moves: Columns) -> Replies:
    own, occupied, _ = play_moves(geometry, keys, moves)
    return play_replies(geometry, own, occupied, geometry.board)

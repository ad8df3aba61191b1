"""Walk over every reply to a player's moves: the positions that are reached, and the player's worst outcomes.

The walk visits the positions in which the player is to move, level by level. A level holds the positions with the same
number of stones, ordered by canonical key; a position and its mirror image count as one. The player may have the
first move of the game or the second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating, compiled
from alphac4.game.planes import stones
from alphac4.game.position import Position, column_name, mirror_moves
from alphac4.game.rules import (
    STANDARD,
    U64_0,
    U64_1,
    Board,
    canonical_key,
    canonical_keys,
    column_cells,
    count_stones,
    has_run,
    legal_cells,
    mirror_is_canonical,
    play,
)

Keys = npt.NDArray[np.uint64]
Columns = npt.NDArray[np.int8]

CAN_WIN = -1
"""In place of a move: the player can complete a run."""
NO_MOVE = -2
"""In place of a move: none is known."""


@dataclass(frozen=True, kw_only=True)
class WalkScope:
    """A board, some first moves, and the side of the player. The opponent may make any reply.

    Raises:
        IllegalMove: if the first moves are not legal.
        ValueError: if the first moves end the game, or the player has no move after them.
    """

    board: Board = STANDARD
    side: Literal["first", "second"] = "first"  # the player's
    after: str = ""  # the first moves, from the empty board

    def __post_init__(self) -> None:
        start = self.start
        if start.outcome() is not None:
            raise ValueError(f"after {self.after} the game is over")
        if start.plies + (start.first_to_move != (self.side == "first")) == self.board.cells:
            raise ValueError(f"after {self.after} the {self.side} player has no move")

    @property
    def start(self) -> Position:
        """The position after the first moves."""
        return Position.from_moves(self.after, self.board)


class Replies(NamedTuple):
    """Every reply to the player's moves in B positions; N of the replies do not end the game.

    Outcomes are those of the player: 1 for a win, 0 for a draw and -1 for a loss.
    """

    outcomes: Columns  # [B] the worst outcome of the replies that end the game; 1 if no reply ends it
    keys: Keys  # [N] canonical keys of the positions after the replies, with duplicates
    parents: npt.NDArray[np.int64]  # [N] rows of the positions before the replies
    columns: Columns  # [N] the replies, 0-based
    mirrored: npt.NDArray[np.bool_]  # [N] whether the key is that of the mirror image


class Walk:
    """Walk through the positions that the player's moves and all replies reach, level by level.

    `play` plays the moves of the current level, in place of those of an earlier call, and `advance` goes to the next
    level. In walks that are not ``named``, `go_back` returns to the previous level.

    Args:
        scope: the player's side and the start.
        named: whether to store a move string that leads to each position of the current level.
        cells: the cells where the opponent may put stones, to walk only a part of the games; by default all.
    """

    def __init__(self, scope: WalkScope, *, named: bool = False, cells: np.uint64 | None = None) -> None:
        self.board = scope.board
        self._cells = self.board.playable if cells is None else cells
        self.worst_reply_outcome = 1  # by a first move of the opponent, if the opponent begins; see `Replies`
        self.names = [scope.after]  # [B] move strings of the positions, in canonical orientation, if named
        self._named = named
        start = scope.start
        own, occupied = stones([start])
        begins = start.first_to_move == (scope.side == "first")
        self.stones = start.plies  # in each position of the current level
        if begins:
            keys, mirrored = canonical_keys(self.board, own, occupied)
            if mirrored[0]:
                self.names = [mirror_moves(scope.after, self.board.columns)]
        else:
            self.stones += 1
            replies = play_replies(self.board, own, occupied, self._cells)
            self.worst_reply_outcome = int(replies.outcomes[0])
            keys, self.names = self._collect(replies, self.names)
        self._levels = [keys]
        self._next = (keys[:0], list[str]())

    @property
    def keys(self) -> Keys:
        """The canonical keys [B] of the current level's positions, sorted."""
        return self._levels[-1]

    @property
    def is_last(self) -> bool:
        """Whether every game has ended after the moves played last and all replies."""
        return len(self._next[0]) == 0

    @property
    def depth(self) -> int:
        """The number of levels before the current one."""
        return len(self._levels) - 1

    def play(self, moves: Columns) -> Columns:
        """Play the level's moves [B] and every reply; return the player's worst outcome [B], 1 where no game ends.

        Moves below 0, such as CAN_WIN, are not played, and count as wins. An illegal move counts as a loss.
        """
        own, occupied, outcomes = play_moves(self.board, self.keys, moves)
        replies = play_replies(self.board, own, occupied, self._cells)
        before = [name + column_name(max(move, 0)) for name, move in zip(self.names, moves.tolist(), strict=False)]
        self._next = self._collect(replies, before)
        worst: Columns = np.minimum(outcomes, replies.outcomes)
        return worst

    def advance(self) -> None:
        """Go to the level after the moves played last."""
        keys, self.names = self._next
        self._levels.append(keys)
        self.stones += 2

    def go_back(self) -> None:
        """Return to the level before."""
        self._levels.pop()
        self.stones -= 2

    def _collect(self, replies: Replies, before: Sequence[str]) -> tuple[Keys, list[str]]:
        """Return the distinct keys after the replies, and their move strings if this walk is named."""
        if not self._named:
            keys = np.sort(replies.keys)  # many times faster than NumPy's `unique`, which hashes
            return keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]], []
        keys, first = np.unique(replies.keys, return_index=True)
        names = []
        for row in first:
            name = before[replies.parents[row]] + column_name(int(replies.columns[row]))
            names.append(mirror_moves(name, self.board.columns) if replies.mirrored[row] else name)
        return keys, names


@compiled
def unpack_key(board: Board, key: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return ``(own, occupied)`` of a position from its `alphac4.game.rules.position_key`."""
    own, occupied = U64_0, U64_0
    one_column = (U64_1 << board.column_bits) - U64_1
    for column in range(board.columns):
        shift = np.uint64(column) * board.column_bits
        part = (key >> shift) & one_column
        stones = U64_0  # one bit per stone: own + stones = part, with own <= stones
        while ((stones << U64_1) | U64_1) <= part:
            stones = (stones << U64_1) | U64_1
        occupied |= stones << shift
        own |= (part - stones) << shift
    return own, occupied


@allocating
def stone_counts(board: Board, keys: Keys) -> Columns:
    """Return the number of stones [B] in each position [B]."""
    stones = np.empty(len(keys), np.int8)
    for row in range(len(keys)):
        stones[row] = count_stones(unpack_key(board, keys[row])[1])
    return stones


@allocating
def play_moves(board: Board, keys: Keys, moves: Columns) -> tuple[Keys, Keys, Columns]:
    """Play a move in each position [B]; moves below 0 are skipped.

    Returns:
        ``(own, occupied)`` [B] for the opponent, a full board if it has no reply; and the outcomes [B]: 1 if the
        player wins, the game continues or the move is skipped, 0 for a full board, -1 for a full column (illegal).
    """
    owns, occupieds = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
    outcomes = np.ones(len(keys), np.int8)
    for row in range(len(keys)):
        owns[row], occupieds[row] = U64_0, board.playable
        if moves[row] < 0:
            continue
        own, occupied = unpack_key(board, keys[row])
        if legal_cells(board, occupied) & column_cells(board, moves[row]) == U64_0:
            outcomes[row] = -1
            continue
        theirs, occupied = play(board, own, occupied, moves[row])
        if has_run(board, theirs ^ occupied):
            continue
        if occupied == board.playable:
            outcomes[row] = 0
            continue
        owns[row], occupieds[row] = theirs, occupied
    return owns, occupieds, outcomes


@allocating
def play_replies(board: Board, own: Keys, occupied: Keys, cells: np.uint64) -> Replies:
    """Play each reply that lands in ``cells``, in positions [B]; only the outcomes count replies that end the game."""
    size = len(own) * board.columns
    outcomes, count = np.ones(len(own), np.int8), 0
    keys, parents = np.empty(size, np.uint64), np.empty(size, np.int64)
    columns, mirrored = np.empty(size, np.int8), np.empty(size, np.bool_)
    for row in range(len(own)):
        for column in range(board.columns):
            if legal_cells(board, occupied[row]) & column_cells(board, column) & cells == U64_0:
                continue
            ours, after = play(board, own[row], occupied[row], column)
            if has_run(board, ours ^ after):
                outcomes[row] = -1
            elif after == board.playable:
                outcomes[row] = min(outcomes[row], 0)
            else:
                keys[count] = canonical_key(board, ours, after)
                mirrored[count] = mirror_is_canonical(board, ours, after)
                parents[count], columns[count] = row, column
                count += 1
    return Replies(outcomes, keys[:count], parents[:count], columns[:count], mirrored[:count])


def position_of(board: Board, key: int, moves: str | None = None) -> Position:
    """Return the position of a canonical key, with the ``moves`` that led to it if they are known."""
    own, occupied = unpack_key(board, np.uint64(key))
    return Position(np.uint64(own), np.uint64(occupied), board, moves)

"""Walks: follow a player against every reply of an opponent, and judge each of the player's moves.

`walk_games` requests a player's move in every position that an opponent can reach, and the exact solver judges it. The
moves are stored in `KnownMoves`, from which an interrupted walk resumes.
"""

import base64
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, SearchingPlayer, checked_moves
from alphac4.game import Board, Outcome, Position
from alphac4.game.planes import stones
from alphac4.game.walk import CAN_WIN, NO_MOVE, Columns, Keys, Walk, WalkScope, position_of, stone_counts
from alphac4.machine import check_block, cores, worker_threads
from alphac4.solver.solver import shared_solver
from alphac4.storage.journal import Journal
from alphac4.storage.records import read_value

FORMAT = "alphac4-walk"
MIN_JUDGED_BATCH = 256  # positions judged together; proofs end many searches of a batch early
JUDGED_PER_PLAYER = 64  # positions of such a batch for each player, if that makes a larger one
PARTS_PER_WORKER = 4  # more parts than workers, because some positions take much longer to solve


class MoveKind(IntEnum):
    """State of a move in a walk."""

    ANSWER = 0  # the player's answer; the game continues
    PROOF = 1  # the player's search has proven the result, here or from an earlier position
    TAKEN_BACK = 2  # a rejected answer
    WINS = 3  # completes a run
    DRAWS = 4  # fills the board
    MISTAKE = 5  # gives away a win or a draw, by the exact solver


class Moves(NamedTuple):
    """Arrays of M moves."""

    keys: Keys  # [M] canonical positions
    columns: Columns  # [M] 0-based, in the canonical orientation
    kinds: Columns  # [M] see `MoveKind`

    @classmethod
    def of_kind(cls, kind: MoveKind, keys: Keys, columns: npt.NDArray[np.integer]) -> "Moves":
        return cls(keys, columns.astype(np.int8), np.full(len(keys), kind, np.int8))

    @classmethod
    def joined(cls, parts: "Sequence[Moves]") -> "Moves":
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def only(self, rows: npt.NDArray[np.bool_]) -> "Moves":
        return Moves(self.keys[rows], self.columns[rows], self.kinds[rows])


class KnownMoves:
    """Moves by canonical position, stored in a journal.

    Args:
        board: the board and the winning condition.
        path: file of the journal; by default moves are only kept in memory.
        about: the player, and everything else that determines the moves.
    """

    def __init__(self, board: Board, path: Path | None = None, about: Mapping[str, Any] | None = None) -> None:
        self._board = board
        self._sorted: dict[int, Moves] = {}
        self._new: defaultdict[int, list[Moves]] = defaultdict(list)
        self.taken_back: dict[int, set[int]] = {}  # columns by canonical key
        self._journal = Journal(path, FORMAT, about or {})
        for moves in self._journal.read(lambda entry: unpack_moves(entry, board)):
            self._insert(moves)

    def find(self, stones: int, keys: Keys) -> tuple[Columns, Columns]:
        """Return known moves [B], or NO_MOVE, and their kinds [B], in positions ``keys`` [B] with ``stones`` stones."""
        if self._new[stones]:
            parts = ([self._sorted[stones]] if stones in self._sorted else []) + self._new.pop(stones)
            self._sorted[stones] = self._merge(parts)
        if stones not in self._sorted or len(self._sorted[stones].keys) == 0:
            nothing = np.full(len(keys), NO_MOVE, np.int8)
            return nothing, nothing.copy()
        known = self._sorted[stones]
        place = np.minimum(np.searchsorted(known.keys, keys), len(known.keys) - 1)
        there = known.keys[place] == keys
        columns, kinds = (
            np.where(there, part[place], NO_MOVE).astype(np.int8) for part in (known.columns, known.kinds)
        )
        return columns, kinds

    def take_back(self, keys: Keys, columns: Columns) -> None:
        """Mark moves [B], answers or forced ones, as rejected, so that `find` skips them."""
        self.add([Moves.of_kind(MoveKind.TAKEN_BACK, keys, columns)])

    def is_taken_back(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return for each position [B] whether one of its moves was rejected."""
        return np.isin(keys, np.fromiter(self.taken_back, np.uint64))

    def add(self, parts: Sequence[Moves]) -> None:
        """Add and record moves. In one position a proven move replaces an unproven one; otherwise the first stays."""
        moves = Moves.joined(parts)
        self._insert(moves)
        self._journal.add(_pack(moves))

    def _insert(self, moves: Moves) -> None:
        taken_back = moves.only(moves.kinds == MoveKind.TAKEN_BACK)
        for key, column in zip(taken_back.keys.tolist(), taken_back.columns.tolist(), strict=True):
            self.taken_back.setdefault(key, set()).add(column)
        # A rejection only means that the player expects no win; a proof overrules it.
        proven = moves.keys[moves.kinds == MoveKind.PROOF]
        for key in proven[self.is_taken_back(proven)].tolist():
            self.taken_back.pop(key, None)
        stones = stone_counts(self._board, moves.keys)
        for level in np.unique(stones):
            self._new[int(level)].append(moves.only(stones == level))

    def _merge(self, parts: Sequence[Moves]) -> Moves:
        """Join moves, without rejected ones, into one move per key, sorted by key."""
        moves = Moves.joined(parts)
        stays = moves.kinds != MoveKind.TAKEN_BACK
        for row in np.flatnonzero(self.is_taken_back(moves.keys)):
            if moves.columns[row] in self.taken_back[int(moves.keys[row])]:
                if moves.kinds[row] == MoveKind.PROOF:
                    raise ValueError(f"the proof of position {moves.keys[row]} is wrong")
                stays[row] = False
        moves = moves.only(stays)
        order = np.lexsort((np.arange(len(moves.keys)), moves.kinds != MoveKind.PROOF, moves.keys))
        first = np.append(True, np.diff(moves.keys[order]) != 0)[: len(order)]
        return Moves(*(part[order][first] for part in moves))


def _pack(moves: Moves) -> dict[str, Any]:
    """Return a journal entry: 8-byte keys, then columns and kinds of a byte each; compressed by zlib, as Base64."""
    content = moves.keys.astype("<u8").tobytes() + moves.columns.tobytes() + moves.kinds.tobytes()
    return {"count": len(moves.keys), "moves": base64.b64encode(zlib.compress(content)).decode()}


def unpack_moves(entry: dict[str, Any], board: Board) -> Moves:
    """Return the moves of an entry of the journal."""
    count = read_value(int, entry.get("count"), "count")
    try:
        content = zlib.decompress(base64.b64decode(read_value(str, entry.get("moves"), "moves"), validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) != 10 * count:
        raise ValueError(f"expected {count} moves")
    columns, kinds = np.frombuffer(content[8 * count :], np.int8).reshape(2, count)
    if count and not (columns.min() >= 0 and columns.max() < board.columns and 0 <= kinds.min() <= kinds.max() <= 5):
        raise ValueError("invalid moves")
    return Moves(np.frombuffer(content[: 8 * count], "<u8").astype(np.uint64), columns.copy(), kinds.copy())


@dataclass(kw_only=True)
class LevelReport:
    """Positions of one number of stones with the player to move, deduplicated by symmetry."""

    stones: int
    keys: Keys  # [B]
    kinds: Columns  # [B] of the moves, see `MoveKind`; NO_MOVE where none is needed
    failures: list[Position] = field(default_factory=list)  # positions after a mistake, or lost ones
    taken_back: int = 0  # positions whose first answer was rejected
    is_last: bool = False  # whether no game continues

    def count(self, kind: int) -> int:
        """Return the number of positions with moves of a kind."""
        return int((self.kinds == kind).sum())


OnMoves = Callable[[int, int, int], object]
"""Called with a number of stones, and the progress among the positions of this number whose moves were not known: the
number done and the total."""


def walk_games(
    players: Sequence[Player],
    known: KnownMoves,
    scope: WalkScope,
    *,
    max_stones: int,
    continue_after_mistakes: bool = False,
    on_moves: OnMoves = lambda _stones, _done, _total: None,
) -> Iterator[LevelReport]:
    """Judge the player's move in every reachable position, level by level; yield a report per level.

    The opponent makes every legal move, the player only the one it chooses. The player is queried once per position,
    and only for one of two mirror images. A line of moves ends with the game, at a mistake, or where the player's
    search has proven a win, if the player keeps its proofs and plays by them.

    Args:
        players: copies of a deterministic player, which share the work.
        known: the answers so far; new ones are added.
        scope: the player's side and the start.
        max_stones: maximum number of stones in the positions.
        continue_after_mistakes: whether lines continue after a mistake.
        on_moves: called with a level's stones, how many of its unknown moves are done, and how many there are.
    """
    walk = Walk(scope, named=True)
    size = max(MIN_JUDGED_BATCH, JUDGED_PER_PLAYER * len(players))
    with worker_threads(cores()) as pool:
        while len(walk.keys) and walk.stones <= max_stones:
            columns, kinds = known.find(walk.stones, walk.keys)
            unknown = np.flatnonzero(columns == NO_MOVE)
            for first in range(0, len(unknown), size):
                on_moves(walk.stones, first, len(unknown))
                rows = unknown[first : first + size]
                positions = [position_of(walk.board, walk.keys[row], walk.names[row]) for row in rows]
                columns[rows], kinds[rows] = _judged_moves(players, positions, pool)
                known.add([Moves(walk.keys[rows], columns[rows], kinds[rows])])
            is_mistake = kinds == MoveKind.MISTAKE
            failures = [
                position_of(walk.board, walk.keys[row], walk.names[row]).play(int(columns[row]))
                for row in np.flatnonzero(is_mistake)
            ]
            continues = (kinds == MoveKind.ANSWER) | (continue_after_mistakes & is_mistake)
            walk.play(np.where(continues, columns, np.int8(CAN_WIN)))
            yield LevelReport(stones=walk.stones, keys=walk.keys, kinds=kinds, failures=failures, is_last=walk.is_last)
            walk.advance()


def _judged_moves(
    players: Sequence[Player], positions: Sequence[Position], pool: ThreadPoolExecutor
) -> tuple[Columns, Columns]:
    """Return the player's columns [B] and their kinds [B]."""

    def outcomes(positions: Sequence[Position]) -> Columns:
        """Solve positions [B]: 1 win, 0 draw, -1 loss for the side to move."""
        if not positions:
            return np.zeros(0, np.int8)
        own, occupied = stones(positions)
        solve = partial(shared_solver(positions[0].board).solve_batch, weak=True, on_poll=check_block)
        parts = min(len(positions), PARTS_PER_WORKER * cores())
        return np.concatenate(list(pool.map(solve, np.array_split(own, parts), np.array_split(occupied, parts))))

    parts = [positions[index :: len(players)] for index in range(len(players))]
    moves, proven = np.zeros(len(positions), np.int8), np.zeros(len(positions), np.bool_)
    for index, found in enumerate(pool.map(_ask_moves, players, parts)):
        moves[index :: len(players)], proven[index :: len(players)] = found
    after = [position.play(column) for position, column in zip(positions, moves.tolist(), strict=True)]
    kept = -outcomes(after)
    possible = kept.copy()
    unsure = np.flatnonzero(kept < Outcome.WIN)  # a winning move cannot be a mistake
    possible[unsure] = outcomes([positions[int(index)] for index in unsure])
    kind_of = {None: MoveKind.ANSWER, Outcome.LOSS: MoveKind.WINS, Outcome.DRAW: MoveKind.DRAWS}  # opponent's outcomes
    kinds = np.array([kind_of[position.outcome()] for position in after], np.int8)
    kinds[proven & (kinds == MoveKind.ANSWER)] = MoveKind.PROOF
    kinds[kept < possible] = MoveKind.MISTAKE
    return moves, kinds


def _ask_moves(player: Player, positions: Sequence[Position]) -> tuple[Sequence[int], Sequence[bool]]:
    """Return the player's moves, and whether each is a proven win that the player will play out."""
    if not positions:
        return [], []
    if not isinstance(player, SearchingPlayer) or player.reuse == "nothing":  # a player without proofs
        return checked_moves(player, positions), [False] * len(positions)
    result = player.search(positions)
    return result.moves.tolist(), result.chosen_moves_win.tolist()

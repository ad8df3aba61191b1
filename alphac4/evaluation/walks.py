"""Walks over every reply to a player, which judge each of its moves or show that a claim holds.

`walk_games` requests a player's move in every position that an opponent can reach, and the exact solver judges it.
`build` requests moves until every line ends as a `Claim` states, and rejects moves whose lines do not. Both store the
answers in `KnownMoves`, from which an interrupted walk resumes.
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

from alphac4.arena.players import NetworkPlayer, Player, SearchingPlayer, checked_moves
from alphac4.certificate.walk import (
    CAN_WIN,
    LOST,
    NO_MOVE,
    Claim,
    Columns,
    Keys,
    Walk,
    forced_moves,
    has_reply_in,
    position_of,
    stones_of,
)
from alphac4.game import Geometry, Outcome, Position
from alphac4.game.planes import stones
from alphac4.machine import check_block, cores, worker_threads
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, UNPROVEN, proof_value
from alphac4.solver.solver import shared_solver
from alphac4.storage.journal import Journal
from alphac4.storage.records import read_value

FORMAT = "alphac4-walk"
MIN_JUDGED_BATCH = 256  # positions judged together; proofs end many searches of a batch early
JUDGED_PER_PLAYER = 64  # positions of such a batch for each player, if that makes a larger one
PARTS_PER_WORKER = 4  # more parts than workers, because some positions take much longer to solve
CLAIM_BATCH = 4096  # positions of a claim's walk; few need long searches, and these should fill a batch
MIN_PROMISING_VALUE = 0.5  # minimum value of a second choice for a claimed win; -0.5 for a claimed draw


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
        """Make moves of one kind."""
        return cls(keys, columns.astype(np.int8), np.full(len(keys), kind, np.int8))

    @classmethod
    def joined(cls, parts: "Sequence[Moves]") -> "Moves":
        """Join moves."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def only(self, rows: npt.NDArray[np.bool_]) -> "Moves":
        """Select rows."""
        return Moves(self.keys[rows], self.columns[rows], self.kinds[rows])


class KnownMoves:
    """Moves by canonical position, stored in a journal.

    Args:
        geometry: the board.
        path: file of the journal; by default moves are only kept in memory.
        about: the player, and everything else that determines the moves.

    Raises:
        FileError: if the file holds something else, or another player's moves.
    """

    def __init__(self, geometry: Geometry, path: Path | None = None, about: Mapping[str, Any] | None = None) -> None:
        self._geometry = geometry
        self._sorted: dict[int, Moves] = {}
        self._new: defaultdict[int, list[Moves]] = defaultdict(list)
        self.taken_back: dict[int, set[int]] = {}  # columns by canonical key
        self._journal = Journal(path, FORMAT, about or {})
        for moves in self._journal.read(lambda entry: unpack_moves(entry, geometry)):
            self._insert(moves)

    def find(self, stones: int, keys: Keys) -> tuple[Columns, Columns]:
        """Return the columns and kinds [B] of positions with that many stones; NO_MOVE for unknown ones."""
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
        """Return whether a move of each position [B] was rejected."""
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
        stones = stones_of(self._geometry, moves.keys)
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
    """Return an entry of the journal: 8 bytes per key and one per column and kind, compressed by zlib, as Base64."""
    content = moves.keys.astype("<u8").tobytes() + moves.columns.tobytes() + moves.kinds.tobytes()
    return {"count": len(moves.keys), "moves": base64.b64encode(zlib.compress(content)).decode()}


def unpack_moves(entry: dict[str, Any], geometry: Geometry) -> Moves:
    """Return the moves of an entry of the journal.

    Raises:
        ValueError: if the entry is invalid.
    """
    count = read_value(int, entry.get("count"), "count")
    try:
        content = zlib.decompress(base64.b64decode(read_value(str, entry.get("moves"), "moves"), validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) != 10 * count:
        raise ValueError(f"expected {count} moves")
    columns, kinds = np.frombuffer(content[8 * count :], np.int8).reshape(2, count)
    if count and not (columns.min() >= 0 and columns.max() < geometry.columns and 0 <= kinds.min() <= kinds.max() <= 5):
        raise ValueError("invalid moves")
    return Moves(np.frombuffer(content[: 8 * count], "<u8").astype(np.uint64), columns.copy(), kinds.copy())


@dataclass(kw_only=True)
class LevelReport:
    """Positions of one number of stones with the player to move, deduplicated by symmetry."""

    stones: int
    keys: Keys  # [B]
    kinds: Columns  # [B] of the moves, see `MoveKind`; NO_MOVE where the rules force the move
    failures: list[Position] = field(default_factory=list)  # after a mistake, or in which the claim does not hold
    taken_back: int = 0  # positions whose first answer was rejected
    is_last: bool = False  # whether no line continues

    def count(self, kind: int) -> int:
        """Return the number of positions with moves of a kind."""
        return int((self.kinds == kind).sum())


OnMoves = Callable[[int, int, int], object]
"""Called with a number of stones, and of the positions with that many stones whose moves are not known yet: the number
of those that are done, and the number of all."""


def walk_games(
    players: Sequence[Player],
    known: KnownMoves,
    claim: Claim,
    *,
    max_stones: int,
    continue_after_mistakes: bool = False,
    on_moves: OnMoves = lambda _stones, _done, _total: None,
) -> Iterator[LevelReport]:
    """Judge the player's move in every reachable position, level by level; yield a report per level.

    The opponent makes every legal move, the player only the one it chooses. The player is queried once per position, of
    two mirror images only about one. A line ends at the end of the game, at a mistake, or where the player's
    search has proven a win, if the player keeps its proofs and plays by them.

    Args:
        players: copies of a deterministic player, which share the work.
        known: the answers so far; new ones are added.
        claim: the player's side and the start; its result is not used.
        max_stones: maximum number of stones in the positions.
        continue_after_mistakes: whether lines continue after a mistake.
        on_moves: see `OnMoves`.
    """
    walk = Walk(claim, named=True)
    size = max(MIN_JUDGED_BATCH, JUDGED_PER_PLAYER * len(players))
    with worker_threads(cores()) as pool:
        while len(walk.keys) and walk.stones <= max_stones:
            columns, kinds = known.find(walk.stones, walk.keys)
            unknown = np.flatnonzero(columns == NO_MOVE)
            for first in range(0, len(unknown), size):
                on_moves(walk.stones, first, len(unknown))
                rows = unknown[first : first + size]
                positions = [position_of(walk.geometry, walk.keys[row], walk.names[row]) for row in rows]
                columns[rows], kinds[rows] = _judged_moves(players, positions, pool)
                known.add([Moves(walk.keys[rows], columns[rows], kinds[rows])])
            is_mistake = kinds == MoveKind.MISTAKE
            failures = [
                position_of(walk.geometry, walk.keys[row], walk.names[row]).play(int(columns[row]))
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
        solve = partial(shared_solver(positions[0].geometry).solve_batch, weak=True, on_poll=check_block)
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
    return result.moves.tolist(), result.proven_wins.tolist()


def build(
    players: Sequence[NetworkPlayer],
    known: KnownMoves,
    claim: Claim,
    *,
    max_stones: int = 64,
    cells: np.uint64 | None = None,
    on_moves: OnMoves = lambda _stones, _done, _total: None,
) -> Iterator[LevelReport]:
    """Search for moves that show a claim, level by level from its start; yield a report per level.

    A move after which a line is not won (or is lost, for a claimed draw) is rejected, and the player searches again.
    If no other move is promising, the move that led to the position is rejected. The walk then returns to earlier
    levels and reports them again. Only the rules of the game and the player's own values decide this.

    Args:
        players: copies of one player, one per core, without tree reuse.
        known: the answers so far; new ones are added.
        claim: the claim to show.
        max_stones: maximum number of stones in the positions.
        cells: cells in which the opponent may drop stones, by default all; see `Walk`.
        on_moves: see `OnMoves`.

    Raises:
        ValueError: if the opponent's first move refutes the claim.
    """
    walk = Walk(claim, cells=cells)
    if walk.worst_reply_outcome < claim.min_outcome:
        raise ValueError(f"it is not true that {claim}: the opponent's first move ends the game")
    with worker_threads(len(players)) as pool:
        while True:
            keys = walk.keys
            to_ask = keys[forced_moves(walk.geometry, keys) == NO_MOVE]
            unknown = to_ask[known.find(walk.stones, to_ask)[0] == NO_MOVE]
            for done in range(0, len(unknown), CLAIM_BATCH):
                on_moves(walk.stones, done, len(unknown))
                _ask(players, pool, known, claim, unknown[done : done + CLAIM_BATCH])
            moves, kinds = _known_moves(known, walk)
            refuted, lost = walk.play(moves) < claim.min_outcome, moves == LOST
            if refuted.any():
                known.take_back(keys[refuted], moves[refuted])
                continue
            if lost.any() and walk.depth:
                walk.go_back()
                moves, _ = _known_moves(known, walk)
                leading = has_reply_in(walk.geometry, walk.keys, moves, keys[lost])
                known.take_back(walk.keys[leading], moves[leading])
                continue
            yield LevelReport(
                stones=walk.stones,
                keys=keys,
                kinds=kinds,
                failures=[position_of(walk.geometry, key) for key in keys[lost]],
                taken_back=int((known.is_taken_back(keys) & (moves >= 0)).sum()),
                is_last=walk.is_last,
            )
            if lost.any() or walk.is_last or walk.stones + 2 > max_stones:
                return
            walk.advance()


def moves_in_order(known: KnownMoves, claim: Claim) -> Columns:
    """Return the moves of a claim's certificate in the order of its walk; all must be known."""
    parts: list[Columns] = []
    walk = Walk(claim)
    while len(walk.keys):
        moves, _ = _known_moves(known, walk)
        parts.append(moves[forced_moves(walk.geometry, walk.keys) == NO_MOVE])
        walk.play(moves)
        walk.advance()
    return np.concatenate(parts)


def _known_moves(known: KnownMoves, walk: Walk) -> tuple[Columns, Columns]:
    """Return the forced or known moves [B], and the kinds [B] of the known ones; LOST if all moves are rejected."""
    moves = forced_moves(walk.geometry, walk.keys)
    kinds = np.full(len(walk.keys), NO_MOVE, np.int8)
    to_name = moves == NO_MOVE
    moves[to_name], kinds[to_name] = known.find(walk.stones, walk.keys[to_name])
    for row in np.flatnonzero(known.is_taken_back(walk.keys)):
        if moves[row] in (*known.taken_back[int(walk.keys[row])], NO_MOVE):
            moves[row] = LOST
    return moves, kinds


def _ask(
    players: Sequence[NetworkPlayer], pool: ThreadPoolExecutor, known: KnownMoves, claim: Claim, keys: Keys
) -> None:
    """Add the players' answers in positions [B], and the moves of their proofs."""

    def think(player: NetworkPlayer, part: Keys) -> tuple[list[Moves], Keys]:
        result = player.search([position_of(claim.geometry, int(key)) for key in part])
        best = np.where(result.proofs == UNPROVEN, ILLEGAL, result.proofs).max(axis=1)
        least = PROVEN_DRAW + claim.min_outcome
        proofs = [
            Moves.of_kind(MoveKind.PROOF, *player.proven_moves(int(row), least))
            for row in np.flatnonzero(best >= least)
        ]
        root_proofs = [result.root_proof(row) for row in range(len(part))]
        hopeless = np.array([p != UNPROVEN and proof_value(p) < claim.min_outcome for p in root_proofs], np.bool_)
        answers = Moves.of_kind(MoveKind.ANSWER, part[~hopeless], result.moves[~hopeless])
        return [answers, *proofs], part[hopeless]

    again = known.is_taken_back(keys)
    parts = [part for part in np.array_split(keys[~again], len(players)) if len(part)]
    for found, hopeless in pool.map(think, players, parts):
        known.add(found)
        for key in hopeless:
            _give_up(known, claim.geometry, key)
    for key in keys[again]:
        _ask_again(players[0], known, claim, key)


def _ask_again(player: NetworkPlayer, known: KnownMoves, claim: Claim, key: np.uint64) -> None:
    """Add the remaining move with the highest value, or reject all moves if none is promising."""
    position = position_of(claim.geometry, int(key))
    left = [column for column in position.legal_columns() if column not in known.taken_back[int(key)]]
    after = [position.play(column) for column in left]
    # A full board is a draw. No move here completes a run, because the rules decide such positions.
    values = {column: 0.0 for column, then in zip(left, after, strict=True) if then.outcome() == Outcome.DRAW}
    open_columns = [column for column in left if column not in values]
    if open_columns:
        found = player.search([then for then in after if then.outcome() is None]).value
        values |= zip(open_columns, (-found).tolist(), strict=True)
    if values:
        best = max(values, key=lambda column: values[column])
        if values[best] > (MIN_PROMISING_VALUE if claim.min_outcome == 1 else -MIN_PROMISING_VALUE):
            known.add([Moves.of_kind(MoveKind.ANSWER, np.array([key], np.uint64), np.array([best]))])
            return
    _give_up(known, claim.geometry, key)


def _give_up(known: KnownMoves, geometry: Geometry, key: np.uint64) -> None:
    """Reject every move of a position in which the player expects the claim to fail."""
    columns = position_of(geometry, int(key)).legal_columns()
    known.take_back(np.full(len(columns), key, np.uint64), np.array(columns, np.int8))

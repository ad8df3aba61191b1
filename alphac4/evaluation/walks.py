"""Walks over every reply to a player: the moves found so far, judging them all, and showing what a claim says.

`walk_games` asks a player for its move in every position that any opponent can bring about, and the exact solver judges
each. `build` asks until every line ends as a `Claim` says, and takes moves back where one does not. Both keep what was
answered in `KnownMoves`, from which an interrupted walk goes on.
"""

import base64
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, SearchingPlayer, as_searching, checked_moves
from alphac4.certificate.walk import (
    ASK,
    LOST,
    WINS_NOW,
    Claim,
    Columns,
    Keys,
    Walk,
    leading_to,
    play_moves,
    position_of,
    rule_moves,
    stones_of,
)
from alphac4.compute import Pool
from alphac4.game import Geometry, Outcome, Position, column_name
from alphac4.game.planes import stones
from alphac4.game.rules import Words
from alphac4.machine import check_block, cores, worker_threads
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, UNPROVEN, proof_value
from alphac4.solver import Solver
from alphac4.solver.solver import Scores, shared_solver
from alphac4.storage.journal import Journal
from alphac4.storage.records import read_value

FORMAT = "alphac4-walk"
CHUNK = 500_000  # moves in memory before they are written
SECONDS_BETWEEN_SAVES = 60.0
JUDGED_AT_ONCE = 256  # positions that the solver judges at once, at least; proofs end many searches of them early
SHARE = 64  # positions for each player, where that is more in all
PARTS = 4  # of the positions to be solved for each worker, as some take much longer than others
ASKED_AT_ONCE = 4096  # positions of a claim's walk: of the few that need long searches there must be many
PROMISING = 0.5  # of a claimed win: where a move was taken back, one of a lesser value is not tried; -0.5 of a draw


class Kind(IntEnum):
    """Kinds of moves on a walk."""

    ANSWER = 0  # the player's answer; the game goes on
    PROOF = 1  # the player's search has proven the result, here or from an earlier position
    TAKEN_BACK = 2  # an answer that no longer is one
    WINS = 3  # it completes a run
    DRAWS = 4  # it fills the board
    ERRS = 5  # it gives a win or a draw away, as a judge says


class Moves(NamedTuple):
    """M moves."""

    keys: Keys  # [M] of canonical positions
    columns: Columns  # [M] 0-based, as the canonical position sees them
    kinds: Columns  # [M] see `Kind`

    @classmethod
    def of_kind(cls, kind: Kind, keys: Keys, columns: npt.NDArray[np.integer]) -> "Moves":
        """Moves of one kind."""
        return cls(keys, columns.astype(np.int8), np.full(len(keys), kind, np.int8))

    @classmethod
    def joined(cls, parts: "Sequence[Moves]") -> "Moves":
        """The moves of all parts."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def only(self, rows: npt.NDArray[np.bool_]) -> "Moves":
        """The moves of some rows."""
        return Moves(self.keys[rows], self.columns[rows], self.kinds[rows])


class KnownMoves:
    """Moves by canonical position.

    Args:
        geometry: of the board.
        path: the journal in which they are kept; only in memory without one.
        about: whose moves they are.
        first_answers: pass over what was taken back, so that each position has the player's first answer.

    Raises:
        FileError: if the file holds something else, or somebody else's moves.
    """

    def __init__(
        self,
        geometry: Geometry,
        path: Path | None = None,
        about: Mapping[str, Any] | None = None,
        *,
        first_answers: bool = False,
    ) -> None:
        self._geometry = geometry
        self._first_answers = first_answers
        self._sorted: dict[int, Moves] = {}
        self._new: defaultdict[int, list[Moves]] = defaultdict(list)
        self._unsaved: list[Moves] = []
        self._saved = time.monotonic()
        self.taken_back: dict[int, set[int]] = {}  # columns by canonical key
        self._journal = Journal(path, FORMAT, about or {})
        for moves in self._journal.read(lambda entry: unpack_moves(entry, geometry)):
            self._insert(moves)

    def find(self, stones: int, keys: Keys) -> tuple[Columns, Columns]:
        """The columns and kinds [B] of positions with so many stones; ASK where nothing is known."""
        if self._new[stones]:
            parts = ([self._sorted[stones]] if stones in self._sorted else []) + self._new.pop(stones)
            self._sorted[stones] = self._merge(parts)
        if stones not in self._sorted or len(self._sorted[stones].keys) == 0:
            nothing = np.full(len(keys), ASK, np.int8)
            return nothing, nothing.copy()
        known = self._sorted[stones]
        place = np.minimum(np.searchsorted(known.keys, keys), len(known.keys) - 1)
        there = known.keys[place] == keys
        columns, kinds = (np.where(there, part[place], ASK).astype(np.int8) for part in (known.columns, known.kinds))
        return columns, kinds

    def take_back(self, keys: Keys, columns: Columns) -> None:
        """These moves [B], answers or forced ones, shall not be found again."""
        self.add([Moves.of_kind(Kind.TAKEN_BACK, keys, columns)])

    def is_taken_back(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Whether some move of each position [B] was taken back."""
        return np.isin(keys, np.fromiter(self.taken_back, np.uint64))

    def add(self, parts: Sequence[Moves]) -> None:
        """Take down moves; of a position that comes twice, a proof counts more than an answer, and the first counts.

        They are written from time to time, and by `save`.
        """
        joined = Moves.joined(parts)
        self._insert(joined)
        self._unsaved.append(joined)
        due = time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES
        if due or sum(len(part.keys) for part in self._unsaved) >= CHUNK:
            self.save()

    def save(self) -> None:
        """Write what is not on disk yet."""
        if self._unsaved:
            self._journal.add(_pack(Moves.joined(self._unsaved)))
        self._unsaved, self._saved = [], time.monotonic()

    def _insert(self, moves: Moves) -> None:
        if self._first_answers:
            moves = moves.only(moves.kinds != Kind.TAKEN_BACK)
        taken_back = moves.only(moves.kinds == Kind.TAKEN_BACK)
        for key, column in zip(taken_back.keys.tolist(), taken_back.columns.tolist(), strict=True):
            self.taken_back.setdefault(key, set()).add(column)
        # Moves are given up where the player sees no win; a proof that comes later knows better.
        proven = moves.keys[moves.kinds == Kind.PROOF]
        for key in proven[self.is_taken_back(proven)].tolist():
            self.taken_back.pop(key, None)
        stones = stones_of(self._geometry, moves.keys)
        for level in np.unique(stones):
            self._new[int(level)].append(moves.only(stones == level))

    def _merge(self, parts: Sequence[Moves]) -> Moves:
        """By key, each once, without what was taken back."""
        moves = Moves.joined(parts)
        stays = moves.kinds != Kind.TAKEN_BACK
        for row in np.flatnonzero(self.is_taken_back(moves.keys)):
            if moves.columns[row] in self.taken_back[int(moves.keys[row])]:
                if moves.kinds[row] == Kind.PROOF:
                    raise ValueError(f"a proof of position {moves.keys[row]} does not hold")
                stays[row] = False
        moves = moves.only(stays)
        order = np.lexsort((np.arange(len(moves.keys)), moves.kinds != Kind.PROOF, moves.keys))
        first = np.append(True, np.diff(moves.keys[order]) != 0)[: len(order)]
        return Moves(*(part[order][first] for part in moves))


def _pack(moves: Moves) -> dict[str, Any]:
    """Moves as an entry of a journal: 8 bytes each for the keys, one for columns and kinds, by zlib and Base64."""
    content = moves.keys.astype("<u8").tobytes() + moves.columns.tobytes() + moves.kinds.tobytes()
    return {"count": len(moves.keys), "moves": base64.b64encode(zlib.compress(content)).decode()}


def unpack_moves(entry: dict[str, Any], geometry: Geometry) -> Moves:
    """The moves of an entry of the journal. Raises ValueError if it holds anything else."""
    count = read_value(int, entry.get("count"), "count")
    try:
        content = zlib.decompress(base64.b64decode(read_value(str, entry.get("moves"), "moves"), validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) != 10 * count:
        raise ValueError(f"it does not hold {count} moves")
    columns, kinds = np.frombuffer(content[8 * count :], np.int8).reshape(2, count)
    if count and not (columns.min() >= 0 and columns.max() < geometry.columns and 0 <= kinds.min() <= kinds.max() <= 5):
        raise ValueError("it holds something else than moves")
    return Moves(np.frombuffer(content[: 8 * count], "<u8").astype(np.uint64), columns.copy(), kinds.copy())


@dataclass(kw_only=True)
class PlyReport:
    """The positions after one number of stones in which the player is to move; mirror images are one."""

    ply: int  # stones on the board
    counts: dict[Kind, int]  # of its moves
    errors: list[str] = field(default_factory=list)  # move strings up to and with the move that errs

    @property
    def positions(self) -> int:
        """The number of different positions."""
        return sum(self.counts.values())


SolveOutcomes = Callable[[Words, Words], Scores]
"""From ``(own, occupied)`` [B] to 1 win, 0 draw, -1 loss with best play for the side to move [B], for any thread."""


def outcome_solver(geometry: Geometry, pool: Pool | None = None) -> SolveOutcomes:
    """The exact solver here, or those of a pool's processes, each of which keeps its own table."""
    if pool is None:
        return partial(_solve_outcomes, geometry)
    return lambda own, occupied: pool.submit(_solve_outcomes, geometry, own, occupied).result()


def _solve_outcomes(geometry: Geometry, own: Words, occupied: Words) -> Scores:
    return shared_solver(geometry).solve_batch(own, occupied, weak=True, on_pause=check_block)


def walk_games(
    players: Sequence[Player],
    solve: SolveOutcomes,
    known: KnownMoves,
    claim: Claim,
    *,
    plies: int,
    beyond_mistakes: bool = False,
    on_moves: Callable[[int, int], object] = lambda _done, _total: None,
) -> Iterator[PlyReport]:
    """Ask the player for its move in every position that can come up, ply by ply, and judge it.

    The opponent makes every move it can, the player its own. A position that is reached in several ways is asked about
    once, and so is one of a position and its mirror image. A line ends where the game does, where the player errs, or
    where its own search has proven that it wins, if it is a player that keeps what it has proven and plays it out.

    Args:
        players: the player, or the same one several times to share the work; must answer the same whenever asked.
        solve: judges each move; see `outcome_solver`.
        known: what was asked before, and is now.
        claim: which side the player has, and from where; its result is not looked at.
        plies: how many stones a position may hold for its move to be looked at.
        beyond_mistakes: whether lines go on after a mistake.
        on_moves: hears, of the positions with as many stones, how many are done and how many there are.
    """
    walk = Walk(claim, named=True)
    workers = max(cores(), len(players))
    size = max(JUDGED_AT_ONCE, SHARE * len(players))
    with worker_threads(workers) as pool:
        while len(walk.keys) and walk.stones <= plies:
            columns, kinds = known.find(walk.stones, walk.keys)
            unknown = np.flatnonzero(columns == ASK)
            for first in range(0, len(unknown), size):
                on_moves(len(columns) - len(unknown) + first, len(columns))
                rows = unknown[first : first + size]
                positions = [position_of(walk.geometry, walk.keys[row], walk.names[row]) for row in rows]
                columns[rows], kinds[rows] = _judged_moves(players, solve, positions, pool, workers)
                known.add([Moves(walk.keys[rows], columns[rows], kinds[rows])])
                known.save()
            errors = [walk.names[row] + column_name(int(columns[row])) for row in np.flatnonzero(kinds == Kind.ERRS)]
            counts = {kind: int((kinds == kind).sum()) for kind in Kind}
            yield PlyReport(ply=walk.stones, counts=counts, errors=errors)
            goes_on = (kinds == Kind.ANSWER) | (beyond_mistakes & (kinds == Kind.ERRS))
            walk.play(np.where(goes_on, columns, np.int8(WINS_NOW)))
            walk.go_on()


def _judged_moves(
    players: Sequence[Player],
    solve: SolveOutcomes,
    positions: Sequence[Position],
    pool: ThreadPoolExecutor,
    workers: int,
) -> tuple[Columns, Columns]:
    """The player's columns [B], and their kinds [B]."""
    parts = [positions[index :: len(players)] for index in range(len(players))]
    moves, proven = np.zeros(len(positions), np.int8), np.zeros(len(positions), np.bool_)
    for index, found in enumerate(pool.map(_ask_moves, players, parts)):
        moves[index :: len(players)], proven[index :: len(players)] = found
    after = [position.play(column) for position, column in zip(positions, moves.tolist(), strict=True)]
    kept = -_outcomes(solve, after, pool, workers)
    possible = kept.copy()
    unsure = np.flatnonzero(kept < Outcome.WIN)  # nothing is better than a win
    possible[unsure] = _outcomes(solve, [positions[int(index)] for index in unsure], pool, workers)
    ends = {None: Kind.ANSWER, Outcome.LOSS: Kind.WINS, Outcome.DRAW: Kind.DRAWS}  # by what the opponent sees then
    kinds = np.array([ends[position.outcome()] for position in after], np.int8)
    kinds[proven & (kinds == Kind.ANSWER)] = Kind.PROOF
    kinds[kept < possible] = Kind.ERRS
    return moves, kinds


def _ask_moves(player: Player, positions: Sequence[Position]) -> tuple[Sequence[int], Sequence[bool]]:
    """The player's moves, and which of them its search has proven to win, and will play out."""
    if not positions:
        return [], []
    searching = as_searching(player)
    if searching is None or searching.reuse == "nothing":  # then it does not play out what it has proven
        return checked_moves(player, positions), [False] * len(positions)
    result = searching.search(positions)
    return result.moves.tolist(), result.proven_wins.tolist()


def _outcomes(
    solve: SolveOutcomes, positions: Sequence[Position], pool: ThreadPoolExecutor, workers: int
) -> npt.NDArray[np.int8]:
    """1 win, 0 draw, -1 loss with best play for the side to move, int8 [B], by so many callers at a time."""
    if not positions:
        return np.zeros(0, np.int8)
    own, occupied = stones(positions)
    parts = min(len(positions), PARTS * workers)
    found = pool.map(solve, np.array_split(own, parts), np.array_split(occupied, parts))
    return np.concatenate(list(found))


class ProvingPlayer(SearchingPlayer, Protocol):
    """A player whose proofs can be taken down."""

    def proven_moves(self, index: int, least: int) -> tuple[Keys, Columns]:
        """See `alphac4.mcts.search.TreeSearch.proven_moves`."""


@dataclass(kw_only=True)
class LevelReport:
    """The positions with one number of stones in which the player is to move; mirror images are one."""

    stones: int
    keys: Keys
    decided: int  # the player wins at once, must block, or cannot
    proven: int  # the player's search has proven the result, there or from an earlier position
    mended: int  # the player's first answer was taken back
    errors: list[int] = field(default_factory=list)  # canonical keys of those in which the claim does not hold
    last: bool = False  # no line goes on

    @property
    def positions(self) -> int:
        """The number of positions."""
        return len(self.keys)

    @property
    def answered(self) -> int:
        """Positions in which the move is the player's, and its search has not proven that it wins."""
        return self.positions - self.decided - self.proven


def build(
    players: Sequence[ProvingPlayer],
    known: KnownMoves,
    claim: Claim,
    *,
    judge: Solver | None = None,
    max_stones: int = 64,
    cells: np.uint64 | None = None,
    on_moves: Callable[[int, int, int], object] = lambda _stones, _done, _total: None,
) -> Iterator[LevelReport]:
    """Walk level by level from where a claim begins, and ask the ``players``, which share the work, for unknown moves.

    A move after which some line is not won (or drawn, if that is enough) is taken back, and the player is asked again.
    If it sees no other promising move, the one that led to the position is taken back. So the walk returns to earlier
    levels, and reports them once more; nothing but the rules of the game and the player's own values tells it to.

    A ``judge`` makes it a measurement instead: moves that give the claim away are errors, found at once. They are not
    taken back, and not followed.

    Args:
        players: the same player several times, each for a core of its own; they must not keep trees.
        known: what was answered before, and is now.
        claim: what is to be shown.
        judge: the exact solver.
        max_stones: look no further than positions with so many.
        cells: where the opponent may put stones, if not everywhere; see `Walk`.
        on_moves: hears, for a number of stones, how many positions are done and how many were unknown.

    Raises:
        ValueError: if the opponent's first move refutes the claim.
    """
    walk = Walk(claim, cells=cells)
    if walk.worst < claim.min_outcome:
        raise ValueError(f"it is not true that {claim}: the opponent's first move ends the game")
    with worker_threads(len(players)) as pool:
        while True:
            keys = walk.keys
            to_name = np.flatnonzero(rule_moves(walk.geometry, keys) == ASK)
            unknown = keys[to_name[known.find(walk.stones, keys[to_name])[0] == ASK]]
            for done in range(0, len(unknown), ASKED_AT_ONCE):
                on_moves(walk.stones, done, len(unknown))
                _ask(players, pool, known, claim, unknown[done : done + ASKED_AT_ONCE])
            moves, kinds = _known_moves(known, walk)
            if judge is not None:
                moves[to_name[_errs(judge, claim, keys[to_name], moves[to_name])]] = LOST
            refuted = walk.play(moves) < claim.min_outcome
            lost = moves == LOST
            if judge is None and refuted.any():
                known.take_back(keys[refuted], moves[refuted])
                continue
            if judge is None and lost.any() and walk.depth:
                walk.back()
                moves, _ = _known_moves(known, walk)
                leading = leading_to(walk.geometry, walk.keys, moves, keys[lost])
                known.take_back(walk.keys[leading], moves[leading])
                continue
            yield LevelReport(
                stones=walk.stones,
                keys=keys,
                decided=len(keys) - len(to_name),
                proven=int((kinds == Kind.PROOF).sum()),
                mended=int((known.is_taken_back(keys) & (moves >= 0)).sum()),
                errors=keys[lost | refuted].tolist(),
                last=walk.is_last,
            )
            if walk.is_last or walk.stones + 2 > max_stones:
                return
            walk.go_on()


def moves_in_order(known: KnownMoves, claim: Claim) -> Columns:
    """The moves that a claim's certificate holds, in the order of its walk; all of them must be known."""
    parts: list[Columns] = []
    walk = Walk(claim)
    while len(walk.keys):
        moves, _ = _known_moves(known, walk)
        parts.append(moves[rule_moves(walk.geometry, walk.keys) == ASK])
        walk.play(moves)
        walk.go_on()
    return np.concatenate(parts)


def _known_moves(known: KnownMoves, walk: Walk) -> tuple[Columns, Columns]:
    """The moves [B], by the rules or as known, and the kinds [B] of the known ones; LOST where all were taken back."""
    moves = rule_moves(walk.geometry, walk.keys)
    kinds = np.full(len(walk.keys), ASK, np.int8)
    to_name = moves == ASK
    moves[to_name], kinds[to_name] = known.find(walk.stones, walk.keys[to_name])
    for row in np.flatnonzero(known.is_taken_back(walk.keys)):
        if moves[row] in (*known.taken_back[int(walk.keys[row])], ASK):
            moves[row] = LOST
    return moves, kinds


def _ask(
    players: Sequence[ProvingPlayer], pool: ThreadPoolExecutor, known: KnownMoves, claim: Claim, keys: Keys
) -> None:
    """Take down the players' answers in positions [B], and the moves of what they have proven."""

    def think(player: ProvingPlayer, part: Keys) -> tuple[list[Moves], Keys]:
        result = player.search([position_of(claim.geometry, int(key)) for key in part])
        best = np.where(result.proofs == UNPROVEN, ILLEGAL, result.proofs).max(axis=1)
        least = PROVEN_DRAW + claim.min_outcome
        proofs = [
            Moves.of_kind(Kind.PROOF, *player.proven_moves(int(row), least)) for row in np.flatnonzero(best >= least)
        ]
        found = [result.root_proof(row) for row in range(len(part))]
        hopeless = np.array([proof != UNPROVEN and proof_value(proof) < claim.min_outcome for proof in found], np.bool_)
        answers = Moves.of_kind(Kind.ANSWER, part[~hopeless], result.moves[~hopeless])
        return [answers, *proofs], part[hopeless]

    again = known.is_taken_back(keys)
    parts = [part for part in np.array_split(keys[~again], len(players)) if len(part)]
    for found, hopeless in pool.map(think, players, parts):
        known.add(found)
        for key in hopeless:
            _give_up(known, claim.geometry, key)
    for key in keys[again]:
        _ask_again(players[0], known, claim, key)


def _ask_again(player: ProvingPlayer, known: KnownMoves, claim: Claim, key: np.uint64) -> None:
    """Take down the move, of those left, after which the opponent is worst off, or that none is promising."""
    position = position_of(claim.geometry, int(key))
    left = [column for column in position.legal_columns() if column not in known.taken_back[int(key)]]
    after = [position.play(column) for column in left]
    # A full board is a draw; who could complete a run at once is not asked.
    values = {column: 0.0 for column, then in zip(left, after, strict=True) if then.outcome() == Outcome.DRAW}
    open_columns = [column for column in left if column not in values]
    if open_columns:
        found = player.search([then for then in after if then.outcome() is None]).value
        values |= zip(open_columns, (-found).tolist(), strict=True)
    if values:
        best = max(values, key=lambda column: values[column])
        if values[best] > (PROMISING if claim.min_outcome == 1 else -PROMISING):
            known.add([Moves.of_kind(Kind.ANSWER, np.array([key], np.uint64), np.array([best]))])
            return
    _give_up(known, claim.geometry, key)


def _give_up(known: KnownMoves, geometry: Geometry, key: np.uint64) -> None:
    """Take back every move of a position in which the player does not see how the claim could hold."""
    columns = position_of(geometry, int(key)).legal_columns()
    known.take_back(np.full(len(columns), key, np.uint64), np.array(columns, np.int8))


def _errs(judge: Solver, claim: Claim, keys: Keys, moves: Columns) -> npt.NDArray[np.bool_]:
    """Whether each move gives the claim away [B]."""
    own, occupied, ends = play_moves(claim.geometry, keys, moves)
    going_on = occupied != claim.geometry.board
    ends[going_on] = -judge.solve_batch(own[going_on], occupied[going_on], weak=True)
    return ends < claim.min_outcome

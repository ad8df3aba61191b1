"""Every game that any opponent can play against a player, each of its moves judged by the solver."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, as_searching
from alphac4.game import Geometry, Position
from alphac4.game.planes import stones
from alphac4.game.position import COLUMN_NAMES, Outcome, column_name
from alphac4.game.rules import STANDARD, Words, mirror_is_canonical
from alphac4.machine import cores, worker_threads
from alphac4.solver.solver import Scores
from alphac4.storage.files import append_line, read_lines
from alphac4.storage.records import checksum, read_signed_line, sign_line

logger = logging.getLogger(__name__)

CONTINUES, WINS, DRAWS, LOSES, PROVEN, ERRS = "goes on", "wins", "draws", "loses", "proven", "errs"
"""The verdict on a move of the player: the game goes on, or is over by it; its own search has proven the win, which it
plays out from there; or it gives away a win or a draw."""

_VERDICTS = (CONTINUES, WINS, DRAWS, LOSES, PROVEN, ERRS)
_ENDS = {Outcome.LOSS: WINS, Outcome.DRAW: DRAWS, Outcome.WIN: LOSES}  # by the outcome for the side to move then

AUTO = "auto"  # the backend in records of earlier versions, which did not say which one had been chosen
BATCH = 256  # positions asked about together, at least; proofs end many of their searches early
SHARE = 64  # of them for each of many players
PARTS = 4  # of the positions to be solved for each worker, as some take much longer than others


@dataclass(kw_only=True)
class PlyReport:
    """The positions after one number of stones in which the player is to move; mirror images are one."""

    ply: int  # stones on the board
    counts: dict[str, int] = field(default_factory=dict)  # of its moves, by their verdict
    errors: list[str] = field(default_factory=list)  # move strings up to and with the move that errs

    @property
    def positions(self) -> int:
        """How many different positions there are."""
        return sum(self.counts.values())

    def add(self, position: Position, column: int, verdict: str) -> None:
        """Count one move."""
        self.counts[verdict] = self.counts.get(verdict, 0) + 1
        if verdict == ERRS:
            self.errors.append(f"{position.moves}{column_name(column)}")


class MoveRecord:
    """The player's move in each position as lines of a file, so that an interrupted walk goes on.

    A position and its mirror image are one; of those in files of earlier versions, which hold both, the first counts.

    The first line says, as JSON, whose moves they are; the others hold the moves that led to the position, ``-`` for
    none, the player's column, the verdict on it, and ``#`` with a checksum of all that; files of earlier versions have
    no checksums. A line that is damaged, or that a kill cut short, is reported and left out: the player is asked again.

    Raises:
        ValueError: if the file holds another walk, or something else.
    """

    def __init__(self, path: Path | None, header: dict[str, object], geometry: Geometry = STANDARD) -> None:
        self._path = path
        self._moves: dict[tuple[int, int], tuple[int, str]] = {}
        if path is None:
            return
        lines = read_lines(path)
        if not any(lines):
            append_line(path, sign_line(header))
            return
        try:
            found, signed = read_signed_line(lines[0])
        except ValueError as error:
            raise ValueError(f"{path}: holds no record of moves, or its first line is damaged: {error}") from error
        if found not in (header, {**header, "backend": AUTO}):
            raise ValueError(f"{path}: holds another walk, {json.dumps(found):.300}")
        for number, line in enumerate(lines[1:], start=2):
            if not line.strip():
                continue
            try:
                position, column, verdict = _read_move(line, signed, geometry)
            except ValueError as error:
                logger.warning("%s: line %d is damaged and left out: %s", path, number, error)
            else:
                self._remember(position, column, verdict)

    def __contains__(self, position: Position) -> bool:
        """Whether the player was asked about a position."""
        return _key(canonical(position)) in self._moves

    def __getitem__(self, position: Position) -> tuple[int, str]:
        """The player's 0-based column in a position, and the verdict on it."""
        twin = canonical(position)
        column, verdict = self._moves[_key(twin)]
        return column if twin is position else position.geometry.columns - 1 - column, verdict

    def add(self, positions: Sequence[Position], moves: Sequence[int], verdicts: Sequence[str]) -> None:
        """Write the moves in some positions."""
        lines = []
        for position, move, verdict in zip(positions, moves, verdicts, strict=True):
            self._remember(position, move, verdict)
            text = f"{position.moves or '-'} {column_name(move)} {verdict}"
            lines.append(f"{text} #{checksum(text)}")
        if self._path is not None and lines:
            append_line(self._path, "\n".join(lines))

    def _remember(self, position: Position, column: int, verdict: str) -> None:
        twin = canonical(position)
        move = column if twin is position else position.geometry.columns - 1 - column
        self._moves.setdefault(_key(twin), (move, verdict))


def canonical(position: Position) -> Position:
    """Of a position and its mirror image, the one that stands for both; see `alphac4.game.rules`."""
    return position.mirror() if mirror_is_canonical(position.geometry, position.own, position.occupied) else position


def recorded_backend(path: Path) -> str | None:
    """The backend with which the moves in a record were found; None if there is no record, or none that says so."""
    lines = read_lines(path)
    try:
        backend = read_signed_line(lines[0])[0].get("backend") if lines else None
    except ValueError:  # whoever opens the record will say so
        return None
    return backend if isinstance(backend, str) and backend != AUTO else None


def _read_move(line: str, signed: bool, geometry: Geometry) -> tuple[Position, int, str]:
    """A line of a `MoveRecord`: position, column, verdict; a ValueError says what is wrong with it."""
    text, _, found = line.rpartition(" #") if " #" in line else (line, "", "")
    if (signed or found) and checksum(text) != found:
        raise ValueError("the checksum does not match")
    moves, _, rest = text.partition(" ")
    column, _, verdict = rest.partition(" ")
    if verdict not in _VERDICTS:
        raise ValueError("it is cut short")
    position = Position.from_moves("" if moves == "-" else moves, geometry)
    if len(column) != 1 or column not in COLUMN_NAMES or not position.is_legal(COLUMN_NAMES.index(column)):
        raise ValueError(f"{column!r} is no move after {moves!r}")
    return position, COLUMN_NAMES.index(column), verdict


class OutcomeSolver(Protocol):
    """Exact outcomes for several callers at a time, as `Solver` gives them."""

    def solve_outcome_batch(self, own: Words, occupied: Words) -> Scores:
        """1 win, 0 draw, -1 loss with best play for the side to move, int8 [B]."""


def walk_games(
    players: Sequence[Player],
    solver: OutcomeSolver,
    record: MoveRecord,
    *,
    start: Position,
    first: bool,
    plies: int,
    beyond_errors: bool = False,
    on_moves: Callable[[int, int], object] = lambda _done, _total: None,
) -> Iterator[PlyReport]:
    """Ask the player for its move in every position that can come up, ply by ply, and judge it.

    From ``start`` the opponent makes every move it can, the player its own. A position that is reached in several ways
    is asked about once, and so is one of a position and its mirror image. A line ends where the game does, where the
    player errs, or where its own search has proven that it wins, if it is a player that keeps what it has proven and
    plays it out.

    Args:
        players: the player, or the same one several times to share the work; must answer the same whenever asked.
        solver: judges each move.
        record: what was asked before, and is now.
        start: where the games begin.
        first: whether the player has the first move of the game.
        plies: how many stones a position may hold for its move to be looked at.
        beyond_errors: whether lines go on after a move that errs.
        on_moves: hears, of the positions with as many stones, how many are done and how many there are.
    """
    positions = [canonical(start)] if start.first_to_move == first else _replies([start])
    workers = max(cores(), len(players))
    size = max(BATCH, SHARE * len(players))
    with worker_threads(workers) as pool:
        while positions and positions[0].plies <= plies:
            report = PlyReport(ply=positions[0].plies)
            left: list[Position] = []
            for index in range(0, len(positions), size):
                batch = positions[index : index + size]
                if unknown := [position for position in batch if position not in record]:
                    record.add(unknown, *_judged_moves(players, solver, unknown, pool, workers))
                for position in batch:
                    column, verdict = record[position]
                    report.add(position, column, verdict)
                    if verdict == CONTINUES or (verdict == ERRS and beyond_errors):
                        left.append(position.play(column))
                on_moves(report.positions, len(positions))
            yield report
            positions = _replies(left)


def _judged_moves(
    players: Sequence[Player],
    solver: OutcomeSolver,
    positions: Sequence[Position],
    pool: ThreadPoolExecutor,
    workers: int,
) -> tuple[list[int], list[str]]:
    parts = [positions[index :: len(players)] for index in range(len(players))]
    moves, proven = [0] * len(positions), [False] * len(positions)
    for index, found in enumerate(pool.map(_moves, players, parts)):
        moves[index :: len(players)], proven[index :: len(players)] = found
    after = [position.play(column) for position, column in zip(positions, moves, strict=True)]
    kept = -_outcomes(solver, after, pool, workers)
    possible = kept.copy()
    unsure = np.flatnonzero(kept < Outcome.WIN)  # nothing is better than a win
    possible[unsure] = _outcomes(solver, [positions[int(index)] for index in unsure], pool, workers)
    verdicts = []
    for index, position in enumerate(after):
        outcome = position.outcome()
        if kept[index] < possible[index]:
            verdicts.append(ERRS)
        elif outcome is not None:
            verdicts.append(_ENDS[outcome])
        else:
            verdicts.append(PROVEN if proven[index] else CONTINUES)
    return moves, verdicts


def _moves(player: Player, positions: Sequence[Position]) -> tuple[list[int], list[bool]]:
    """The player's moves, and which of them its search has proven to win, and will play out."""
    if not positions:
        return [], []
    searching = as_searching(player)
    if searching is None or searching.reuse == "nothing":  # then it does not play out what it has proven
        return player.choose(positions), [False] * len(positions)
    result = searching.search(positions)
    return result.moves.tolist(), result.proven_wins.tolist()


def _outcomes(
    solver: OutcomeSolver, positions: Sequence[Position], pool: ThreadPoolExecutor, workers: int
) -> npt.NDArray[np.int8]:
    """1 win, 0 draw, -1 loss with best play for the side to move, int8 [B], by so many callers at a time."""
    if not positions:
        return np.zeros(0, np.int8)
    own, occupied = stones(positions)
    parts = min(len(positions), PARTS * workers)
    found = pool.map(solver.solve_outcome_batch, np.array_split(own, parts), np.array_split(occupied, parts))
    return np.concatenate(list(found))


def _replies(positions: Sequence[Position]) -> list[Position]:
    """The different unfinished positions, in canonical orientation, that the side to move can bring about."""
    found: dict[tuple[int, int], Position] = {}
    for position in positions:
        for column in position.legal_columns():
            reply = canonical(position.play(column))
            if reply.outcome() is None:
                found.setdefault(_key(reply), reply)
    return list(found.values())


def _key(position: Position) -> tuple[int, int]:
    return int(position.own), int(position.occupied)

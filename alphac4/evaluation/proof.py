"""Every game that any opponent can play against a player, each of its moves judged by the solver."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, as_searching
from alphac4.arena.pool_players import ask
from alphac4.certificate.walk import ASK, NOT_FOLLOWED, Claim, Columns, Walk, position_of
from alphac4.compute import Pool
from alphac4.evaluation.known_moves import Kind, KnownMoves, Moves
from alphac4.game import Geometry, Position
from alphac4.game.planes import stones
from alphac4.game.position import Outcome, column_name
from alphac4.game.rules import Words
from alphac4.machine import cores, worker_threads
from alphac4.solver import Solver
from alphac4.solver.solver import Scores

BATCH = 256  # positions asked about together, at least; proofs end many of their searches early
SHARE = 64  # of them for each of many players
PARTS = 4  # of the positions to be solved for each worker, as some take much longer than others


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


class OutcomeSolver(Protocol):
    """Exact outcomes for several callers at a time, as `Solver` gives them."""

    def solve_outcome_batch(self, own: Words, occupied: Words) -> Scores:
        """1 win, 0 draw, -1 loss with best play for the side to move, int8 [B]."""


@dataclass(frozen=True, kw_only=True)
class PoolSolver:
    """The exact solver in the processes of a pool, each of which keeps its own table."""

    pool: Pool
    geometry: Geometry

    def solve_outcome_batch(self, own: Words, occupied: Words) -> Scores:
        """See `OutcomeSolver`."""
        recipe = SolverRecipe(geometry=self.geometry)
        return cast(Scores, self.pool.submit(ask, recipe, "solve_outcome_batch", own, occupied).result())


@dataclass(frozen=True, kw_only=True)
class SolverRecipe:
    """A `Recipe` for a solver."""

    geometry: Geometry

    def make(self) -> Solver:
        """See `Recipe`."""
        return Solver(self.geometry)


def walk_games(
    players: Sequence[Player],
    solver: OutcomeSolver,
    known: KnownMoves,
    claim: Claim,
    *,
    plies: int,
    beyond_errors: bool = False,
    on_moves: Callable[[int, int], object] = lambda _done, _total: None,
) -> Iterator[PlyReport]:
    """Ask the player for its move in every position that can come up, ply by ply, and judge it.

    The opponent makes every move it can, the player its own. A position that is reached in several ways is asked about
    once, and so is one of a position and its mirror image. A line ends where the game does, where the player errs, or
    where its own search has proven that it wins, if it is a player that keeps what it has proven and plays it out.

    Args:
        players: the player, or the same one several times to share the work; must answer the same whenever asked.
        solver: judges each move.
        known: what was asked before, and is now.
        claim: which side the player has, and from where; its result is not looked at.
        plies: how many stones a position may hold for its move to be looked at.
        beyond_errors: whether lines go on after a move that errs.
        on_moves: hears, of the positions with as many stones, how many are done and how many there are.
    """
    walk = Walk(claim, named=True)
    workers = max(cores(), len(players))
    size = max(BATCH, SHARE * len(players))
    with worker_threads(workers) as pool:
        while len(walk.keys) and walk.stones <= plies:
            columns, kinds = known.find(walk.stones, walk.keys)
            unknown = np.flatnonzero(columns == ASK)
            for first in range(0, len(unknown), size):
                on_moves(len(columns) - len(unknown) + first, len(columns))
                rows = unknown[first : first + size]
                positions = [position_of(walk.geometry, walk.keys[row], walk.names[row]) for row in rows]
                columns[rows], kinds[rows] = _judged_moves(players, solver, positions, pool, workers)
                known.add([Moves(walk.keys[rows], columns[rows], kinds[rows])])
                known.save()
            errors = [walk.names[row] + column_name(int(columns[row])) for row in np.flatnonzero(kinds == Kind.ERRS)]
            counts = {kind: int((kinds == kind).sum()) for kind in Kind}
            yield PlyReport(ply=walk.stones, counts=counts, errors=errors)
            goes_on = (kinds == Kind.ANSWER) | (beyond_errors & (kinds == Kind.ERRS))
            walk.play(np.where(goes_on, columns, np.int8(NOT_FOLLOWED)))
            walk.go_on()


def _judged_moves(
    players: Sequence[Player],
    solver: OutcomeSolver,
    positions: Sequence[Position],
    pool: ThreadPoolExecutor,
    workers: int,
) -> tuple[Columns, Columns]:
    """The player's columns [B], and their kinds [B]."""
    parts = [positions[index :: len(players)] for index in range(len(players))]
    moves, proven = np.zeros(len(positions), np.int8), np.zeros(len(positions), np.bool_)
    for index, found in enumerate(pool.map(_moves, players, parts)):
        moves[index :: len(players)], proven[index :: len(players)] = found
    after = [position.play(column) for position, column in zip(positions, moves.tolist(), strict=True)]
    kept = -_outcomes(solver, after, pool, workers)
    possible = kept.copy()
    unsure = np.flatnonzero(kept < Outcome.WIN)  # nothing is better than a win
    possible[unsure] = _outcomes(solver, [positions[int(index)] for index in unsure], pool, workers)
    ends = {None: Kind.ANSWER, Outcome.LOSS: Kind.WINS, Outcome.DRAW: Kind.DRAWS}  # by what the opponent sees then
    kinds = np.array([ends[position.outcome()] for position in after], np.int8)
    kinds[proven & (kinds == Kind.ANSWER)] = Kind.PROOF
    kinds[kept < possible] = Kind.ERRS
    return moves, kinds


def _moves(player: Player, positions: Sequence[Position]) -> tuple[Sequence[int], Sequence[bool]]:
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

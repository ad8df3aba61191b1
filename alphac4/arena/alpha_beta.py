"""Players by alpha-beta search: the exact solver, and one of fixed depth with a hand-written value."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from alphac4.compiled import compiled, inlined
from alphac4.game import Outcome, Position
from alphac4.game.rules import (
    STANDARD,
    U64_0,
    Geometry,
    column_cells,
    count_stones,
    legal_cells,
    play,
    winning_cells,
)
from alphac4.machine import check_block, cores, worker_threads
from alphac4.solver import best_columns, shared_solver

MAX_REMEMBERED = 100_000  # positions whose scores the solver's player keeps
WIN = 10_000  # a win in d plies scores WIN - d, above any evaluation
THREAT = 8  # worth of an empty cell that completes a run, reachable now or not


class SolverPlayer:
    """Plays perfectly, at random among equally good moves, and remembers the scores it has computed.

    By default a move is as good as its exact score: the fastest wins, the slowest losses. With ``fastest`` off, every
    move that keeps a win (or else a draw) is equally good, which makes for more varied games.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        geometry: Geometry = STANDARD,
        *,
        fastest: bool = True,
        threads: int | None = None,
    ) -> None:
        self.name = "solver" if fastest else "solver:outcome"
        self._rng = rng
        self._threads = threads or cores()
        self._analyze = partial(shared_solver(geometry).analyze, on_pause=check_block, weak=not fastest)
        self._scores: dict[Position, list[int | None]] = {}

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        if len(self._scores) > MAX_REMEMBERED:
            self._scores.clear()
        # The games of a match share early positions, which cost the most.
        unknown = [position for position in dict.fromkeys(positions) if position not in self._scores]
        with worker_threads(self._threads) as pool:
            self._scores.update(zip(unknown, pool.map(self._analyze, unknown), strict=True))
        return [int(self._rng.choice(best_columns(self._scores[position]))) for position in positions]


class NegamaxPlayer:
    """Alpha-beta to a fixed depth in plies with a hand-written evaluation, at random among equally good moves."""

    def __init__(self, depth: int, rng: np.random.Generator) -> None:
        self.name = f"negamax:{depth}"
        self.depth = depth
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(self._rng.choice(self.best_moves(position))) for position in positions]

    def best_moves(self, position: Position) -> list[int]:
        """Return the 0-based columns with the highest score."""
        best, columns = -WIN, list[int]()
        for column in position.legal_columns():
            after = position.play(column)
            if after.outcome() == Outcome.LOSS:
                score = WIN - 1
            else:
                # One below the best so far: a move that equals it must get its exact score too.
                score = -negamax(after.geometry, after.own, after.occupied, self.depth - 1, 1, -WIN, 1 - best)
            if score > best:
                best, columns = score, []
            if score == best:
                columns.append(column)
        return columns


@compiled
def static_value(geometry: Geometry, own: np.uint64, occupied: np.uint64) -> int:
    """Value threats and closeness to the middle column, for the side to move; far below `WIN`."""
    opponent = own ^ occupied
    score = THREAT * count_stones(winning_cells(geometry, own, occupied))
    score -= THREAT * count_stones(winning_cells(geometry, opponent, occupied))
    for column in range(geometry.columns):
        cells = column_cells(geometry, column)
        worth = min(column, geometry.columns - 1 - column)
        score += worth * (count_stones(own & cells) - count_stones(opponent & cells))
    return score


@inlined
def outward(step: int, columns: int) -> int:
    """Return the columns from the middle, where the better moves usually are, outwards: 3, 2, 4, 1, 5, 0, 6."""
    distance = (step + 1) // 2
    return columns // 2 + (distance if step % 2 == 0 else -distance)


@compiled
def negamax(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, depth: int, ply: int, alpha: int, beta: int
) -> int:
    """Score an unfinished position or full board for the side to move, looking ``depth`` plies ahead.

    Exact within (alpha, beta), else a bound. ``ply`` counts the moves made before it since the root.

    Call it from Python only: it calls itself, and Numba crashes where it loads such a function from disk for another
    compiled one.
    """
    legal = legal_cells(geometry, occupied)
    if legal == U64_0:
        return 0
    if depth == 0:
        return static_value(geometry, own, occupied)
    if winning_cells(geometry, own, occupied) & legal != U64_0:
        return WIN - ply - 1
    for step in range(geometry.columns):
        column = outward(step, geometry.columns)
        if legal & column_cells(geometry, column) != U64_0:
            next_own, next_occupied = play(geometry, own, occupied, column)
            alpha = max(alpha, -negamax(geometry, next_own, next_occupied, depth - 1, ply + 1, -beta, -alpha))
            if alpha >= beta:
                break
    return alpha

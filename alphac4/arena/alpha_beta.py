"""Players by alpha-beta search: the exact solver, and one of fixed depth with a hand-written value."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import PlayerError
from alphac4.compiled import allocating, compiled, inlined
from alphac4.game import Position
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
from alphac4.machine import cores
from alphac4.solver import Solver, best_columns, shared_solver

MAX_REMEMBERED = 100_000  # positions whose scores the solver's player keeps
WIN = 10_000  # a win in d plies scores WIN - d, above any evaluation
NO_MOVE = -(2 * WIN)  # the score of a full column
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
        self._solver: Solver = shared_solver(geometry)
        self._analyze = self._solver.analyze if fastest else self._solver.analyze_outcome
        self._scores: dict[Position, list[int | None]] = {}

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        # The games of a match share early positions, which cost the most.
        unknown = [position for position in dict.fromkeys(positions) if position not in self._scores]
        if len(self._scores) + len(unknown) > MAX_REMEMBERED:
            self._scores.clear()
            unknown = list(dict.fromkeys(positions))
        with ThreadPoolExecutor(self._threads) as pool:
            self._scores.update(zip(unknown, pool.map(self._analyze, unknown), strict=True))
        return [int(self._rng.choice(best_columns(self._scores[position]))) for position in positions]


class NegamaxPlayer:
    """Alpha-beta to a fixed depth in plies with a hand-written evaluation, at random among equally good moves."""

    def __init__(self, depth: int, rng: np.random.Generator) -> None:
        if depth < 1:
            raise PlayerError(f"negamax looks at least 1 ply ahead, not {depth}")
        self.name = f"negamax:{depth}"
        self.depth = depth
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        moves = []
        for position in positions:
            depth = min(self.depth, position.geometry.cells - position.plies)  # no game goes on beyond a full board
            scores = np.zeros(position.geometry.columns, np.int64)
            score_moves(position.geometry, position.own, position.occupied, depth, scores)
            moves.append(int(self._rng.choice(np.flatnonzero(scores == scores.max()))))
        return moves


@compiled
def static_value(geometry: Geometry, own: np.uint64, occupied: np.uint64) -> int:
    """Threats and closeness to the middle column, for the side to move; far below `WIN`."""
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
    """The columns from the middle, where the better moves usually are, outwards: 3, 2, 4, 1, 5, 0, 6 of seven."""
    distance = (step + 1) // 2
    return columns // 2 + (distance if step % 2 == 0 else -distance)


@allocating
def negamax(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, depth: int, ply: int, alpha: int, beta: int
) -> int:
    """The score of an unfinished position or full board for the side to move, looking ``depth`` plies ahead.

    Exact within (alpha, beta), else a bound. ``ply`` counts the moves made before it since the root.
    """
    # A stack of its own, one row a ply: Numba's cached code of a function that calls itself crashes when loaded.
    stones = np.zeros((depth + 1, 2), np.uint64)  # own, occupied
    window = np.zeros((depth + 1, 2), np.int64)  # alpha, beta
    tried = np.zeros(depth + 1, np.int64)  # columns looked at so far, from the middle outwards
    level = 0
    stones[0, 0], stones[0, 1] = own, occupied
    window[0, 0], window[0, 1] = alpha, beta
    while True:
        own, occupied = stones[level, 0], stones[level, 1]
        legal = legal_cells(geometry, occupied)
        known = True
        score = 0
        if legal == U64_0:
            pass  # a draw
        elif level == depth:
            score = static_value(geometry, own, occupied)
        elif winning_cells(geometry, own, occupied) & legal != U64_0:
            score = WIN - ply - level - 1
        else:
            known = False
            while tried[level] < geometry.columns:
                column = outward(tried[level], geometry.columns)
                tried[level] += 1
                if legal & column_cells(geometry, column) != U64_0:
                    stones[level + 1] = play(geometry, own, occupied, column)
                    window[level + 1] = -window[level, 1], -window[level, 0]
                    tried[level + 1] = 0
                    break
            else:
                known, score = True, window[level, 0]
        if not known:
            level += 1
            continue
        while True:  # hand the score up, past every node that it cuts off
            if level == 0:
                return score
            level -= 1
            score = -score
            if score < window[level, 1]:
                break
        window[level, 0] = max(window[level, 0], score)


@compiled
def score_moves(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, depth: int, scores: npt.NDArray[np.int64]
) -> None:
    """Write each column's score into ``scores`` [A]: exact for the best moves, a bound below them for the others."""
    best = NO_MOVE
    wins = winning_cells(geometry, own, occupied)
    for column in range(geometry.columns):
        cell = legal_cells(geometry, occupied) & column_cells(geometry, column)
        if cell == U64_0:
            scores[column] = NO_MOVE
            continue
        if cell & wins != U64_0:
            scores[column] = WIN - 1
        else:
            next_own, next_occupied = play(geometry, own, occupied, column)
            # One below the best so far: a move that equals it must get its exact score too.
            scores[column] = -negamax(geometry, next_own, next_occupied, depth - 1, 1, NO_MOVE, -(best - 1))
        best = max(best, scores[column])

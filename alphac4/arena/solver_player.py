"""The exact solver as a player."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.solver import Solver, best_columns, shared_solver

MOST_REMEMBERED = 100_000  # positions


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
        """See `alphac4.arena.players.Player`."""
        # The games of a match share early positions, which cost the most.
        unknown = [position for position in dict.fromkeys(positions) if position not in self._scores]
        if len(self._scores) + len(unknown) > MOST_REMEMBERED:
            self._scores.clear()
            unknown = list(dict.fromkeys(positions))
        with ThreadPoolExecutor(self._threads) as pool:
            self._scores.update(zip(unknown, pool.map(self._analyze, unknown), strict=True))
        return [int(self._rng.choice(best_columns(self._scores[position]))) for position in positions]

    def outcome(self, position: Position) -> int:
        """1 win, 0 draw, -1 loss with best play for the side to move."""
        finished = position.outcome()
        if finished is not None:
            return int(finished)
        if position in self._scores:
            return int(np.sign(max(score for score in self._scores[position] if score is not None)))
        return int(self._solver.solve_outcome(position))

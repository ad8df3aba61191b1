"""The exact solver in the processes of a pool."""

from functools import cache

from alphac4.compute import Pool
from alphac4.game import Geometry
from alphac4.game.rules import Words
from alphac4.solver import Solver
from alphac4.solver.solver import Scores


class PoolSolver:
    """Exact outcomes for as many callers at a time as the pool has processes, each of which keeps its own table."""

    def __init__(self, pool: Pool, geometry: Geometry) -> None:
        self._pool = pool
        self._geometry = geometry

    def solve_outcome_batch(self, own: Words, occupied: Words) -> Scores:
        """See `Solver.solve_outcome_batch`."""
        return self._pool.submit(_solve, self._geometry, own, occupied).result()


def _solve(geometry: Geometry, own: Words, occupied: Words) -> Scores:
    return _solver(geometry).solve_outcome_batch(own, occupied)


@cache
def _solver(geometry: Geometry) -> Solver:
    return Solver(geometry)

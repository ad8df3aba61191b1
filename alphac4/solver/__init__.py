"""The exact solver. Play and measurements of strength use it; training does not."""

from alphac4.solver.book import KnownScores, no_known_scores
from alphac4.solver.search import FULL_COLUMN
from alphac4.solver.solver import Solver, best_columns, moves_to_end, shared_solver

__all__ = [
    "FULL_COLUMN",
    "KnownScores",
    "Solver",
    "best_columns",
    "moves_to_end",
    "no_known_scores",
    "shared_solver",
]

"""Writes ``solver_sample.columns``: random positions with our solver's exact score per column ('.' = no move).

Run ``python tests/core/data/solver_sample.py`` from the repository's root. The solver that wrote the stored file agreed
with the scores of five of Pascal Pons's public test sets (all but begin-hard), 1,000 positions each.
"""

from pathlib import Path

import numpy as np

from alphac4.game.position import Position
from alphac4.solver import Solver

PLIES = (12, 16, 20, 24, 28, 32, 36, 39)
POSITIONS_EACH = 40
SEED = 1


def random_position(plies: int, rng: np.random.Generator) -> Position:
    """An unfinished position after uniformly random moves."""
    while True:
        position = Position()
        while position.plies < plies and position.legal_columns():
            position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is None:
            return position


def main() -> None:
    """Write the file next to this one."""
    rng = np.random.default_rng(SEED)
    solver = Solver()
    lines = []
    for plies in PLIES:
        for _ in range(POSITIONS_EACH):
            position = random_position(plies, rng)
            scores = ("." if score is None else str(score) for score in solver.analyze(position))
            lines.append(f"{position.moves} {' '.join(scores)}\n")
    Path(__file__).with_name("solver_sample.columns").write_text("".join(lines))


if __name__ == "__main__":
    main()

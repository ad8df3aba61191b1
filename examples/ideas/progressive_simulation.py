"""Progressive simulation: few simulations in early iterations, more later (MiniZero, arXiv 2310.11305).

The budget of a search grows from a third to five thirds of `quick`'s over the run.

    python examples/ideas/progressive_simulation.py

Two iterations with seed 0: mistakes of 12.1% raw and 8.8% with 64 simulations, and `quick` without it had 13.3%
and 6.7% at the same commit (240 positions, intervals of about 4 points on either side). The difference is inconclusive.
"""

from common import train

ITERATIONS = 8  # over which the budget grows


def growing(iteration: int, _ply: int, full: bool) -> int:
    """Return the simulations of a search; `quick` has 64 for a full one and 16 for a fast one."""
    share = (iteration - 1) / (ITERATIONS - 1)
    return max(2, round((64 if full else 16) * (1 / 3 + 4 / 3 * min(1.0, share))))


if __name__ == "__main__":
    train("progressive-simulation", simulations=growing)

"""Progressive simulation: few simulations in early iterations, more later (MiniZero, arXiv 2310.11305).

The budget of a search grows from a third to five thirds of `quick`'s over the run.

    python examples/ideas/progressive_simulation.py

Two runs with ITERATIONS = 24 made 9.0 and 8.6 % mistakes raw and 3.4 and 2.9 % with 600 simulations, and
two without it 9.0 and 9.0 %, 2.9 and 3.0 % (3,000 positions; docs/experiments/2026-11-27-five-ideas.md).
"""

from common import train

ITERATIONS = 8  # of the run, over which the budget grows


def growing(iteration: int, _ply: int, full: bool) -> int:
    """Return the root visits of a search; `quick` has 64 for a full one and 16 for a fast one."""
    share = (iteration - 1) / (ITERATIONS - 1)
    return max(2, round((64 if full else 16) * (1 / 3 + 4 / 3 * min(1.0, share))))


if __name__ == "__main__":
    train("progressive-simulation", visits=growing)

"""Regret-guided starts: games start where an earlier search was wrong (RGSC, arXiv 2602.20809, after Go-Exploit).

From the second iteration on, half of the games start from positions of the replay window, drawn in proportion to their
regret: the distance between the search's value and the value target. The paper predicts the regret by a second network.
Go-Exploit (arXiv 2302.12359) draws the positions uniformly.

    python examples/ideas/regret.py

Two runs of all 24 iterations made 8.8 and 8.6 % mistakes raw and 2.7 and 3.0 % with 600 simulations, and
two without it 9.0 and 9.0 %, 2.9 and 3.0 % (3,000 positions; docs/experiments/2026-11-27-five-ideas.md).
"""

from typing import Any

import numpy as np
from common import train

import alphac4

STARTS = 2000


def from_large_regrets(window: Any, rng: np.random.Generator) -> list[alphac4.Position]:
    """Return start positions, at least half of which are the empty board."""
    positions = [alphac4.Position()]
    if window is not None:
        regret = np.abs(window.value - (window.value_target[:, 0].astype(np.float64) - window.value_target[:, 2]))
        rows = rng.choice(len(window), size=STARTS, p=regret / regret.sum())
        positions = [alphac4.Position(window.own[row], window.occupied[row]) for row in rows]
        positions += [alphac4.Position()] * STARTS
    return positions


if __name__ == "__main__":
    train("regret", start_positions=from_large_regrets)

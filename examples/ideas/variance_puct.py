"""Variance-scaled PUCT: moves with uncertain values are explored more (after KataGo, Wu 2021).

KataGo stores the variance of the values below each move. Here the mean value Q of results in [-1, 1] bounds the
variance by 1 - Q^2: it is 0 for a move that always wins or loses. The selection is compiled into the search, in
self-play and in matches.

    python examples/ideas/variance_puct.py

Two runs of all 24 iterations made 8.5 and 8.8 % mistakes raw and 3.0 and 3.1 % with 600 simulations, and
two without it 9.0 and 9.0 %, 2.9 and 3.0 % (3,000 positions; docs/experiments/2026-11-27-five-ideas.md).
"""

import math
from typing import Any, NamedTuple

from common import train


class VariancePuct(NamedTuple):
    """The selection: its numbers and the score of a move."""

    c: float = 1.25
    least: float = 0.3  # minimum of s
    reduction: float = 0.25  # reduction of the value of unvisited moves
    prior_temperature: float = 1.0

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> float:
        """Return ``Q + c s P sqrt(N + 1) / (1 + n)``; s bounds the standard deviation of the move's results."""
        visits = trees.visits[t, node, action]
        value = totals.value_sum / (1.0 + totals.visits) - self.reduction * math.sqrt(totals.visited_prior)
        spread = 1.0
        if visits > 0:
            value = trees.value_sum[t, node, action] / visits
            spread = max(self.least, math.sqrt(max(0.0, 1.0 - value * value)))
        prior = trees.priors[t, node, action]
        return float(value + self.c * spread * prior * math.sqrt(totals.visits + 1) / (1 + visits))


if __name__ == "__main__":
    train("variance-puct", selection_rule=VariancePuct())

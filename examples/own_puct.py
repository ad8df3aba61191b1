"""Your own selection, which chooses the move that a simulation tries next, instead of PUCT.

A NamedTuple has the selection's numbers, and its method scores a move. The search is compiled with the method inlined,
so that it is as fast as with the package's own selection.
"""

import math
import sys
from typing import Any, NamedTuple

import alphac4


class AlphaGoZero(NamedTuple):
    """AlphaGo Zero's selection (Silver et al. 2017)."""

    c: float = 2.0  # weight of the prior against the mean value
    prior_temperature: float = 1.0  # divisor of the policy logits; every selection needs this field

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> float:
        """Return ``Q + c P sqrt(N) / (1 + n)``, where Q is 0 before the first visit.

        P is the prior of the move, n its visits, Q its mean value, and N the visits of the node.

        The search tries the move with the highest score among those that are not proven to lose. ``trees`` has arrays
        by tree, node and action; ``totals`` are sums over the node's moves.
        """
        visits = trees.visits[t, node, action]
        value = trees.value_sum[t, node, action] / visits if visits > 0 else 0.0
        return float(value + self.c * trees.priors[t, node, action] * math.sqrt(totals.visits) / (1.0 + visits))


if __name__ == "__main__":
    simulations, games = (10, 2) if "--fast" in sys.argv else (200, 40)
    ours = alphac4.load(f"quick@{simulations}", selection_rule=AlphaGoZero())
    print(ours.search("44"))
    print(f"{ours.name} against the usual selection:", alphac4.play_match(ours, f"quick@{simulations}", games=games))

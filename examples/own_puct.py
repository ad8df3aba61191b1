"""A rule of selection of one's own, in place of PUCT: which move a simulation tries next.

A NamedTuple holds the rule's numbers, and a function scores a move. The walk down the tree is compiled with the
function inside, so that it runs as fast as the package's own rule.
"""

import math
import sys
from typing import Any, NamedTuple

import alphac4


class AlphaGoZero(NamedTuple):
    """The numbers of AlphaGo Zero's rule (Silver et al. 2017)."""

    c: float = 2.0  # how much the prior and few visits count against the mean value
    prior_temperature: float = 1.0  # divides the policy's logits; every rule has it


@alphac4.register_selection_rule(AlphaGoZero)
def score(trees: Any, t: int, node: int, action: int, totals: Any, numbers: AlphaGoZero) -> float:
    """``Q + c P sqrt(N) / (1 + n)``, where Q is 0 before the first visit.

    Of the moves that are not proven to lose, the one with the highest score is tried. ``trees`` hold arrays by tree,
    node and action; ``totals`` are the node's visits, values and visited priors.
    """
    visits = trees.visits[t, node, action]
    value = trees.value_sum[t, node, action] / visits if visits > 0 else 0.0
    return float(value + numbers.c * trees.priors[t, node, action] * math.sqrt(totals.visits) / (1.0 + visits))


if __name__ == "__main__":
    simulations, games = (10, 2) if "--fast" in sys.argv else (200, 40)
    ours = alphac4.load(f"fast@{simulations}", puct=AlphaGoZero())
    print(ours.search("44"))
    print(f"{ours.name} against the usual rule:", alphac4.play_match(ours, f"fast@{simulations}", games=games))

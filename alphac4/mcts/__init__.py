"""Monte Carlo tree search over trees held as arrays: guided by a network (PUCT), and without one in `classic` (UCT).

In the order in which it is read: `tree` (the arrays and what is proven), `simulation` (select a leaf, back its value
up), `puct` (the rule, and what an evaluation makes of a leaf), `network_search` (an iteration over a batch),
`improvement` (what a finished search teaches), `search` (budgets, kept trees), `results`.
"""

from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.classic.uct import UctConfig
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget
from alphac4.mcts.simulation import NodeTotals, scores_actions

__all__ = [
    "Budget",
    "NetworkSearch",
    "NodeTotals",
    "PuctConfig",
    "SearchResult",
    "UctConfig",
    "UctSearch",
    "scores_actions",
]

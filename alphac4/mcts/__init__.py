"""Monte Carlo tree search, network-guided (PUCT) or classic (UCT), over trees held as arrays."""

from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget
from alphac4.mcts.selection import NodeTotals, scores_actions
from alphac4.mcts.uct import UctConfig
from alphac4.mcts.uct_search import UctSearch

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

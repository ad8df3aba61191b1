"""Monte Carlo tree search, network-guided (PUCT) or classic (UCT), over trees held as arrays."""

from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget, NetworkSearch, SearchResult, UctSearch
from alphac4.mcts.uct import UctConfig

__all__ = ["Budget", "NetworkSearch", "PuctConfig", "SearchResult", "UctConfig", "UctSearch"]

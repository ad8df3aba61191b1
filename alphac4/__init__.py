"""AlphaZero-style training, search and exact judging for Connect Four.

    import alphac4

    agent = alphac4.load("best")                     # or a file, or any player of the command line
    result = agent.search("4455", simulations=600)   # a move string, a Position, or a list of them
    result.move, result.value, result.wdl, result.columns[3].visits, result.tree
    alphac4.solve("4455")
    alphac4.play_match("best@100", "uct:1000", games=20)

The names in `__all__` are the public interface; they are loaded at their first use. Every other module is internal, and
may change from one version to the next. Columns count from 0 in code, and from 1 in move strings, in `to_dict()` and in
text for people. Values are for the side to move. An argument of a wrong type raises `TypeError`, and a wrong value
`ValueError`, with a message of one line. A file or folder may also raise `OSError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alphac4.version import __version__ as __version__

if TYPE_CHECKING:
    from alphac4.api.agent import Agent, load
    from alphac4.api.positions import Analysis, analyze, draw_board, draw_game, explain, solve
    from alphac4.api.tasks import evaluate, play_match, read_reports, read_samples, train
    from alphac4.arena import PlayerError
    from alphac4.arena.match import MatchResult
    from alphac4.arena.players import NetworkPlayer, Player, SearchingPlayer
    from alphac4.game import IllegalMove, Position, make_board
    from alphac4.mcts.puct import Puct
    from alphac4.mcts.results import SearchResult
    from alphac4.mcts.search import Budget
    from alphac4.nn.network import Network, Outputs, PolicyValueNetwork
    from alphac4.selfplay.games import Games
    from alphac4.selfplay.samples import Samples, Target
    from alphac4.training.config import TrainConfig
    from alphac4.training.loop import Callback, Iteration, StopTraining, iterate, learn
    from alphac4.training.losses import TrainingBatch, cross_entropy, default_losses
    from alphac4.training.optimizer import Muon

__all__ = [
    "Agent",
    "Analysis",
    "Budget",
    "Callback",
    "Games",
    "IllegalMove",
    "Iteration",
    "MatchResult",
    "Muon",
    "Network",
    "NetworkPlayer",
    "Outputs",
    "Player",
    "PlayerError",
    "PolicyValueNetwork",
    "Position",
    "Puct",
    "Samples",
    "SearchResult",
    "SearchingPlayer",
    "StopTraining",
    "Target",
    "TrainConfig",
    "TrainingBatch",
    "analyze",
    "cross_entropy",
    "default_losses",
    "draw_board",
    "draw_game",
    "evaluate",
    "explain",
    "iterate",
    "learn",
    "load",
    "make_board",
    "play_match",
    "read_reports",
    "read_samples",
    "solve",
    "train",
]

_HOMES = {
    "alphac4.api.agent": ("Agent", "load"),
    "alphac4.api.positions": ("Analysis", "analyze", "draw_board", "draw_game", "explain", "solve"),
    "alphac4.api.tasks": ("evaluate", "play_match", "read_reports", "read_samples", "train"),
    "alphac4.arena": ("PlayerError",),
    "alphac4.arena.match": ("MatchResult",),
    "alphac4.arena.players": ("NetworkPlayer", "Player", "SearchingPlayer"),
    "alphac4.game": ("IllegalMove", "Position", "make_board"),
    "alphac4.mcts.puct": ("Puct",),
    "alphac4.mcts.results": ("SearchResult",),
    "alphac4.mcts.search": ("Budget",),
    "alphac4.training.config": ("TrainConfig",),
    "alphac4.nn.network": ("Network", "Outputs", "PolicyValueNetwork"),
    "alphac4.selfplay.games": ("Games",),
    "alphac4.selfplay.samples": ("Samples", "Target"),
    "alphac4.training.losses": ("TrainingBatch", "cross_entropy", "default_losses"),
    "alphac4.training.optimizer": ("Muon",),
    "alphac4.training.loop": ("Callback", "Iteration", "StopTraining", "iterate", "learn"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use, so that importing the package does not load PyTorch (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'alphac4' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

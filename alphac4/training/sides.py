"""The two sides of a run's matches, which stay the same while networks take turns."""

from alphac4.arena.players import NetworkPlayer
from alphac4.compute import Compute
from alphac4.game.rules import Geometry
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget, Reuse
from alphac4.nn.network import PolicyValueNetwork

CACHE = 2**16  # evaluations that each search keeps
REUSE: Reuse = "proofs"  # from one search of a game to the next


class Side:
    """Plays for one network after another, with one evaluator and one search a core for the whole run.

    New ones for each match would cost memory that the libraries behind them never quite give back.
    """

    def __init__(self, compute: Compute, network: PolicyValueNetwork, geometry: Geometry, puct: PuctConfig) -> None:
        self.evaluator = compute.evaluator(network, streams=compute.streams)
        self.backend = compute.inference
        self._searches = [
            compute.search(self.evaluator, puct, geometry=geometry, reuse=REUSE, cache=CACHE)
            for _ in range(compute.streams)
        ]

    def players(self, network: PolicyValueNetwork, name: str, simulations: int) -> list[NetworkPlayer]:
        """The network as one player for each core; they are valid until the next call."""
        self.evaluator.update(network)
        players = []
        for search in self._searches:
            search.forget()
            budget = Budget(simulations=simulations)
            players.append(NetworkPlayer(name, self.evaluator, budget, search=search))
        return players

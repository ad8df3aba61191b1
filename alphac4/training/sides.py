"""The two sides of a run's matches, which stay the same while networks take turns."""

import numpy as np

from alphac4.arena.players import NetworkPlayer
from alphac4.compute import Compute
from alphac4.game.rules import Geometry
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork


class Side:
    """Plays for one network after another, with one evaluator and one search for the whole run.

    New ones for each match would cost memory that the libraries behind them never quite give back.
    """

    def __init__(self, compute: Compute, network: PolicyValueNetwork, geometry: Geometry, puct: PuctConfig) -> None:
        self.evaluator = compute.evaluator(network)
        self.backend = compute.inference
        self._geometry = geometry
        self._search = compute.search(
            self.evaluator, puct, geometry=geometry, rng=np.random.default_rng(0), reuse="proofs"
        )  # PUCT draws no random numbers

    def player(
        self, network: PolicyValueNetwork, name: str, simulations: int, rng: np.random.Generator
    ) -> NetworkPlayer:
        """The network as a player, until another one is made."""
        self.evaluator.update(network)
        self._search.forget()
        return NetworkPlayer(
            name, self.evaluator, Budget(simulations=simulations), rng, self._geometry, search=self._search
        )

"""Trees on the cores, with the network beside them or wherever PyTorch runs it."""

import dataclasses

import numpy as np
import torch

from alphac4.compute.interface import BATCH, Actors, Backends, Compute, NetworkEvaluator, Seeds
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Reuse
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.config import SelfPlayConfig


class Cores(Compute):
    """One actor a core; searches on the core that calls them.

    Args:
        device: where PyTorch runs and trains networks, "cpu" or "cuda".
        backends: of inference.
        threads: cores to use, by default all that this process may use.
    """

    def __init__(
        self,
        device: str = "cpu",
        backends: Backends | None = None,
        threads: int | None = None,
    ) -> None:
        self._device = device
        self._threads = threads or cores()
        self.backends = backends or Backends()
        self.batch = BATCH
        self.streams = self._threads
        self.learning_device = torch.device(device)

    @property
    def inference(self) -> str:
        """See `Compute`."""
        return self.backends.evaluators

    def evaluator(self, network: PolicyValueNetwork, *, batch_size: int = BATCH, streams: int = 1) -> NetworkEvaluator:
        """See `Compute`."""
        evaluator = Evaluator(
            network,
            batch_size=batch_size,
            streams=streams,
            device=self._device,
            backend=self.backends.evaluators,
            threads=self._threads,
        )
        self.backends = dataclasses.replace(self.backends, evaluators=evaluator.backend)
        return evaluator

    def search(
        self,
        evaluator: NetworkEvaluator,
        puct: PuctConfig | NetworkParameters | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator | None = None,
        reuse: Reuse = "nothing",
        cache: int = 0,
    ) -> NetworkSearch:
        """See `Compute`."""
        return NetworkSearch(evaluator, puct, geometry=geometry, rng=rng, reuse=reuse, cache=cache)

    def actors(self, network: PolicyValueNetwork, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> Actors:
        """See `Compute`."""
        count = self._threads
        slots = -(-config.games // count)
        evaluator = Evaluator(
            network,
            batch_size=slots,
            streams=count,
            device=self._device,
            backend=self.backends.actors,
            int8=True,
            threads=count,
        )
        self.backends = dataclasses.replace(self.backends, actors=evaluator.backend)
        players = [Actor(geometry, config, evaluator, slots, seeds(index)) for index in range(count)]
        return Actors(players, evaluator.update, evaluator.backend)

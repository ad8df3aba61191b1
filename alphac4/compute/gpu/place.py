"""Trees and networks on one GPU."""

import numpy as np
import torch

from alphac4.compute.gpu.actor import DeviceActor
from alphac4.compute.gpu.device import device_games, largest_that_fits, precision_name, simulated, the_device
from alphac4.compute.gpu.network import best_precision
from alphac4.compute.gpu.search import DeviceSearch
from alphac4.compute.interface import BATCH, Actors, Backends, Compute, NetworkEvaluator, Seeds
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Reuse, TreeSearch
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.config import SelfPlayConfig

SEARCHED_TOGETHER = 1024  # positions
LEAST_GAMES = 64  # where memory is short; below, the cores are faster
STREAMS = 2  # parts of self-play's games: while one part's trees grow, the network evaluates another's leaves


class Gpu(Compute):
    """An actor a stream, and searches of many positions at once.

    Args:
        precision: of the network beside the trees; by default the fastest that is precise enough.

    Raises:
        RuntimeError: in one line, if there is no GPU.
    """

    def __init__(self, precision: torch.dtype | None = None) -> None:
        device = the_device()
        self._precision = precision or best_precision(device)
        backend = precision_name(self._precision)
        self.backends = Backends(evaluators=backend, actors=backend)
        self.batch = SEARCHED_TOGETHER
        self.streams = 1
        self.learning_device = device

    @property
    def inference(self) -> str:
        """See `Compute`."""
        return f"{self.backends.evaluators}, without search {_raw_backend()}"

    def evaluator(self, network: PolicyValueNetwork, *, batch_size: int = BATCH, streams: int = 1) -> NetworkEvaluator:
        """See `Compute`; raw policies and values are computed in 32 bits."""
        device = "cpu" if simulated() else "cuda"
        return Evaluator(network, batch_size=batch_size, streams=streams, device=device, backend=_raw_backend())

    def search(
        self,
        evaluator: NetworkEvaluator,
        puct: PuctConfig | NetworkParameters | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator | None = None,
        reuse: Reuse = "nothing",
        cache: int = 0,
    ) -> TreeSearch:
        """See `Compute`; a single tree stays on a core, since it would leave the GPU idle."""
        if evaluator.batch_size == 1:
            return NetworkSearch(evaluator, puct, geometry=geometry, rng=rng, reuse=reuse, cache=cache)
        return DeviceSearch(evaluator, puct, geometry=geometry, rng=rng, reuse=reuse, precision=self._precision)

    def actors(self, network: PolicyValueNetwork, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> Actors:
        """See `Compute`; fewer games where memory is short."""
        count = STREAMS

        def make(games: int) -> list[DeviceActor]:
            slots = -(-games // count)
            return [
                DeviceActor(geometry, config, network, slots, seeds(index), self._precision) for index in range(count)
            ]

        players, _ = largest_that_fits(make, device_games(config.games), LEAST_GAMES)

        def update(network: PolicyValueNetwork) -> None:
            for player in players:
                player.update(network)

        return Actors(players, update, self.backends.actors)


def _raw_backend() -> str:
    return "torch-fp32" if simulated() else "cuda-fp32"

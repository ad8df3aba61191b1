"""Where a run's networks play: trees on the cores with the network beside them, or all of it on a GPU."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import torch

from alphac4.arena.players import NetworkPlayer
from alphac4.cuda.device import largest_that_fits, on_gpu, simulated, why_not
from alphac4.evaluation.answers import BATCH
from alphac4.evaluation.positions import PositionSet
from alphac4.game.rules import Geometry
from alphac4.machine import cores
from alphac4.mcts.search import Budget, NetworkSearch
from alphac4.nn.backends import available_backends
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import Actor, SelfPlayer
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.training.reports import EvaluationReport
from alphac4.training.strength import hold_against_exact_play

logger = logging.getLogger(__name__)

DEVICE_BATCH = 1024  # positions searched together on a GPU
LEAST_GAMES = 64  # on a GPU whose memory is short; below, the CPU is faster

Seeds = Callable[[int], np.random.Generator]  # random numbers of each actor


class Engine(ABC):
    """Actors for self-play, and players for the two sides of a match."""

    actors: Sequence[SelfPlayer]
    backend: str  # how the network runs, for reports and for the next session of the run

    @abstractmethod
    def update(self, network: PolicyValueNetwork) -> None:
        """Let self-play go on with other weights."""

    @abstractmethod
    def player(
        self, side: int, name: str, network: PolicyValueNetwork, simulations: int, rng: np.random.Generator
    ) -> NetworkPlayer:
        """A network as one of a match's two sides, which must not be called at the same time."""

    @abstractmethod
    def judge(self, network: PolicyValueNetwork, sets: Sequence[PositionSet], simulations: int) -> EvaluationReport:
        """See `alphac4.training.strength.hold_against_exact_play`."""


class HostEngine(Engine):
    """One actor a core; the network runs wherever the evaluator's backend does."""

    def __init__(
        self,
        network: PolicyValueNetwork,
        geometry: Geometry,
        config: SelfPlayConfig,
        seeds: Seeds,
        *,
        device: str = "auto",
        backend: str = "auto",
    ) -> None:
        actors = cores()
        slots = -(-config.games // actors)
        self.evaluator = Evaluator(network, batch_size=slots, streams=actors, device=device, backend=backend, int8=True)
        self.backend = self.evaluator.backend
        self.geometry = geometry
        # Matches call from one thread with all cores. Two evaluators for the whole run: new ones each time would
        # cost memory that the libraries behind them never quite give back.
        self._match_evaluators = tuple(Evaluator(network, device=device, backend=self.backend) for _ in range(2))
        self.actors = [Actor(geometry, config, self.evaluator, slots, seeds(index)) for index in range(actors)]

    def update(self, network: PolicyValueNetwork) -> None:
        """See `Engine`."""
        self.evaluator.update(network)

    def player(
        self, side: int, name: str, network: PolicyValueNetwork, simulations: int, rng: np.random.Generator
    ) -> NetworkPlayer:
        """See `Engine`."""
        evaluator = self._match_evaluators[side]
        evaluator.update(network)
        return NetworkPlayer(name, evaluator, Budget(simulations=simulations), rng, self.geometry)

    def judge(self, network: PolicyValueNetwork, sets: Sequence[PositionSet], simulations: int) -> EvaluationReport:
        """See `Engine`."""
        evaluator = self._match_evaluators[1]
        evaluator.update(network)
        search = NetworkSearch(evaluator, geometry=self.geometry, rng=np.random.default_rng(0))
        return hold_against_exact_play(evaluator, sets, simulations, search, BATCH)


class DeviceEngine(Engine):
    """All on a GPU: an actor a stream, and searches of whole matches.

    Raises:
        RuntimeError: in one line, if there is no GPU.
    """

    def __init__(self, network: PolicyValueNetwork, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> None:
        from alphac4.cuda.actor import DeviceActor
        from alphac4.cuda.search import DeviceSearch

        def make(games: int) -> list[DeviceActor]:
            slots = -(-games // config.device_streams)
            return [
                DeviceActor(geometry, config, network, slots, seeds(index)) for index in range(config.device_streams)
            ]

        self._actors, _ = largest_that_fits(make, config.device_games, LEAST_GAMES)
        self.actors = self._actors
        self.geometry = geometry
        self.backend = f"device-{str(self._actors[0].precision).removeprefix('torch.')}"
        rng = np.random.default_rng(0)  # PUCT draws no random numbers
        device = "cpu" if simulated() else "cuda"
        backend = "torch-fp32" if simulated() else "cuda-fp32"
        self._evaluators = [Evaluator(network, device=device, backend=backend) for _ in range(2)]
        self._searches = [DeviceSearch(evaluator, geometry=geometry, rng=rng) for evaluator in self._evaluators]

    def update(self, network: PolicyValueNetwork) -> None:
        """See `Engine`."""
        for actor in self._actors:
            actor.update(network)

    def player(
        self, side: int, name: str, network: PolicyValueNetwork, simulations: int, rng: np.random.Generator
    ) -> NetworkPlayer:
        """See `Engine`."""
        evaluator, search = self._evaluators[side], self._searches[side]
        evaluator.update(network)
        return NetworkPlayer(name, evaluator, Budget(simulations=simulations), rng, self.geometry, search=search)

    def judge(self, network: PolicyValueNetwork, sets: Sequence[PositionSet], simulations: int) -> EvaluationReport:
        """See `Engine`."""
        self._evaluators[1].update(network)
        return hold_against_exact_play(self._evaluators[1], sets, simulations, self._searches[1], DEVICE_BATCH)


def make_engine(
    network: PolicyValueNetwork,
    geometry: Geometry,
    config: SelfPlayConfig,
    seeds: Seeds,
    *,
    device: str = "auto",
    backend: str = "auto",
    remembered: str = "",
) -> Engine:
    """The fastest there is on ``device``: "cpu", "cuda", or "auto" for CUDA where there is one.

    A ``backend`` of the network's own keeps the trees on the cores. In place of "auto" the one ``remembered`` from an
    earlier session is taken up, if there is such a one here.

    Raises:
        RuntimeError: in one line, for CUDA without a device.
        ValueError: for an unknown backend.
    """
    device = "cuda" if on_gpu(device) else "cpu"
    if device == "cuda" and backend == "auto":
        reason = why_not()
        if not reason:
            return DeviceEngine(network, geometry, config, seeds)
        if torch.cuda.is_available():
            logger.warning("the trees stay on the CPU: %s", reason)
    if backend == "auto" and remembered in available_backends(device, 1, 1, 1):
        backend = remembered
    return HostEngine(network, geometry, config, seeds, device=device, backend=backend)

"""Trees on the cores, with the network beside them or wherever PyTorch runs it."""

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack, final

import numpy as np
import numpy.typing as npt
import torch

from alphac4.compute.interface import (
    BATCH,
    Actors,
    Backends,
    Compute,
    NetworkEvaluator,
    SearchOptions,
    Seeds,
)
from alphac4.game import Geometry
from alphac4.machine import cores
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch
from alphac4.mcts.puct import PuctConfig
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import (
    Actor,
    SelfPlayer,
    count_games,
    fill_up,
    join_actors,
    play_together,
    split_actors,
)
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block


@final
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

    def pool(self) -> None:
        """See `Compute`."""

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
        **options: Unpack[SearchOptions],
    ) -> NetworkSearch:
        """See `Compute`."""
        return NetworkSearch(evaluator, puct, **options)

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
        return LocalActors(players, evaluator.update, evaluator.backend)


@final
class LocalActors(Actors):
    """Plays in this process, every actor on a thread of its own.

    Args:
        players: each plays its share of the games.
        update: gives all of them other weights.
        backend: how their network runs.
    """

    def __init__(
        self,
        players: Sequence[SelfPlayer],
        update: Callable[[PolicyValueNetwork], None],
        backend: str,
    ) -> None:
        self._players = players
        self._update = update
        self.backend = backend

    def __len__(self) -> int:
        return len(self._players)

    def update(self, network: PolicyValueNetwork) -> None:
        """See `Actors`."""
        self._update(network)

    def play(self, samples: int, stop: threading.Event, on_block: Callable[[int, Block], None]) -> None:
        """See `Actors`."""
        play_together(self._players, samples, stop, on_block)

    def end_with_next(self) -> None:
        """See `Actors`; nobody plays ahead here."""

    def spent_ahead(self) -> Mapping[str, int]:
        """See `Actors`."""
        return {}

    def cluster_report(self) -> None:
        """See `Actors`."""

    def close(self) -> None:
        """See `Actors`."""

    @property
    def slots(self) -> int:
        """See `Actors`."""
        return count_games(self._players[0].state())

    def takes(self, index: int) -> bool:
        """See `Actors`."""
        return index < len(self)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """See `Actors`."""
        return join_actors({index: player.state() for index, player in enumerate(self._players)})

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """See `Actors`."""
        for index, games in split_actors(state).items():
            if not self.takes(index):
                raise ValueError("the saved games do not fit the settings")
            self._players[index].restore(fill_up(games, self._players[index].state()))

    def reset(self, seeds: Seeds) -> None:
        """See `Actors`."""
        for index, player in enumerate(self._players):
            player.reset(seeds(index))

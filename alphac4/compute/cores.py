"""The cores of this process, with networks on them or wherever PyTorch runs it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt
import torch

from alphac4.compute.interface import Actors, Backends, Seeds
from alphac4.game import Geometry
from alphac4.machine import cores
from alphac4.mcts.config import PuctConfig
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch, make_cache
from alphac4.mcts.search import Reuse
from alphac4.nn.evaluator import BATCH, Evaluator
from alphac4.nn.network import Network
from alphac4.selfplay.actor import MAX_CACHED, Actor, SelfPlayer, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan
from alphac4.selfplay.samples import Block

if TYPE_CHECKING:
    from alphac4.compute.cluster.actors import Cluster
    from alphac4.compute.cluster.pool import Pool
    from alphac4.compute.gpu.replay import DeviceReplay

MIN_GAMES = 32  # of an actor: the network takes longer for each position of smaller batches, twice as long for 16
MAX_STREAMS = 4  # of a run's matches: they have few games, and each stream loads the network for itself


def count_actors(games: int, cores: int) -> int:
    """The number of ``cores`` that play."""
    return max(1, min(cores, games // MIN_GAMES))


@final
class Compute:
    """Evaluates networks here, for searches on the cores that call them, and plays a run's games, here or elsewhere.

    Args:
        device: where PyTorch runs and trains networks, "cpu" or "cuda".
        backends: of inference.
        threads: cores to use, by default all that this process may use.
        alike: see `Evaluator`. A run's answers must not depend on earlier networks, so "auto" is decided for each.
        cluster: what plays a run's games; by default an actor on each core.
        trees_on_gpu: whether searches, self-play and learning keep their data on the GPU, see `alphac4.compute.gpu`.

    Attributes:
        backends: those asked for. Without ``alike`` the one chosen for the first network replaces "auto".
        streams: callers of an evaluator at a time that are worth having.
        learning_device: where networks learn.
    """

    def __init__(
        self,
        device: str = "cpu",
        backends: Backends | None = None,
        threads: int | None = None,
        *,
        alike: bool = False,
        cluster: "Cluster | None" = None,
        trees_on_gpu: bool = False,
    ) -> None:
        self._device = device
        self._threads = threads or cores()
        self._alike = alike
        self._cluster = cluster
        self._trees_on_gpu = trees_on_gpu
        self.backends = backends or Backends()
        self.streams = min(self._threads, MAX_STREAMS) if alike else self._threads
        if trees_on_gpu:
            self.streams = 1
        self.learning_device = torch.device(device)

    def evaluator(self, network: Network, *, batch_size: int = BATCH, streams: int = 1) -> Evaluator:
        """A network ready to evaluate batches of usually ``batch_size`` positions, for ``streams`` callers at a time.

        Unless ``alike``, the first one settles the backend of all that follow: games of two backends may differ.
        Updating one costs less memory in the long run than making many: the libraries behind them never quite give back
        what they took.

        Raises:
            ValueError: for an unknown backend.
        """
        evaluator = Evaluator(
            network,
            batch_size=batch_size,
            streams=streams,
            device=self._device,
            backend=self.backends.evaluators,
            threads=self._threads,
            alike=self._alike and self._device == "cpu",  # a GPU promises no bits
        )
        if not self._alike:
            self.backends = dataclasses.replace(self.backends, evaluators=evaluator.backend)
        return evaluator

    def search(
        self,
        evaluator: Evaluator,
        config: PuctConfig | NetworkParameters | None = None,
        *,
        geometry: Geometry,
        reuse: Reuse = "nothing",
        cache: int = 0,
    ) -> NetworkSearch:
        """Make a search with this evaluator for one caller at a time; a search on the GPU needs no ``cache``."""
        if not self._trees_on_gpu:
            return NetworkSearch(evaluator, config, geometry=geometry, reuse=reuse, cache=cache)
        from alphac4.compute.gpu.search import DeviceSearch  # Numba's CUDA part is slow to import, and optional

        return DeviceSearch(evaluator, config, geometry=geometry, reuse=reuse)

    def replay(
        self, geometry: Geometry, capacity: int, batch_size: int, planes: int, fast_weight: float
    ) -> "DeviceReplay | None":
        """Make the replay window on the GPU; None where networks learn from the host's memory."""
        if not self._trees_on_gpu:
            return None
        from alphac4.compute.gpu.replay import DeviceReplay  # as above

        return DeviceReplay(geometry, capacity, batch_size, planes, fast_weight)

    def pool(self) -> "Pool | None":
        """Return processes of a cluster that a run's matches are better sent to; None where it plays them here."""
        if self._cluster is None or self._device == "cuda":
            return None
        return self._cluster.pool(self.streams)

    def actors(
        self,
        network: Network,
        geometry: Geometry,
        config: SelfPlayConfig,
        seeds: Seeds,
        *,
        selection: NetworkParameters | None = None,
        max_simulations: int = 0,
    ) -> Actors:
        """Make the actors that play a run's games.

        Args:
            network: the first weights.
            geometry: the board.
            config: the settings of self-play.
            seeds: the random numbers of each seat.
            selection: parameters of the rule of selection, by default PUCT as in the settings.
            max_simulations: the most that a plan will ask for.

        Raises:
            ValueError: for an extension that a cluster cannot run.
        """
        if self._cluster is not None:
            if selection is not None or max_simulations or network.config.is_custom:
                raise ValueError("a cluster takes no functions for `network`, `selection` or `simulations`")
            return self._cluster.actors(network, geometry, config, seeds)
        if self._trees_on_gpu:
            from alphac4.compute.gpu.trees import device_actors

            return device_actors(network, geometry, config, seeds, selection, max_simulations)
        return self._actors_here(network, geometry, config, seeds, selection, max_simulations)

    def _actors_here(
        self,
        network: Network,
        geometry: Geometry,
        config: SelfPlayConfig,
        seeds: Seeds,
        selection: NetworkParameters | None,
        max_simulations: int,
    ) -> "LocalActors":
        """One actor a core; on fewer cores if the games are too few for all to have full batches."""
        count = count_actors(config.games, self._threads)
        sizes = [len(part) for part in np.array_split(range(config.games), count)]
        evaluator = Evaluator(
            network,
            batch_size=sizes[0],
            streams=count,
            device=self._device,
            backend=self.backends.actors,
            int8=True,
            threads=count,
            alike=self._device == "cpu",
        )
        rng, cache = seeds(0), make_cache(MAX_CACHED, geometry)
        players = [
            Actor(geometry, config, evaluator, size, rng, cache, selection=selection, max_simulations=max_simulations)
            for size in sizes
        ]

        def update(network: Network) -> str:
            evaluator.update(network)
            return evaluator.backend

        return LocalActors(players, update, evaluator.backend)


@final
class LocalActors(Actors):
    """Plays in this process, every actor on a thread of its own.

    Args:
        players: each plays some of the games.
        update: gives all of them other weights; returns the backend that runs those, if it may be another.
        backend: how their network runs.
    """

    def __init__(
        self,
        players: Sequence[SelfPlayer],
        update: Callable[[Network], str | None],
        backend: str,
    ) -> None:
        self._players = players
        self._update = update
        self.backend = backend
        self.slots = sum(player.slots for player in players)

    def __len__(self) -> int:
        return len(self._players)

    def update(self, network: Network) -> None:
        """See `Actors`."""
        self.backend = self._update(network) or self.backend

    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],
        check: Callable[[], None] = lambda: None,
        *,
        last: bool = False,  # noqa: ARG002 - nobody plays ahead here
        plan: GamePlan | None = None,
    ) -> None:
        """See `Actors`.

        All games continue by the same number of moves until enough have ended, so the samples do not depend on which
        actor was faster.
        """
        recorded = 0

        def count(player: int, block: Block) -> None:
            nonlocal recorded
            recorded += block.positions
            on_block(player, block)

        while recorded < samples:
            moves = -(-(samples - recorded) // self.slots) + 1  # or a few samples would often be missing
            play_together(self._players, moves, count, check, plan)

    def close(self) -> None:
        """See `Actors`; the players' threads end with `play`."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """See `Actors`."""
        states = [player.state() for player in self._players]
        return {name: np.concatenate([state[name] for state in states]) for name in states[0]}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]], seeds: Seeds) -> bool:
        """See `Actors`."""
        ends = np.cumsum([player.slots for player in self._players])
        try:
            if any(len(array) != self.slots for array in state.values()):
                raise ValueError("another number of games")
            for player, end in zip(self._players, ends, strict=True):
                player.restore({name: array[end - player.slots : end] for name, array in state.items()})
        except ValueError:
            rng = seeds(0)
            for player in self._players:
                player.reset(rng)
            return False
        return True

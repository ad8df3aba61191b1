"""Where a run's networks are evaluated and its games are played, and self-play on the cores of this process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt
import torch

from alphac4.game import Geometry
from alphac4.machine import cores
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch, make_cache
from alphac4.mcts.search import Reuse
from alphac4.nn.backends import INT8
from alphac4.nn.evaluator import BATCH, Evaluator
from alphac4.nn.network import Network
from alphac4.selfplay.actor import MAX_CACHED_EVALUATIONS, Actor, SelfPlayer, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan
from alphac4.selfplay.samples import Block

if TYPE_CHECKING:  # optional, and slow to import
    from alphac4.compute.cluster.actors import Cluster
    from alphac4.compute.cluster.pool import Pool
    from alphac4.compute.gpu.replay import DeviceReplay

MIN_GAMES = 32  # of an actor: the network takes longer for each position of smaller batches, twice as long for 16
MAX_STREAMS = 4  # of a run's matches: they have few games, and each stream loads its own network

Seeds = Callable[[int], np.random.Generator]
"""The random numbers of an actor on a cluster or a GPU, by its index; on cores 0 is for all."""

GameState = Mapping[str, npt.NDArray[np.generic]]
"""Games in progress, one row per game."""


@dataclass(frozen=True, kw_only=True)
class ClusterReport:
    """Figures of a cluster between the ends of two calls of `Actors.play`."""

    nodes: int  # that offered cores or GPUs at the end
    actors: int  # on them that have played
    lost: int  # actors that died and were replaced
    waiting: int  # blocks that were there when the call came
    staleness: float  # promotions since the weights that played a position, mean over those recorded
    max_staleness: int  # the most of them
    seconds: float  # wall time in which the actors played
    seconds_waited: float  # of it, the time that the run waited for them


class Actors(ABC):
    """Plays a run's games, which continue from one `play` to the next."""

    backend: str  # how their network runs
    slots: int  # games at once; on a cluster, of each actor
    cluster_report: ClusterReport | None = None  # of the last `play` on a cluster

    @abstractmethod
    def __len__(self) -> int:
        """Number of actors that play at a time."""

    @abstractmethod
    def update(self, network: Network) -> None:
        """Play with other weights from now on."""

    @abstractmethod
    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],
        check: Callable[[], None] = lambda: None,
        *,
        last: bool = False,
        plan: GamePlan | None = None,
    ) -> None:
        """Play until the games that have ended hold at least ``samples`` positions.

        ``on_block(actor, block)`` and ``check()`` run in the calling thread, ``check`` every 0.1 s or more often. An
        exception that either raises stops all actors and propagates. After the ``last`` call no actor plays ahead. The
        ``plan`` has budgets and start positions; by default those of the settings.
        """

    def close(self) -> None:  # noqa: B027 - threads of this process end with `play`
        """End actors outside this process."""

    @abstractmethod
    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the games in progress between two calls of `play`; empty on a cluster."""

    @abstractmethod
    def restore(self, state: GameState, seeds: Seeds) -> bool:
        """Resume games, or begin others by ``seeds`` if they do not fit the settings; return whether they resumed."""


@final
class LocalActors(Actors):
    """Plays in this process, every actor on its own thread.

    Args:
        players: each plays some of the games.
        update: loads other weights into all of them; returns the backend that runs those.
        backend: how their network runs.
    """

    def __init__(self, players: Sequence[SelfPlayer], update: Callable[[Network], str], backend: str) -> None:
        self._players = players
        self._update = update
        self.backend = backend
        self.slots = sum(player.slots for player in players)

    def __len__(self) -> int:
        return len(self._players)

    def update(self, network: Network) -> None:
        """Load other weights, which may run by another backend."""
        self.backend = self._update(network)

    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],
        check: Callable[[], None] = lambda: None,
        *,
        last: bool = False,  # noqa: ARG002 - no actor plays ahead here
        plan: GamePlan | None = None,
    ) -> None:
        """Continue all games by the same number of moves until enough have ended.

        So the samples do not depend on which actor was faster.
        """
        recorded = 0

        def count(player: int, block: Block) -> None:
            nonlocal recorded
            recorded += block.positions
            on_block(player, block)

        while recorded < samples:
            moves = -(-(samples - recorded) // self.slots) + 1  # or a few samples would often be missing
            play_together(self._players, moves, count, check, plan)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Join the games of all actors."""
        states = [player.state() for player in self._players]
        return {name: np.concatenate([state[name] for state in states]) for name in states[0]}

    def restore(self, state: GameState, seeds: Seeds) -> bool:
        """Split the games among the actors, on which they do not depend."""
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


@final
class Compute:
    """Evaluates networks in this process, for searches on the cores, and plays a run's games here or on a cluster.

    Args:
        device: where PyTorch runs and trains networks, "cpu" or "cuda".
        backend: of inference, or "auto".
        threads: cores to use, by default all that this process may use.
        alike: for a run, whose answers must not depend on earlier networks or on batches: "auto" is decided for each
            network (see `Evaluator`), and only self-play uses 8 bits.
        cluster: plays a run's games; by default an actor on each core.
        trees_on_gpu: whether searches, self-play and learning keep their data on the GPU, see `alphac4.compute.gpu`.

    Attributes:
        backend: the one asked for. Without ``alike`` the one chosen for the first network replaces "auto".
        streams: recommended number of concurrent callers of an evaluator.
        learning_device: where networks learn.
    """

    def __init__(
        self,
        device: str = "cpu",
        backend: str = "auto",
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
        self.backend = backend
        self.streams = 1 if trees_on_gpu else min(self._threads, MAX_STREAMS) if alike else self._threads
        self.learning_device = torch.device(device)

    def evaluator(self, network: Network, *, batch_size: int = BATCH, streams: int = 1) -> Evaluator:
        """Make an evaluator for batches of usually ``batch_size`` positions and ``streams`` concurrent callers.

        Unless ``alike``, the first one decides the backend of all that follow: games of two backends may differ.
        Update an evaluator instead of making many: the libraries behind them never quite free their memory.

        Raises:
            ValueError: for an unknown backend.
        """
        evaluator = Evaluator(
            network,
            batch_size=batch_size,
            streams=streams,
            device=self._device,
            backend="auto" if self._alike and self.backend == INT8 else self.backend,
            threads=self._threads,
            alike=self._alike and self._device == "cpu",  # a GPU promises no bits
        )
        if not self._alike:
            self.backend = evaluator.backend
        return evaluator

    def search(
        self,
        evaluator: Evaluator,
        rule: NetworkParameters | None = None,
        *,
        geometry: Geometry,
        reuse: Reuse = "nothing",
        cache: int = 0,
        leaves: int = 1,
    ) -> NetworkSearch:
        """Make a search with this evaluator for one caller at a time; a search on the GPU ignores ``cache, leaves``."""
        if not self._trees_on_gpu:
            return NetworkSearch(evaluator, rule, geometry=geometry, reuse=reuse, cache=cache, leaves=leaves)
        from alphac4.compute.gpu.search import DeviceSearch  # Numba's CUDA part is slow to import, and optional

        return DeviceSearch(evaluator, rule, geometry=geometry, reuse=reuse)

    def replay(
        self, geometry: Geometry, capacity: int, batch_size: int, planes: int, fast_search_weight: float
    ) -> "DeviceReplay | None":
        """Make the replay window on the GPU; None where networks learn from the host's memory."""
        if not self._trees_on_gpu:
            return None
        from alphac4.compute.gpu.replay import DeviceReplay  # as above

        return DeviceReplay(geometry, capacity, batch_size, planes, fast_search_weight)

    def pool(self) -> "Pool | None":
        """Return processes of a cluster for a run's matches; None where they are played here."""
        return None if self._cluster is None or self._device == "cuda" else self._cluster.pool(self.streams)

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
            seeds: the random numbers of each actor.
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
        count = max(1, min(self._threads, config.games // MIN_GAMES))  # each has full batches
        sizes = [len(part) for part in np.array_split(range(config.games), count)]
        evaluator = Evaluator(
            network,
            batch_size=sizes[0],
            streams=count,
            device=self._device,
            backend=self.backend,
            int8=True,
            threads=count,
            alike=self._device == "cpu",
        )
        rng, cache = seeds(0), make_cache(MAX_CACHED_EVALUATIONS, geometry)
        players = [
            Actor(geometry, config, evaluator, size, rng, cache, selection=selection, max_simulations=max_simulations)
            for size in sizes
        ]

        def update(network: Network) -> str:
            evaluator.update(network)
            return evaluator.backend

        return LocalActors(players, update, evaluator.backend)

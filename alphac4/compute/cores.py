"""The interface to computation, `Compute` and `Actors`, and self-play on the cores of this process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt
import torch

from alphac4.game import Geometry
from alphac4.machine import check_memory, cores
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch, make_cache
from alphac4.mcts.search import Reuse
from alphac4.nn.backends import INT8
from alphac4.nn.evaluator import BATCH, Evaluator
from alphac4.nn.network import Network
from alphac4.selfplay.actor import MAX_CACHED_EVALUATIONS, Actor, SelfPlayer, bytes_per_game, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan
from alphac4.selfplay.samples import Block

if TYPE_CHECKING:  # optional, and slow to import
    from alphac4.compute.cluster.actors import Cluster
    from alphac4.compute.cluster.pool import Pool
    from alphac4.compute.gpu.replay import DeviceReplay

MIN_GAMES = 32  # per actor: smaller batches take longer per position, those of 16 twice as long
MAX_STREAMS = 4  # in a run's matches, which have few games; each stream loads its own network

Seeds = Callable[[int], np.random.Generator]
"""Returns the random generator of an actor by its index; on cores, all actors share that of index 0."""

GameState = Mapping[str, npt.NDArray[np.generic]]
"""Games in progress, one row per game."""


@dataclass(frozen=True, kw_only=True)
class ClusterReport:
    """Statistics of a cluster from the end of one call of `Actors.play` to the end of the next."""

    nodes: int  # nodes that offer cores or GPUs to actors, at the end
    actors: int  # actors that have played, on these nodes
    lost: int  # actors that died and were replaced
    waiting_blocks: int  # finished blocks at the start of the call
    staleness: float  # promotions since the weights that played a position, mean over all positions
    max_staleness: int
    seconds: float  # wall time
    seconds_waited: float  # part of `seconds` that the run spent waiting for blocks


class Actors(ABC):
    """Players of a run's games, which continue from one call of `play` to the next."""

    backend: str  # inference backend
    slots: int  # concurrent games; on a cluster, per actor
    cluster_report: ClusterReport | None = None  # report of the last `play` on a cluster

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of actors that play at the same time."""

    @abstractmethod
    def update(self, network: Network) -> None:
        """Load new weights, used from the next evaluation on."""

    @abstractmethod
    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],  # called in the calling thread with an actor's index and its games
        check: Callable[[], None] = lambda: None,  # called in the calling thread at least every 0.1 s
        *,
        last: bool = False,  # whether this is the last call, so that no actor needs to play ahead
        plan: GamePlan | None = None,  # by default that of the settings
    ) -> None:
        """Play until finished games have ``samples`` positions; an exception of a callback stops all actors."""

    def close(self) -> None:  # noqa: B027 - optional
        """Stop actors outside this process."""

    @abstractmethod
    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the games in progress; empty on a cluster."""

    @abstractmethod
    def restore(self, state: GameState, seeds: Seeds) -> bool:
        """Resume games, or start new ones from ``seeds`` if they do not fit the settings; return whether they fit."""


@final
class LocalActors(Actors):
    """Actors in this process, each on its own thread; ``update`` loads weights into all and returns the backend."""

    def __init__(self, players: Sequence[SelfPlayer], update: Callable[[Network], str], backend: str) -> None:
        self._players = players
        self._update = update
        self.backend = backend
        self.slots = sum(player.slots for player in players)

    def __len__(self) -> int:
        return len(self._players)

    def update(self, network: Network) -> None:
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
        """Play equally many moves in all games until enough have ended: samples do not depend on speed."""
        recorded = 0

        def count(player: int, block: Block) -> None:
            nonlocal recorded
            recorded += block.positions
            on_block(player, block)

        while recorded < samples:
            moves = -(-(samples - recorded) // self.slots) + 1  # one more, or a few samples would often be missing
            play_together(self._players, moves, count, check, plan)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        states = [player.state() for player in self._players]
        return {name: np.concatenate([state[name] for state in states]) for name in states[0]}

    def restore(self, state: GameState, seeds: Seeds) -> bool:
        """Split the games among the actors; the number of actors does not matter."""
        ends = np.cumsum([player.slots for player in self._players])
        try:
            if any(len(array) != self.slots for array in state.values()):
                raise ValueError("the number of games differs")
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
    """Device or cluster that evaluates networks in this process, and plays a run's games.

    ``streams`` is the recommended number of concurrent callers of an evaluator.
    """

    def __init__(
        self,
        device: str = "cpu",
        backend: str = "auto",
        threads: int | None = None,
        *,
        for_run: bool = False,  # outputs must not depend on batches, and only self-play may use int8
        cluster: "Cluster | None" = None,  # plays a run's games instead of this machine's cores
        trees_on_gpu: bool = False,  # keep searches, self-play and learning on the GPU
    ) -> None:
        self._device = device
        self._threads = threads or cores()
        self._for_run = for_run
        self._cluster = cluster
        self._trees_on_gpu = trees_on_gpu
        self._backend = backend
        self.streams = 1 if trees_on_gpu else min(self._threads, MAX_STREAMS) if for_run else self._threads
        self.learning_device = torch.device(device)

    def evaluator(self, network: Network, *, batch_size: int = BATCH, streams: int = 1) -> Evaluator:
        """Create an evaluator for ``streams`` concurrent callers with usually ``batch_size`` positions each.

        Update an evaluator instead of creating many: the libraries do not free all of their memory.
        """
        return Evaluator(
            network,
            batch_size=batch_size,
            device=self._device,
            backend="auto" if self._for_run and self._backend == INT8 else self._backend,
            threads=max(1, self._threads // streams),
            batch_invariant=self._for_run and self._device == "cpu",  # a GPU is not bit-identical anyway
        )

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
        """Create a search for one caller at a time; a search on the GPU ignores ``cache`` and ``leaves``."""
        if not self._trees_on_gpu:
            return NetworkSearch(evaluator, rule, geometry=geometry, reuse=reuse, cache=cache, leaves=leaves)
        from alphac4.compute.gpu.search import DeviceSearch  # Numba's CUDA part is slow to import, and optional

        return DeviceSearch(evaluator, rule, geometry=geometry, reuse=reuse)

    def make_device_replay(
        self, geometry: Geometry, capacity: int, batch_size: int, planes: int, fast_search_weight: float
    ) -> "DeviceReplay | None":
        """Create the replay window on the GPU; return None if networks learn from the host's memory."""
        if not self._trees_on_gpu:
            return None
        from alphac4.compute.gpu.replay import DeviceReplay  # as above

        return DeviceReplay(geometry, capacity, batch_size, planes, fast_search_weight)

    def pool(self) -> "Pool | None":
        """Return processes of a cluster for a run's matches; None to play them here."""
        return None if self._cluster is None or self._device == "cuda" else self._cluster.pool(self.streams)

    def actors(
        self,
        network: Network,
        geometry: Geometry,
        config: SelfPlayConfig,
        seeds: Seeds,  # the random generator of each actor
        *,
        selection: NetworkParameters | None = None,  # by default PUCT as in the settings
        max_simulations: int = 0,  # the largest budget of any plan
    ) -> Actors:
        """Create the actors that play a run's games."""
        if self._cluster is not None:
            if selection is not None or max_simulations or network.config.is_custom:
                raise ValueError(
                    "`network`, `selection` and `simulations` cannot be functions on a cluster: leave them out"
                )
            return self._cluster.actors(network, geometry, config, seeds)
        if self._trees_on_gpu:
            from alphac4.compute.gpu.trees import device_actors

            return device_actors(network, geometry, config, seeds, selection, max_simulations)
        needed = config.games * bytes_per_game(geometry, config, max_simulations)
        check_memory("the games of self-play need", needed, "games or simulations of self-play")
        count = max(1, min(self._threads, config.games // MIN_GAMES))  # each has full batches
        sizes = [len(part) for part in np.array_split(range(config.games), count)]
        evaluator = Evaluator(
            network,
            batch_size=sizes[0],
            device=self._device,
            backend=self._backend,
            int8=True,
            threads=1,
            batch_invariant=self._device == "cpu",
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

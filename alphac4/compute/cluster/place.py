"""Self-play on every core or every GPU of a cluster; everything else where the driver runs."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from alphac4.compute.cluster.connection import Connection, connect, first_line
from alphac4.compute.cluster.crew import Crew
from alphac4.compute.cluster.local import local_cluster
from alphac4.compute.cluster.metrics import Metrics
from alphac4.compute.cluster.pool import ClusterPool
from alphac4.compute.cluster.worker import (
    RemoteActor,
    ReplayingActor,
    Task,
    Weights,
    fastest_backend,
    what_an_actor_needs,
)
from alphac4.compute.gpu.device import GPU_BACKENDS, device_games
from alphac4.compute.interface import BATCH, Actors, Backends, ClusterReport, Compute, NetworkEvaluator, Seeds
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.mcts.network_search import NetworkParameters
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Reuse, TreeSearch
from alphac4.nn.backends import backend_names
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import GamesUnderWay, count_games, join_actors
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block

__all__ = ["Cluster", "ClusterActors", "ClusterPool", "local_cluster", "make_pool"]

logger = logging.getLogger(__name__)

MOST_GAMES, LEAST_GAMES = 128, 32  # at once on a core: more wait for one another, fewer leave the network idle
WORTH_A_POOL = 2  # times as many cores as here
SECONDS_BETWEEN_LOOKS = 0.2  # at whether to stop
SECONDS_UNTIL_TOLD = 10.0  # that no core is free


class Cluster(Compute):
    """Actors of a Ray cluster, beside searches and learning of another compute.

    Args:
        local: what evaluates, searches and learns in this process.
        address: of the cluster; see `alphac4.compute.cluster.connection.connect`.
        device: "cpu" for an actor on each core, "cuda" for one on each GPU that has a core beside it, "auto" for GPUs
            where there are any besides the one that learns.
        backend: of self-play, "auto" for the fastest; a node that does not have it takes the fastest that it has.
        remembered: what "auto" was found to be in an earlier session, which is taken up where it exists.

    Raises:
        RuntimeError: in one line, if there is no such cluster, a node has another version of this program, or none has
            the device.
        ValueError: in one line, for an unknown backend.
    """

    def __init__(
        self, local: Compute, address: str, device: str = "cpu", backend: str = "auto", remembered: str = "auto"
    ) -> None:
        self._local = local
        self._connection = connect(address)
        known: Container[str] = ()
        try:
            gpus, here = self._count("cuda"), int(local.learning_device.type == "cuda")
            self._device = "cuda" if device == "cuda" or (device == "auto" and gpus > here) else "cpu"
            if self._device == "cuda" and not gpus:
                raise RuntimeError("no node of the cluster has a GPU and a core beside it: use --device cpu")
            known = tuple(GPU_BACKENDS) if self._device == "cuda" else backend_names("cpu")
            if backend not in ("auto", *known):
                where = "GPUs" if self._device == "cuda" else "cores"
                raise ValueError(f"no backend {backend!r} on a cluster's {where}; available: {', '.join(known)}")
        except BaseException:
            self._connection.close()
            raise
        self._backend = remembered if backend == "auto" and remembered in known else backend
        self.batch, self.streams, self.learning_device = local.batch, local.streams, local.learning_device

    @property
    def backends(self) -> Backends:  # type: ignore[override]
        """See `Compute`."""
        return Backends(evaluators=self._local.backends.evaluators, actors=self._backend)

    @property
    def inference(self) -> str:
        """See `Compute`."""
        return self._local.inference

    def evaluator(self, network: PolicyValueNetwork, *, batch_size: int = BATCH, streams: int = 1) -> NetworkEvaluator:
        """See `Compute`."""
        return self._local.evaluator(network, batch_size=batch_size, streams=streams)

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
        """See `Compute`."""
        return self._local.search(evaluator, puct, geometry=geometry, rng=rng, reuse=reuse, cache=cache)

    def pool(self) -> ClusterPool | None:
        """See `Compute`; its processes share the cores with actors, which mostly wait while a match is played.

        A cluster that has few more cores than this machine has nothing to offer, and a GPU here is faster.
        """
        few = self._count("cpu") < WORTH_A_POOL * self._local.streams
        return (
            None
            if few or self._local.learning_device.type == "cuda"
            else ClusterPool(self._connection, own_cores=False, leaves=False)
        )

    def actors(self, network: PolicyValueNetwork, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> Actors:
        """See `Compute`; each core plays its share of the games, within reason."""
        return self._actors(network, geometry, config, seeds, RemoteActor)

    def replaying_actors(
        self, network: PolicyValueNetwork, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds, rate: float
    ) -> "ClusterActors":
        """Actors that hand over recorded blocks, ``rate`` positions/s each or as fast as they can (0)."""
        return self._actors(network, geometry, config, seeds, ReplayingActor, rate)

    def _actors(
        self,
        network: PolicyValueNetwork,
        geometry: Geometry,
        config: SelfPlayConfig,
        seeds: Seeds,
        kind: type[RemoteActor],
        rate: float = 0.0,
    ) -> "ClusterActors":
        if self._device == "cuda":
            slots = device_games(config.games)
        else:
            slots = min(config.games, MOST_GAMES, max(LEAST_GAMES, -(-config.games // max(1, self._count("cpu")))))
        task = Task(
            geometry=geometry, config=config, slots=slots, device=self._device, backend=self._backend, rate=rate
        )
        if self._backend == "auto":
            self._backend = measure_backend(self._connection, network, task)
            task = dataclasses.replace(task, backend=self._backend)
        return ClusterActors(Crew(self._connection, task, network, seeds, kind, Metrics().show), slots, self._backend)

    def _count(self, device: str) -> int:
        """How many cores ("cpu") or GPUs ("cuda") the cluster has now."""
        return self._connection.ask(self._connection.count, device)


class ClusterActors(Actors):
    """Plays on a cluster, also between two calls of `play`: the blocks of then are the first of the next call.

    There are never more of them than a call asks for, so that what is learned keeps its ratio to what is played.
    """

    def __init__(self, crew: Crew, slots: int, backend: str) -> None:
        super().__init__([], crew.update, backend)
        self._crew = crew
        self._slots = slots
        self._delivered: dict[int, GamesUnderWay] = {}  # by seat, as of the last block that the caller has
        self._surplus = 0  # positions that the last call of `play` has recorded beyond those asked for
        self._lost = 0  # actors, until the last report
        self._last = False  # whether nobody will call `play` once more
        self._last_end: float | None = None
        self._report: ClusterReport | None = None

    def __len__(self) -> int:
        return max(1, self._crew.offered)

    def play(self, samples: int | Sequence[int], stop: threading.Event, on_block: Callable[[int, Block], None]) -> None:
        """See `Actors`; who plays how much is decided by who comes first."""
        wanted = samples if isinstance(samples, int) else sum(samples)
        started, waiting = time.perf_counter(), self._crew.waiting
        positions, behind, most_behind = 0, 0, 0
        self._crew.play_ahead(wanted)
        while positions < wanted and not stop.is_set():
            if self._last:
                self._crew.play_until(wanted - positions)
            delivery = self._crew.take(SECONDS_BETWEEN_LOOKS)
            if delivery is not None:
                on_block(delivery.seat, delivery.block)
                self._delivered[delivery.seat] = delivery.block.under_way
                versions = self._crew.version - delivery.version
                positions += len(delivery.block.samples)
                behind += versions * len(delivery.block.samples)
                most_behind = max(most_behind, versions)
        self._surplus = max(0, positions - wanted)
        now, lost, places = time.perf_counter(), self._crew.lost, self._crew.places()
        self._report = ClusterReport(
            nodes=len({place.node_id for place in places}),
            actors=len(places),
            lost=lost - self._lost,
            waiting=waiting,
            staleness=behind / max(1, positions),
            most_stale=most_behind,
            seconds=now - (self._last_end or started),
            seconds_waited=now - started,
        )
        self._last_end, self._lost = now, lost
        if self._last and not stop.is_set():
            self._crew.rest()

    def end_with_next(self) -> None:
        """See `Actors`; the cores are free then."""
        self._last = True

    def pause(self) -> None:
        """Play no further before the next call of `play`, and give up what waits for it."""
        self._crew.pause()
        while self._crew.waiting:
            self._crew.take(SECONDS_BETWEEN_LOOKS)

    def spent_ahead(self) -> Mapping[str, int]:
        """See `Actors`."""
        return self._crew.spent_ahead()

    def remaining(self, samples: int, recorded: Mapping[int, int]) -> int:
        """See `Actors`; less what the last block of the iteration before was too large, but at least a block."""
        left = samples - sum(recorded.values())
        return max(1, left - self._surplus) if left > 0 else 0

    def cluster_report(self) -> ClusterReport | None:
        """See `Actors`."""
        return self._report

    def reset(self, seeds: Seeds) -> None:
        """See `Actors`; before the first `play`."""
        self._crew.seeds = seeds
        self._crew.games.clear()
        self._delivered.clear()

    @property
    def slots(self) -> int:
        """See `Actors`."""
        return self._slots

    def takes(self, index: int) -> bool:
        """See `Actors`: games of seats that are not here wait for cores to come."""
        return index >= 0

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """See `Actors`; as of the blocks that have been handed over."""
        return join_actors(self._delivered)

    def restore_one(self, index: int, games: GamesUnderWay) -> None:
        """See `Actors`; before the first `play`."""
        if not 0 < count_games(games) <= self._slots:
            raise ValueError("the saved games do not fit the settings")
        self._crew.games[index] = self._delivered[index] = games

    def reset_one(self, index: int, rng: np.random.Generator) -> None:
        """See `Actors`; before the first `play`."""
        self._crew.games.pop(index, None)
        self._delivered.pop(index, None)
        seeds = self._crew.seeds
        self._crew.seeds = lambda seat: rng if seat == index else seeds(seat)

    def close(self) -> None:
        """See `Actors`."""
        self._crew.close()


def make_pool(address: str) -> ClusterPool:
    """A process on each core of a cluster, once one of them is ready; see `alphac4.compute.choose_pool`."""
    connection = connect(address)
    try:
        return ClusterPool(connection)
    except BaseException:
        connection.close()
        raise


def measure_backend(connection: Connection, network: PolicyValueNetwork, task: Task) -> str:
    """The fastest backend for self-play on some node of the cluster."""
    ray = connection.ray
    weights = Weights(version=0, reference=[ray.put(network)])
    needs = what_an_actor_needs(task)
    answer = ray.remote(**needs, scheduling_strategy="SPREAD")(fastest_backend).remote(weights, task)
    if not connection.ready([answer], SECONDS_UNTIL_TOLD):
        place = "GPU" if task.device == "cuda" else "core"
        logger.info("waiting for a %s of the cluster: none has answered yet, others may use them", place)
    try:
        backend: str = connection.get(answer)
    except ray.exceptions.RayError as error:
        raise RuntimeError(f"the cluster cannot play: {first_line(getattr(error, 'cause', None) or error)}") from error
    places = "GPUs" if task.device == "cuda" else "cores"
    logger.info(
        "self-play on %d %s of the cluster by %s", connection.ask(connection.count, task.device), places, backend
    )
    return backend

"""Self-play on every core or every GPU of a cluster."""

import copy
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from alphac4.compute.cluster.connection import Connection, connect, import_ray
from alphac4.compute.cluster.pool import Pool, Shared
from alphac4.compute.cores import Actors, ClusterReport, GameState, Seeds
from alphac4.compute.gpu.device import TREES, allocate_with_backoff
from alphac4.game import Geometry
from alphac4.machine import adapt_process
from alphac4.nn.backends import backend_names
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import Network
from alphac4.selfplay.actor import CHECK_INTERVAL_S, UNLIMITED, Actor, SelfPlayer
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan, make_plan
from alphac4.selfplay.samples import Block
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

MAX_GAMES, MIN_GAMES = 128, 32  # at once on a core: more wait for one another, fewer leave the network idle
MIN_CORE_RATIO = 2  # cores of the cluster per core of this machine, from which on matches are played there
CALLS_IN_FLIGHT = 2  # per actor: it plays one block while the driver takes the other
COUNT_INTERVAL_S = 1.0  # of the cluster's cores or GPUs
NO_GAMES_WARNING_S = 60.0  # without a block
STOP_TIMEOUT_S = 2.0  # for actors, before they are killed
BESIDE = "beside"  # Ray's concurrency group of methods that run beside `RemoteActor.play`
GPU_BACKENDS = ("cuda-bf16", "cuda-fp32", TREES)  # that some node may have


@dataclass(frozen=True, kw_only=True)
class Task:
    """Everything that the actors of a run have in common."""

    geometry: Geometry
    config: SelfPlayConfig
    slots: int  # games at once; fewer where the memory of a GPU with trees is short
    device: str = "cpu"  # or "cuda", where each actor has a GPU
    backend: str  # of inference; a node without it takes the fastest that it has


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A version of the network."""

    version: int
    network: Shared[Network]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A block and the actor that played it."""

    block: Block
    version: int  # of the weights
    backend: str  # how the network runs
    node: str  # its address
    process: int


class RemoteActor:
    """Plays without end on one core, or on one GPU and a core beside it, and returns a block per call.

    Ray restarts it elsewhere if its process or its node is lost; it begins new games then. The first call makes the
    player, because an error in ``__init__`` would look like a lost process.
    """

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        context = import_ray().get_runtime_context()
        # The same random numbers again would give the same games again.
        self._task, self._rng = task, np.random.default_rng() if context.was_current_actor_reconstructed else rng
        self._blocks: Iterator[Block] = iter(())
        self._version, self._latest = -1, Weights(version=-1, network=Shared(reference=[]))
        self._has_ended = False

    def update(self, weights: Weights) -> None:
        """Play the next block with these weights; runs beside `play`."""
        self._latest = weights

    def end(self) -> None:
        """End all calls of `play` at once; runs beside `play`."""
        self._has_ended = True

    def play(self, weights: Weights) -> Delivery | None:
        """Play a block with the latest weights, of the call or of `update`; return None after `end`."""
        latest = max(weights, self._latest, key=lambda each: each.version)
        if latest.version > self._version:
            network = latest.network.get().eval()
            if self._version < 0:
                adapt_process()
                self._player, self._load, self._backend = make_player(self._task, network, self._rng)
            else:
                self._load(network)
            self._blocks = self._player.play(UNLIMITED, lambda: self._has_ended)  # a new call clears its cache
            self._version = latest.version
        block = None if self._has_ended else next(self._blocks, None)
        if block is None:
            return None
        return Delivery(
            block=block,
            version=self._version,
            backend=self._backend,
            node=import_ray().util.get_node_ip_address(),
            process=os.getpid(),
        )


def make_player(
    task: Task, network: Network, rng: np.random.Generator
) -> tuple[SelfPlayer, Callable[[Network], object], str]:
    """Return the player of one core or GPU, a function that loads other weights into it, and its backend."""
    if task.backend == TREES:
        from alphac4.compute.gpu.trees import DeviceActor  # Numba's CUDA part is slow to import, and optional

        player = allocate_with_backoff(
            lambda slots: DeviceActor(task.geometry, task.config, network, slots, rng), task.slots, 1
        )
        return player, player.update, TREES
    evaluator = Evaluator(
        network,
        batch_size=task.slots,
        device=task.device,
        backend=task.backend if task.backend in backend_names(task.device) else "auto",
        int8=True,
        threads=1,
    )
    return Actor(task.geometry, task.config, evaluator, task.slots, rng), evaluator.update, evaluator.backend


@final
class ClusterActors(Actors):
    """Keeps an actor on every core, or every GPU, of a cluster; they play on between two calls of `play`.

    Before `play` returns, it requests about as many positions as the next call will need. So what is learned keeps its
    ratio to what is played. Ray restarts lost actors and repeats their calls; a block arrives once.

    Args:
        connection: to the cluster; closed in the end.
        task: what all actors do.
        network: the first weights.
        seeds: the random numbers of each actor, by its index.
    """

    def __init__(self, connection: Connection, task: Task, network: Network, seeds: Seeds) -> None:
        self.backend, self.slots = task.backend, task.slots
        self._connection, self._ray = connection, connection.ray
        self._task, self._seeds = task, seeds
        resources = {"num_cpus": 1, "num_gpus": int(task.device == "cuda")}
        restarts = {"max_restarts": -1, "max_task_retries": -1, "concurrency_groups": {BESIDE: 1}}
        self._remote = self._ray.remote(**resources, **restarts, scheduling_strategy="SPREAD")(RemoteActor)
        self._weights = Weights(version=0, network=Shared(reference=[self._ray.put(network)]))
        self._actors: list[Any] = []  # Ray's handles
        self._calls: dict[Any, int] = {}  # references to blocks, and the index of the actor that plays each
        self._places: dict[int, tuple[str, int]] = {}  # node and process of each actor that has played
        self._nodes = 0  # that offered cores or GPUs at the last count
        self._offered = connection.count(task.device)  # cores or GPUs then
        self._counted = 0.0  # time.monotonic() of then
        self._lost = 0  # actors since the last report
        self._last_end: float | None = None

    def __len__(self) -> int:
        return max(1, self._offered)

    def update(self, network: Network) -> None:
        """Play blocks that begin from now on with other weights."""
        version = self._weights.version + 1
        self._weights = Weights(version=version, network=Shared(reference=[self._ray.put(network)]))
        for actor in self._actors:
            actor.update.options(concurrency_group=BESIDE).remote(self._weights)

    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],
        check: Callable[[], None] = lambda: None,
        *,
        last: bool = False,
        plan: GamePlan | None = None,
    ) -> None:
        """Take the blocks that arrive first, whichever actor played them.

        Raises:
            ValueError: for a plan other than that of the settings.
        """
        usual = make_plan(self._task.geometry, self._task.config)
        if plan is not None and not all(map(np.array_equal, plan, usual)):
            raise ValueError("a cluster takes no function for `starts`")
        started = time.perf_counter()
        waiting = len(self._ready(0.0))
        blocks, positions, behind, max_behind = 0, 0, 0, 0
        has_warned = bool(self._places)
        while positions < samples:
            check()
            self._connection.check()
            if time.monotonic() - self._counted >= COUNT_INTERVAL_S and not self._connection.missing():
                self._use_all_cores()
            self._request(CALLS_IN_FLIGHT)
            for reference in self._ready(CHECK_INTERVAL_S):
                index = self._calls.pop(reference)
                delivery = self._receive(index, reference)
                if delivery is None:
                    continue
                on_block(index, delivery.block)
                count, versions = delivery.block.positions, self._weights.version - delivery.version
                blocks, positions, behind = blocks + 1, positions + count, behind + versions * count
                max_behind = max(max_behind, versions)
                if positions >= samples:
                    break
            if not has_warned and not blocks and time.perf_counter() - started > NO_GAMES_WARNING_S:
                logger.warning("waiting for the cluster's first games: other programs may use its cores")
                has_warned = True
        if last:  # the cores are free for the closing matches
            self._dismiss()
        else:
            self._request(max(CALLS_IN_FLIGHT, -(-samples * blocks // (positions * len(self._actors)))))
        now = time.perf_counter()
        self.cluster_report = ClusterReport(
            nodes=self._nodes,
            actors=min(len(self._places), self._offered),
            lost=self._lost,
            waiting=waiting,
            staleness=behind / positions,
            max_staleness=max_behind,
            seconds=now - (self._last_end or started),
            seconds_waited=now - started,
        )
        self._last_end, self._lost = now, 0

    def close(self) -> None:
        """End all actors, and leave the cluster."""
        if not self._connection.missing():
            self._dismiss()
        self._connection.close()

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return nothing: the games stay with their actors."""
        return {}

    def restore(self, state: GameState, seeds: Seeds) -> bool:  # noqa: ARG002
        """Begin new games, before the first `play`."""
        self._seeds = seeds
        return False

    def _use_all_cores(self) -> None:
        """Make an actor for every core or GPU; Ray starts each when and where one is free."""
        offers = [node.offers(self._task.device) for node in self._connection.nodes()]
        self._nodes, self._offered, before = sum(map(bool, offers)), sum(offers), len(self._actors)
        for index in range(before, self._offered):
            self._actors.append(self._remote.remote(self._task, self._seeds(index)))
        if before and self._offered > before:
            name = "GPU" if self._task.device == "cuda" else "core"
            logger.warning("the cluster has grown to %d %ss", self._offered, name)
        self._counted = time.monotonic()

    def _request(self, calls: int) -> None:
        """Request blocks of each actor until it has ``calls`` calls to answer."""
        pending = list(self._calls.values())
        for index, actor in enumerate(self._actors):
            for _ in range(calls - pending.count(index)):
                self._calls[actor.play.remote(self._weights)] = index

    def _ready(self, timeout: float) -> list[Any]:
        """Return the references whose blocks have arrived, after ``timeout`` seconds at most."""
        if not self._calls:
            time.sleep(timeout)
            return []
        ready, _ = self._ray.wait(list(self._calls), num_returns=len(self._calls), timeout=timeout)
        return list(ready)

    def _receive(self, index: int, reference: Any) -> Delivery | None:
        """Return the delivery of an actor, None if it was lost on the way."""
        try:
            # The arrays of a block are in the object store, which would fill up with an iteration's games.
            delivery: Delivery = copy.deepcopy(self._connection.get(reference))
        except self._ray.exceptions.RayTaskError as error:  # ours: a repetition would fail as well
            raise RuntimeError(f"an actor of the cluster failed: {first_line(error.cause or error)}") from error
        except self._ray.exceptions.RayError as error:
            logger.warning("a block of games was lost on the way from the cluster: %s", first_line(error))
            return None
        place, before = (delivery.node, delivery.process), self._places.get(index)
        if before not in (None, place):
            self._lost += 1
            logger.warning("an actor on node %s was lost: another one on node %s begins new games", before[0], place[0])
        self._places[index], self.backend = place, delivery.backend
        return delivery

    def _dismiss(self) -> None:
        """End all actors; idle ones, because Ray prints that the calls of others failed."""
        for actor in self._actors:
            actor.end.options(concurrency_group=BESIDE).remote()
        self._ready(STOP_TIMEOUT_S)
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors.clear()
        self._calls.clear()


@final
class Cluster:
    """A Ray cluster that plays a run's games and matches.

    Args:
        address: of the cluster, as `connect` takes it.
        device: "cuda" for an actor on each GPU that has a core beside it, otherwise one on each core.
        backend: of self-play; a node without it takes its fastest, as for "auto". `TREES` means "cuda".

    Raises:
        RuntimeError: if there is no such cluster, a node has another version of this program, or none has the device.
        ValueError: for an unknown backend.
    """

    def __init__(self, address: str, device: str = "cpu", backend: str = "auto") -> None:
        self._backend = backend
        self._device = "cuda" if device == "cuda" or (backend == TREES and device == "auto") else "cpu"
        known = GPU_BACKENDS if self._device == "cuda" else tuple(backend_names("cpu"))
        if backend not in ("auto", *known):
            where = "GPUs" if self._device == "cuda" else "cores"
            raise ValueError(f"no backend {backend!r} on a cluster's {where}; available: {', '.join(known)}")
        self._connection = connect(address)
        if self._device == "cuda" and not self._connection.count("cuda"):
            self._connection.close()
            raise RuntimeError("no node of the cluster has a GPU and a core beside it: choose the device cpu")

    def pool(self, streams: int) -> Pool | None:
        """Return processes for a run's matches; None if the cluster has few more cores than the ``streams`` here.

        The processes share the cores with actors, which mostly wait while a match is played.
        """
        is_large = self._connection.count("cpu") >= MIN_CORE_RATIO * streams
        return Pool(self._connection, leaves=False) if is_large else None

    def actors(self, network: Network, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> Actors:
        """Return the actors of a run; each core or GPU plays its share of the games, within reason."""
        slots = config.games
        if self._backend != TREES:
            share = -(-config.games // max(1, self._connection.count(self._device)))
            slots = min(config.games, MAX_GAMES, max(MIN_GAMES, share))
        task = Task(geometry=geometry, config=config, slots=slots, device=self._device, backend=self._backend)
        return ClusterActors(self._connection, task, network, seeds)

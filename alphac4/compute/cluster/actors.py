"""Self-play on every core or every GPU of a cluster; everything else where the driver runs."""

import copy
import logging
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

from alphac4.compute.cluster.connection import Connection, connect
from alphac4.compute.cluster.pool import ClusterPool, StoredObject
from alphac4.compute.cluster.remote import ActorPlace, RemoteActor, Task, Weights
from alphac4.compute.gpu.device import TREES
from alphac4.compute.interface import Actors, ClusterReport, Seeds
from alphac4.game import Geometry
from alphac4.nn.backends import backend_names
from alphac4.nn.network import Network
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan
from alphac4.selfplay.samples import Block
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

MAX_GAMES, MIN_GAMES = 128, 32  # at once on a core: more wait for one another, fewer leave the network idle
WORTH_A_POOL = 2  # times as many cores as here
CALLS_IN_FLIGHT = 2  # of each actor: it plays one block while the driver takes the other, and never gets further ahead
SECONDS_BETWEEN_LOOKS = 0.1  # at the actors, and at whether to stop
SECONDS_BETWEEN_COUNTS = 1.0  # of the cluster's cores or GPUs
SECONDS_UNTIL_TOLD = 10.0  # that no core is free
SECONDS_AFTER_FAILURE = 2.0  # before an actor is placed again that has died without a block
GPU_BACKENDS = ("cuda-bf16", "cuda-fp32", TREES)  # that some node may have


@final
class Cluster:
    """A Ray cluster as the place of self-play; see `alphac4.compute.interface.Elsewhere`.

    Args:
        address: of the cluster; see `alphac4.compute.cluster.connection.connect`.
        device: "cuda" for an actor on each GPU that has a core beside it, otherwise there is one on each core.
        backend: of self-play; a node takes its fastest for "auto", and where it does not have the one that is named.
            One with trees on GPUs means "cuda".

    Raises:
        RuntimeError: in one line, if there is no such cluster, a node has another version of this program, or none has
            the device.
        ValueError: in one line, for an unknown backend.
    """

    def __init__(self, address: str, device: str = "cpu", backend: str = "auto") -> None:
        self._backend = backend
        self._device = "cuda" if device == "cuda" or (backend == TREES and device == "auto") else "cpu"
        known = GPU_BACKENDS if self._device == "cuda" else tuple(backend_names("cpu"))
        if backend not in ("auto", *known):
            where = "GPUs" if self._device == "cuda" else "cores"
            raise ValueError(f"no backend {backend!r} on a cluster's {where}; available: {', '.join(known)}")
        self._connection = connect(address)
        try:
            if self._device == "cuda" and not self._count("cuda"):
                raise RuntimeError("no node of the cluster has a GPU and a core beside it: choose the device cpu")
        except BaseException:
            self._connection.close()
            raise

    def pool(self, streams: int) -> ClusterPool | None:
        """See `Elsewhere`; its processes share the cores with actors, which mostly wait while a match is played.

        A cluster that has few more cores than this machine has nothing to offer.
        """
        return None if self._count("cpu") < WORTH_A_POOL * streams else ClusterPool(self._connection, leaves=False)

    def actors(self, network: Network, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> "ClusterActors":
        """See `Elsewhere`; each core or GPU plays its share of the games, within reason."""
        slots = self._slots(config)
        task = Task(geometry=geometry, config=config, slots=slots, device=self._device, backend=self._backend)
        return ClusterActors(self._connection, task, network, seeds)

    def _slots(self, config: SelfPlayConfig) -> int:
        if self._backend == TREES:
            return config.games
        share = -(-config.games // max(1, self._count(self._device)))
        return min(config.games, MAX_GAMES, max(MIN_GAMES, share))

    def _count(self, device: str) -> int:
        """Number of cores ("cpu") or GPUs ("cuda") that the cluster has now."""
        return self._connection.ask(self._connection.count, device)


@dataclass(kw_only=True)
class Seat:
    """A share of the games, which outlives the actor that plays it."""

    index: int
    actor: Any = None  # Ray's handle; None while nobody plays
    calls: deque[Any] = field(default_factory=deque)  # references to the results, oldest first
    place: ActorPlace | None = None  # once the actor is ready
    not_before: float = 0.0  # time.monotonic() at which an actor may be placed again


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A block as the driver received it."""

    seat: int
    block: Block
    version: int  # of the weights that played it


@final
class ClusterActors(Actors):
    """Keeps an actor on every core, or every GPU, of a cluster; they play on between two calls of `play`.

    The blocks of that time are the first of the next call. There are never more of them than a call asks for, so that
    what is learned keeps its ratio to what is played. A thread of its own takes the blocks. Each reaches it once or
    never: calls are not repeated, and an actor that takes over from a lost one begins new games.

    Args:
        connection: to the cluster; closed in the end.
        task: what all actors do.
        network: the first weights.
        seeds: the random numbers of each actor that is started, by its number.
    """

    def __init__(self, connection: Connection, task: Task, network: Network, seeds: Seeds) -> None:
        self.backend, self.slots = task.backend, task.slots
        self._connection, self._ray = connection, connection.ray
        self._task, self._seeds = task, seeds
        options = {**task.needs(), "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self._remote = self._ray.remote(**options)(RemoteActor)
        self._weights = Weights(version=0, network=StoredObject(reference=[self._ray.put(network)]))
        self._seats: list[Seat] = []
        self._started = 0  # actors
        self._deliveries: queue.Queue[Delivery | BaseException] = queue.Queue()
        self._lock = threading.Lock()  # of the next one
        self._waiting = 0  # positions of blocks that the caller does not have yet
        self._max_waiting = 0  # no block is begun while more of them wait
        self._offered = connection.ask(connection.count, task.device)  # cores or GPUs when they were counted last
        self._counted = 0.0  # time.monotonic() of then
        self._lost, self._lost_before = 0, 0  # actors, so far, and until the last report
        self._last_end: float | None = None
        self._ended, self._resting = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="cluster", daemon=True)

    def __len__(self) -> int:
        return max(1, self._offered)

    def update(self, network: Network) -> None:
        """See `Actors`: blocks that begin from now on are played with them."""
        self._weights = Weights(
            version=self._weights.version + 1, network=StoredObject(reference=[self._ray.put(network)])
        )

    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],
        check: Callable[[], None] = lambda: None,
        *,
        last: bool = False,
        plan: GamePlan | None = None,  # noqa: ARG002 - `Compute.actors` refuses to run plans here
    ) -> None:
        """See `Actors`; who plays how much is decided by who comes first."""
        started, waiting = time.perf_counter(), self._deliveries.qsize()
        positions, behind, max_behind = 0, 0, 0
        self._max_waiting = max(self._max_waiting, samples)
        if self._thread.ident is None:
            self._thread.start()
        told = bool(self._places())
        while positions < samples:
            check()
            if last:
                self._max_waiting = samples - positions
            delivery = self._take()
            if delivery is None:
                if not told and not self._places() and time.perf_counter() - started > SECONDS_UNTIL_TOLD:
                    logger.warning("waiting for a core of the cluster: none has answered yet, others may use them")
                    told = True
            else:
                on_block(delivery.seat, delivery.block)
                versions, count = self._weights.version - delivery.version, delivery.block.positions
                positions += count
                behind += versions * count
                max_behind = max(max_behind, versions)
        now, lost, places = time.perf_counter(), self._lost, self._places()
        self.cluster_report = ClusterReport(
            nodes=len({place.node_id for place in places}),
            actors=len(places),
            lost=lost - self._lost_before,
            waiting=waiting,
            staleness=behind / max(1, positions),
            max_staleness=max_behind,
            seconds=now - (self._last_end or started),
            seconds_waited=now - started,
        )
        self._last_end, self._lost_before = now, lost
        if last:  # the cores are free for whatever follows
            self._resting.set()

    def close(self) -> None:
        """See `Actors`."""
        self._ended.set()
        while self._thread.is_alive() and self._connection.reachable():  # or it waits for an answer of the head
            self._thread.join(SECONDS_BETWEEN_LOOKS)
        if self._connection.reachable():
            for seat in self._seats:
                self._dismiss(seat)
        self._connection.close()

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """See `Actors`: the games stay with their actors, so there is nothing to keep."""
        return {}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]], seeds: Seeds) -> bool:  # noqa: ARG002
        """See `Actors`; before the first `play`. New games begin in any case."""
        self._seeds = seeds
        return False

    def _places(self) -> list[ActorPlace]:
        """The places of the actors that are ready."""
        return [seat.place for seat in list(self._seats) if seat.place is not None]

    def _take(self) -> Delivery | None:
        """The next block, None if none comes now; raises what ended the thread."""
        try:
            delivery = self._deliveries.get(timeout=SECONDS_BETWEEN_LOOKS)
        except queue.Empty:
            self._connection.check()
            return None
        if isinstance(delivery, BaseException):
            self._deliveries.put(delivery)
            raise delivery
        with self._lock:
            self._waiting -= delivery.block.positions
        return delivery

    def _work(self) -> None:
        """Place actors, ask them for blocks and take these, in the thread."""
        try:
            while not self._ended.is_set():
                if self._resting.is_set():
                    for seat in self._seats:
                        self._dismiss(seat)
                    self._ended.wait(SECONDS_BETWEEN_LOOKS)
                    continue
                if time.monotonic() - self._counted >= SECONDS_BETWEEN_COUNTS:
                    self._count_places()
                    self._look_after_idle()
                for seat in self._seats:
                    self._place(seat)
                    while seat.actor and len(seat.calls) < CALLS_IN_FLIGHT and self._waiting < self._max_waiting:
                        seat.calls.append(seat.actor.play.remote(self._weights))
                self._collect()
        except BaseException as error:  # carried to the caller
            self._deliveries.put(error)

    def _count_places(self) -> None:
        """A seat for every core or GPU. None is removed when some go: others may come."""
        self._offered = self._connection.count(self._task.device)
        new = range(len(self._seats), self._offered)
        if self._seats and new:
            logger.warning(
                "the cluster has grown to %d %ss", new.stop, "GPU" if self._task.device == "cuda" else "core"
            )
        self._seats += [Seat(index=index) for index in new]
        self._counted = time.monotonic()

    def _look_after_idle(self) -> None:
        """Ask actors that have nothing to do where they are: so one that is lost is replaced before it is to play."""
        for seat in self._seats:
            if seat.place is not None and not seat.calls:
                seat.calls.append(seat.actor.place.remote())

    def _place(self, seat: Seat) -> None:
        """An actor for an empty seat; Ray starts it where and when a core is free."""
        if seat.actor is None and time.monotonic() >= seat.not_before:
            seat.actor = self._remote.remote()
            seat.calls.append(seat.actor.prepare.remote(self._task, self._weights, self._seeds(self._started)))
            self._started += 1

    def _collect(self) -> None:
        """Take what has come, from each actor in order."""
        seats = {seat.calls[0]: seat for seat in self._seats if seat.calls}
        ready: list[Any] = []
        if seats:
            ready, _ = self._ray.wait(list(seats), num_returns=len(seats), timeout=SECONDS_BETWEEN_LOOKS)
        if not ready:
            self._ended.wait(SECONDS_BETWEEN_LOOKS)
        failed: list[tuple[Seat, BaseException]] = []
        for reference in ready:
            seat = seats[reference]
            try:
                self._receive(seat, self._ray.get(reference))
            except self._ray.exceptions.RayTaskError as error:  # ours: it would come again
                raise RuntimeError(f"an actor of the cluster failed: {first_line(error.cause or error)}") from error
            except self._ray.exceptions.RayError as error:
                failed.append((seat, error))
        self._replace(failed)

    def _receive(self, seat: Seat, result: ActorPlace | tuple[int, Block]) -> None:
        seat.calls.popleft()
        if isinstance(result, ActorPlace):
            seat.place, self.backend = result, result.backend
            return
        version, shared = result
        block = copy.deepcopy(shared)  # its arrays lie in the object store, which would fill up with the replay window
        with self._lock:
            self._waiting += block.positions
        self._deliveries.put(Delivery(seat=seat.index, block=block, version=version))

    def _replace(self, failed: Sequence[tuple[Seat, BaseException]]) -> None:
        """Let others take over from actors that are lost, and say so in a line for each node."""
        reasons: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for seat, error in failed:
            node = "a node where it was to start" if seat.place is None else f"node {seat.place.node}"
            counts[node] += 1
            reasons[node] = type(error).__name__
            if seat.place is None:
                seat.not_before = time.monotonic() + SECONDS_AFTER_FAILURE
            self._dismiss(seat)
        self._lost += len(failed)
        for node, count in counts.items():
            logger.warning(
                "%d of %d actors lost on %s (%s): others take their places and begin new games",
                count,
                len(self._seats),
                node,
                reasons[node],
            )

    def _dismiss(self, seat: Seat) -> None:
        if seat.actor is not None:
            self._ray.kill(seat.actor)  # it may only be out of reach
            seat.actor = seat.place = None
            seat.calls.clear()

"""The actors of a run on a cluster, as its driver sees them."""

import copy
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphac4.compute.cluster.connection import Connection, first_line
from alphac4.compute.cluster.seat import Seat
from alphac4.compute.cluster.worker import Place, RemoteActor, Task, Weights, what_an_actor_needs
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import GamesUnderWay
from alphac4.selfplay.samples import Block

logger = logging.getLogger(__name__)

CALLS_IN_FLIGHT = 2  # of each actor: it plays one block while the driver takes the other, and never gets further ahead
SECONDS_BETWEEN_LOOKS = 0.1  # at the actors
SECONDS_BETWEEN_COUNTS = 1.0  # of the cluster's cores or GPUs
SECONDS_AFTER_FAILURE = 2.0  # before an actor is placed again that has died without a block


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A block as the driver received it."""

    seat: int
    block: Block
    version: int  # of the weights that played it


class Crew:
    """Keeps an actor on every core, or every GPU, of a cluster, and takes their blocks in a thread of its own.

    A block reaches the driver once or never: calls are not repeated, and an actor that takes over from a lost one goes
    on with the games that were under way in the last block received.

    Args:
        connection: to the cluster.
        task: what all actors do.
        network: the first weights.
        seeds: the random numbers of a seat that begins its games.
        kind: of actors.
        show: tells a gauge's name and value to whoever shows them; see `alphac4.compute.cluster.metrics.GAUGES`.
    """

    def __init__(
        self,
        connection: Connection,
        task: Task,
        network: PolicyValueNetwork,
        seeds: Callable[[int], np.random.Generator],
        kind: type[RemoteActor] = RemoteActor,
        show: Callable[[str, float], None] = lambda _name, _value: None,
    ) -> None:
        self._connection, self._ray = connection, connection.ray
        self._task = task
        self.seeds, self._show = seeds, show
        self.games: dict[int, GamesUnderWay] = {}  # by seat, as of the last block received; those to begin with
        self.lost = 0  # actors, so far
        self._remote = self._ray.remote(
            **what_an_actor_needs(task), max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )(kind)
        self._weights = Weights(version=0, reference=[self._ray.put(network)])
        self._seats: list[Seat] = []
        self.offered = connection.ask(connection.count, task.device)  # cores or GPUs when they were counted last
        self._counted = 0.0  # time.monotonic() when the cores were counted last
        self._received = 0  # positions since then
        self._most_waiting = 0  # positions
        self._waiting = 0
        self._spent = Counter(games=0, evaluations=0)  # on blocks that nobody has taken yet
        self._deliveries: queue.Queue[Delivery | BaseException] = queue.Queue()
        self._lock = threading.Lock()  # of _waiting and _spent
        self._ended, self._closed, self._resting = threading.Event(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._cut_off = False

    @property
    def version(self) -> int:
        """Of the newest weights."""
        return self._weights.version

    @property
    def waiting(self) -> int:
        """Blocks that nobody has taken yet."""
        return self._deliveries.qsize()

    def places(self) -> list[Place]:
        """Where the actors that are ready run."""
        return [seat.place for seat in list(self._seats) if seat.place is not None]

    def update(self, network: PolicyValueNetwork) -> None:
        """Let blocks that begin from now on be played with other weights."""
        self._weights = Weights(version=self.version + 1, reference=[self._ray.put(network)])

    def play_ahead(self, positions: int) -> None:
        """Play, and pause while more than so many ``positions`` wait."""
        self._most_waiting = max(self._most_waiting, positions)
        self._resting.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="cluster", daemon=True)
            self._thread.start()
            threading.Thread(target=self._watch, name="cluster-watch", daemon=True).start()

    def play_until(self, positions: int) -> None:
        """Play no further than ``positions`` that wait."""
        self._most_waiting = positions

    def pause(self) -> None:
        """Begin no more blocks until the next `play_ahead`, and let those that have begun come in."""
        self._most_waiting = 0
        while any(seat.calls for seat in list(self._seats)) and not self._ended.is_set():
            self._ended.wait(SECONDS_BETWEEN_LOOKS)

    def rest(self) -> None:
        """Leave the cores to others until the next `play_ahead`."""
        self._resting.set()

    def spent_ahead(self) -> Mapping[str, int]:
        """The games and evaluations of the blocks that nobody has taken yet."""
        with self._lock:
            return dict(self._spent)

    def take(self, timeout: float) -> Delivery | None:
        """The next block, None if none has come in time.

        Raises:
            RuntimeError: in one line, once the actors cannot go on.
        """
        try:
            delivery = self._deliveries.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(delivery, BaseException):
            self._deliveries.put(delivery)
            raise delivery
        with self._lock:
            self._waiting -= len(delivery.block.samples)
            self._spent -= _work_of(delivery.block)
        self._show("staleness", self.version - delivery.version)
        return delivery

    def close(self) -> None:
        """End all actors and leave the cluster."""
        self._ended.set()
        while self._thread is not None and self._thread.is_alive() and not self._cut_off:
            self._thread.join(SECONDS_BETWEEN_LOOKS)  # it may wait for an answer of the head
        self._closed.set()
        if self._cut_off or self._connection.missing() is not None:
            return  # whoever asks Ray for anything now waits without end
        for seat in self._seats:
            self._dismiss(seat)
        self._connection.close()

    def _watch(self) -> None:
        """End this crew once the head, or this machine's own node, has been away for some time."""
        missing = self._connection.wait_until_gone(self._closed)
        if missing is not None:
            self._cut_off = True
            self._ended.set()
            self._deliveries.put(
                RuntimeError(
                    f"{missing} has gone: once there is a cluster again, the same command goes on from the folder"
                )
            )

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                if self._resting.is_set():
                    for seat in self._seats:
                        self._dismiss(seat)
                    self._ended.wait(SECONDS_BETWEEN_LOOKS)
                    continue
                self._count_places()
                self._place()
                self._ask()
                self._collect()
        except BaseException as error:  # carried to the caller
            self._deliveries.put(error)

    def _count_places(self) -> None:
        """A seat for every core or GPU. There is none less when some go: those who lost theirs wait for others."""
        passed = time.monotonic() - self._counted
        if passed < SECONDS_BETWEEN_COUNTS:
            return
        self.offered = self._connection.count(self._task.device)
        new = range(len(self._seats), self.offered)
        if self._seats and new:
            logger.info("the cluster has grown to %d %ss", new.stop, "GPU" if self._task.device == "cuda" else "core")
        self._seats += [Seat(index=index) for index in new]
        for name, value in (
            ("actors", len(self.places())),
            ("actors_lost", self.lost),
            ("blocks_waiting", self.waiting),
            ("positions_waiting", self._waiting),
            ("positions_per_second", self._received / passed),
        ):
            self._show(name, value)
        self._counted, self._received = self._counted + passed, 0

    def _place(self) -> None:
        """An actor at every empty seat; Ray starts it where and when a core is free."""
        for seat in self._seats:
            if seat.handle is None and time.monotonic() >= seat.not_before:
                seat.handle = self._remote.remote()
                seat.calls.append(
                    seat.handle.prepare.remote(
                        self._task, self._weights, self.seeds(seat.index), self.games.get(seat.index)
                    )
                )

    def _ask(self) -> None:
        """Let everybody play on, unless enough is waiting; whoever is idle gives a sign of life from time to time."""
        enough, now = self._waiting >= self._most_waiting, time.monotonic()
        for seat in self._seats:
            while not enough and seat.handle is not None and len(seat.calls) < CALLS_IN_FLIGHT:
                seat.calls.append(seat.handle.play.remote(self._weights))
            if seat.handle is not None and seat.awaited is None and now >= seat.next_sign:
                seat.sign, seat.next_sign = seat.handle.live.remote(), now + SECONDS_BETWEEN_COUNTS

    def _collect(self) -> None:
        """Take what has come, from each actor in order."""
        seats = {seat.awaited: seat for seat in self._seats if seat.awaited is not None}
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
        if failed:
            self._replace(failed)

    def _receive(self, seat: Seat, result: Place | tuple[int, Block] | None) -> None:
        if result is None:
            seat.sign = None
            return
        seat.calls.popleft()
        if isinstance(result, Place):
            seat.place = result
            return
        version, shared = result
        block = copy.deepcopy(shared)  # its arrays lie in the object store, which would fill up with the replay window
        self.games[seat.index] = block.under_way
        with self._lock:
            self._waiting += len(block.samples)
            self._spent += _work_of(block)
        self._received += len(block.samples)
        self._deliveries.put(Delivery(seat=seat.index, block=block, version=version))

    def _replace(self, failed: list[tuple[Seat, BaseException]]) -> None:
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
        self.lost += len(failed)
        for node, count in counts.items():
            logger.warning(
                "%d of %d actors lost on %s (%s): their games go on elsewhere from the last blocks received",
                count,
                len(self._seats),
                node,
                reasons[node],
            )

    def _dismiss(self, seat: Seat) -> None:
        if seat.handle is not None:
            self._ray.kill(seat.handle)  # it may only be out of reach
            seat.leave()


def _work_of(block: Block) -> Counter[str]:
    return Counter(games=len(block.games.plies), evaluations=block.work.evaluations)

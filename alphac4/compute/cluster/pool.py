"""Functions on the cores of a cluster: for whatever is not self-play."""

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from alphac4.compute.cluster.connection import Connection, Node, first_line, import_ray, on_node

T = TypeVar("T")

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 0.5  # at whether an answer will never come
SECONDS_AFTER_FAILURE = 2.0  # before a process is started in place of one that has died
SECONDS_UNTIL_TOLD = 10.0  # that no core is free; and without another process, until no more are waited for
MOST_DEATHS = 5  # of processes at the same work, on nodes that live on


class Desk:
    """A process on one core that calls functions."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call one."""
        return function(*arguments)


@dataclass(frozen=True, kw_only=True)
class Shared(Generic[T]):
    """Something that lies in the object store of the node that put it there, for whoever asks."""

    reference: Sequence[Any]  # of one, in a list: Ray would fetch it for every call otherwise

    def get(self) -> T:
        """The thing."""
        return cast(T, import_ray().get(self.reference[0]))


@dataclass(frozen=True, kw_only=True)
class Place:
    """A process, and where it was placed."""

    desk: Any  # Ray's handle
    node: str  # its identity


class ClusterPool:
    """A process on each core of a cluster, which call functions and keep what these keep.

    What a process was doing when it died is done again by the one that takes its place, maybe on another node: so
    functions must do no harm when they are called twice.

    Args:
        connection: to the cluster.
        own_cores: whether each process has a core for itself, as many as can be had: the constructor waits for the
            first. Otherwise there is a process for each core, beside those who use it.
        leaves: whether the end of the pool is the end of the connection.

    Raises:
        RuntimeError: in one line, if the cluster goes before there is a process.
    """

    def __init__(self, connection: Connection, *, own_cores: bool = True, leaves: bool = True) -> None:
        self._connection, self._leaves = connection, leaves
        self._ray = connection.ray
        self._desk = self._ray.remote(max_restarts=0, max_task_retries=0)(Desk)
        nodes = self._nodes() or self._wait_for_nodes()
        self._places = [self._start(node, int(own_cores)) for node in nodes for _ in range(node.cores)]
        if own_cores:
            self._keep_ready_places()
        self.cores = len(self._places)
        self._lock = threading.Lock()  # of _places
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(self.cores):
            self._free.put(index)
        self._threads = ThreadPoolExecutor(self.cores)
        self._ended = threading.Event()
        self._reason = "the cluster is not used any more"  # why there will be no answers, once it has ended
        self._lost = False
        threading.Thread(target=self._watch, name="cluster-watch", daemon=True).start()

    def share(self, value: T) -> Shared[T]:
        """Put something where every process can get it, once for all calls that need it."""
        return Shared(reference=[self._ray.put(value)])

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Call a function by the first process that is free."""

        def call() -> T:
            index = self._free.get()
            try:
                return self.call(index, function, *arguments)
            finally:
                self._free.put(index)

        return self._threads.submit(call)

    def call(self, index: int, function: Callable[..., T], *arguments: object) -> T:
        """Call a function by the ``index``-th process, and wait for what it returns.

        Raises:
            RuntimeError: in one line, if the cluster has gone, or this pool was closed.
            Exception: whatever the function raises.
        """
        deaths = 0
        while True:
            place = self._places[index]
            answer = place.desk.call.remote(function, *arguments).future()
            try:
                return cast(T, self._wait(answer))
            except self._ray.exceptions.RayTaskError as error:
                cause = error.cause
                if isinstance(cause, Exception) and not isinstance(cause, self._ray.exceptions.RayError):
                    raise cause from error
                raise RuntimeError(f"a process of the cluster failed: {first_line(cause or error)}") from error
            except self._ray.exceptions.RayError as error:
                deaths += self._replace(index, place, type(error).__name__)
                if deaths == MOST_DEATHS:
                    raise RuntimeError(
                        f"{deaths} processes of the cluster were lost at the same work, the last by {first_line(error)}"
                    ) from error

    def close(self) -> None:
        """End all processes, and give up what they do."""
        self._ended.set()
        self._threads.shutdown(cancel_futures=True)
        if self._lost or self._connection.missing() is not None:
            return  # whoever asks Ray for anything now waits without end
        for place in self._places:
            self._ray.kill(place.desk)
        if self._leaves:
            self._connection.close()

    def _wait(self, answer: "Future[Any]") -> Any:
        while not self._ended.is_set():
            if wait([answer], timeout=SECONDS_BETWEEN_LOOKS).done:
                return answer.result()
        raise RuntimeError(self._reason)

    def _start(self, node: Node, cores: int) -> Place:
        """A process on a node, with so many cores for itself."""
        desk = self._desk.options(num_cpus=cores, scheduling_strategy=on_node(node.identity)).remote()
        return Place(desk=desk, node=node.identity)

    def _nodes(self) -> list[Node]:
        """Those that have cores."""
        return [node for node in self._connection.ask(self._connection.nodes) if node.cores]

    def _wait_for_nodes(self) -> list[Node]:
        """The nodes that have cores, once there are any. A process that waits for one makes some clusters grow."""
        logger.warning("waiting for a core of the cluster: it has none")
        wish = self._desk.options(num_cpus=1).remote()
        try:
            while not (nodes := self._nodes()):
                time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            self._ray.kill(wish)
        return nodes

    def _keep_ready_places(self) -> None:
        """Wait for the first process, and for more while they keep coming; give up those whose cores others have."""
        signs = {place.desk.call.remote(int): place for place in self._places}
        ready: list[Any] = []
        while len(ready) < len(signs):
            before = len(ready)
            ready = self._connection.ready(list(signs), SECONDS_UNTIL_TOLD)
            if ready and len(ready) == before:
                break
            if not ready:
                logger.warning("waiting for a core of the cluster: none is free")
        if len(ready) < len(signs):
            logger.warning("%d of the cluster's %d cores are free", len(ready), len(signs))
        self._places = [signs[reference] for reference in ready]
        for place in signs.values():
            if place not in self._places:
                self._ray.kill(place.desk)

    def _replace(self, index: int, lost: Place, reason: str) -> bool:
        """Let another process take over from one that has died; returns whether its node lives on."""
        while not self._ended.wait(SECONDS_AFTER_FAILURE):  # by then it is known if its node has gone, too
            if self._connection.missing() is None:
                nodes = self._nodes()
                with self._lock:
                    if self._places[index] is not lost:
                        return False
                    here = Counter(place.node for place in self._places)
                    emptiest = max(nodes, key=lambda node: node.cores - here[node.identity], default=None)
                    if emptiest is not None:
                        logger.warning("a process of the cluster was lost (%s): its work is done again", reason)
                        # Without a core of its own: those of a node that has gone are nowhere else.
                        self._places[index] = self._start(emptiest, 0)
                        return lost.node in {node.identity for node in nodes}
        return False

    def _watch(self) -> None:
        """End everything once the head, or this machine's own node, has been away for some time."""
        missing = self._connection.wait_until_gone(self._ended)
        if missing is not None:
            self._lost = True
            self._reason = f"{missing} has gone: once there is a cluster again, the same command begins anew or goes on"
            self._ended.set()

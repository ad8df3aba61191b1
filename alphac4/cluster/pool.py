"""Functions on the cores of a cluster: for whatever is not self-play."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from alphac4.cluster.connection import Connection, first_line, import_ray

T = TypeVar("T")

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 0.5  # at whether an answer will never come
SECONDS_UNTIL_TOLD = 10.0  # that no core is free
SECONDS_AFTER_FAILURE = 2.0  # before a process is started again that has died before its first answer


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


class ClusterPool:
    """A process on each core of a cluster, which call functions and keep what these keep.

    What a process was doing when it died is done again by the one that takes its place, maybe on another node: so
    functions must do no harm when they are called twice.

    Args:
        connection: to the cluster.
        cores: that each process has for itself; with 0, it shares them with others.
        leaves: whether the end of the pool is the end of the connection.
    """

    def __init__(self, connection: Connection, cores: int = 1, *, leaves: bool = True) -> None:
        self._connection, self._leaves = connection, leaves
        self._ray = connection.ray
        self.cores = max(1, int(self._ray.cluster_resources().get("CPU", 0)))
        make = self._ray.remote(num_cpus=cores, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(Desk)
        self._make: Callable[[], Any] = make.remote
        self._desks: list[Any] = [self._make() for _ in range(self.cores)]
        self._lock = threading.Lock()  # of _desks
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
        while True:
            desk, began = self._desks[index], time.monotonic()
            answer = desk.call.remote(function, *arguments).future()
            try:
                return cast(T, self._wait(answer))
            except self._ray.exceptions.RayTaskError as error:
                cause = error.cause
                if isinstance(cause, Exception) and not isinstance(cause, self._ray.exceptions.RayError):
                    raise cause from error
                raise RuntimeError(f"a process of the cluster failed: {first_line(cause or error)}") from error
            except self._ray.exceptions.RayError as error:
                self._replace(index, desk, error, time.monotonic() - began)

    def close(self) -> None:
        """End all processes, and give up what they do."""
        self._ended.set()
        self._threads.shutdown(cancel_futures=True)
        if self._lost or self._connection.missing() is not None:
            return  # whoever asks Ray for anything now waits without end
        for desk in self._desks:
            self._ray.kill(desk)
        if self._leaves:
            self._connection.close()

    def _wait(self, answer: "Future[Any]") -> Any:
        while not self._ended.is_set():
            try:
                return answer.result(timeout=SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                if answer.done():  # it is the function's own
                    raise
        raise RuntimeError(self._reason)

    def _replace(self, index: int, desk: Any, error: BaseException, seconds: float) -> None:
        """Let another process take over from one that has died."""
        while (missing := self._connection.missing()) is not None and not self._ended.is_set():
            logger.debug("%s does not answer", missing)  # and asking it for a process could take for ever
            self._ended.wait(SECONDS_BETWEEN_LOOKS)
        if seconds < SECONDS_AFTER_FAILURE:
            self._ended.wait(SECONDS_AFTER_FAILURE)
        with self._lock:
            if not self._ended.is_set() and self._desks[index] is desk:
                logger.warning("a process of the cluster was lost (%s): its work is done again", type(error).__name__)
                self._desks[index] = self._make()

    def _watch(self) -> None:
        """End everything once the head, or this machine's own node, has been away for some time."""
        missing = self._connection.wait_until_gone(self._ended)
        if missing is not None:
            self._lost = True
            self._reason = f"{missing} has gone: once there is a cluster again, the same command begins anew or goes on"
            self._ended.set()

    def wait_for_core(self) -> None:
        """Wait until a process is ready; says so if others have all the cores."""
        first = self.submit(int)
        try:
            first.result(timeout=SECONDS_UNTIL_TOLD)
        except TimeoutError:
            if not self._ray.available_resources().get("CPU", 0) >= 1:
                logger.warning("waiting for a core of the cluster: none is free")
            first.result()

"""Processes on the cores of a cluster that call functions."""

import logging
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, final

from alphac4.compute.cluster.connection import Connection, import_ray, on_node
from alphac4.machine import adapt_process
from alphac4.storage.records import first_line

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 10  # of processes at the same work


@dataclass(frozen=True, kw_only=True)
class Shared(Generic[T]):
    """A value in the object store of the node that put it there."""

    reference: Sequence[Any]  # in a list, or Ray would fetch the value for every call

    def get(self) -> T:
        """Return the value, in any process of the cluster."""
        return cast(T, import_ray().get(self.reference[0]))


class Worker:
    """A process that calls functions."""

    def __init__(self) -> None:
        adapt_process()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function."""
        return function(*arguments)


@final
class Pool:
    """Processes that call functions, one for each core of a cluster, whether the core is busy or not.

    Functions, arguments and results travel by pickle. Ray restarts a process that died, on another node if its own is
    lost, and repeats its call. So calling a function twice must do no harm.

    Args:
        connection: to the cluster.
        leaves: whether to close the connection with the pool.

    Attributes:
        cores: the number of processes.
    """

    def __init__(self, connection: Connection, *, leaves: bool = True) -> None:
        self._connection, self._leaves = connection, leaves
        self._ray = connection.ray
        # Without a number of cores, Ray starts an actor on any core, busy or not.
        worker = self._ray.remote(max_restarts=-1, max_task_retries=MAX_ATTEMPTS - 1)(Worker)
        if not connection.count("cpu"):
            logger.warning("waiting for a core of the cluster: it has none")
            first = worker.remote()  # some clusters grow while something waits for a core
            connection.get(first.call.remote(int))
            self._ray.kill(first)
        self._workers = [
            worker.options(scheduling_strategy=on_node(node.identity, soft=True)).remote()
            for node in connection.nodes()
            for _ in range(node.cores)
        ]
        self.cores = len(self._workers)
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(self.cores):
            self._free.put(index)
        self._threads = ThreadPoolExecutor(self.cores)

    def share(self, value: T) -> Shared[T]:
        """Send a value to the cluster once, for all calls that need it."""
        return Shared(reference=[self._ray.put(value)])

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Call a function in the first free process."""

        def call() -> T:
            index = self._free.get()
            try:
                return self.call(index, function, *arguments)
            finally:
                self._free.put(index)

        return self._threads.submit(call)

    def call(self, index: int, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in the ``index``-th process, which keeps its memory between calls, and return the result.

        Raises:
            RuntimeError: if the cluster is lost, or the process dies at every attempt.
            Exception: whatever the function raises.
        """
        answer = self._workers[index].call.remote(function, *arguments)
        try:
            return cast(T, self._connection.get(answer))
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, Exception) and not isinstance(cause, self._ray.exceptions.RayError):
                raise cause from error
            raise RuntimeError(f"a process of the cluster failed: {first_line(cause or error)}") from error
        except self._ray.exceptions.RayError as error:
            raise RuntimeError(f"a process of the cluster was lost again and again: {first_line(error)}") from error

    def close(self) -> None:
        """End all processes and their work."""
        if not self._connection.missing():
            for worker in self._workers:
                self._ray.kill(worker)
        self._threads.shutdown(cancel_futures=True)  # calls end with their process or the cluster
        if self._leaves:
            self._connection.close()

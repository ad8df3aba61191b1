"""Functions on the cores of a cluster: for whatever is not self-play."""

import logging
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, final

from alphac4.compute.cluster.connection import Connection, connect, import_ray, on_node
from alphac4.machine import adapt_process
from alphac4.storage.records import first_line

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_DEATHS = 10  # of processes at the same work


@dataclass(frozen=True, kw_only=True)
class Shared(Generic[T]):
    """Something in the object store of the node that put it there, for whoever asks."""

    reference: Sequence[Any]  # of one, in a list: Ray would fetch it for every call otherwise

    def get(self) -> T:
        """Return it, in whichever process asks."""
        return cast(T, import_ray().get(self.reference[0]))


class Worker:
    """A process that calls functions."""

    def __init__(self) -> None:
        adapt_process()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call one."""
        return function(*arguments)


@final
class Pool:
    """Processes that call functions, one for each core of a cluster, beside whoever uses the core.

    Functions, arguments and results travel by pickle. Ray restarts a process that died, on another node if its own has
    gone, and repeats its call: so functions must do no harm when they are called twice.

    Args:
        connection: to the cluster.
        leaves: whether the end of the pool is the end of the connection.

    Attributes:
        cores: the number of processes.
    """

    def __init__(self, connection: Connection, *, leaves: bool = True) -> None:
        self._connection, self._leaves = connection, leaves
        self._ray = connection.ray
        # Ray starts what asks for no number of cores wherever there is a core, whether somebody uses it or not.
        worker = self._ray.remote(max_restarts=-1, max_task_retries=MAX_DEATHS - 1)(Worker)
        if not connection.ask(connection.count, "cpu"):
            logger.warning("waiting for a core of the cluster: it has none")
            first = worker.remote()  # some clusters grow as long as something waits for a core
            connection.get(first.call.remote(int))
            self._ray.kill(first)
        self._workers = [
            worker.options(scheduling_strategy=on_node(node.identity, soft=True)).remote()
            for node in connection.ask(connection.nodes)
            for _ in range(node.cores)
        ]
        self.cores = len(self._workers)
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(self.cores):
            self._free.put(index)
        self._threads = ThreadPoolExecutor(self.cores)

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
        """Call a function by the ``index``-th process, which keeps what functions keep, and wait for the result.

        Raises:
            RuntimeError: if the processes have gone for good.
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
        """End all processes and whatever they do."""
        if self._connection.reachable():
            for worker in self._workers:
                self._ray.kill(worker)
        self._threads.shutdown(cancel_futures=True)  # calls end: their process or the cluster has gone
        if self._leaves:
            self._connection.close()


def make_pool(address: str) -> Pool:
    """Make a pool; see `alphac4.compute.choose_pool`."""
    connection = connect(address)
    try:
        return Pool(connection)
    except BaseException:
        connection.close()
        raise

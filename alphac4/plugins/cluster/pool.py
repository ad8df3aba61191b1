"""A pool of processes on the cores of a cluster."""

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast, final

from alphac4.machine import adapt_process, picklable_errors
from alphac4.plugins.cluster.connection import Connection, import_ray, on_node
from alphac4.storage.records import first_line

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 10  # attempts at a call whose process dies each time


def fetch(reference: Any) -> Any:
    """Return a value in the object store of a cluster."""
    return import_ray().get(reference)


class Worker:
    """Ray actor that calls functions in a process of a cluster."""

    def __init__(self) -> None:
        adapt_process()

    @picklable_errors()
    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


@final
class RayPool:
    """A `Pool` with a process for each core of a cluster, even if the core is busy.

    Functions, arguments and results are pickled. Ray restarts a process that died, on another node if necessary, and
    repeats its call. So a function may be called twice, which must do no harm.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ray = connection.ray
        # Ray starts an actor without `num_cpus` on any core, busy or idle.
        worker = self._ray.remote(max_restarts=-1, max_task_retries=MAX_ATTEMPTS - 1)(Worker)
        if not connection.count("cpu"):
            logger.warning("waiting for the cluster, which has no cores yet")
            first = worker.remote()  # some clusters grow if an actor is waiting
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

    def share(self, value: T) -> Callable[[], T]:
        return partial(fetch, self._ray.put(value))

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Call a function in the first free process. The future raises the errors of `call`."""

        def call() -> T:
            index = self._free.get()
            try:
                return self.call(index, function, *arguments)
            finally:
                self._free.put(index)

        return self._threads.submit(call)

    def call(self, index: int, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in the process with this index and return the result.

        A process keeps its memory between calls, unless it was restarted. Errors are those of the function, or a
        RuntimeError if the process died repeatedly or the cluster was lost.
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
            raise RuntimeError(f"a process of the cluster died repeatedly: {first_line(error)}") from error

    def close(self) -> None:
        if not self._connection.missing():
            for worker in self._workers:
                self._ray.kill(worker)
        self._threads.shutdown(cancel_futures=True)  # calls end with their process or the cluster

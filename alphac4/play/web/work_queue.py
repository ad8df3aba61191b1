"""A bounded queue of searches, which run in threads of their own and can be stopped."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Busy(Exception):  # noqa: N818 - a state, not an error
    """Too many searches wait already."""


class Stopped(Exception):  # noqa: N818 - a state, not an error
    """The search was ended from outside; nobody waits for its result."""


class Stop:
    """Ends one search: when somebody sets ``event``, or once its time is over.

    Args:
        seconds: how long the search may run, counted from its beginning; by default as long as it likes.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.event = threading.Event()
        self._seconds = seconds
        self._started: float | None = None

    def check(self) -> None:
        """Called by the search some dozens of times a second.

        Raises:
            Stopped: if it has been stopped.
            TimeoutError: if its time is over.
        """
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        if self.event.is_set():
            raise Stopped
        if self._seconds is not None and now - self._started > self._seconds:
            raise TimeoutError(f"no answer within {self._seconds:g} seconds")


class WorkQueue:
    """Runs searches first come, first served.

    Args:
        threads: how many run at a time.
        places: how many may run or wait; who comes when all are taken is turned away at once.
    """

    def __init__(self, threads: int, places: int) -> None:
        self.places = places
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._stops: set[Stop] = set()
        self._answers: set[asyncio.Future[Any]] = set()
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], T], stop: Stop) -> "asyncio.Future[T]":
        """Put a search into the queue, which ends early once ``stop`` tells it to.

        The place is taken before this returns and free again when the search has ended, whoever waits for it.

        Raises:
            Busy: if there is no place.
        """
        with self._lock:
            if len(self._stops) >= self.places:
                raise Busy
            self._stops.add(stop)

        def leave(_job: "Future[T]") -> None:
            with self._lock:
                self._stops.discard(stop)

        try:
            job = self._pool.submit(work)
        except RuntimeError as error:  # closed
            leave(Future())
            raise Busy from error
        job.add_done_callback(leave)
        answer = asyncio.wrap_future(job)
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)
        return answer

    def close(self) -> None:
        """Stop whatever runs or waits; nothing new is taken.

        Who waits for an answer is told at once that there will be none, whether or not the search hears that it should
        stop. Not for a handler of signals, which may interrupt a thread that is in `submit`, and has its locks.
        """
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for stop in self._stops:
                stop.event.set()
        for answer in list(self._answers):
            loop = answer.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(answer.cancel)

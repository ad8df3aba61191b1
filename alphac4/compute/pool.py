"""The interface to processes elsewhere that play matches."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

T = TypeVar("T")


class Pool(Protocol):
    """Processes that call functions. A function may be called twice, which must do no harm."""

    cores: int  # number of processes, one per core

    def share(self, value: T) -> Callable[[], T]:
        """Store a value once, for several calls; return a function that gets it in any process."""

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Call a function in the first free process."""

    def call(self, index: int, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in the process with this index, which keeps its memory, and return the result."""

    def close(self) -> None:
        """End all processes and pending calls."""

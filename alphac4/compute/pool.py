"""Processes elsewhere that call functions, as those see them who use them."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Shared(Protocol[T_co]):
    """Something that every process can get."""

    def get(self) -> T_co:
        """The thing, in whichever process asks for it."""


class Pool(Protocol):
    """A process on each of some cores; `alphac4.compute.choose_pool` makes it.

    Functions, arguments and results travel by pickle. What a process was doing when it died is done again by another.
    """

    cores: int

    def share(self, value: T) -> Shared[T]:
        """Put something where every process can get it, once for all calls that need it."""

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Call a function by the first process that is free."""

    def call(self, index: int, function: Callable[..., T], *arguments: object) -> T:
        """Call a function by the ``index``-th process, which keeps what functions keep, and wait for what it returns.

        Raises:
            RuntimeError: in one line, if the processes have gone for good.
            Exception: whatever the function raises.
        """

    def close(self) -> None:
        """End all processes, and give up what they do."""

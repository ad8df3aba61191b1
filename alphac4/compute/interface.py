"""Interface of whatever plays games or calls functions, wherever it runs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from alphac4.game import Geometry
from alphac4.nn.network import Network
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan
from alphac4.selfplay.samples import Block

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Seeds = Callable[[int], np.random.Generator]
"""The random numbers of an actor on a cluster, or of one on a GPU, by its index; on cores 0 is for all."""


@dataclass(frozen=True, kw_only=True)
class Backends:
    """Backends of networks, by the names that reports and `choose` use; "auto" until it has been chosen."""

    evaluators: str = "auto"  # whatever plays, is measured or is judged: never 8 bits, unless somebody names them
    actors: str = "auto"  # self-play, where 8 bits may be the fastest


@dataclass(frozen=True, kw_only=True)
class ClusterReport:
    """Figures of a cluster between the ends of two calls of `Actors.play`."""

    nodes: int  # that played at the end
    actors: int  # that played at the end
    lost: int  # actors that died
    waiting: int  # blocks that were there when the call came
    staleness: float  # promotions since the weights that played a position, mean over those recorded
    max_staleness: int  # the most of them
    seconds: float  # wall time in which the actors played
    seconds_waited: float  # of it, the time that the run waited for them


class Actors(ABC):
    """Plays a run's games; the games continue from one `play` to the next."""

    backend: str  # how their network runs
    slots: int  # games at once; on a cluster, of each actor
    cluster_report: ClusterReport | None = None  # how a cluster did in the last `play`

    @abstractmethod
    def __len__(self) -> int:
        """Number of actors that play at a time."""

    @abstractmethod
    def update(self, network: Network) -> None:
        """Play with other weights from now on."""

    @abstractmethod
    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],
        check: Callable[[], None] = lambda: None,
        *,
        last: bool = False,
        plan: GamePlan | None = None,
    ) -> None:
        """Play until the games that have ended hold at least ``samples`` positions.

        ``on_block(actor, block)`` and ``check()`` run in the calling thread, ``check`` every 0.1 s or more often. An
        exception that either raises stops all actors and propagates. After the ``last`` call nobody plays ahead. The
        ``plan`` has budgets and start positions; by default those of the settings.
        """

    @abstractmethod
    def close(self) -> None:
        """End what plays elsewhere."""

    @abstractmethod
    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the games in progress between two calls of `play`, one row per game; empty on a cluster."""

    @abstractmethod
    def restore(self, state: Mapping[str, npt.NDArray[np.generic]], seeds: Seeds) -> bool:
        """Resume the games of `state`, or begin others if their number or their settings differ.

        Args:
            state: the games.
            seeds: the random numbers of games that begin.

        Returns:
            Whether the games were resumed.
        """


class Shared(Protocol[T_co]):
    """Something that every process of a `Pool` can get."""

    def get(self) -> T_co:
        """The thing, in whichever process asks for it."""


class Pool(Protocol):
    """Processes elsewhere that call functions; `alphac4.compute.choose_pool` makes it.

    Functions, arguments and results travel by pickle. What a process was doing when it died is done again by another.
    """

    cores: int  # how many processes there are, one for each core

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


class Elsewhere(Protocol):
    """Another place for a run's games than the cores of this process."""

    def actors(self, network: Network, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> Actors:
        """The backend that plays the games."""

    def pool(self, streams: int) -> Pool | None:
        """Processes that matches are better sent to; None where as many ``streams`` as here are no gain."""

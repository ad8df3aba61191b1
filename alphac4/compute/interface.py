"""Interface of whatever plays a run's games, wherever it runs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alphac4.nn.network import Network
from alphac4.selfplay.games import GamePlan
from alphac4.selfplay.samples import Block

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

    nodes: int  # that offered cores or GPUs at the end
    actors: int  # on them that have played
    lost: int  # actors that died and were replaced
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

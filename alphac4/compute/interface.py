"""What every place where work can run offers."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypedDict, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import torch

from alphac4.game import Geometry
from alphac4.mcts.network_search import Evaluate, NetworkParameters
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Reuse, TreeSearch
from alphac4.nn.evaluator import BATCH
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Seeds = Callable[[int], np.random.Generator]
"""The random numbers of each seat, by its index."""


@dataclass(frozen=True, kw_only=True)
class Backends:
    """How networks run, by the names that reports and `choose` use; "auto" until it has been chosen."""

    evaluators: str = "auto"  # whatever plays, is measured or is judged: never 8 bits, unless somebody names them
    actors: str = "auto"  # self-play, where 8 bits may be the fastest


@dataclass(frozen=True, kw_only=True)
class ClusterReport:
    """How a cluster did between the ends of two calls of `Actors.play`."""

    nodes: int  # that played at the end
    actors: int  # that played at the end
    lost: int  # actors that died
    waiting: int  # blocks that were there when the call came
    staleness: float  # promotions since the weights that played a position, mean over those recorded
    most_stale: int  # the most of them
    seconds: float  # wall time in which the actors played
    seconds_waited: float  # of it, the time that the run waited for them


class NetworkEvaluator(Evaluate, Protocol):
    """A network that is ready to evaluate positions; `Compute.evaluator` makes it."""

    network: PolicyValueNetwork  # the present weights
    version: int  # another number after each update
    batch_size: int  # positions in a usual call
    streams: int  # callers at a time
    backend: str  # how it runs

    def update(self, network: PolicyValueNetwork) -> None:
        """Take other weights; searches that use this evaluator follow.

        Updating one evaluator costs less memory in the long run than making many: the libraries behind them never
        quite give back what they took.
        """


class SearchOptions(TypedDict, total=False):
    """Options of `Compute.search`."""

    geometry: Geometry  # by default the standard one
    rng: np.random.Generator  # for rules of one's own that draw numbers, which PUCT does not
    reuse: Reuse
    cache: int  # evaluations that a search may keep, where that pays


class Actors(ABC):
    """Plays a run's games; the games go on from one `play` to the next."""

    backend: str  # how their network runs
    slots: int  # games of each seat: a share of them with a state of its own

    @abstractmethod
    def __len__(self) -> int:
        """How many play at a time."""

    @abstractmethod
    def update(self, network: PolicyValueNetwork) -> None:
        """Play with other weights from now on."""

    @abstractmethod
    def play(
        self,
        samples: int,
        stop: threading.Event,
        on_block: Callable[[int, Block], None],
        on_state: Callable[[], object] = lambda: None,
    ) -> None:
        """Play until at least so many ``samples`` are recorded, or until ``stop`` is set.

        ``on_block(actor, block)`` runs in the calling thread. So does ``on_state()``, now and then, when every game is
        either in `state` or in a block that was handed over.
        """

    @abstractmethod
    def end_with_next(self) -> None:
        """Let the next `play` be the last one, after which nobody plays ahead."""

    @abstractmethod
    def spent_ahead(self) -> Mapping[str, int]:
        """The "games" and "evaluations" of blocks that wait for the next `play`."""

    @abstractmethod
    def cluster_report(self) -> ClusterReport | None:
        """How the cluster did in the last `play`; None where there is none."""

    @abstractmethod
    def close(self) -> None:
        """End what plays elsewhere."""

    @abstractmethod
    def takes(self, index: int) -> bool:
        """Whether there is a seat with this number, or may be one."""

    @abstractmethod
    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """The games in progress, for a later `restore`."""

    @abstractmethod
    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take up the games of `state`; a seat with more of them begins others besides.

        Raises:
            ValueError: if they do not fit.
        """

    @abstractmethod
    def reset(self, seeds: Seeds) -> None:
        """Forget the games in progress and start others."""


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


class Compute(ABC):
    """Makes what evaluates, searches and plays in one place; see `alphac4.compute.choose`."""

    backends: Backends  # those asked for, each replaced by the one chosen for the first network
    batch: int  # positions that are best searched together
    streams: int  # callers at a time that are worth having
    learning_device: torch.device  # where networks learn

    @abstractmethod
    def pool(self) -> Pool | None:
        """Processes elsewhere that a run's matches are better sent to; None where it plays them here."""

    @property
    @abstractmethod
    def inference(self) -> str:
        """How evaluators and searches run their network, in words for reports."""

    @abstractmethod
    def evaluator(self, network: PolicyValueNetwork, *, batch_size: int = BATCH, streams: int = 1) -> NetworkEvaluator:
        """A network ready to evaluate batches of usually ``batch_size`` positions, for ``streams`` callers at a time.

        The first one settles the backend of all that follow.

        Raises:
            ValueError: for an unknown backend.
        """

    @abstractmethod
    def search(
        self,
        evaluator: NetworkEvaluator,
        puct: PuctConfig | NetworkParameters | None = None,
        **options: Unpack[SearchOptions],
    ) -> TreeSearch:
        """A search guided by the network of an evaluator of this compute, for one caller at a time.

        Making one costs little; one that is kept uses its memory again.
        """

    @abstractmethod
    def actors(self, network: PolicyValueNetwork, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> Actors:
        """What plays a run's games."""

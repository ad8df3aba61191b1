"""What all visitors of the page share: a bounded queue of searches, the network, and a search tree for each session."""

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import numpy as np

from alphac4.arena.certificate_player import CertificatePlayer, CertifiedWin
from alphac4.arena.players import NetworkPlayer, Player, PlayerError
from alphac4.arena.specifications import named_checkpoint
from alphac4.certificate.file import shipped_certificates
from alphac4.compute import choose
from alphac4.game import Geometry, Position
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.results import NodeView
from alphac4.mcts.search import Budget, Reuse
from alphac4.play.analysis import Analysis, Analyst
from alphac4.play.levels import Level
from alphac4.play.opponents import thorough_player
from alphac4.review import Review, review_game
from alphac4.solver.solver import ExactColumn, exact

REVIEW_SIMULATIONS = 100  # for the network's opinion of each position of a reviewed game
MAX_SESSIONS = 64  # search trees kept at a time; the one longest unused goes first

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
    """Runs searches first come, first served, in threads of its own; used from the event loop alone.

    Args:
        threads: how many run at a time.
        places: how many may run or wait; who comes when all are taken is turned away at once.
    """

    def __init__(self, threads: int, places: int) -> None:
        self.places = places
        self.taken: dict[asyncio.Future[Any], Stop] = {}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")

    def submit(self, work: Callable[[], T], stop: Stop) -> "asyncio.Future[T]":
        """Put a search into the queue, which ends early once ``stop`` tells it to.

        Its place is free again when the search has ended, whoever waits for it.

        Raises:
            Busy: if there is no place.
        """
        if len(self.taken) >= self.places:
            raise Busy
        try:
            answer = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeError as error:  # closed
            raise Busy from error
        self.taken[answer] = stop
        answer.add_done_callback(self.taken.pop)
        return answer

    def close(self) -> None:
        """Stop whatever runs or waits; nothing new is taken.

        Who waits for an answer is told that there will be none, whether or not the search hears that it should stop.
        """
        self._pool.shutdown(wait=False, cancel_futures=True)
        for answer, stop in list(self.taken.items()):
            stop.event.set()
            answer.cancel()


class SearchService:
    """Moves, analyses and exact verdicts for the visitors of the page. Safe to call from several threads."""

    def __init__(self, network: str) -> None:
        named = named_checkpoint(network)
        checkpoint = named.load()
        self.name = named.name
        self.geometry: Geometry = checkpoint.geometry
        self._network = named.written
        self._compute = choose(threads=1)
        self._evaluator = self._compute.evaluator(checkpoint.network, batch_size=1)
        self._analysts = functools.lru_cache(MAX_SESSIONS)(lambda _session: Analyst(self._player(1, reuse="trees")))
        self._lock = threading.RLock()
        self._certificate = _Certificate(self.geometry)
        self._rng = np.random.default_rng()

    def prepare(self) -> None:
        """Begin to read what takes seconds at its first use."""
        threading.Thread(target=self._certificate.read, name="reading the certificate").start()

    def close(self) -> None:
        """End what is read for all visitors, whoever waits for it; the server is about to end."""
        self._certificate.stop.event.set()

    def choose(self, level: Level, position: Position, stop: Stop) -> int:
        """A level's move, 0-based."""
        if level.perfect:
            best = [item.column for item in self.exact(position, stop) if item.best]
            return int(self._make_rng().choice(best))
        player: Player
        if level.certified:
            column = self._certificate.move(position)
            if column is not None:
                return column
            player = thorough_player(self._network, self.geometry, self._make_rng(), self._compute)
        else:
            player = self._player(level.simulations, level.temperature)
        return player.choose([position])[0]

    def exact(self, position: Position, stop: Stop) -> list[ExactColumn]:
        """The solver's verdict on each move."""
        return exact(position, stop.check)

    def review(self, moves: str, seconds: float, stop: Stop, on_move: Callable[[int, int], None]) -> Review:
        """Judge every move of a game; see `review_game`."""
        player = self._player(REVIEW_SIMULATIONS)
        return review_game(moves, self.geometry, player=player, seconds=seconds, on_pause=stop.check, on_move=on_move)

    def proven_win(self, position: Position) -> CertifiedWin | None:
        """Whose win the certificates show, and by when; None where they do not say."""
        return self._certificate.proven_win(position)

    def analyze(
        self, session: str, position: Position, simulations: int, stop: Stop, on_progress: Callable[[Analysis], None]
    ) -> Analysis:
        """Search with the session's tree; see `Analyst.analyze`."""
        budget = Budget(simulations=simulations)
        return self._analyst(session).analyze(position, budget, stop=stop.event, on_progress=on_progress)

    def node(self, session: str, position: Position, path: Sequence[int]) -> NodeView:
        """A node of the session's tree; see `Analyst.node`."""
        return self._analyst(session).node(position, path)

    def _analyst(self, session: str) -> Analyst:
        with self._lock:
            return self._analysts(session)

    def _player(self, simulations: int, temperature: float = 0.0, reuse: Reuse = "nothing") -> NetworkPlayer:
        budget, rng = Budget(simulations=simulations), self._make_rng()
        search = NetworkSearch(self._evaluator, geometry=self.geometry, rng=rng, reuse=reuse)
        return NetworkPlayer(self.name, self._evaluator, budget, rng, temperature=temperature, search=search)

    def _make_rng(self) -> np.random.Generator:
        with self._lock:
            return np.random.default_rng(self._rng.integers(2**63))


class _Certificate:
    """The certificates that come with the project, each read and checked once, which takes seconds."""

    def __init__(self, geometry: Geometry) -> None:
        self.stop = Stop()  # not that of a visitor, as what has been read stays for the others
        self._geometry = geometry
        self._lock = threading.Lock()

    def read(self) -> None:
        """Check now what the first move needs, unless it is stopped."""
        with contextlib.suppress(Stopped):
            self.proven_win(Position(geometry=self._geometry))

    def move(self, position: Position) -> int | None:
        """The certificates' move, 0-based; None where they hold none.

        Raises:
            Stopped: if it was stopped before it was read.
        """
        with self._lock:
            try:
                return self._player.choose([position])[0] if self._player else None
            except PlayerError:
                return None

    def proven_win(self, position: Position) -> CertifiedWin | None:
        """See `CertificatePlayer.proven_win`.

        Raises:
            Stopped: if it was stopped before it was read.
        """
        with self._lock:
            return self._player.proven_win(position) if self._player else None

    @functools.cached_property
    def _player(self) -> CertificatePlayer | None:
        try:
            return CertificatePlayer(shipped_certificates(), self._geometry, _nobody, self.stop.check)
        except (PlayerError, OSError):  # of another board, or not there
            return None


def _nobody(name: str) -> NoReturn:
    raise PlayerError(f"{name} is not asked here")

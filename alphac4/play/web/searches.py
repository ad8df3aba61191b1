"""State that all visitors of the page share: a queue of searches, the network, and a search tree for each session."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from alphac4.arena.certificate_player import CertificatePlayer, CertifiedResult
from alphac4.arena.players import PlayerError, SearchingPlayer
from alphac4.arena.specifications import CACHE, LEAVES, named_checkpoint, network_player
from alphac4.compute import choose
from alphac4.game import Geometry, Position
from alphac4.game.position import count_of
from alphac4.mcts.results import NodeView, SearchedPosition
from alphac4.mcts.search import Budget, Reuse
from alphac4.play.analysis import Analyst
from alphac4.play.levels import Level
from alphac4.play.opponents import certificates
from alphac4.review import Review, review_game
from alphac4.solver.solver import ExactColumn, TimeIsUp, deadline, exact, shared_solver

EXACT_SECONDS = 60.0  # for the solver's verdict on a position
HINT_SECONDS = 0.5  # for exact scores of all columns, which also say how soon a hint wins
OUTCOME_SECONDS = 2.0  # for a move that keeps the outcome, where those take longer
REVIEW_SIMULATIONS = 100  # for the network's opinion of each position of a reviewed game
MAX_SESSIONS = 64  # search trees kept at a time; the one longest unused goes first

T = TypeVar("T")


class Busy(Exception):  # noqa: N818 - a state, not an error
    """Too many searches wait already."""


class Stopped(Exception):  # noqa: N818 - a state, not an error
    """The search was ended from outside; nobody waits for its result."""


class Stop(threading.Event):
    """Ends one search once it is set."""

    def check(self) -> None:
        """Called by the search some dozens of times a second. Raises Stopped if it is set."""
        if self.is_set():
            raise Stopped


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A good move, and where it comes from."""

    column: int  # 0-based
    outcome: str  # for the side to move, such as "wins in 5 moves"; "" where nothing is certain
    source: str  # such as "exact"


class WorkQueue:
    """Runs searches first come, first served, in threads of its own; used from the event loop alone.

    At most ``places`` searches run or wait; one more is refused at once.
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
            stop.set()
            answer.cancel()


class SearchService:
    """Moves, analyses and exact verdicts for the visitors of the page. Safe to call from several threads."""

    def __init__(self, network: str) -> None:
        named = named_checkpoint(network)
        checkpoint = named.load()
        self.name, self._network = named.name, named.written
        self.geometry: Geometry = checkpoint.geometry
        self._evaluator = choose().evaluator(checkpoint.network, batch_size=LEAVES)
        self._analysts = functools.lru_cache(MAX_SESSIONS)(self._make_analyst)
        self._lock = threading.RLock()
        self._reading, self._stop_reading = threading.Lock(), Stop()  # not a visitor's, as what has been read stays
        self._rng = np.random.default_rng()

    def prepare(self) -> None:
        """Begin to read what takes seconds at its first use."""

        def read() -> None:
            with contextlib.suppress(Stopped):
                self.proven_result(Position(geometry=self.geometry))

        threading.Thread(target=read, name="reading the certificates").start()

    def close(self) -> None:
        """End what is read for all visitors, whoever waits for it; the server is about to end."""
        self._stop_reading.set()

    def choose(self, level: Level, position: Position, stop: Stop) -> int:
        """A level's move, 0-based, by search; `certified_move` comes before it at levels that play certificates."""
        if level.perfect:
            best = [item.column for item in self.exact(position, stop) if item.best]
            return int(self._make_rng().choice(best))
        specification = level.specification(self._network, certificates=False)
        return self._player(specification, cache=CACHE).choose([position])[0]

    def exact(self, position: Position, stop: Stop) -> list[ExactColumn]:
        """The solver's verdict on each move. Raises TimeIsUp after `EXACT_SECONDS`."""
        return exact(position, deadline(EXACT_SECONDS, stop.check))

    def hint(self, position: Position, stop: Stop) -> Hint:
        """A move by exact play or the certificates where they know one soon, else by the most thorough search."""
        try:
            best = [item for item in exact(position, deadline(HINT_SECONDS, stop.check)) if item.best]
            found = min(best, key=lambda item: abs(item.column - (self.geometry.columns - 1) / 2))
            return Hint(column=found.column, outcome=found.text if found.score else "draws", source="exact")
        except TimeIsUp:
            pass
        # The only thread for exact scores does not wait while the certificates are read, or asked by somebody else.
        known = None if self._reading.locked() else self.proven_result(position)
        if known is not None and known.column is not None and known.plies is not None:
            wins = f"wins in at most {count_of((known.plies + 1) // 2, 'move')}"
            return Hint(column=known.column, outcome=wins, source="certificate")
        searched = self._player(f"{self._network}@auto", cache=CACHE).search([position])
        likely, values = int(searched.moves[0]), searched.values[0]
        order = sorted(position.legal_columns(), key=lambda column: (column != likely, -np.nan_to_num(values[column])))
        solver, pause = shared_solver(self.geometry), deadline(OUTCOME_SECONDS, stop.check)
        try:
            outcome = solver.solve(position, pause, weak=True)
            keeps = (c for c in order if -solver.solve(position.play(c), pause, weak=True) == outcome)
            return Hint(column=next(keeps), outcome=("draws", "wins", "loses")[outcome], source="exact")
        except TimeIsUp:
            return Hint(column=likely, outcome="", source="the network's opinion")

    def review(self, moves: str, seconds: float, stop: Stop, on_move: Callable[[int, int], None]) -> Review:
        """Judge every move of a game; see `review_game`."""
        player = self._player(f"{self._network}@{REVIEW_SIMULATIONS}")
        return review_game(moves, self.geometry, player=player, seconds=seconds, on_pause=stop.check, on_move=on_move)

    def certified_move(self, position: Position) -> int | None:
        """The certificates' move, 0-based; None where they hold none. It may take seconds, as in `proven_result`."""
        return self._ask_certificates(lambda player: player.choose([position])[0])

    def proven_result(self, position: Position) -> CertifiedResult | None:
        """What the certificates show; see `CertificatePlayer.proven_result`."""
        return self._ask_certificates(lambda player: player.proven_result(position))

    def analyze(
        self,
        session: str,
        position: Position,
        simulations: int,
        stop: Stop,
        on_progress: Callable[[SearchedPosition], None],
    ) -> SearchedPosition:
        """Search with the session's tree; see `Analyst.analyze`."""
        budget = Budget(simulations=simulations)
        return self._analyst(session).analyze(position, budget, stop=stop, on_progress=on_progress)

    def node(self, session: str, position: Position, path: Sequence[int]) -> NodeView:
        """A node of the session's tree; see `Analyst.node`."""
        return self._analyst(session).node(position, path)

    def _ask_certificates(self, question: Callable[[CertificatePlayer], T]) -> T | None:
        """Ask the shipped certificates, which are read and checked at first; None where they say nothing.

        Raises:
            Stopped: if the server ends meanwhile.
        """
        with self._reading, contextlib.suppress(PlayerError):
            return question(self._certificates) if self._certificates else None
        return None

    @functools.cached_property
    def _certificates(self) -> CertificatePlayer | None:
        return certificates(self.geometry, on_pause=self._stop_reading.check)

    def _make_analyst(self, _session: str) -> Analyst:
        return Analyst(self._player(f"{self._network}@1", "trees"))

    def _analyst(self, session: str) -> Analyst:
        with self._lock:
            return self._analysts(session)

    def _player(self, specification: str, reuse: Reuse | None = None, cache: int = 0) -> SearchingPlayer:
        """A player with the network that is loaded already, such as "best@200"."""
        player = network_player(
            named_checkpoint(specification),
            self._evaluator,
            rng=self._make_rng(),
            geometry=self.geometry,
            reuse=reuse,
            cache=cache,
        )
        player.name = self.name
        return player

    def _make_rng(self) -> np.random.Generator:
        with self._lock:
            return np.random.default_rng(self._rng.integers(2**63))

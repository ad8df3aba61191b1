"""Shared state of the page's visitors: queues of searches, the network, and a search tree per session."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from alphac4.arena import PlayerError
from alphac4.arena.kinds import CACHE, named_checkpoint
from alphac4.arena.players import BuildOptions, SearchingPlayer
from alphac4.compute import choose_compute
from alphac4.game import Board, Position
from alphac4.game.position import describe_bound
from alphac4.machine import worker_threads
from alphac4.mcts.network_search import PREFETCH, NetworkSearch, UniformEvaluator
from alphac4.mcts.results import NodeView, SearchResult
from alphac4.mcts.search import Budget, Reuse
from alphac4.play.analysis import Analyst
from alphac4.play.levels import Level
from alphac4.play.proofs import Proofs, ProvenResult, load_proofs
from alphac4.solver.solver import ExactColumn, TimeIsUp, deadline, exact, shared_solver

EXACT_SECONDS = 60.0  # time for the solver's verdict on a position
HINT_SECONDS = 0.5  # time for exact scores of all columns, which include the distance to the win
OUTCOME_SECONDS = 2.0  # time for a move that keeps the outcome, if exact scores take too long
MAX_SESSIONS = 64  # sessions with a search tree; the least recently used is dropped

T = TypeVar("T")


class Busy(Exception):  # noqa: N818 - a state, not an error
    """Error for too many running or waiting searches."""


class Stopped(Exception):  # noqa: N818 - a state, not an error
    """Error for a search that was stopped from outside."""


class Stop(threading.Event):
    """Event that stops one search."""

    def check(self) -> None:
        """Raise Stopped if the event is set; the solver calls this some dozens of times per second."""
        if self.is_set():
            raise Stopped


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Suggested move and its source."""

    column: int  # 0-based
    outcome: str  # for the side to move, such as "wins in 5 moves"; "" if nothing is proven
    source: str  # such as "exact"


class WorkQueue:
    """First-in, first-out queue of searches with its own threads; used from the event loop only.

    At most ``capacity`` searches run or wait; further ones are rejected.
    """

    def __init__(self, threads: int, capacity: int) -> None:
        self.capacity = capacity
        self.pending: dict[asyncio.Future[Any], Stop] = {}
        self._block = contextlib.ExitStack()
        self._pool = self._block.enter_context(worker_threads(threads))

    def submit(self, work: Callable[[], T], stop: Stop) -> "asyncio.Future[T]":
        """Enqueue a search and return its future; `close` sets ``stop``, which the search may check to end early.

        A search occupies the queue until it ends, even if nobody waits for its result.

        Raises:
            Busy: if the queue is full or closed.
        """
        if len(self.pending) >= self.capacity:
            raise Busy
        try:
            answer = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeError as error:  # closed
            raise Busy from error
        self.pending[answer] = stop
        answer.add_done_callback(self.pending.pop)
        return answer

    def close(self) -> None:
        """Stop all searches and reject new ones.

        All futures are cancelled, even those of searches that do not check their ``stop``.
        """
        self._block.close()
        for answer, stop in list(self.pending.items()):
            stop.set()
            answer.cancel()


class SearchService:
    """Moves, analyses, hints and exact results for the page; thread-safe."""

    def __init__(self, network: str) -> None:
        named = named_checkpoint(network)
        checkpoint = named.load()
        self.name, self._network = named.name, named.written
        self.board: Board = checkpoint.board
        self.provenance = checkpoint.provenance
        self._evaluator = choose_compute().evaluator(checkpoint.network, batch_size=PREFETCH)
        self._analysts = functools.lru_cache(MAX_SESSIONS)(self._make_analyst)
        self._lock = threading.RLock()
        self._reading, self._stop_reading = threading.Lock(), Stop()  # reading continues when its visitor leaves
        self._rng = np.random.default_rng()

    def prepare(self) -> None:
        """Start a thread that compiles the search, once for a machine, and loads the proofs, which takes seconds."""

        def read() -> None:
            NetworkSearch(UniformEvaluator(), board=self.board).compile()
            with contextlib.suppress(Stopped):
                self.proven_result(Position(board=self.board))

        threading.Thread(target=read, name="loading the proofs").start()

    def close(self) -> None:
        """Stop loading the proofs."""
        self._stop_reading.set()

    def choose(self, level: Level, position: Position, stop: Stop) -> int:
        """Return the 0-based column of a level, without proofs: for a ``proven`` level, call `proven_move` first."""
        if level.perfect:
            best = [item.column for item in self.exact(position, stop) if item.is_best]
            return int(self._make_rng().choice(best))
        return self._player(level.specification(self._network), cache=CACHE).choose([position])[0]

    def exact(self, position: Position, stop: Stop) -> list[ExactColumn]:
        """Return the exact result of each move.

        Raises:
            Stopped: if ``stop`` is set.
            TimeIsUp: after `EXACT_SECONDS`.
        """
        return exact(position, deadline(EXACT_SECONDS, stop.check))

    def hint(self, position: Position, stop: Stop) -> Hint:
        """Return a move by the solver or a proof if they are quick, otherwise by an adaptive search.

        If the solver finds in time which moves keep the outcome, the search only chooses among those.
        """
        try:
            best = [item for item in exact(position, deadline(HINT_SECONDS, stop.check)) if item.is_best]
            central = min(best, key=lambda item: abs(item.column - (self.board.columns - 1) / 2))
            return Hint(column=central.column, outcome=central.text if central.score else "draws", source="exact")
        except TimeIsUp:
            pass
        # Skip proofs that are in use: this is the only thread for exact scores, and must not wait for them.
        known = None if self._reading.locked() else self.proven_result(position)
        if known is not None and known.column is not None and known.plies is not None:
            wins = describe_bound(1, (known.plies + 1) // 2)
            return Hint(column=known.column, outcome=wins, source="proven")
        searched = self._player(f"{self._network}@auto", cache=CACHE).search([position])
        likely, values = int(searched.moves[0]), searched.values[0]
        order = sorted(position.legal_columns(), key=lambda column: (column != likely, -np.nan_to_num(values[column])))
        solver, pause = shared_solver(self.board), deadline(OUTCOME_SECONDS, stop.check)
        try:
            outcome = solver.solve(position, pause, weak=True)
            keeps = (c for c in order if -solver.solve(position.play(c), pause, weak=True) == outcome)
            return Hint(column=next(keeps), outcome=("draws", "wins", "loses")[outcome], source="exact")
        except TimeIsUp:
            return Hint(column=likely, outcome="", source="the network's opinion")

    def player(self, simulations: int) -> SearchingPlayer:
        """Make a player with the page's network."""
        return self._player(f"{self._network}@{simulations}")

    def proven_move(self, position: Position) -> int | None:
        """Return a proven move, a 0-based column, or None; the first call takes seconds."""
        return self._look_up(lambda proofs: proofs.proven_move(position))

    def proven_result(self, position: Position) -> ProvenResult | None:
        """Return the proven result, or None; the first call takes seconds."""
        return self._look_up(lambda proofs: proofs.proven_result(position))

    def analyze(
        self,
        session: str,
        position: Position,
        simulations: int,
        stop: Stop,
        on_progress: Callable[[SearchResult], None],
    ) -> SearchResult:
        """Search a position with the session's tree; see `Analyst.analyze`."""
        budget = Budget(simulations=simulations)
        return self._analyst(session).analyze(position, budget, stop=stop, on_progress=on_progress)

    def node(self, session: str, position: Position, path: Sequence[int]) -> NodeView:
        """Return a node of the session's tree; see `Analyst.node`."""
        return self._analyst(session).node(position, path)

    def _look_up(self, query: Callable[[Proofs], T | None]) -> T | None:
        """Query the proofs, which are loaded first; None without any.

        Raises:
            Stopped: if the server ends meanwhile.
        """
        with self._reading, contextlib.suppress(PlayerError):
            return query(self._proofs) if self._proofs else None
        return None

    @functools.cached_property
    def _proofs(self) -> Proofs | None:
        return load_proofs(self.board, self._stop_reading.check)

    def _make_analyst(self, _session: str) -> Analyst:
        return Analyst(self._player(f"{self._network}@1", "trees"))

    def _analyst(self, session: str) -> Analyst:
        with self._lock:
            return self._analysts(session)

    def _player(self, specification: str, reuse: Reuse | None = None, cache: int = 0) -> SearchingPlayer:
        """Make a player such as "best@200" with the loaded network."""
        options = BuildOptions(rng=self._make_rng(), board=self.board, reuse=reuse)
        player = named_checkpoint(specification).player(self._evaluator, options, cache)
        player.name = self.name
        return player

    def _make_rng(self) -> np.random.Generator:
        with self._lock:
            return np.random.default_rng(self._rng.integers(2**63))

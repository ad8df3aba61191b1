"""Live analysis of positions by a searching player."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from alphac4.arena.players import SearchingPlayer, drop_trees
from alphac4.arena.registry import parse_searching_player
from alphac4.game import Board, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.results import NodeView, SearchResult
from alphac4.mcts.search import Budget

SLICE_SECONDS = 0.1
MAX_SLICE_SIMULATIONS = 100_000  # memory is allocated for a whole slice
MIN_SLICE_SECONDS = 0.001
WARM_UP_SIMULATIONS = 1000  # enough for batches of every size, each of which a thread loads at its first use


class Analyst:
    """Analysis by a player that searches in slices, to report progress and to stop; the player must reuse its tree.

    The tree is also reused if a position follows from the last one. Calls from several threads wait for each other,
    except those of `node`.
    """

    def __init__(self, player: SearchingPlayer) -> None:
        if player.reuse != "trees":
            raise ValueError(f"{player.name} restarts every search; analysis needs a player with tree reuse")
        self.name = self.specification = player.name
        self.budget = Budget(simulations=1) if player.budget.simulations == 0 else player.budget
        self._player = player
        self._searched: Position | None = None
        self._is_warm = False
        self._lock = threading.RLock()

    @classmethod
    def named(cls, specification: str, *, board: Board = STANDARD, seed: int = 0) -> Self:
        """Make the analyst of a player's specification; raise ValueError for one without search or tree reuse."""
        rng = np.random.default_rng(seed)
        analyst = cls(parse_searching_player(specification, rng=rng, board=board, reuse="trees"))
        analyst.specification = specification
        return analyst

    def warm_up(self, board: Board = STANDARD) -> None:
        """Load or compile everything that the first search on a board needs."""
        with self._lock:
            if not self._is_warm:
                self._player.search([Position(board=board)], Budget(simulations=WARM_UP_SIMULATIONS))
                drop_trees(self._player)
                self._is_warm = True

    def forget(self) -> None:
        with self._lock:
            self._searched = None
            drop_trees(self._player)

    def node(self, position: Position, path: Sequence[int]) -> NodeView:
        """Return the node after a ``path`` of 0-based columns.

        Raises:
            ValueError: if the last analysis was of another position or lacks the node, or if an analysis is running.
        """
        if not self._lock.acquire(blocking=False):
            raise ValueError("wait until the analysis is finished")
        try:
            if self._searched != position:
                raise ValueError("analyse this position first")
            return self._player.node(0, path)
        finally:
            self._lock.release()

    def analyze(
        self,
        position: Position,
        budget: Budget | None = None,
        *,
        stop: threading.Event | None = None,  # setting it ends the search after the current slice
        on_progress: Callable[[SearchResult], None] = lambda _analysis: None,  # called about ten times per second
    ) -> SearchResult:
        """Search an unfinished position, by default within the player's own budget."""
        budget = budget or self.budget
        with self._lock:
            self.warm_up(position.board)  # its time does not count
            self._searched = position
            started, done = time.perf_counter(), 0
            while True:
                left = math.inf if budget.seconds is None else budget.seconds - (time.perf_counter() - started)
                size = MAX_SLICE_SIMULATIONS
                if budget.simulations is not None:
                    size = min(size, budget.simulations - done)
                # Slices end by time, which leaves the tree as it would be without slices.
                slice_seconds = max(min(SLICE_SECONDS, left), MIN_SLICE_SECONDS)
                result = self._player.search([position], Budget(simulations=size, seconds=slice_seconds))
                now = time.perf_counter()
                ran = int(result.simulations[0])
                done += ran
                finished = (
                    (ran < size and result.seconds < slice_seconds)  # the position is proven
                    or (budget.simulations is not None and done >= budget.simulations)
                    or (budget.seconds is not None and now - started >= budget.seconds)
                )
                analysis = SearchResult.of_result(position, self.name, result)
                analysis = replace(analysis, simulations=done, seconds=now - started, finished=finished)
                if finished or (stop is not None and stop.is_set()):
                    return analysis
                on_progress(analysis)

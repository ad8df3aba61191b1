"""A searching player's opinion of a position, move by move, while it thinks."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from alphac4.arena.players import SearchingPlayer, drop_trees
from alphac4.arena.specifications import parse_searching_player
from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.results import NodeView, SearchedPosition
from alphac4.mcts.search import Budget

SLICE_SECONDS = 0.1
MAX_SLICE = 100_000  # simulations, for which there is memory from the start
SHORTEST_SLICE = 0.001


class Analyst:
    """Searches positions for a person who watches: in slices, so that it can report and be stopped.

    The tree is kept between calls as long as one position follows from the last. One call at a time; others wait.

    Raises:
        ValueError: for a player that does not keep its trees, and so would begin anew with every slice.
    """

    def __init__(self, player: SearchingPlayer) -> None:
        if player.reuse != "trees":
            raise ValueError(f"{player.name} begins every search anew; analysis needs a player that keeps its trees")
        self.name = player.name
        self.budget = Budget(simulations=1) if player.budget.simulations == 0 else player.budget
        self._player = player
        self._searched: Position | None = None
        self._is_warm = False
        self._lock = threading.Lock()

    @classmethod
    def named(cls, specification: str, *, geometry: Geometry = STANDARD, seed: int = 0) -> Self:
        """The analyst of a player's specification.

        Raises:
            ValueError: if there is no such player, or it searches no tree.
        """
        rng = np.random.default_rng(seed)
        return cls(parse_searching_player(specification, rng=rng, geometry=geometry, reuse="trees"))

    def warm_up(self, geometry: Geometry = STANDARD) -> None:
        """Load whatever the first search on a board needs, so that it does not pay for it; later ones need nothing."""
        with self._lock:
            if not self._is_warm:
                self._player.search([Position(geometry=geometry)], Budget(simulations=2))
                self._is_warm = True

    def forget(self) -> None:
        """Keep nothing of the last tree, as for a new game."""
        with self._lock:
            self._searched = None
            drop_trees(self._player)

    def node(self, position: Position, path: Sequence[int]) -> NodeView:
        """The node that the 0-based columns ``path`` lead to in the tree of the last analysis.

        Raises:
            ValueError: if that was of another position, is still in progress, or does not reach that far.
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
        stop: threading.Event | None = None,
        on_progress: Callable[[SearchedPosition], None] = lambda _found: None,
    ) -> SearchedPosition:
        """Search an unfinished position, by default for this player's own budget.

        ``on_progress`` is called about ten times a second. Setting ``stop`` ends the search at the next slice.
        """
        budget = budget or self.budget
        with self._lock:
            self._searched, self._is_warm = position, True
            started, done = time.perf_counter(), 0
            while True:
                left = math.inf if budget.seconds is None else budget.seconds - (time.perf_counter() - started)
                size = MAX_SLICE if budget.simulations is None else min(MAX_SLICE, budget.simulations - done)
                # A slice that ends by its time leaves the tree as it would be without slices.
                slice_seconds = max(min(SLICE_SECONDS, left), SHORTEST_SLICE)
                result = self._player.search([position], Budget(simulations=size, seconds=slice_seconds))
                now = time.perf_counter()
                ran = int(result.simulations[0])
                done += ran
                finished = (
                    (ran < size and result.seconds < slice_seconds)  # there is nothing more to find out
                    or (budget.simulations is not None and done >= budget.simulations)
                    or (budget.seconds is not None and now - started >= budget.seconds)
                )
                found = SearchedPosition.of_result(position, self.name, result)
                found = replace(found, simulations=done, seconds=now - started, finished=finished)
                if finished or (stop is not None and stop.is_set()):
                    return found
                on_progress(found)

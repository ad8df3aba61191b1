"""The exact solver as an object that keeps its transposition table."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from alphac4.game.position import Outcome, Position
from alphac4.game.rules import STANDARD, Geometry
from alphac4.solver.book import packaged_book
from alphac4.solver.exact import FULL_COLUMN, KnownScores, score_batch, score_columns_batch
from alphac4.solver.search import make_layout
from alphac4.solver.stack import LIMIT, NODES, Integers, Words, make_memory
from alphac4.solver.table import make_table

DEFAULT_TABLE_BITS = 22
SLICE_NODES = 1 << 18  # searched between two pauses: some hundredths of a second

OnPause = Callable[[], None]
Scores = npt.NDArray[np.int8]
Stones = npt.NDArray[np.uint64]


class Solver:
    """Exact play on one geometry, by alpha-beta search and an opening book.

    A score is for the side to move: 0 a draw; positive if it wins, counted as ``(cells + 1 - plies) // 2`` for a
    win with the next stone; negative mirrored. A finished position scores as its last move did: -18 for the side to
    move after the fastest win on the standard board, 0 if the board is full.

    What one call proves speeds up later ones. Batches release the interpreter's lock, and threads may share a solver.
    A search pauses some dozens of times a second, so that Ctrl-C interrupts it; so does whatever the ``on_pause`` of
    `analyze` raises then. What was proven until there stays in the table.

    Args:
        geometry: the board; positions on another are refused.
        table_bits: the table has ``2 ** table_bits`` entries of 8 bytes.
        book: known scores to start from; by default the opening book of the package, if it has one for the geometry.
    """

    def __init__(
        self,
        geometry: Geometry = STANDARD,
        *,
        table_bits: int = DEFAULT_TABLE_BITS,
        book: KnownScores | None = None,
    ) -> None:
        self.geometry = geometry
        self.nodes = 0  # positions whose moves were generated so far, by all calls
        self._book = book
        self._layout = make_layout(geometry)
        self._table = make_table(geometry, table_bits)

    @property
    def book(self) -> KnownScores:
        """Known scores, loaded at the first use."""
        if self._book is None:
            self._book = packaged_book(self.geometry)
        return self._book

    def forget(self) -> None:
        """Empty the table, so that a measurement does not profit from earlier calls."""
        self._table.entries.fill(0)

    def solve(self, position: Position, on_pause: OnPause | None = None) -> int:
        """The exact score; ``on_pause`` as in `analyze`."""
        return int(self._score(*self._stones(position), weak=False, on_pause=on_pause)[0])

    def solve_outcome(self, position: Position) -> Outcome:
        """Win, draw or loss with best play, which takes less search than the score."""
        return Outcome(int(self.solve_outcome_batch(*self._stones(position))[0]))

    def analyze(self, position: Position, on_pause: OnPause | None = None) -> list[int | None]:
        """The score of each column's move for the side that makes it; None where a move is not possible.

        ``on_pause`` is called some dozens of times a second; what it raises ends the search.
        """
        own, occupied = self._stones(position)
        return _by_column(self._score_columns(own, occupied, weak=False, on_pause=on_pause)[0])

    def analyze_outcome(self, position: Position, on_pause: OnPause | None = None) -> list[int | None]:
        """Like `analyze`, with 1, 0, -1 for win, draw and loss, which takes less search."""
        return _by_column(self._outcomes_by_column(*self._stones(position), on_pause)[0])

    def solve_batch(self, own: Stones, occupied: Stones) -> Scores:
        """Scores, int8 [B], of positions given as bitboards, uint64 [B] each."""
        return self._score(own, occupied, weak=False)

    def solve_outcome_batch(self, own: Stones, occupied: Stones) -> Scores:
        """Outcomes, int8 [B]: 1 win, 0 draw, -1 loss for the side to move."""
        return np.sign(self._score(own, occupied, weak=True))

    def analyze_batch(self, own: Stones, occupied: Stones) -> Scores:
        """Scores by column, int8 [B, A], for the side to move; `FULL_COLUMN` where a move is not possible."""
        return self._score_columns(own, occupied, weak=False)

    def analyze_outcome_batch(self, own: Stones, occupied: Stones) -> Scores:
        """Outcomes by column, int8 [B, A]: 1 win, 0 draw, -1 loss for the side to move, or `FULL_COLUMN`."""
        return self._outcomes_by_column(own, occupied)

    def _outcomes_by_column(self, own: Stones, occupied: Stones, on_pause: OnPause | None = None) -> Scores:
        scores = self._score_columns(own, occupied, weak=True, on_pause=on_pause)
        return np.where(scores == FULL_COLUMN, scores, np.sign(scores))

    def _score(self, own: Stones, occupied: Stones, *, weak: bool, on_pause: OnPause | None = None) -> Scores:
        own, occupied = _checked(own, occupied)
        scores = np.empty(len(own), np.int8)
        self._search(
            lambda words, integers, start: score_batch(
                self.geometry, self._layout, self._table, self.book, words, integers, own, occupied, weak, scores, start
            ),
            scores.size,
            on_pause,
        )
        return scores

    def _score_columns(self, own: Stones, occupied: Stones, *, weak: bool, on_pause: OnPause | None = None) -> Scores:
        own, occupied = _checked(own, occupied)
        scores = np.empty((len(own), self.geometry.columns), np.int8)
        self._search(
            lambda words, integers, start: score_columns_batch(
                self.geometry, self._layout, self._table, self.book, words, integers, own, occupied, weak, scores, start
            ),
            scores.size,
            on_pause,
        )
        return scores

    def _search(self, go_on: Callable[[Words, Integers, int], int], size: int, on_pause: OnPause | None = None) -> None:
        """Let ``go_on`` find all ``size`` scores, with a pause after each slice, where Python sees signals."""
        words, integers = make_memory(self.geometry)
        done = counted = 0
        while done < size:
            integers[LIMIT] = integers[NODES] + SLICE_NODES
            done = go_on(words, integers, done)
            self.nodes += int(integers[NODES]) - counted
            counted = int(integers[NODES])
            if on_pause is not None:
                on_pause()

    def _stones(self, position: Position) -> tuple[Stones, Stones]:
        if position.geometry != self.geometry:
            raise ValueError(f"a solver for {self.geometry} cannot solve a position on {position.geometry}")
        return np.array([position.own], np.uint64), np.array([position.occupied], np.uint64)


def _checked(own: Stones, occupied: Stones) -> tuple[Stones, Stones]:
    """The arrays as the compiled code takes them: another layout would be compiled for anew."""
    own = np.require(own, np.uint64, ["C", "W"])
    occupied = np.require(occupied, np.uint64, ["C", "W"])
    if own.ndim != 1 or own.shape != occupied.shape:
        raise ValueError(f"positions are two arrays of one length, not {own.shape} and {occupied.shape}")
    return own, occupied


def _by_column(scores: Scores) -> list[int | None]:
    return [None if score == FULL_COLUMN else int(score) for score in scores]


def moves_to_end(geometry: Geometry, plies: int, score: int) -> int:
    """How many moves the winner still makes, its last included, in a position with ``plies`` stones; 0 for a draw."""
    if score > 0:
        return (geometry.cells + 1 - plies) // 2 - score + 1
    if score < 0:
        return (geometry.cells - plies) // 2 + score + 1
    return 0


def best_columns(scores: Sequence[int | None]) -> list[int]:
    """The 0-based columns whose score none exceeds."""
    playable = [score for score in scores if score is not None]
    return [column for column, score in enumerate(scores) if playable and score == max(playable)]


@cache
def shared_solver(geometry: Geometry = STANDARD) -> Solver:
    """One solver a geometry for the whole process."""
    return Solver(geometry)


def solve(position: Position) -> int:
    """`Solver.solve` by the process's shared solver."""
    return shared_solver(position.geometry).solve(position)


def analyze(position: Position) -> list[int | None]:
    """`Solver.analyze` by the process's shared solver."""
    return shared_solver(position.geometry).analyze(position)

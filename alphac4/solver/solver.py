"""The exact solver as an object that keeps its transposition table, and its verdict for people."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from alphac4.game.position import Position, describe_end
from alphac4.game.rules import STANDARD, Geometry, Words
from alphac4.solver.book import KnownScores, packaged_book
from alphac4.solver.memory import LIMIT, NODES, make_memory, make_table
from alphac4.solver.search import FULL_COLUMN, children, make_layout, score_batch

DEFAULT_TABLE_BITS = 22
NODES_PER_PAUSE = 1 << 18  # searched between two pauses: some hundredths of a second

OnPause = Callable[[], None]
Scores = npt.NDArray[np.int8]


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
        self.book = packaged_book(geometry) if book is None else book
        self._layout = make_layout(geometry)
        self._table = make_table(geometry, table_bits)

    def solve(self, position: Position, on_pause: OnPause | None = None, *, weak: bool = False) -> int:
        """The exact score; the options are those of `analyze`."""
        return int(self.solve_batch(*self._stones(position), weak=weak, on_pause=on_pause)[0])

    def analyze(self, position: Position, on_pause: OnPause | None = None, *, weak: bool = False) -> list[int | None]:
        """The score of each column's move for the side that makes it; None where a move is not possible.

        With ``weak`` it is 1, 0 or -1 for win, draw and loss, which takes less search. ``on_pause`` is called some
        dozens of times a second; what it raises ends the search.
        """
        scores = self.analyze_batch(*self._stones(position), weak=weak, on_pause=on_pause)[0]
        return [None if score == FULL_COLUMN else int(score) for score in scores]

    def analyze_batch(
        self, own: Words, occupied: Words, *, weak: bool = False, on_pause: OnPause | None = None
    ) -> Scores:
        """`solve_batch` by column, int8 [B, A], for the side to move; `FULL_COLUMN` where a move is not possible."""
        playable, after_own, after_occupied = children(self.geometry, *_checked(own, occupied))
        scores = np.full(playable.shape, FULL_COLUMN, np.int8)
        scores[playable] = -self.solve_batch(after_own, after_occupied, weak=weak, on_pause=on_pause)
        return scores

    def solve_batch(
        self, own: Words, occupied: Words, *, weak: bool = False, on_pause: OnPause | None = None
    ) -> Scores:
        """Scores, int8 [B], of positions given as bitboards, uint64 [B] each; with ``weak`` 1, 0, -1 in their place.

        There is a pause after each slice, where Python sees signals.
        """
        own, occupied = _checked(own, occupied)
        words, integers = make_memory(self.geometry)
        scores = np.empty(len(own), np.int8)
        done = counted = 0
        while done < len(own):
            integers[LIMIT] = integers[NODES] + NODES_PER_PAUSE
            done = score_batch(
                self.geometry, self._layout, self._table, self.book, words, integers, own, occupied, weak, scores, done
            )
            self.nodes += int(integers[NODES]) - counted
            counted = int(integers[NODES])
            if on_pause is not None:
                on_pause()
        return np.sign(scores) if weak else scores

    def _stones(self, position: Position) -> tuple[Words, Words]:
        if position.geometry != self.geometry:
            raise ValueError(f"a solver for {self.geometry} cannot solve a position on {position.geometry}")
        return np.array([position.own], np.uint64), np.array([position.occupied], np.uint64)


def _checked(own: Words, occupied: Words) -> tuple[Words, Words]:
    """The arrays in the layout that the code is compiled for."""
    own = np.require(own, np.uint64, ["C", "W"])
    occupied = np.require(occupied, np.uint64, ["C", "W"])
    if own.ndim != 1 or own.shape != occupied.shape:
        raise ValueError(f"positions are two arrays of one length, not {own.shape} and {occupied.shape}")
    return own, occupied


def moves_to_end(geometry: Geometry, plies: int, score: int) -> int:
    """Number of moves left to the winner, its last included, in a position with ``plies`` stones; 0 for a draw."""
    if score > 0:
        return (geometry.cells + 1 - plies) // 2 - score + 1
    if score < 0:
        return (geometry.cells - plies) // 2 + score + 1
    return 0


def best_columns(scores: Sequence[int | None]) -> list[int]:
    """The 0-based columns with the highest score."""
    playable = [score for score in scores if score is not None]
    return [column for column, score in enumerate(scores) if playable and score == max(playable)]


@cache
def shared_solver(geometry: Geometry = STANDARD) -> Solver:
    """One solver per geometry for the whole process."""
    return Solver(geometry)


class TimeIsUp(Exception):  # noqa: N818 - a state, not an error
    """The solver has used its time."""


def deadline(seconds: float, on_pause: OnPause = lambda: None) -> OnPause:
    """An ``on_pause`` that calls another one, and raises `TimeIsUp` when ``seconds`` have passed since its first call.

    So loading the compiled code and the book, which takes seconds in a new process, does not count.
    """
    until: float | None = None

    def look() -> None:
        nonlocal until
        on_pause()
        if until is None:
            until = time.monotonic() + seconds
        if time.monotonic() > until:
            raise TimeIsUp

    return look


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The exact result of a position or a move, for the side to move."""

    score: int  # the solver's exact score
    moves: int  # how many the winner still makes, its last included; 0 for a draw

    @classmethod
    def of(cls, position: Position, score: int) -> "Verdict":
        """The meaning of a score in a position."""
        return Verdict(score=score, moves=moves_to_end(position.geometry, position.plies, score))

    @property
    def outcome(self) -> int:
        """1 win, 0 draw, -1 loss."""
        return (self.score > 0) - (self.score < 0)

    @property
    def text(self) -> str:
        """Such as "wins in 5 moves" or "draw"."""
        return describe_end(self.score, self.moves) if self.score else "draw"


@dataclass(frozen=True, kw_only=True)
class ExactColumn(Verdict):
    """The exact result of a legal move."""

    column: int  # 0-based
    best: bool


def exact(position: Position, on_pause: Callable[[], None] | None = None) -> list[ExactColumn]:
    """The solver's verdict on each legal move.

    Early positions that the opening book lacks take seconds to minutes; see `Solver.analyze` for ``on_pause``.
    """
    scores = shared_solver(position.geometry).analyze(position, on_pause)
    best = best_columns(scores)
    return [
        ExactColumn(column=column, best=column in best, **vars(Verdict.of(position, score)))
        for column, score in enumerate(scores)
        if score is not None
    ]


def best_moves(position: Position, score: int, solve: Callable[[Position], int | None]) -> Iterator[int]:
    """The 0-based columns that keep a position's score, the most central first.

    ``solve`` scores the positions after them, or returns None where that would take too long.
    """
    middle = (position.geometry.columns - 1) / 2
    for column in sorted(position.legal_columns(), key=lambda column: abs(column - middle)):
        if solve(position.play(column)) == -score:
            yield column


def best_play(position: Position, score: int, solve: Callable[[Position], int | None]) -> Iterator[int]:
    """Best play by both sides from a position of this score, until ``solve`` returns None; see `best_moves`."""
    while (column := next(best_moves(position, score, solve), None)) is not None:
        yield column
        position, score = position.play(column), -score

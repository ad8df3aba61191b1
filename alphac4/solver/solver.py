"""The exact solver with its transposition table, and its verdicts in words."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from alphac4.game.position import Position, describe_end
from alphac4.game.rules import STANDARD, Board, Words
from alphac4.solver.book import KnownScores, packaged_book
from alphac4.solver.memory import LIMIT, NODES, make_memory, make_table
from alphac4.solver.search import FULL_COLUMN, children, make_layout, score_batch

DEFAULT_TABLE_BITS = 22
NODES_PER_PAUSE = 1 << 18  # take some hundredths of a second

OnPoll = Callable[[], None]
Scores = npt.NDArray[np.int8]


class Solver:
    """Exact solver for one board, by alpha-beta search and an opening book, by default the package's.

    A score is for the side to move: 0 for a draw, ``(cells + 1 - plies) // 2`` for a win with the next stone and one
    less for every further move of the winner; negative for a loss. A finished position has the score of its last move:
    on the standard board -18 after the fastest win, and 0 after a draw.

    Results stay in the table, of ``2 ** table_bits`` entries of 8 bytes, and speed up later calls. Searches release the
    interpreter's lock, and threads may share a solver. A search pauses some dozens of times per second; at a pause,
    Ctrl-C or an exception of ``on_poll`` ends it.
    """

    def __init__(
        self,
        board: Board = STANDARD,
        *,
        table_bits: int = DEFAULT_TABLE_BITS,
        book: KnownScores | None = None,
    ) -> None:
        self.board = board
        self.nodes = 0  # positions whose moves were generated, in all calls
        self.book = packaged_book(board) if book is None else book
        self._layout = make_layout(board)
        self._table = make_table(board, table_bits)

    def solve(self, position: Position, on_poll: OnPoll | None = None, *, weak: bool = False) -> int:
        """Return the exact score; the options are those of `analyze`."""
        return int(self.solve_batch(*self._stones(position), weak=weak, on_poll=on_poll)[0])

    def analyze(self, position: Position, on_poll: OnPoll | None = None, *, weak: bool = False) -> list[int | None]:
        """Return the score of each column's move, for the side that makes it; None for an illegal move.

        If ``weak``, only distinguish win (1), draw (0) and loss (-1), which takes less search.
        """
        scores = self.analyze_batch(*self._stones(position), weak=weak, on_poll=on_poll)[0]
        return [None if score == FULL_COLUMN else int(score) for score in scores]

    def analyze_batch(
        self, own: Words, occupied: Words, *, weak: bool = False, on_poll: OnPoll | None = None
    ) -> Scores:
        """Return the score of each move, int8 [B, A], for the side that makes it; `FULL_COLUMN` for an illegal move."""
        playable, after_own, after_occupied = children(self.board, *_checked(own, occupied))
        scores = np.full(playable.shape, FULL_COLUMN, np.int8)
        scores[playable] = -self.solve_batch(after_own, after_occupied, weak=weak, on_poll=on_poll)
        return scores

    def solve_batch(self, own: Words, occupied: Words, *, weak: bool = False, on_poll: OnPoll | None = None) -> Scores:
        """Return the scores, int8 [B], of positions given as bitboards, uint64 [B] each; see `analyze`."""
        own, occupied = _checked(own, occupied)
        words, integers = make_memory(self.board)
        scores = np.empty(len(own), np.int8)
        done = counted = 0
        while done < len(own):
            integers[LIMIT] = integers[NODES] + NODES_PER_PAUSE
            done = score_batch(
                self.board, self._layout, self._table, self.book, words, integers, own, occupied, weak, scores, done
            )
            self.nodes += int(integers[NODES]) - counted
            counted = int(integers[NODES])
            if on_poll is not None:
                on_poll()
        return np.sign(scores) if weak else scores

    def _stones(self, position: Position) -> tuple[Words, Words]:
        if position.board != self.board:
            raise ValueError(f"a solver for {self.board} cannot solve a position on {position.board}")
        return np.array([position.own], np.uint64), np.array([position.occupied], np.uint64)


def _checked(own: Words, occupied: Words) -> tuple[Words, Words]:
    """Return the arrays in the memory layout of the compiled code."""
    own = np.require(own, np.uint64, ["C", "W"])
    occupied = np.require(occupied, np.uint64, ["C", "W"])
    if own.ndim != 1 or own.shape != occupied.shape:
        raise ValueError(f"positions are two arrays of one length, not {own.shape} and {occupied.shape}")
    return own, occupied


def moves_to_end(board: Board, plies: int, score: int) -> int:
    """Return the winner's number of moves to the end, its last one included, after ``plies`` stones; 0 for a draw."""
    if score > 0:
        return (board.cells + 1 - plies) // 2 - score + 1
    if score < 0:
        return (board.cells - plies) // 2 + score + 1
    return 0


def best_columns(scores: Sequence[int | None]) -> list[int]:
    """Return the 0-based columns with the highest score."""
    playable = [score for score in scores if score is not None]
    return [column for column, score in enumerate(scores) if playable and score == max(playable)]


@cache
def shared_solver(board: Board = STANDARD) -> Solver:
    return Solver(board)


class TimeIsUp(Exception):  # noqa: N818 - a state, not an error
    """Error for an exceeded time limit of the solver."""


def deadline(seconds: float, on_poll: OnPoll = lambda: None) -> OnPoll:
    """Return a function that calls ``on_poll`` and raises `TimeIsUp` when ``seconds`` have passed since its first call.

    So loading the compiled code and the book, which takes seconds in a new process, does not count.
    """
    end: float | None = None

    def check() -> None:
        nonlocal end
        on_poll()
        if end is None:
            end = time.monotonic() + seconds
        if time.monotonic() > end:
            raise TimeIsUp

    return check


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The exact result of a position or a move, for the side to move."""

    score: int  # see `Solver`
    moves: int  # moves of the winner to the end, its last one included; 0 for a draw

    @classmethod
    def of(cls, position: Position, score: int) -> "Verdict":
        return Verdict(score=score, moves=moves_to_end(position.board, position.plies, score))

    @property
    def outcome(self) -> int:
        """1 win, 0 draw, -1 loss."""
        return (self.score > 0) - (self.score < 0)

    @property
    def text(self) -> str:
        """The verdict in words, such as "wins in 5 moves" or "draw"."""
        return describe_end(self.score, self.moves) if self.score else "draw"


@dataclass(frozen=True, kw_only=True)
class ExactColumn(Verdict):
    """The exact result of a legal move."""

    column: int  # 0-based
    is_best: bool


def exact(position: Position, on_poll: Callable[[], None] | None = None) -> list[ExactColumn]:
    """Return the solver's verdict on each legal move; early positions that the book lacks take seconds to minutes."""
    scores = shared_solver(position.board).analyze(position, on_poll)
    best = best_columns(scores)
    return [
        ExactColumn(column=column, is_best=column in best, **vars(Verdict.of(position, score)))
        for column, score in enumerate(scores)
        if score is not None
    ]


def columns_from_centre(position: Position) -> list[int]:
    """Return the legal 0-based columns, the most central first."""
    middle = (position.board.columns - 1) / 2
    return sorted(position.legal_columns(), key=lambda column: abs(column - middle))


def best_moves(position: Position, score: int, solve: Callable[[Position], int | None]) -> Iterator[int]:
    """Yield the 0-based columns that keep a position's score, the most central first.

    ``solve`` returns the score of a position after a move, or None if that would take too long.
    """
    for column in columns_from_centre(position):
        if solve(position.play(column)) == -score:
            yield column


def best_play(position: Position, score: int, solve: Callable[[Position], int | None]) -> Iterator[int]:
    """Yield the 0-based columns of best play by both sides, until the end or until `best_moves` finds none."""
    while (column := next(best_moves(position, score, solve), None)) is not None:
        yield column
        position, score = position.play(column), -score

"""The exact solver's verdict on every move of a position, for people."""

from collections.abc import Callable
from dataclasses import dataclass

from alphac4.game import Position
from alphac4.game.wording import describe_end
from alphac4.solver.deadline import Deadline, TimeIsUp
from alphac4.solver.solver import best_columns, moves_to_end, shared_solver


@dataclass(frozen=True, kw_only=True)
class ExactColumn:
    """The truth about one move."""

    column: int  # 0-based
    score: int  # the solver's exact score, for the side that makes the move
    moves: int  # how many the winner still makes, its last included; 0 for a draw
    best: bool

    @property
    def outcome(self) -> str:
        """Such as "wins in 5 moves" or "draw"."""
        if self.score == 0:
            return "draw"
        return describe_end(self.score, self.moves)


def exact(position: Position, on_pause: Callable[[], None] | None = None) -> list[ExactColumn]:
    """The solver's verdict on each move that can be made.

    Positions with few stones that the opening book lacks take seconds to minutes: ``on_pause`` is called some dozens of
    times a second meanwhile, and what it raises ends the search.
    """
    scores = shared_solver(position.geometry).analyze(position, on_pause)
    best = best_columns(scores)
    return [
        ExactColumn(
            column=column,
            score=score,
            moves=moves_to_end(position.geometry, position.plies, score),
            best=column in best,
        )
        for column, score in enumerate(scores)
        if score is not None
    ]


def exact_within(position: Position, seconds: float) -> list[ExactColumn] | None:
    """`exact`, or None if it takes longer than so many seconds."""
    try:
        return exact(position, Deadline(seconds))
    except TimeIsUp:
        return None


def best_line(position: Position, plies: int) -> tuple[int, ...]:
    """Best play by both sides, 0-based columns, for so many plies at most; of moves equally good the most central."""
    line: list[int] = []
    while len(line) < plies and position.outcome() is None:
        best = [item.column for item in exact(position) if item.best]
        line.append(next(column for column in from_the_centre(position) if column in best))
        position = position.play(line[-1])
    return tuple(line)


def from_the_centre(position: Position) -> tuple[int, ...]:
    """The columns that can be played, the most central first."""
    middle = (position.geometry.columns - 1) / 2
    return tuple(sorted(position.legal_columns(), key=lambda column: abs(column - middle)))

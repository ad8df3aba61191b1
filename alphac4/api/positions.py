"""Positions for Python users: conversion, exact scores and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from alphac4.game import Board, Outcome, Position
from alphac4.game.position import COLUMN_NAMES, check_stones, count_of
from alphac4.game.reasons import strength, weakness
from alphac4.game.rules import STANDARD
from alphac4.solver.solver import ExactColumn, exact, shared_solver
from alphac4.storage.records import Range, checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from alphac4.training.reports import GameRecord

PositionLike = Annotated[str | Position, "a move string such as '4455' or a Position"]
PositionsLike = Annotated[
    PositionLike | Sequence[PositionLike], "a move string such as '4455', a Position, or a list of them"
]
AnyBoard = Annotated[Board, "a board from make_board"]


def as_position(given: PositionLike, board: Board | None = None) -> Position:
    """Convert a move string to a position, or check a position; the game may be over."""
    if isinstance(given, str):
        return Position.from_moves(given, STANDARD if board is None else board)
    if board not in (None, given.board):
        raise ValueError("the position is on a different board")
    check_stones(*given.sides, given.board)  # it may have been made from any bits
    if given.moves is not None and not _leads_to(given.moves, given):
        raise ValueError(f"the moves {given.moves!r:.60} do not lead to the position's stones; give moves=None")
    return given


def _leads_to(moves: str, position: Position) -> bool:
    """Return whether moves produce a position's stones, much faster than `Position.from_moves`."""
    board = position.board
    heights, stones = [0] * board.columns, [0, 0]
    for ply, name in enumerate(moves.lower()):
        column = COLUMN_NAMES.find(name)
        if not 0 <= column < board.columns:
            return False
        stones[ply % 2] |= 1 << (column * (board.rows + 1) + heights[column])
        heights[column] += 1
    return (stones[0], stones[1]) == position.sides


def read_positions(given: Sequence[PositionLike], board: Board | None = None) -> list[Position]:
    """Convert move strings or positions to unfinished positions."""
    positions = [as_position(item, board) for item in given]
    for position in positions:
        if position.outcome() is not None:
            raise ValueError(f"the game is over after {position.moves or 'these moves'}")
    return positions


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A position with the exact score of every legal move."""

    position: Position
    columns: dict[int, ExactColumn]  # by 0-based column

    @cached_property
    def score(self) -> int:
        """The exact score of the best move, for the side to move."""
        return max(column.score for column in self.columns.values())

    @property
    def outcome(self) -> Outcome:
        """The outcome with best play, for the side to move."""
        return Outcome((self.score > 0) - (self.score < 0))

    @property
    def best_columns(self) -> list[int]:
        """The 0-based columns with the highest score."""
        return [column for column, verdict in self.columns.items() if verdict.is_best]

    def __repr__(self) -> str:
        found = f"{self.outcome.name.lower()}, score {self.score} (columns count from 0)"
        moves = self.position.moves
        lines = [found if moves is None else f"after {moves!r}: {found}"]
        for column, verdict in self.columns.items():
            mark = " *" if verdict.is_best else ""
            lines.append(f"  column {column}: {verdict.score:+d}, {verdict.text}{mark}")
        return "\n".join(lines)


@checked
def solve(position: PositionLike, *, board: AnyBoard | None = None) -> int:
    """Return the exact score of a position, for the side to move.

    0 is a draw. A positive score is a win: the number of stones that the winner has left before its last move, so that
    faster wins have higher scores. A negative score is a loss, counted in the same way for the opponent. Positions with
    few stones may take minutes on boards without an opening book in the package.

    Args:
        position: a move string such as "4455", or a `Position`.
        board: by default that of the position, or the standard one for moves.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for an illegal move, a game that is over, or a position of another board.
    """
    (found,) = read_positions([position], board)
    return shared_solver(found.board).solve(found)


@checked
def analyze(position: PositionLike, *, board: AnyBoard | None = None) -> Analysis:
    """Return the exact score of every legal move; see `solve`."""
    (found,) = read_positions([position], board)
    return Analysis(position=found, columns={verdict.column: verdict for verdict in exact(found)})


@checked
def explain(position: PositionLike, column: int, *, board: AnyBoard | None = None) -> str:
    """Return one sentence on what a move achieves or gives away; "" if there is nothing simple to say.

    Examples are "4 makes threats in 3 and 5 at once." and "4 lets Yellow play 5, which completes a row." The sentence
    names columns as move strings do, from 1; Red plays first.

    Args:
        position: a move string such as "4455", or a `Position`.
        column: the 0-based column of the move.
        board: by default that of the position, or the standard one for moves.

    Raises:
        IllegalMove: if the move is illegal.
        TypeError: for an argument of another type.
        ValueError: for an illegal position, a game that is over, or a position of another board.
    """
    (found,) = read_positions([position], board)
    return strength(found, column) or weakness(found, column)


@checked
def draw_board(
    position: PositionLike,
    policy: Sequence[Annotated[float, Range(0, 1)] | None] | None = None,
    *,
    title: str = "",
    axes: "Axes | None" = None,
    board: AnyBoard | None = None,
) -> "Axes":
    """Draw a position with Matplotlib and mark its last stone, if its moves are known; a notebook displays the result.

    Args:
        position: a move string such as "4455", or a `Position`; the game may be over.
        policy: a probability for each column, drawn as bars above the board; None for no bar.
        title: title of the axes.
        axes: axes to draw on; by default those of a new figure.
        board: by default that of the position, or the standard one for moves.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for an illegal move, a position of another board, or a policy that is not a probability per column.
    """
    from alphac4.runs import figures

    found = as_position(position, board)
    shares = None if policy is None else [share or 0.0 for share in policy]
    if shares is not None and len(shares) != (columns := found.board.columns):
        raise ValueError(f"policy needs {count_of(columns, 'number')}, one for each column, not {len(shares)}")
    if axes is not None and not hasattr(axes, "add_patch"):
        raise TypeError(f"axes must be axes of Matplotlib, not {axes!r:.60}")
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(3.2, 3.4), layout="constrained")[1]
    figures.draw_board(axes, found, shares, title)
    return axes


@checked
def draw_game(game: "GameRecord", *, board: AnyBoard = STANDARD, moments: Annotated[int, Range(2, 64)] = 8) -> "Figure":
    """Draw positions of a self-play game, evenly spaced from its start to its end, with the search's policy and value.

    Args:
        game: a game in ``report.selfplay.sample_games``; `train` returns a run whose ``history`` has the reports.
        board: the board of the game.
        moments: the maximum number of positions, including the last one.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for fewer than 2 or more than 64 moments.
    """
    from alphac4.runs import figures

    if not hasattr(game, "policies"):
        raise TypeError(f"game must be a GameRecord, such as report.selfplay.sample_games[0], not {game!r:.60}")
    return figures.game_figure(game, board, moments)

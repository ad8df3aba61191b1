"""Positions for Python users: conversion, exact scores and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alphac4.game import Geometry, Outcome, Position
from alphac4.game.position import COLUMN_NAMES, check_stones, count_of
from alphac4.game.rules import STANDARD, as_integer, check_geometry
from alphac4.solver.solver import ExactColumn, exact, shared_solver

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from alphac4.training.reports import GameRecord

PositionLike = str | Position
"""Move string such as "4455", or a position."""


def as_position(given: PositionLike, geometry: Geometry | None = None) -> Position:
    """Convert a move string to a position, or check a position; the game may be over.

    Args:
        given: the moves or the position.
        geometry: the board; by default that of the position, or the standard one.

    Raises:
        TypeError: for anything but a move string or a position, or another type of board.
        ValueError: for an illegal move, an impossible board, or a position of another board than ``geometry``.
    """
    if geometry is not None:
        check_geometry(geometry)
    if isinstance(given, str):
        return Position.from_moves(given, STANDARD if geometry is None else geometry)
    if not isinstance(given, Position):
        raise TypeError(f"a position must be a move string such as '4455', or a Position, not {given!r:.60}")
    if geometry not in (None, given.geometry):
        raise ValueError("the position is on a different board")
    check_stones(*given.sides, given.geometry)  # it may have been made from any bits
    if given.moves is not None and not _leads_to(given.moves, given):
        raise ValueError(f"the moves {given.moves!r:.60} do not lead to the position's stones; give moves=None")
    return given


def _leads_to(moves: str, position: Position) -> bool:
    """Return whether moves produce a position's stones, much faster than `Position.from_moves`."""
    geometry = position.geometry
    heights, stones = [0] * geometry.columns, [0, 0]
    for ply, name in enumerate(moves.lower()):
        column = COLUMN_NAMES.find(name)
        if not 0 <= column < geometry.columns:
            return False
        stones[ply % 2] |= 1 << (column * (geometry.rows + 1) + heights[column])
        heights[column] += 1
    return (stones[0], stones[1]) == position.sides


def read_positions(given: Sequence[PositionLike], geometry: Geometry | None = None) -> list[Position]:
    """Convert move strings or positions to unfinished positions; see `as_position`.

    Raises:
        TypeError: for a single position, or anything but move strings and positions.
        ValueError: for an illegal move, another board, or a game that is over.
    """
    if isinstance(given, str | Position) or not isinstance(given, Sequence):
        raise TypeError(f"positions must be a list, not {given!r:.60}")
    positions = [as_position(item, geometry) for item in given]
    for position in positions:
        if position.outcome() is not None:
            raise ValueError(f"the game is over after {position.moves or 'these moves'}")
    return positions


@dataclass(frozen=True, kw_only=True)
class SolvedPosition:
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
    def best(self) -> list[int]:
        """The 0-based columns with the highest score."""
        return [column for column, verdict in self.columns.items() if verdict.best]

    def __repr__(self) -> str:
        found = f"{self.outcome.name.lower()}, score {self.score} (columns count from 0)"
        lines = [f"after {self.position.moves!r}: {found}"]
        for column, verdict in self.columns.items():
            mark = " *" if verdict.best else ""
            lines.append(f"  column {column}: {verdict.score:+d}, {verdict.text}{mark}")
        return "\n".join(lines)


def solve(position: PositionLike, *, geometry: Geometry | None = None) -> int:
    """Return the exact score of a position, for the side to move.

    0 is a draw. A positive score is a win: the number of stones that the winner has left before its last move, so that
    faster wins have higher scores. A negative score is a win of the opponent. Positions with few stones may take
    minutes on boards without an opening book in the package.

    Args:
        position: a move string such as "4455", or a `Position`.
        geometry: the board; by default that of the position, or the standard one for moves.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for an illegal move, a game that is over, or a position of another board.
    """
    (found,) = read_positions([position], geometry)
    return shared_solver(found.geometry).solve(found)


def analyze(position: PositionLike, *, geometry: Geometry | None = None) -> SolvedPosition:
    """Return the exact score of every legal move; see `solve`."""
    (found,) = read_positions([position], geometry)
    return SolvedPosition(position=found, columns={verdict.column: verdict for verdict in exact(found)})


def draw_board(
    position: PositionLike,
    policy: Sequence[float | None] | None = None,
    *,
    title: str = "",
    axes: "Axes | None" = None,
    geometry: Geometry | None = None,
) -> "Axes":
    """Draw a position with Matplotlib and mark its last stone; a notebook displays the result.

    Args:
        position: a move string such as "4455", or a `Position`; the game may be over.
        policy: a probability for each column, drawn as bars above the board; None for no bar.
        title: title of the axes.
        axes: axes to draw on; by default those of a new figure.
        geometry: the board; by default that of the position, or the standard one for moves.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for an illegal move, a position of another board, or a policy that is not a probability per column.
    """
    from alphac4.runs import figures

    found = as_position(position, geometry)
    shares = None if policy is None else _as_probabilities(policy, found.geometry.columns)
    if not isinstance(title, str):
        raise TypeError(f"title must be a string, not {title!r:.60}")
    if axes is not None and not hasattr(axes, "add_patch"):
        raise TypeError(f"axes must be axes of Matplotlib, not {axes!r:.60}")
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(3.2, 3.4), layout="constrained")[1]
    figures.draw_board(axes, found, shares, title)
    return axes


def _as_probabilities(policy: Sequence[float | None], columns: int) -> list[float]:
    """Return a policy as a list, or raise the errors of `draw_board`."""
    try:
        listed = policy.tolist() if hasattr(policy, "tolist") else policy  # a tensor may need gradients
        if isinstance(listed, list | tuple):
            listed = [0.0 if share is None else share for share in listed]
        shares = np.asarray(listed)
    except ValueError as error:  # lists of different lengths
        raise TypeError(f"policy must be a list of numbers, not {policy!r:.60}") from error
    if shares.ndim != 1 or shares.dtype.kind not in "biuf":
        raise TypeError(f"policy must be a list of numbers, not {policy!r:.60}")
    if len(shares) != columns:
        raise ValueError(f"policy needs {count_of(columns, 'number')}, one for each column, not {len(shares)}")
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"policy must be probabilities from 0 to 1, not {policy!r:.60}")
    return [float(share) for share in shares]


def draw_game(game: "GameRecord", *, geometry: Geometry = STANDARD, moments: int = 8) -> "Figure":
    """Draw positions of a self-play game, evenly spaced from its start to its end, with the search's policy and value.

    Args:
        game: a game in ``selfplay.sample_games`` of a report in the ``history`` that `train` returns.
        geometry: the board.
        moments: the number of positions, including the last one.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for fewer than two moments.
    """
    from alphac4.runs import figures

    if not hasattr(game, "policies"):
        raise TypeError(f"game must be a GameRecord, such as report.selfplay.sample_games[0], not {game!r:.60}")
    return figures.game_figure(game, geometry, as_integer(moments, "moments", 2))

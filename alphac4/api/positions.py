"""Positions as users write them."""

from collections.abc import Sequence

from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD

Given = str | Position
"""A move string such as "4455", or a position."""


def read_position(given: Given, geometry: Geometry = STANDARD) -> Position:
    """The unfinished position that is meant.

    Raises:
        ValueError: in one line, for an illegal move, another board, or a game that is over.
    """
    check_kind(given)
    position = Position.from_moves(given, geometry) if isinstance(given, str) else given
    if position.geometry != geometry:
        raise ValueError("the position is on another board than the player's")
    if position.outcome() is not None:
        raise ValueError(f"the game is over after {position.moves or 'these moves'}")
    return position


def check_kind(given: object) -> None:
    """Raise a ValueError, in one line, for what is neither a move string nor a position."""
    if not isinstance(given, str | Position):
        raise ValueError(f"a position is a move string such as '4455', or a Position, not {given!r}")


def read_positions(given: Sequence[Given], geometry: Geometry = STANDARD) -> list[Position]:
    """`read_position` for each of them.

    Raises:
        ValueError: in one line, for one that it refuses, or for a single position in place of several.
    """
    if isinstance(given, str | Position):
        raise ValueError(f"several positions are a list of them, not {given!r}")
    return [read_position(item, geometry) for item in given]

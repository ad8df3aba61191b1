"""Rules of Connect Four on any board that fits 64 bits."""

from alphac4.game.position import IllegalMove, Outcome, Position, column_name
from alphac4.game.rules import STANDARD, Geometry, make_geometry

__all__ = ["STANDARD", "Geometry", "IllegalMove", "Outcome", "Position", "column_name", "make_geometry"]

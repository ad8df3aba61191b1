"""Rules of Connect Four on any board that fits 64 bits."""

from alphac4.game.position import IllegalMove, Outcome, Position, column_name
from alphac4.game.rules import STANDARD, Board, make_board

__all__ = ["STANDARD", "Board", "IllegalMove", "Outcome", "Position", "column_name", "make_board"]

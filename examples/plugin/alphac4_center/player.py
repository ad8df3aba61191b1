"""A player that prefers the middle."""

from collections.abc import Sequence

from alphac4 import Position


class Center:
    """Plays the column nearest to the middle that is open."""

    name = "center"

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """Return a 0-based column for each position."""
        return [
            min(position.legal_columns(), key=lambda column: abs(2 * column + 1 - position.board.columns))
            for position in positions
        ]

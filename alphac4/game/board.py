"""The board as a setting."""

from dataclasses import dataclass

from alphac4.game.rules import Geometry, make_geometry


@dataclass(frozen=True, kw_only=True)
class BoardConfig:
    """The board and what wins on it."""

    rows: int = 6
    """Rows of the board."""
    columns: int = 7
    """Columns of the board."""
    run_length: int = 4
    """Stones in a row that win."""
    diagonals: bool = True
    """Whether diagonal rows win."""

    def geometry(self) -> Geometry:
        """The compiled geometry."""
        return make_geometry(self.rows, self.columns, self.run_length, self.diagonals)

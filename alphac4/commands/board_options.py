"""The board, as those commands take it that can play on any."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from alphac4.game.rules import Geometry, make_geometry


@dataclass(frozen=True, kw_only=True)
class BoardOptions:
    """The board and what wins on it."""

    rows: int = 6
    """Rows of the board; a checkpoint decides the board itself."""
    columns: int = 7
    """Columns of the board."""
    run_length: int = 4
    """Stones in a row that win."""
    diagonals: bool = True
    """Whether diagonal rows win."""

    def geometry(self) -> Geometry:
        """The compiled geometry."""
        return make_geometry(self.rows, self.columns, self.run_length, self.diagonals)


Board = Annotated[BoardOptions, tyro.conf.arg(name="")]
"""The type of an option whose fields are options of the command itself."""

"""The board, as those commands take it that can play on any."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from alphac4.game.board import BoardConfig


@dataclass(frozen=True, kw_only=True)
class BoardOptions(BoardConfig):
    """The board and what wins on it."""

    rows: int = 6
    """Rows of the board; a checkpoint decides the board itself."""


Board = Annotated[BoardOptions, tyro.conf.arg(name="")]
"""The type of an option whose fields are options of the command itself."""

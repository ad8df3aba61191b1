"""Puzzles on the play page: positions in which exactly one move wins."""

from pathlib import Path
from typing import TYPE_CHECKING

from alphac4.play.registry import Panel, register_panel

if TYPE_CHECKING:
    from alphac4.game import Geometry


def _supports(geometry: "Geometry") -> bool:
    from alphac4.game import STANDARD

    return geometry == STANDARD


register_panel(Panel(name="puzzles", folder=Path(__file__).with_name("page"), supports=_supports))

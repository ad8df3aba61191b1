"""A plugin with a player, a command and a panel of the page. Install it with `pip install ./examples/plugin`.

This module is imported at every start, so it only registers; the rest is imported when it is used.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from alphac4.arena.registry import PlayerKind, register
from alphac4.commands import register_command
from alphac4.play.registry import Panel, register_panel

if TYPE_CHECKING:
    from alphac4 import Player
    from alphac4.arena.players import BuildOptions


@register
class CenterKind(PlayerKind):
    """The player `center`."""

    forms = {"center": "the column nearest to the middle that is open"}
    names = ("center",)
    is_fixed = True  # the form is the only specification: no limit, no options

    def build(self, options: "BuildOptions") -> "Player":  # noqa: ARG002
        """Create the player; `options` has its random numbers, the board, the number of cores, and more."""
        from alphac4_center.player import Center

        return Center()


register_command(
    "tally", group="Measure", summary="count the first moves of games", target="alphac4_center.command:TallyCommand"
)
register_panel(Panel(name="middle", folder=Path(__file__).with_name("page")))

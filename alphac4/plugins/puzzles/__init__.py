"""Puzzles on the play page: positions in which exactly one move wins."""

from pathlib import Path

from alphac4.play.registry import Panel, register_panel

register_panel(Panel(name="puzzles", folder=Path(__file__).with_name("page"), standard_board_only=True))

"""Parts that plugins add to games: panels of the page, and commands in the terminal."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from alphac4.discovery import add_unique, load_plugins

if TYPE_CHECKING:  # plugins import this module before any command runs
    from starlette.requests import Request
    from starlette.responses import Response

    from alphac4.game import Board
    from alphac4.play.games import Session
    from alphac4.play.screen import Screen
    from alphac4.play.web.app import WebApplication

    Handler = Callable[[WebApplication, Request], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A part of the play page, in a folder of files that the page loads from static/NAME.

    `panel.js` exports ``create(page)``; static/app.js describes what it gets and returns. Two files are optional. In
    `panel.html`, comments such as ``<!-- modes -->`` name the places in static/index.html for the elements below them.
    `panel.css` is their style.
    """

    name: str
    folder: Path
    offline_folder: Path | None = None
    """Files that are added or replaced in an exported page, which has no server."""
    handler: str = ""
    """ "module:function" that answers requests to /api/NAME, called with the application and the request."""
    standard_board_only: bool = False
    """Whether only pages of the standard board have the panel."""

    def load_handler(self) -> "Handler":
        """Import the handler."""
        handler: Handler = resolve_name(self.handler)
        return handler

    def parts(self) -> dict[str, str]:
        """Return the panel's elements by the places where they are inserted."""
        path = self.folder / "panel.html"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return dict(re.findall(r"^<!-- (\S+) -->\n(.*?)(?=^<!-- \S+ -->$|\Z)", text, re.MULTILINE | re.DOTALL))


class TerminalCommand(NamedTuple):
    """A command at the prompt of a game in the terminal."""

    summary: str
    target: str  # "module:function"

    def load(self) -> "Callable[[Session, Screen], None]":
        """Import the function."""
        function: Callable[[Session, Screen], None] = resolve_name(self.target)
        return function


_panels: list[Panel] = []
_terminal_commands: dict[str, TerminalCommand] = {}


def register_panel(panel: Panel) -> None:
    """Add a panel to the page."""
    _panels.append(panel)


def find_panels(board: "Board") -> list[Panel]:
    """Return the panels of a page that shows a board."""
    from alphac4.game import STANDARD

    load_plugins()
    return [panel for panel in _panels if board == STANDARD or not panel.standard_board_only]


def register_terminal_command(name: str, *, summary: str, target: str) -> None:
    """Add a command of one word to games in the terminal.

    Args:
        name: what one types.
        summary: what it does, for the help.
        target: "module:function", which is called with the game's session and the screen. It may raise a `ValueError`,
            whose message is printed. Ctrl-C ends the command, not the game.

    Raises:
        ValueError: if a plugin has added a command with this name.
    """
    add_unique(_terminal_commands, name, TerminalCommand(summary, target))


def find_terminal_commands() -> dict[str, TerminalCommand]:
    """Return the commands of plugins by name."""
    load_plugins()
    return _terminal_commands

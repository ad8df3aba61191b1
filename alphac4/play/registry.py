"""Panels of the play page, which plugins register."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from alphac4.discovery import load_plugins

if TYPE_CHECKING:  # plugins import this module before any command runs
    from starlette.requests import Request
    from starlette.responses import Response

    from alphac4.game import Geometry
    from alphac4.play.web.app import WebApplication

    Handler = Callable[[WebApplication, Request], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A part of the play page, in a folder of files that the page loads from static/NAME.

    `panel.js` exports ``create(page)``; static/app.js describes what it gets and returns. `panel.html` is optional: its
    elements are below comments that name their places in static/index.html, such as ``<!-- modes -->``. So is
    `panel.css`, with their style.
    """

    name: str
    folder: Path
    offline_folder: Path | None = None
    """Files that are added or replaced in an exported page, which has no server."""
    handler: str = ""
    """ "module:function" that answers requests to /api/NAME, called with the application and the request."""
    supports: "Callable[[Geometry], bool]" = lambda _geometry: True
    """Whether pages of a board have the panel."""

    def load_handler(self) -> "Handler":
        """Import the handler."""
        module, _, name = self.handler.partition(":")
        handler: Handler = getattr(import_module(module), name)
        return handler

    def parts(self) -> dict[str, str]:
        """Return the panel's elements by the places where they are inserted."""
        path = self.folder / "panel.html"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return dict(re.findall(r"^<!-- (\S+) -->\n(.*?)(?=^<!-- \S+ -->$|\Z)", text, re.MULTILINE | re.DOTALL))


_panels: list[Panel] = []


def register_panel(panel: Panel) -> None:
    """Add a panel to the page."""
    _panels.append(panel)


def find_panels(geometry: "Geometry") -> list[Panel]:
    """Return the panels on a page of a board."""
    load_plugins()
    return [panel for panel in _panels if panel.supports(geometry)]

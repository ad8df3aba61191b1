"""The page and its settings."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from alphac4.game import Geometry
from alphac4.game.rules import board_settings
from alphac4.play.levels import Level
from alphac4.play.registry import Panel, find_panels

STATIC = Path(__file__).parent / "static"


def page_setup(
    geometry: Geometry, network: str, levels: Sequence[Level], *, simulations: int, exact: bool
) -> dict[str, object]:
    """Return the page's settings as JSON values.

    Args:
        geometry: the board.
        network: the network's name.
        levels: the levels to offer.
        simulations: simulations per analysis.
        exact: whether the page can request exact results.
    """
    return {
        **board_settings(geometry),
        "levels": [dataclasses.asdict(level) for level in levels],
        "network": network,
        "simulations": simulations,
        "exact": exact,
        "panels": [panel.name for panel in find_panels(geometry)],
    }


def index_page(panels: Sequence[Panel]) -> str:
    """Return the page's HTML with the elements of its panels."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    places = dict.fromkeys(re.findall(r"<!-- (\S+) -->\n", page), "")
    for panel in panels:
        styles = {"styles": f'<link rel="stylesheet" href="static/{panel.name}/panel.css">\n'}
        has_styles = (panel.folder / "panel.css").exists()
        for place, elements in (panel.parts() | (styles if has_styles else {})).items():
            if place not in places:
                raise ValueError(f"panel {panel.name}: no place {place} in the page; its places: {', '.join(places)}")
            places[place] += elements
    return re.sub(r"^ *<!-- (\S+) -->\n", lambda found: places[found[1]], page, flags=re.MULTILINE)

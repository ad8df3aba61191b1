"""The page, its settings, and the page of a review, which is one file made from the same scripts."""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

from alphac4.game import Geometry
from alphac4.game.rules import board_settings
from alphac4.play.levels import Level
from alphac4.play.registry import Panel, find_panels
from alphac4.review import Review

STATIC = Path(__file__).parent / "static"
REVIEW_SCRIPTS = ("dom.js", "rules.js", "board.js", "record.js", "review_file.js")  # in the order of their imports


def page_setup(
    geometry: Geometry, network: str, levels: Sequence[Level], *, simulations: int, exact: bool, review: bool
) -> dict[str, object]:
    """Return the page's settings as JSON values.

    Args:
        geometry: the board.
        network: the network's name.
        levels: the levels to offer.
        simulations: simulations per analysis.
        exact: whether the page can request exact results.
        review: whether it can request reviews.
    """
    return {
        **board_settings(geometry),
        "levels": [dataclasses.asdict(level) for level in levels],
        "network": network,
        "simulations": simulations,
        "exact": exact,
        "review": review,
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


def review_page(reviews: Sequence[Review]) -> str:
    """Return a self-contained HTML page that steps through reviewed games."""
    scripts = "".join((STATIC / name).read_text(encoding="utf-8") for name in REVIEW_SCRIPTS)
    scripts = re.sub(r"^(import .*\n|export )", "", scripts, flags=re.MULTILINE)  # the scripts share one scope
    # Escape "<", so that a player's name cannot end the script.
    reviewed = json.dumps([review.to_dict() for review in reviews]).replace("<", "\\u003c")
    parts = {
        "/*STYLE*/": (STATIC / "style.css").read_text(encoding="utf-8"),
        "/*REVIEWS*/": reviewed,
        "/*SCRIPTS*/": scripts,
    }
    page = (STATIC / "review.html").read_text(encoding="utf-8")
    return re.sub("|".join(map(re.escape, parts)), lambda place: parts[place[0]], page)

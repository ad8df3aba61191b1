"""The page and its settings."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alphac4.game import Board
from alphac4.game.position import count_of
from alphac4.game.rules import board_settings
from alphac4.mcts.results import SearchResult
from alphac4.play.levels import Level
from alphac4.play.registry import Panel, find_panels

STATIC = Path(__file__).parent / "static"


def page_setup(
    board: Board,
    network: str,
    levels: Sequence[Level],
    *,
    simulations: int,
    exact: bool,
    provenance: Mapping[str, Any],
) -> dict[str, object]:
    """Return the page's settings as JSON values.

    Args:
        board: the board to play on.
        network: name to show.
        levels: the levels to offer.
        simulations: simulations per analysis.
        exact: whether the page can request exact results.
        provenance: how the network was trained, from its checkpoint.
    """
    return {
        **board_settings(board),
        "levels": [dataclasses.asdict(level) for level in levels],
        "network": network,
        "simulations": simulations,
        "exact": exact,
        "story": network_story(provenance),
        "panels": [panel.name for panel in find_panels(board)],
    }


def describe_search(found: SearchResult) -> dict[str, Any]:
    """Return a search as `SearchResult.to_dict` does, but for the page, whose columns count from 0."""
    columns = [dataclasses.asdict(item) for item in found.columns.values()]
    return found.to_dict() | {"move": found.move, "pv": found.pv, "columns": columns}


def network_story(provenance: Mapping[str, Any]) -> str:
    """Return a sentence on a network's training, that of its starting network included; "" if costs are unknown.

    ``machine`` in the provenance, such as "two cores", is optional.
    """
    costs = provenance.get("with_start", provenance)
    if not costs.get("games"):
        return ""
    minutes, machine = count_of(round(costs["seconds"] / 60), "minute"), provenance.get("machine")
    games = f"{costs['games']:,} games against itself in {minutes}{f' on {machine}' if machine else ''}"
    return f"This network learned from nothing but the rules: {games}, and no human move."


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

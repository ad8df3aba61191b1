"""The page's settings and puzzles, and the page of a review, which is one file made from the same scripts."""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

from alphac4.game import Geometry
from alphac4.game.rules import STANDARD, board_settings
from alphac4.play.levels import Level
from alphac4.puzzles import packaged_puzzles
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
        "puzzles": geometry == STANDARD,
    }


def page_puzzles(geometry: Geometry) -> list[tuple[str, int, int, int]]:
    """Return the package's puzzles as (moves, 0-based column, the winner's moves until the win, difficulty)."""
    if geometry != STANDARD:
        return []
    return [(p.moves, p.solution, p.distance, p.difficulty) for p in packaged_puzzles()]


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

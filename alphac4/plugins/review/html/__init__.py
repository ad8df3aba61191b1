"""The page of `alphac4 review --html`, which is one file made from scripts of the play page."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from alphac4.play.web.pages import STATIC
from alphac4.plugins.review.game import Review

OWN = Path(__file__).parent
PANEL = OWN.parent / "page"
STYLES = (STATIC / "style.css", PANEL / "panel.css", OWN / "review.css")
SCRIPTS = (  # in the order of their imports
    *(STATIC / name for name in ("dom.js", "rules.js", "reasons.js", "board.js", "record.js")),
    PANEL / "notes.js",
    OWN / "review.js",
)


def review_page(reviews: Sequence[Review]) -> str:
    """Return a self-contained HTML page that steps through reviewed games."""
    scripts = re.sub(r"^(import .*\n|export )", "", _join(SCRIPTS), flags=re.MULTILINE)  # they share one scope
    # Escape "<", so that a player's name cannot end the script.
    reviewed = json.dumps([review.to_dict() for review in reviews]).replace("<", "\\u003c")
    parts = {"/*STYLE*/": _join(STYLES), "/*REVIEWS*/": reviewed, "/*SCRIPTS*/": scripts}
    page = (OWN / "review.html").read_text(encoding="utf-8")
    return re.sub("|".join(map(re.escape, parts)), lambda place: parts[place[0]], page)


def _join(paths: Sequence[Path]) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in paths)

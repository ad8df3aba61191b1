"""A review as one HTML file that needs nothing else."""

import json
from collections.abc import Sequence
from importlib import resources

from alphac4.review.record import Review

PLACE = "/*REVIEWS*/"


def review_page(reviews: Sequence[Review]) -> str:
    """A page that shows these games, to be stepped through; it loads nothing and works from a file."""
    template = (resources.files("alphac4.review") / "page.html").read_text(encoding="utf-8")
    # No "<": whatever a player's name holds, it ends neither the script nor the page.
    data = json.dumps([review.to_dict() for review in reviews]).replace("<", "\\u003c")
    return template.replace(PLACE, data)

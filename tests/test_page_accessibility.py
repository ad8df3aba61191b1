"""The page audited by axe, in both colour schemes."""

from typing import Any

import pytest
from page_browser import DESKTOP, PHONE, audit, expect, open_page

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_axe_finds_nothing(browser: Any, address: str, size: dict[str, int], scheme: str) -> None:
    """At the start, with everything open that a game can show, at its end, among the puzzles, and without a server."""
    page = open_page(browser, address, size, [], color_scheme=scheme)
    audit(page)
    page.goto(address + "#4444452226671")
    page.click("#settings summary")
    page.check("#analyse")
    expect(page, "#variation", "2,000 simulations")
    page.click("#tree summary")
    page.wait_for_selector("#nodes button")
    page.click("#exact")
    expect(page, "#status", "solver")
    page.click("#review-ask")
    expect(page, "#review-summary", "Accuracy")
    page.click("#review-previous")
    audit(page)
    page.goto(address + "#1122334")
    expect(page, "#status", "wins|You")
    audit(page)
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    page.click("#puzzle-hint")
    audit(page)
    page.route("**/api/puzzles", lambda route: route.abort())
    page.route("**/api/move", lambda route: route.abort())
    page.goto(address + "?again#1")
    page.click("#resume")
    expect(page, "#problem", "does not answer")
    audit(page)

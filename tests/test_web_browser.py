import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_browser import DESKTOP, PHONE, expect, expect_count, expect_hidden, expect_moves, new_page, open_page

pytestmark = pytest.mark.slow
OVER = re.compile("You win|You lose|wins\\.|A draw")


@pytest.fixture(scope="module")
def tireless_address(static_address: str, static_folder: Path) -> str:
    """The exported page, where analyses and the level master search for days."""
    folder = static_folder.parent / "tireless"
    shutil.copytree(static_folder, folder)
    setup = json.loads((folder / "setup.json").read_text())
    setup["simulations"] = 10**9
    next(level for level in setup["levels"] if level["name"] == "master")["simulations"] = 10**9
    (folder / "setup.json").write_text(json.dumps(setup))
    return static_address.replace(static_folder.name, folder.name)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_whole_game_with_the_mouse(browser: Any, address: str, size: dict[str, int]) -> None:
    """Against the beginner, clicking open columns until somebody wins or the board is full."""
    errors: list[str] = []
    page = open_page(browser, address, size, errors)
    page.select_option("#second", "beginner")
    for _ in range(21):
        status = page.inner_text("#status")
        if OVER.search(status):
            break
        expect(page, "#status", f"Choose a column|to move|{OVER.pattern}")
        lanes = page.query_selector_all(".column[aria-disabled='false']")
        if lanes:
            lanes[len(lanes) // 2].click()
    expect(page, "#status", OVER.pattern)
    assert not errors
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "wider than the screen"


def test_a_whole_game_with_the_keyboard(browser: Any, address: str) -> None:
    """Two people: digits, arrows with Enter, undo and redo; then a link brings the position back."""
    errors: list[str] = []
    page = open_page(browser, address, DESKTOP, errors)
    page.select_option("#second", "")
    page.locator("body").click(position={"x": 2, "y": 2})
    for key in "11223":
        page.keyboard.press(key)
    page.keyboard.press("u")
    page.keyboard.press("r")
    page.keyboard.press("3")
    page.focus(".column[tabindex='0']")  # the middle
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page, "#status", r"^Red wins\.$")
    expect_moves(page, "1122334")
    expect_count(page, ".run", 4)
    other = new_page(browser)
    other.goto(page.url)
    expect(other, "#status", "Red wins")
    other.goto(address + "#999")
    expect(other, "#status", "break the rules")
    assert not errors


def test_analysis_and_tree_are_shown(browser: Any, address: str) -> None:
    """Off until it is asked for; then live bars, the tree as list and picture to click into, the moves."""
    errors: list[str] = []
    page = open_page(browser, address + "#44", DESKTOP, errors)
    assert page.locator("#analysis").is_hidden()
    page.check("#analyse")
    page.wait_for_selector("#columns tbody tr:nth-child(7)")
    expect(page, "#certified summary", r"Proven win for Red, at most \d+ more moves")
    expect(page, "#variation", "2,000 simulations")
    page.click("#tree summary")
    page.wait_for_selector("#nodes button")
    before = page.inner_text("#nodes")
    page.click("#nodes li:first-child button")
    page.wait_for_selector("#path button:nth-child(2)")
    assert page.inner_text("#nodes") != before
    page.click("#path button >> nth=0")
    page.wait_for_selector("#path button:nth-child(2)", state="detached")
    page.locator("#picture .node").first.click()  # drawn first: the answer to the move most visited
    page.wait_for_selector("#path button:nth-child(3)")
    page.click("#moves button >> nth=0")
    expect_moves(page, "4")
    page.uncheck("#analyse")
    expect_hidden(page, "#certified")
    assert not errors


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_exported_page_plays_without_a_server(browser: Any, static_address: str, size: dict[str, int]) -> None:
    """A whole game with the mouse, the search in the page; then its analysis, tree and hint, and a shared position."""
    errors: list[str] = []
    page = open_page(browser, static_address, size, errors)
    page.select_option("#second", "club")
    for _ in range(21):
        status = page.inner_text("#status")
        if OVER.search(status):
            break
        page.locator(".column[aria-disabled='false']").first.click()
        expect(page, "#status", f"Red to move|{OVER.pattern}")
    assert OVER.search(page.inner_text("#status"))
    page.check("#analyse")
    page.goto(static_address + "#112233")
    expect(page, "#variation", "simulations")
    expect(page, "#columns tr.best", "^4.*wins in 1")
    page.goto(static_address + "#2266137")  # takes long
    page.click("#exact")
    expect(page, "#exact", r"Stop \([1-9]")
    page.click("#exact")
    expect(page, "#exact", "^Solve$")
    page.goto(static_address + "#4444452226671")
    page.click("#exact")
    expect(page, "#status", "The solver: loses in 11 moves with 3")
    page.goto(static_address + "#44")
    expect(page, "#variation", "800 simulations")
    page.click("#tree summary")
    page.click("#nodes li:first-child button")
    page.wait_for_selector("#path button:nth-child(2)")
    page.keyboard.press("h")
    expect(page, "#status", "Hint: column")
    assert not errors


def test_the_exported_pages_searches_end_when_nobody_waits_for_them(browser: Any, tireless_address: str) -> None:
    """An analysis makes room for that of the next position, and a level's move for that of another level."""
    page = open_page(browser, tireless_address, DESKTOP, [])
    page.select_option("#second", "")
    page.check("#analyse")
    expect(page, "#outlook", "^Red: win")
    page.keyboard.press("4")
    expect(page, "#outlook", "^Yellow: win")
    page.uncheck("#analyse")
    page.select_option("#second", "master")
    expect(page, "#status", "thinking")
    page.wait_for_timeout(1000)  # so that its search has begun
    page.select_option("#second", "beginner")
    expect(page, "#status", "Red to move")


def test_a_hint_makes_room_for_the_move_that_is_made_without_it(browser: Any, tireless_address: str) -> None:
    """Its search ends, and the analysis of the next position begins."""
    page = open_page(browser, tireless_address, DESKTOP, [])
    page.select_option("#second", "")
    page.click("#hint")
    expect(page, "#status", "Looking for a hint")
    page.wait_for_timeout(1000)  # so that its search has begun
    page.keyboard.press("4")
    page.check("#analyse")
    expect(page, "#outlook", "^Yellow: win")
    expect(page, "#status", "^Yellow to move")

"""The page that `alphac4 review --html` writes, in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from page_browser import DESKTOP, PHONE, audit, expect, new_page

from alphac4.cli import main

pytestmark = pytest.mark.slow
GAMES = ("1122334", "44235")  # on six columns and five rows: three mistakes before red wins; unfinished


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A review of both games."""
    folder = tmp_path_factory.mktemp("review")
    (folder / "games.txt").write_text("\n".join(GAMES))
    file = folder / "review.html"
    board = ["--rows", "5", "--columns", "6"]
    assert main(["review", str(folder / "games.txt"), "--player", "uct:50", "--html", str(file), *board]) == 0
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_review_is_read_from_a_file(browser: Any, written: Path, size: dict[str, int], scheme: str) -> None:
    """From mistake to mistake, by keys and by clicks, one game after the other; axe finds nothing."""
    errors: list[str] = []
    page = new_page(browser, size, color_scheme=scheme)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(written.as_uri())
    audit(page)
    page.keyboard.press("Home")
    expect(page, "#now", "The game begins")
    page.keyboard.press("ArrowDown")
    expect(page, "#now", "With best play")
    audit(page)
    page.click("#last")
    expect(page, "#now", "7. Red plays 4")
    expect(page, "#result", "Red wins · 7 moves")
    audit(page)
    page.get_by_label("Move 2: Yellow plays 1").click()
    expect(page, "#now", "2. Yellow plays 1")
    page.select_option("#game", "1")
    expect(page, "#result", "Unfinished · 5 moves")
    audit(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert not errors

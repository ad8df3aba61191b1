import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alphac4.checkpoint import load_checkpoint, shipped_checkpoint
from alphac4.play.web.static_page import export_page, read_runtime

sync_api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
pytest.importorskip("starlette", reason="needs pip install 'alphac4[web]'")
pytestmark = pytest.mark.slow
BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # as the systems name it; otherwise Playwright's own
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of its own."""
    command = [sys.executable, "-m", "alphac4.cli", "play", "--web", "--network", "fast", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield server.stdout.readline().split()[2]
    server.kill()
    server.wait()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, or the one that Playwright has downloaded."""
    with sync_api.sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
        if not Path(program).exists():
            pytest.skip("needs Chromium: install the system's package, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def open_page(browser: Any, address: str, size: dict[str, int], errors: list[str]) -> Any:
    """The page at a size; what it complains of goes to ``errors``."""
    page = browser.new_page(viewport=size)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(address)
    page.wait_for_selector(".column[aria-disabled='false']")
    return page


def expect(page: Any, selector: str, pattern: str, timeout: float = 30_000) -> None:
    """Wait until an element's text matches."""
    sync_api.expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=timeout)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_whole_game_with_the_mouse(browser: Any, address: str, size: dict[str, int]) -> None:
    """Against the beginner, clicking open columns until somebody wins or the board is full."""
    errors: list[str] = []
    page = open_page(browser, address, size, errors)
    page.select_option("#second", "beginner")
    for _ in range(21):
        status = page.inner_text("#status")
        if "wins" in status or "draw." in status:
            break
        expect(page, "#status", "to move|wins|A draw", 20_000)
        lanes = page.query_selector_all(".column[aria-disabled='false']")
        if lanes:
            lanes[len(lanes) // 2].click()
            page.wait_for_timeout(50)
    expect(page, "#status", "wins|A draw", 20_000)
    assert not errors
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "wider than the screen"
    page.close()


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
    assert page.inner_text("#status") == "Red wins."
    assert page.url.endswith("#1122334")
    assert page.locator(".run").count() == 4
    other = browser.new_page()
    other.goto(page.url)
    expect(other, "#status", "Red wins")
    other.goto(address + "#999")
    expect(other, "#status", "break the rules")
    assert not errors
    page.close()
    other.close()


def test_analysis_tree_and_solver_are_shown(browser: Any, address: str) -> None:
    """Live bars, a click into the tree, the solver's verdict, stepping through the moves."""
    errors: list[str] = []
    page = open_page(browser, address + "#445536", DESKTOP, errors)
    page.wait_for_selector("#columns tbody tr:nth-child(6)", timeout=30_000)
    page.click("#exact")
    expect(page, "#outlook", "solver", 60_000)
    page.goto(address + "#44")
    expect(page, "#variation", "simulations", 30_000)
    page.click("summary")
    page.wait_for_selector("#nodes button")
    before = page.inner_text("#nodes")
    page.click("#nodes li:first-child button")
    page.wait_for_selector("#path button:nth-child(2)")
    assert page.inner_text("#nodes") != before
    page.click("#moves button >> nth=0")
    assert page.url.endswith("#4")
    assert not errors
    page.close()


@pytest.fixture(scope="module")
def static_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The exported page below a folder of a plain file server."""
    pytest.importorskip("onnxruntime", reason="needs pip install 'alphac4[onnx]'")
    try:
        read_runtime(None)
    except OSError as error:
        pytest.skip(str(error))
    site = tmp_path_factory.mktemp("site")
    export_page(load_checkpoint(shipped_checkpoint("fast")), "fast", site / "below" / "connect-four")
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(site)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    port = server.stdout.readline().split("port ")[1].split()[0]
    yield f"http://127.0.0.1:{port}/below/connect-four/"
    server.kill()
    server.wait()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_exported_page_plays_without_a_server(browser: Any, static_address: str, size: dict[str, int]) -> None:
    """A whole game with the mouse, the search in the page; then its analysis, tree and hint, and a shared position."""
    errors: list[str] = []
    page = open_page(browser, static_address, size, errors)
    assert page.locator("#exact").is_hidden()
    page.select_option("#second", "club")
    for _ in range(21):
        status = page.inner_text("#status")
        if "wins" in status or "draw" in status:
            break
        page.locator(".column[aria-disabled='false']").first.click()
        expect(page, "#status", "Red to move|wins|draw")
    assert re.search("wins|draw", page.inner_text("#status"))
    page.goto(static_address + "#112233")
    expect(page, "#variation", "simulations")
    assert page.locator("#columns tr.best td").first.inner_text() == "4"
    assert "wins in 1" in page.inner_text("#columns tr.best")
    page.goto(static_address + "#44")
    expect(page, "#variation", "800 simulations")
    page.click("summary")
    page.click("#nodes li:first-child button")
    page.wait_for_selector("#path button:nth-child(2)")
    page.keyboard.press("h")
    expect(page, "#status", "Hint: column")
    assert not errors
    page.close()

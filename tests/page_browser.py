"""Fixtures and helpers for tests of the page in a real browser."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # commands of systems; the fallback is Playwright's own
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
LOOKS = ((PHONE, "dark"), (DESKTOP, "light"))
TIMEOUT_MS = 120_000  # long enough for a busy machine
DICE = """
let state = 1;
Math.random = () => ((state = (48271 * state) % 2147483647) - 1) / 2147483646;
"""  # Lehmer's generator, so that pages draw the same numbers in every run
FITS = "document.documentElement.scrollWidth <= window.innerWidth"
FITS_WITH_LARGE_TEXT = f"""
document.documentElement.style.fontSize = "32px"; // a browser's size of 200 %
dispatchEvent(new Event("resize"));
{FITS}
"""


class Browser:
    """Opens pages without stored settings, with fixed random numbers; collects their errors."""

    def __init__(self, launched: Any) -> None:
        self._launched = launched
        self.errors: list[str] = []

    def new_page(self, size: dict[str, int] = DESKTOP) -> Any:
        context = self._launched.new_context(viewport=size)
        context.set_default_timeout(TIMEOUT_MS)
        context.add_init_script(DICE)
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        return page

    def open(self, address: str, size: dict[str, int] = DESKTOP) -> Any:
        """Open a page and wait until a person is to move."""
        page = self.new_page(size)
        page.goto(address)
        page.wait_for_selector(".column[aria-disabled='false']")
        return page


@pytest.fixture
def browser(launched_browser: Any) -> Iterator[Browser]:
    """A browser whose pages are closed after the test, and must not have had errors."""
    browser = Browser(launched_browser)
    yield browser
    for context in launched_browser.contexts:
        context.close()
    assert not browser.errors, browser.errors


@pytest.fixture(scope="module")
def launched_browser() -> Iterator[Any]:
    """The system's Chromium, or Playwright's own.

    Its scope is a module, because its event loop runs in this thread, where other tests need their own loop.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    sync_api.expect.set_options(timeout=TIMEOUT_MS)
    with sync_api.sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
        if not Path(program).exists():
            pytest.skip("needs Chromium: install the system's package, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    pytest.importorskip("starlette", reason="needs pip install 'alphac4[web]'")
    command = [sys.executable, "-m", "alphac4", "play", "web", "--checkpoint", "quick", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[2]
        server.kill()


def expect(page: Any, selector: str, pattern: str) -> None:
    """Wait until an element's text matches."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(re.compile(pattern))


def expect_count(page: Any, selector: str, count: int) -> None:
    """Wait until the number of matching elements is ``count``."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_count(count)


def expect_moves(page: Any, moves: str) -> None:
    """Wait until the page's address contains these moves; browsers update it with a delay."""
    page.wait_for_url(lambda url: url.partition("#")[2] == moves)


def press(page: Any, keys: Iterable[str]) -> None:
    for key in keys:
        page.keyboard.press(key)


def paste(page: Any, text: str) -> None:
    """Paste a text outside of all fields; not all browsers accept a `ClipboardEvent` with content."""
    page.evaluate(
        """(text) => {
          const clipboardData = { getData: () => text };
          document.body.dispatchEvent(Object.assign(new Event("paste", { bubbles: true }), { clipboardData }));
        }""",
        text,
    )


def audit(page: Any) -> None:
    """Fail on any accessibility problem that axe finds, on a phone in dark and on a desktop in light colours."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs pip install axe-playwright-python")
    for size, scheme in LOOKS:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        results = axe.Axe().run(page)
        assert results.violations_count == 0, results.generate_report()

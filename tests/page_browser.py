"""A real browser before the page: fixtures that `conftest` offers to all tests, and helpers."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # as the systems name it; otherwise Playwright's own
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A server of its own."""
    pytest.importorskip("starlette", reason="needs pip install 'alphac4[web]'")
    command = [sys.executable, "-m", "alphac4.cli", "play", "--web", "--network", "fast", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield server.stdout.readline().split()[2]
    server.kill()
    server.wait()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, or the one that Playwright has downloaded.

    For a module, not for all: its event loop keeps running in this thread, where other tests need their own.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    with sync_api.sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
        if not Path(program).exists():
            pytest.skip("needs Chromium: install the system's package, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def static_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported page, below the folder of a web site."""
    pytest.importorskip("onnxruntime", reason="needs pip install 'alphac4[onnx]'")
    from alphac4.checkpoint import load_checkpoint, shipped_checkpoint
    from alphac4.play.web.static_page import export_page, read_runtime

    try:
        read_runtime(None)
    except OSError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("site") / "below" / "connect-four"
    export_page(load_checkpoint(shipped_checkpoint("fast")), "fast", folder)
    return folder


@pytest.fixture(scope="session")
def static_address(static_folder: Path) -> Iterator[str]:
    """The exported page on a plain file server."""
    site = str(static_folder.parent.parent)
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", site]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    port = server.stdout.readline().split("port ")[1].split()[0]
    yield f"http://127.0.0.1:{port}/below/connect-four/"
    server.kill()
    server.wait()


def open_page(browser: Any, address: str, size: dict[str, int], errors: list[str], **context: Any) -> Any:
    """The page at a size, in a browser that remembers nothing; what it complains of goes to ``errors``."""
    page = browser.new_context(viewport=size, **context).new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(address)
    page.wait_for_selector(".column[aria-disabled='false']")
    return page


def expect(page: Any, selector: str, pattern: str, timeout: float = 30_000) -> None:
    """Wait until an element's text matches."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=timeout)

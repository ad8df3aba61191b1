"""The exported page without a network, and after another export."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_browser import expect, expect_count, new_page

from alphac4.play.web.static_page import write_offline_worker

pytestmark = pytest.mark.slow
KEPT = "navigator.serviceWorker.ready.then(({ active }) => active.state === 'activated' || null)"


def test_the_exported_page_works_offline_and_is_renewed(browser: Any, static_address: str, static_folder: Path) -> None:
    """Once visited it plays perfectly, solves and sets puzzles; a new export replaces what the browser has kept."""
    from playwright.sync_api import TimeoutError as TooLateError

    errors: list[str] = []
    page = new_page(browser)
    page.on("pageerror", lambda error: errors.append(str(error)))
    folder = static_folder.parent / "renewed"
    shutil.copytree(static_folder, folder)
    address = static_address.replace(static_folder.name, folder.name)
    page.goto(address)
    page.wait_for_function(KEPT)
    page.context.set_offline(True)
    page.reload()
    page.select_option("#second", "perfect")
    page.keyboard.press("4")
    expect(page, "#status", "Red to move")
    page.goto(address + "#4444452226671")
    page.click("#exact")
    expect(page, "#status", "The solver: loses in 11 moves with 3")
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    page.context.set_offline(False)

    setup = json.loads((folder / "setup.json").read_text())
    (folder / "setup.json").write_text(json.dumps(setup | {"levels": setup["levels"][:3]}))
    shutil.copy(Path(write_offline_worker.__code__.co_filename).parent / "local" / "offline.js", folder)
    write_offline_worker(folder)
    page.goto(address)
    page.wait_for_function("navigator.serviceWorker.getRegistration().then(({ waiting }) => Boolean(waiting))")
    for _visit in range(3):  # a browser that lets it take over while the page opens shows it at the visit after
        page.reload()
        with contextlib.suppress(TooLateError):
            page.wait_for_function("document.querySelectorAll('#second option').length === 4")
            break
    expect_count(page, "#second option", 4)
    page.wait_for_function("caches.keys().then((names) => names.length === 1)")
    page.context.set_offline(True)
    page.reload()
    expect_count(page, "#second option", 4)
    assert not errors

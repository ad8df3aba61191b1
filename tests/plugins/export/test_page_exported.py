"""The exported page in a browser, with network, search and solver in the page."""

import json
import shutil
from pathlib import Path

import pytest
from page_browser import Browser, expect, expect_count, expect_moves, press

from alphac4.plugins.export.web import LOCAL, write_offline_worker

pytestmark = pytest.mark.slow
KEPT = "navigator.serviceWorker.ready.then(() => caches.keys())"  # once all files are in the cache
ONE_CACHE = """async (before) => {
    for (;;) {
        const [name, other] = await caches.keys();
        if (name !== before[0] && !other) return;
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}"""


@pytest.fixture(scope="module")
def endless_address(static_address: str, static_folder: Path) -> str:
    """The exported page with analyses that take days, and levels expert and master that use their full time."""
    folder = static_folder.parent / "tireless"
    shutil.copytree(static_folder, folder)
    setup = json.loads((folder / "setup.json").read_text())
    setup["simulations"] = 10**9
    for level in setup["levels"]:
        if level["name"] in ("expert", "master"):
            level["simulations"] = 10**9
    (folder / "setup.json").write_text(json.dumps(setup))
    return static_address.replace(static_folder.name, folder.name)


def test_exported_page_works_offline_and_is_updated(browser: Browser, static_address: str, static_folder: Path) -> None:
    """After a first visit, all features work without a network. A new export replaces the cached files."""
    folder = static_folder.parent / "renewed"
    shutil.copytree(static_folder, folder)
    address = static_address.replace(static_folder.name, folder.name)
    page = browser.new_page()
    page.goto(address)
    before = page.evaluate(KEPT)
    page.context.set_offline(True)
    page.reload()
    for level, column in (("club", "4"), ("perfect", "3")):
        page.select_option("#second", level)
        press(page, column)
        expect(page, "#status", "Your move")
    page.select_option("#second", "")
    page.goto(address + "#44")
    page.check("#analyse")
    expect(page, "#effort", "800 simulations")
    page.click("#tree summary")
    page.click("#nodes li:first-child button")
    page.wait_for_selector("#path button:nth-child(2)")
    press(page, "h")
    expect(page, "#status", r"Hint: \d")
    expect_count(page, ".hinted", 1)
    page.goto(address + "#112233")
    expect(page, "#columns tr.best", "^4.*wins in 1 move")
    page.uncheck("#analyse")
    page.goto(address + "#2266137")  # takes long
    page.click("#exact")
    expect(page, "#exact", r"Stop \(\d")
    page.click("#exact")
    expect(page, "#exact", "^Solve$")
    page.goto(address + "#4444452226671")
    page.click("#exact")
    expect(page, "#status", "Exact: every move loses; 3 holds out longest, for 11 moves")
    page.context.set_offline(False)

    setup = json.loads((folder / "setup.json").read_text())
    (folder / "setup.json").write_text(json.dumps(setup | {"levels": setup["levels"][:3]}))
    shutil.copy(LOCAL / "offline.js", folder)
    write_offline_worker(folder)
    page.goto(address)
    expect_count(page, "#second option", 4)
    page.evaluate(ONE_CACHE, before)
    page.context.set_offline(True)
    page.reload()
    expect_count(page, "#second option", 4)


def test_searches_of_the_exported_page_stop_when_they_are_superseded(browser: Browser, endless_address: str) -> None:
    """An analysis or a hint stops for the next position, and a level's move for another level's.

    The master plays exact moves without a search if the solver is quick.
    """
    page = browser.open(endless_address)
    page.select_option("#second", "")
    page.check("#analyse")
    expect(page, "#viewpoint", r"for\s+Red")
    expect(page, "#outlook", "wins")
    assert sum(worker.url.endswith("/worker.js") for worker in page.workers) == 2  # the opponent has its own worker
    press(page, "4")
    expect(page, "#viewpoint", r"for\s+Yellow")
    expect(page, "#outlook", "wins")
    page.uncheck("#analyse")
    page.click("#hint")
    # Exact play does not wait for a search.
    expect(page, "#status", r"Hint: every move loses; 4 holds out longest, for \d+ moves \(exact\)\.")
    press(page, "4")
    page.check("#analyse")
    expect(page, "#viewpoint", r"for\s+Red")
    expect(page, "#outlook", "wins")
    expect(page, "#status", "^Red to move")
    page.uncheck("#analyse")
    page.select_option("#first", "expert")
    expect(page, "#status", "thinking")
    page.select_option("#first", "beginner")
    expect(page, "#status", "Your move")
    page = browser.open(endless_address)
    page.select_option("#second", "master")
    press(page, "4")
    expect_moves(page, "44")


def test_level_perfect_reports_its_progress(browser: Browser, static_address: str) -> None:
    page = browser.new_page()
    page.goto(static_address + "#2266137")  # takes long
    page.select_option("#second", "perfect")
    page.click("#resume")
    expect(page, "#status", r"Yellow \(perfect\) is thinking … \d+ s")
    page.goto(static_address + "#44444522266")
    page.click("#resume")
    expect(page, "#status", "Your move|, [1-7] of 7 moves solved")
    expect(page, "#status", "Your move")


def test_page_opened_as_a_file_asks_for_a_web_server(browser: Browser, static_folder: Path) -> None:
    page = browser.new_page()
    page.goto((static_folder / "index.html").as_uri())
    expect(page, "#status", "needs a web server")
    assert page.locator("button, .evaluation, .card:not(.play)").filter(visible=True).count() == 0, "empty parts"
    browser.errors.clear()  # errors of modules that cannot be loaded

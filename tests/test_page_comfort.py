"""What people met in the page: each test is one thing that must not annoy them again."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_browser import (
    DESKTOP,
    PHONE,
    expect,
    expect_count,
    expect_hidden,
    expect_moves,
    expect_value,
    new_page,
    open_page,
)

pytestmark = pytest.mark.slow
HARD = "2266137"  # 42 million nodes, which take the solver more than five seconds
DRAWN = "121212343434565656212121434343656565777777"


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """What the page complains of: nothing."""
    errors: list[str] = []
    yield errors
    assert not errors


def script_game(page: Any, game: str) -> None:
    """Let the levels play the moves of this game."""

    def answer(route: Any) -> None:
        plies = len(route.request.post_data_json["moves"])
        route.fulfill(json={"column": int(game[plies]) - 1, "player": "casual"})

    page.route("**/api/move", answer)


def press(page: Any, keys: str) -> None:
    """One key after the other."""
    for key in keys:
        page.keyboard.press(key)


def focused(page: Any) -> str:
    """The id of the element that has the focus, or its class."""
    return str(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('class') || 'body'"))


def test_the_solver_answers_above_the_columns(browser: Any, address: str, errors: list[str]) -> None:
    """Whole, also on a phone; live analysis does not overwrite it; it is still there after undo and redo."""
    page = open_page(browser, address + "#4444452226671", PHONE, errors)
    page.check("#analyse")
    page.click("#exact")
    expect(page, "#status", "The solver: loses in 11 moves with 3")
    assert page.locator(".number").all_text_contents() == list("1234567")
    words = ["loss 1", "loss 1", "loss 11", "loss 1", "loss 1", "loss 1", "loss 1"]
    expect(page, "#variation", "2,000 simulations")
    assert page.locator(".word").all_text_contents() == words
    assert page.locator(".word.strong").all_text_contents() == ["loss 11"]
    assert "loses in 11 moves, best" in page.get_attribute(".column >> nth=2", "aria-label")
    for word in page.locator(".word").all():
        box = word.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    page.click("#undo")
    expect_count(page, ".word", 0)
    page.click("#redo")
    assert page.locator(".word").all_text_contents() == words
    expect(page, "#announcement", "The solver: loses in 11 moves")


def test_a_new_game_can_be_taken_back(browser: Any, address: str, errors: list[str]) -> None:
    """Whatever has begun it, also a key pressed by mistake; once, as long as nobody has moved."""
    page = open_page(browser, address, DESKTOP, errors)
    page.select_option("#second", "")
    press(page, "445n")
    expect_moves(page, "")
    press(page, "u")
    expect_moves(page, "445")
    press(page, "uuuu")
    expect_moves(page, "")
    assert page.get_attribute("#undo", "aria-disabled") == "true"


def test_a_puzzle_played_out_borrows_the_perfect_player(browser: Any, address: str, errors: list[str]) -> None:
    """The next game, and the next visit, are against whom the person has chosen."""
    page = open_page(browser, address, DESKTOP, errors)
    page.select_option("#second", "club")
    page.click("#mode-puzzles")
    page.click("#puzzle-play")
    assert "perfect" in (page.input_value("#first"), page.input_value("#second"))
    page.click("#new")
    assert [page.input_value(f"#{side}") for side in ("first", "second")] == ["", "club"]
    page.reload()
    expect_value(page, "#second", "club")


def test_solving_can_be_stopped(browser: Any, address: str, errors: list[str]) -> None:
    """By the same button, which shows the seconds, or by Escape; the server is free for another question."""
    page = open_page(browser, address + f"#{HARD}", DESKTOP, errors)
    for stop in (lambda: page.click("#exact"), lambda: page.keyboard.press("Escape")):
        page.click("#exact")
        expect(page, "#exact", r"Stop \([1-9]\d* s\)")
        stop()
        expect(page, "#exact", "^Solve$")
        assert "solver" not in page.inner_text("#status")
    page.goto(address + "#112233")
    page.click("#exact")
    expect(page, "#status", "wins in 1 move with 4")


def test_a_lost_server_is_told_and_tried_again(browser: Any, address: str) -> None:
    """In one line with a button, and the game goes on where it was."""
    page = open_page(browser, address, DESKTOP, [])
    page.route("**/api/move", lambda route: route.abort())
    page.keyboard.press("4")
    expect(page, "#problem", "The server does not answer")
    page.unroute("**/api/move")
    page.click("#retry")
    expect(page, "#status", "Red to move")
    assert page.locator("#problem").is_hidden()
    expect_count(page, "#moves li", 2)
    page.route("**/api/exact", lambda route: route.abort())
    page.click("#exact")
    expect(page, "#problem", "The server does not answer")
    page.unroute("**/api/exact")
    page.click("#retry")
    page.wait_for_selector(".word")
    page.route("**/api/setup", lambda route: route.abort())
    page.reload()
    expect(page, "#problem", "The server does not answer")
    page.unroute("**/api/setup")
    page.click("#retry")
    expect(page, "#status", "Red to move")


def test_a_reload_keeps_players_looks_and_position(browser: Any, address: str, errors: list[str]) -> None:
    """All of them are remembered by the browser."""
    page = open_page(browser, address, DESKTOP, errors)
    page.select_option("#first", "club")
    page.select_option("#second", "")
    page.click("#settings summary")
    page.check("#shapes")
    expect(page, "#status", "Yellow to move")
    moves = page.evaluate("location.hash.slice(1)")
    page.reload()
    page.wait_for_selector(".column[aria-disabled='false']")
    assert page.input_value("#first") == "club"
    assert page.input_value("#second") == ""
    assert page.is_checked("#shapes")
    expect_moves(page, moves)
    assert page.locator(".stone .shape").first.is_visible()


STOP_ANIMATIONS = "document.styleSheets[0].insertRule('.falling, .landing { animation-play-state: paused !important }')"
RING_AS_THE_STONE_FALLS = """(() => {
  const ring = document.querySelector(".last"), [appearing] = ring.getAnimations();
  const [falling] = document.querySelector(".falling").getAnimations();
  const [fallen, appeared] = [falling, appearing].map((animation) => animation.effect.getComputedTiming().endTime);
  return [0, fallen - 1, appeared].map((time) => {
    appearing.currentTime = time;
    return getComputedStyle(ring).visibility;
  });
})()"""


def test_the_last_move_is_marked_once_the_stone_has_fallen(browser: Any, address: str, errors: list[str]) -> None:
    """And the ring stands out from every stone: white on black."""
    page = open_page(browser, address, DESKTOP, errors)
    page.select_option("#second", "")
    page.evaluate(STOP_ANIMATIONS)
    page.keyboard.press("4")
    page.wait_for_selector(".last", state="attached")
    assert page.evaluate(RING_AS_THE_STONE_FALLS) == ["hidden", "hidden", "visible"]
    strokes = page.evaluate("[...document.querySelectorAll('.last circle')].map((c) => getComputedStyle(c).stroke)")
    assert strokes == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]


@pytest.mark.parametrize(("game", "ending", "red"), [("17172727", "You lose.", 0), ("1727374", "You win!", 1)])
def test_the_end_is_told_to_the_person(
    browser: Any, address: str, errors: list[str], game: str, ending: str, red: int
) -> None:
    """In the status, aloud with the place of the line, in the bar and as the chart's last point."""
    page = open_page(browser, address, DESKTOP, errors)
    script_game(page, game)
    page.reload()  # the first request of a page that is open already now and then goes past a new route
    page.wait_for_selector(".column[aria-disabled='false']")
    for ply in range(0, len(game), 2):
        page.keyboard.press(game[ply])
        expect_count(page, "#moves li", min(ply + 2, len(game)))
    expect(page, "#status", re.escape(ending))
    line = "from column 7, row 1 to column 7, row 4" if not red else "from column 1, row 1 to column 4, row 1"
    expect(page, "#announcement", line)
    expect(page, "#outlook", "over")
    widths = page.evaluate("[...document.querySelectorAll('#wdl span')].map((part) => part.style.width)")
    assert widths == ["100%" if red else "0%", "0%", "0%" if red else "100%"]
    assert page.get_attribute("#chart", "aria-label").endswith("100 %" if red else " 0 %")
    expect_count(page, ".ring.run", 4)


def test_a_click_on_the_chart_goes_there(browser: Any, address: str, errors: list[str]) -> None:
    """To the position after the nearest move."""
    page = open_page(browser, address + "#44445223", DESKTOP, errors)
    expect_hidden(page, "#chart")  # it has nothing to show
    page.check("#analyse")
    page.wait_for_selector("#chart", state="visible")
    box = page.locator("#chart").bounding_box()
    page.mouse.click(box["x"] + box["width"] * (46 + 354 * 0.3) / 420, box["y"] + box["height"] / 2)
    expect_moves(page, "444")
    expect_count(page, "#moves li", 8)


def test_keys_work_after_a_level_was_chosen(browser: Any, address: str, errors: list[str]) -> None:
    """Digits at once, also where the list still has the focus."""
    page = open_page(browser, address, DESKTOP, errors)
    page.focus("#second")
    page.select_option("#second", "")
    assert focused(page) == "second"
    page.keyboard.press("3")
    expect_moves(page, "3")
    page.dispatch_event("#second", "pointerdown")
    page.select_option("#second", "beginner")
    assert focused(page) == "column"


def test_another_board_names_its_own_keys(browser: Any, address: str) -> None:
    """And has no puzzles, which are for the standard board."""
    page = new_page(browser)

    def shrink(route: Any) -> None:
        setup = route.fetch().json() | {"columns": 5, "rows": 5, "column_names": "12345", "puzzles": False}
        route.fulfill(content_type="application/json", body=json.dumps(setup))

    page.route("**/api/setup", shrink)
    page.goto(address + "#1122334")
    expect(page, "#status", "Red wins")
    expect(page, "#keys", "Keys: 1-5 drop")
    assert page.locator("#modes").is_hidden()
    expect_count(page, ".column", 5)


def test_the_focus_stays_where_it_was(browser: Any, address: str, errors: list[str]) -> None:
    """Also when the last move has been taken back, and when a button goes away."""
    page = open_page(browser, address, DESKTOP, errors)
    page.select_option("#second", "")
    page.keyboard.press("4")
    page.focus("#undo")
    page.keyboard.press("Enter")
    expect_moves(page, "")
    assert focused(page) == "undo"
    assert page.get_attribute("#undo", "aria-disabled") == "true"
    page.select_option("#second", "beginner")
    press(page, "r")
    page.focus("#resume")
    page.keyboard.press("Enter")
    expect(page, "#status", "Red to move")
    assert focused(page) == "column"


def test_two_levels_can_be_watched_and_paused(browser: Any, address: str) -> None:
    """There is time to look between the moves."""
    page = new_page(browser)
    page.clock.install()
    script_game(page, DRAWN)
    page.goto(address)
    page.select_option("#first", "novice")
    expect(page, "#resume", "Pause")
    page.wait_for_selector("#moves li:nth-child(3)")
    page.click("#resume")
    count = page.locator("#moves li").count()
    page.clock.run_for(60_000)
    expect_count(page, "#moves li", count)
    assert count < len(DRAWN)
    page.click("#resume")
    page.wait_for_selector(f"#moves li:nth-child({count + 1})")


def test_the_board_stays_where_it_is(browser: Any, address: str, errors: list[str]) -> None:
    """On a phone, through a game, the puzzles, the solver's answer and a copied link; nothing overflows."""
    page = open_page(browser, address, PHONE, errors)

    def places() -> list[Any]:
        return [page.locator(name).bounding_box() for name in ("#board", "#hint", "#new")]

    before = places()
    page.locator(".column").nth(3).click()
    expect(page, "#status", "thinking|Red to move")
    assert places() == before
    expect(page, "#status", "Red to move")
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    assert places()[0] == before[0]
    page.click("#mode-game")
    page.goto(address + "#4444452226671")
    assert places() == before
    page.click("#share")
    expect(page, "#status", "http")
    page.click("#exact")
    page.wait_for_selector(".word")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_hint_stays_and_one_simulation_is_one(browser: Any, address: str, errors: list[str]) -> None:
    """The hint until the next move; and grammar."""
    page = open_page(browser, address + "#44", DESKTOP, errors)
    page.keyboard.press("h")
    expect(page, "#status", r"Hint: column \d")
    page.check("#analyse")
    page.wait_for_selector("#columns tbody tr")
    expect_count(page, ".hinted", 1)
    page.click("#exact")
    expect(page, "#status", "The solver: wins in 20 moves with 4")
    counted = "import('./static/dom.js').then(({ counted }) => [1, 2].map((n) => counted(n, 'simulation')))"
    assert page.evaluate(counted) == ["1 simulation", "2 simulations"]


@pytest.mark.parametrize("page_of", ["address", "static_address"], ids=["served", "exported"])
def test_a_hint_follows_exact_play_where_that_is_known(
    browser: Any, request: pytest.FixtureRequest, page_of: str, errors: list[str]
) -> None:
    """After 4 3, which the opening book knows, the network would play 3, and only 6 and 7 win."""
    page = open_page(browser, request.getfixturevalue(page_of) + "#43", DESKTOP, errors)
    page.keyboard.press("h")
    expect(page, "#status", r"Hint: column [67] wins in \d+ moves\.")


def test_a_full_column_is_told(browser: Any, address: str, errors: list[str]) -> None:
    """By mouse and by key; the next move says something else."""
    page = open_page(browser, address + "#444444", DESKTOP, errors)
    page.locator(".column").nth(3).click(force=True)  # though it is told to be disabled
    expect(page, "#status", "Column 4 is full")
    page.select_option("#second", "")
    expect(page, "#status", "Red to move")
    page.keyboard.press("4")
    expect(page, "#status", "Column 4 is full")
    expect_moves(page, "444444")
    page.keyboard.press("1")
    expect(page, "#status", "Yellow to move")


def test_bars_are_seen_in_forced_colours(browser: Any, address: str, errors: list[str]) -> None:
    """They keep a colour of their own."""
    page = open_page(browser, address + "#44", DESKTOP, errors, forced_colors="active")
    page.check("#analyse")
    page.wait_for_selector("#columns tr.best .bar")
    bar, behind = page.evaluate(
        "['#columns tr.best .bar', 'body'].map((s) => getComputedStyle(document.querySelector(s)).backgroundColor)"
    )
    assert bar != behind


def test_a_newcomer_is_told_who_plays(browser: Any, address: str, errors: list[str]) -> None:
    """Which stones are theirs, what wins, and what the other side is like."""
    page = open_page(browser, address, PHONE, errors)
    expect(page, "#status", "You are Red.*4 in a row win")
    expect(page, "#opponents", "casual: plays its first thought, mostly")
    page.click("#swap")
    expect(page, "#status", "You are Yellow|Yellow to move")
    page.select_option("#first", "")
    expect_value(page, "#first", "")
    assert page.inner_text("#opponents") == ""


def test_verdicts_keep_within_their_columns(browser: Any, address: str, errors: list[str]) -> None:
    """Also in large type, where they are larger."""
    page = open_page(browser, address + "#4422", PHONE, errors)
    page.click("#exact")
    page.wait_for_selector(".word")
    page.evaluate("document.querySelector('#large').click()")
    widths = page.evaluate("[...document.querySelectorAll('.word')].map((word) => word.getComputedTextLength())")
    assert len(widths) == 7
    assert max(widths) <= 72


def test_a_page_opened_as_a_file_says_what_it_needs(browser: Any, static_folder: Path) -> None:
    """Instead of "Loading" for ever."""
    page = new_page(browser)
    page.goto((static_folder / "index.html").as_uri())
    expect(page, "#status", "needs a web server")


def test_the_exported_pages_opponent_does_not_wait_for_the_analysis(browser: Any, static_address: str) -> None:
    """Each has a worker of its own."""
    page = open_page(browser, static_address, DESKTOP, [])
    page.check("#analyse")
    expect(page, "#variation", "simulation")
    assert len(page.workers) == 2


KNOCK = """async () => {
  const { knock } = await import("./static/sound.js");
  const audio = new OfflineAudioContext(1, 44100, 44100);
  knock(audio);
  const wave = (await audio.startRendering()).getChannelData(0);
  const loud = [...wave.keys()].filter((i) => Math.abs(wave[i]) > 1e-3);
  return { peak: Math.max(...wave.map(Math.abs)), from: loud[0] / 44100, to: loud.at(-1) / 44100 };
}"""


def test_a_stone_lands_with_a_short_quiet_knock(browser: Any, address: str, errors: list[str]) -> None:
    """Once it has fallen, over at once, and far from clipping."""
    sound = open_page(browser, address, DESKTOP, errors).evaluate(KNOCK)
    assert 0.05 < sound["peak"] < 0.3
    assert 0.25 < sound["from"] < 0.35
    assert sound["to"] - sound["from"] < 0.2

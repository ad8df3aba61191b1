"""Games and analysis on the page, in a browser."""

import json
import threading
from typing import Any

import pytest
from page_browser import (
    DESKTOP,
    FITS,
    FITS_WITH_LARGE_TEXT,
    PHONE,
    Browser,
    audit,
    expect,
    expect_count,
    expect_moves,
    paste,
    press,
)

from alphac4.game import make_board
from alphac4.play.levels import LEVELS
from alphac4.play.web.pages import page_setup

pytestmark = pytest.mark.slow
LOST = "4444452226671"  # solved quickly: loses in 11 moves with 3, sooner with other moves
SLOW_SETUP = """
const fetched = window.fetch;
window.fetch = async (...request) => {
  if (request[0] === "api/setup") await new Promise((resolve) => setTimeout(resolve, 2000));
  return fetched(...request);
};
"""
DROP_AND_RELOAD = """
(column) => {
  document.querySelectorAll(".column")[column].dispatchEvent(new MouseEvent("click", { detail: 1 }));
  location.reload();
}
"""
WORDS = ["loss 1", "loss 1", "loss 11", "loss 1", "loss 1", "loss 1", "loss 1"]


def test_a_person_plays_a_level_by_clicks_on_a_phone(browser: Browser, address: str) -> None:
    """The result is shown and announced, nothing overflows, and undo goes back to the person's move."""
    game, page = "17172727", browser.new_page(PHONE)

    def answer(route: Any) -> None:
        plies = len(route.request.post_data_json["moves"])
        route.fulfill(json={"column": int(game[plies]) - 1, "player": "casual"})

    page.route("**/api/move", answer)
    page.goto(address)
    expect(page, "#status", "You are Red.*4 in a row wins")
    for ply in range(0, len(game), 2):
        page.locator(".column").nth(int(game[ply]) - 1).click()
        expect_count(page, "#moves li", ply + 2)
    expect(page, "#result", "^You lose$")
    expect(page, "#announcement", "from column 7, row 1 to column 7, row 4")
    expect_count(page, ".ring.run", 4)
    assert page.evaluate(FITS)
    page.click("#undo")
    expect_moves(page, game[:6])


def test_two_people_play_with_the_keyboard(browser: Browser, address: str) -> None:
    """Digits, arrows with Enter, undo and a step forward; links show positions; a new game can be undone once.

    A double click drops one stone.
    """
    page = browser.open(address)
    page.focus("#second")
    page.select_option("#second", "")
    press(page, "1")  # while the list still has the focus
    expect_moves(page, "1")
    page.locator("body").click(position={"x": 2, "y": 2})
    press(page, [*"1223u", "ArrowRight", "3"])
    page.focus(".column[tabindex='0']")  # the middle
    press(page, ("ArrowRight", "ArrowLeft", "Enter"))
    expect(page, "#result", "^Red wins$")
    expect_moves(page, "1122334")
    assert "red, yellow" in page.get_attribute(".column >> nth=1", "aria-label")  # from the bottom
    other = browser.new_page()
    other.goto(page.url)
    expect(other, "#result", "^Red wins$")
    other.goto(address + "#999")
    expect(other, "#status", "illegal moves")
    other.select_option("#first", "novice")
    other.goto("about:blank")
    other.goto(address + "#999")
    expect(other, "#status", "illegal moves")
    expect(other, "#resume", "Play on")  # the level waits until the message has been read
    other.goto(address + "#45")
    other.click("#new")
    expect_count(other, "#moves li", 1)  # the level's
    press(other, "u")
    expect_moves(other, "45")
    press(page, "n")
    expect_moves(page, "")
    press(page, "u")
    expect_moves(page, "1122334")
    press(page, "uuuuuuuu")
    expect_moves(page, "")
    press(page, "44444441")  # the seventh finds the column full
    expect_moves(page, "4444441")
    page.locator(".column").nth(1).dblclick()
    expect_moves(page, "44444412")
    page.locator(".column").nth(2).click()
    expect_moves(page, "444444123")


def test_held_keys_act_once_except_arrows(browser: Browser, address: str) -> None:
    def hold(key: str) -> None:
        for _ in range(5):  # the browser reports all but the first as repetitions
            page.keyboard.down(key)
        page.keyboard.up(key)

    page = browser.open(address)
    page.select_option("#second", "")
    for key, moves in (("3", "3"), ("u", ""), ("3", "3"), ("4", "34"), ("5", "345")):
        hold(key)
        expect_moves(page, moves)
    hold("ArrowLeft")
    expect_moves(page, "")
    page.focus("#forward")
    for key, moves in (("Enter", "3"), (" ", "34")):
        hold(key)
        expect_moves(page, moves)
    page.focus(".column[tabindex='0']")  # the middle
    for key, moves in (("Enter", "344"), (" ", "3444")):
        hold(key)
        expect_moves(page, moves)


def test_buttons_keep_the_focus(browser: Browser, address: str) -> None:
    """They keep it after undo of the last move. If a button disappears or a list was clicked, the board gets it."""
    page = browser.open(address)
    focused = "document.activeElement.id || document.activeElement.getAttribute('class') || 'body'"
    page.select_option("#second", "")
    press(page, "4")
    page.focus("#undo")
    page.keyboard.press("Enter")
    expect_moves(page, "")
    assert page.evaluate(focused) == "undo"
    page.dispatch_event("#second", "pointerdown")
    page.select_option("#second", "beginner")
    assert page.evaluate(focused) == "column"
    page.click("#forward")
    expect_count(page, "#moves li", 2)  # the level has answered
    page.click("#back")
    page.focus("#resume")
    page.keyboard.press("Enter")
    expect(page, "#status", "Your move")
    assert page.evaluate(focused) == "column"


def test_undo_takes_back_a_new_game_and_a_swap_with_their_players(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.route("**/api/move", lambda route: route.fulfill(json={"column": 0, "player": "club"}))
    page.goto(address + "#4455")
    players = ("#first", "#second")
    page.select_option("#second", "club")
    press(page, "n")
    expect_moves(page, "")
    page.select_option("#second", "expert")
    press(page, "u")
    expect_moves(page, "4455")
    expect(page, "#announcement", r"^Your move\.")
    assert [page.input_value(side) for side in players] == ["", "club"]
    press(page, "s")
    expect_moves(page, "44551")  # the level has moved for Red
    press(page, "u")
    expect_moves(page, "4455")
    assert [page.input_value(side) for side in players] == ["", "club"]
    press(page, "3")
    expect_moves(page, "445531")
    press(page, "u")  # of a move as usual
    expect_moves(page, "4455")


def test_keys_are_listed(browser: Browser, address: str) -> None:
    """Each mode lists its own ones. They do not act while the list is open."""
    page = browser.open(address + "#44", PHONE)
    page.select_option("#second", "")
    press(page, "?")
    expect(page, "#key-list", "1-7drop a stone.*\u2190\u2192step.*uundo")
    press(page, "3")
    audit(page)
    press(page, ["Escape", "5"])
    expect_moves(page, "445")


def test_levels_are_chosen_by_cards_and_remembered_as_beaten(browser: Browser, address: str) -> None:
    """A win after a hint does not count. The next level is offered after each win."""
    page, beaten = browser.new_page(), "#opponents .beaten:not(:empty)"

    def answer(route: Any) -> None:
        if route.request.post_data_json["level"] == "novice":
            route.fulfill(json={"column": 0, "player": "novice"})
        else:
            route.fulfill(json={"column": 1, "player": "casual"})

    page.route("**/api/move", answer)
    page.route("**/api/hint", lambda route: route.fulfill(json={"column": 2, "outcome": "", "source": "exact"}))
    page.goto(address)
    page.click("#opponents button >> nth=1")
    assert page.input_value("#second") == "novice"
    for count, hinted in ((0, True), (1, False)):
        for ply in range(1, 8, 2):
            if hinted and ply == 1:
                press(page, "h")
                expect(page, "#status", "Hint")
            press(page, "3")
            expect_count(page, "#moves li", min(ply + 1, 7))
        expect(page, "#result", "^You win!$")
        expect_count(page, beaten, count)
        expect(page, "#climb", "^Next: casual$")
        if hinted:
            press(page, "n")
            expect_count(page, "#moves li", 0)
    page.click("#climb")
    assert page.input_value("#second") == "casual"
    expect_count(page, "#opponents button:visible", len(LEVELS))
    page.reload()
    expect_count(page, beaten, 1)
    audit(page)
    press(page, "4")
    expect_count(page, "#opponents button:visible", 0 if page.viewport_size == PHONE else 1)
    page.click("#choose")
    expect_count(page, "#opponents button:visible", len(LEVELS))


def test_a_win_is_celebrated_unless_motion_is_reduced(browser: Browser, address: str) -> None:
    """A line leads through the winning stones."""
    for motion, are_visible in (("no-preference", True), ("reduce", False)):
        page = browser.open(address + "#445566")
        page.emulate_media(reduced_motion=motion)
        press(page, "7")
        page.wait_for_selector(".confetti", state="attached")
        assert page.locator(".confetti").first.is_visible() is are_visible
        expect_count(page, ".strike.over", 1)
        if are_visible:
            expect_count(page, ".confetti", 0)  # it ends


@pytest.mark.parametrize("size", [PHONE, {"width": 844, "height": 390}, DESKTOP], ids=["phone", "rotated", "desktop"])
def test_the_board_stays_in_view_beside_the_tree(size: dict[str, int], browser: Browser, address: str) -> None:
    page = browser.open(address + "#44", size)
    page.check("#analyse")
    page.click("#tree summary")
    last = page.locator("#nodes li").last
    last.scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    board = page.locator("#board").bounding_box()
    assert board["y"] >= 0
    assert board["y"] + board["height"] <= size["height"]
    page.click("#swap")  # although it has scrolled away


def test_rematch_swaps_the_sides_after_the_end_of_a_game(browser: Browser, address: str) -> None:
    """The result is shown on top of the board."""
    page = browser.open(address + "#445566", PHONE)
    expect(page, "#status", "Your move")
    assert page.locator("#rematch").is_hidden()
    press(page, "7")
    expect(page, "#result", "^You win!$")
    result, board = page.locator("#result").bounding_box(), page.locator("#board").bounding_box()
    assert board["y"] <= result["y"] < board["y"] + board["height"] / 8
    assert [button.inner_text() for button in page.locator("#tools button:visible").all()][:2] == [
        "Rematch",
        "New game",
    ]
    audit(page)
    page.click("#rematch")
    expect(page, "#status", "^You are Yellow")
    assert [page.input_value(f"#{side}") for side in ("first", "second")] == ["beginner", ""]
    expect_count(page, "#moves li", 1)  # the level's
    expect(page, "#status", r"^You are Yellow\. Your move\.$")
    assert page.locator("#result").is_hidden()
    page.go_back()
    expect(page, "#result", "^You win!$")
    assert [page.input_value(f"#{side}") for side in ("first", "second")] == ["", "beginner"]
    expect_moves(page, "4455667")
    page.go_forward()
    expect_count(page, "#moves li", 1)
    assert [page.input_value(f"#{side}") for side in ("first", "second")] == ["beginner", ""]


def test_a_reload_at_once_after_a_move_keeps_it(browser: Browser, address: str) -> None:
    """Browsers store the address and the history's state with a delay. Afterwards the level answers."""
    page = browser.new_page()
    page.route("**/api/move", lambda route: route.fulfill(json={"column": 0, "player": "beginner"}))
    page.goto(address + "#4455")
    page.wait_for_selector(".column[aria-disabled='false']")
    for column, moves in ((2, "445531"), (6, "44553171")):
        with page.expect_navigation():
            page.evaluate(DROP_AND_RELOAD, column)
        page.wait_for_selector(".column[aria-disabled='false']")
        expect_moves(page, moves)
        expect(page, "#status", "Your move")


@pytest.mark.parametrize("way", ["reload", "undo and forward"])
def test_a_thinking_level_moves_after_an_interruption(way: str, browser: Browser, address: str) -> None:
    """Only a link to a position makes it wait."""
    page, answers = browser.new_page(), threading.Event()

    def move(route: Any) -> None:
        if answers.is_set():
            route.fulfill(json={"column": 0, "player": "beginner"})

    page.route("**/api/move", move)
    page.goto(address)
    expect(page, "#status", "You are Red")
    press(page, "4")
    expect(page, "#status", "thinking")
    answers.set()
    if way == "reload":
        page.reload()
    else:
        press(page, ["u", "ArrowRight"])
    expect_moves(page, "41")


def test_a_position_is_shared_as_text_and_picture(browser: Browser, address: str) -> None:
    """A link is only offered if other machines can open it."""
    page = browser.open(address + "#4455")
    page.click("#share")
    assert page.input_value("#share-moves") == "4455"
    assert page.locator("#share-address").is_hidden()
    with page.expect_download() as download:
        page.click("#save-picture")
    assert download.value.suggested_filename == "connect-four-4455.png"
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    audit(page)
    press(page, ["Escape"])
    public = browser.new_page()
    public.route(
        "**/api/setup", lambda route: route.fulfill(json=route.fetch().json() | {"link": "http://host.example/"})
    )
    public.goto(address + "#4455")
    public.click("#share")
    assert public.input_value("#share-link") == "http://host.example/#4455"


def test_positions_are_opened_from_moves_links_and_stones(browser: Browser, address: str) -> None:
    """Levels wait, the browser's Back returns to the game before, and problems are stated."""
    page = browser.open(address + "#1212")
    press(page, "o")
    assert page.input_value("#open-text") == "1212"
    for text, problem in (("49", "“9” is not a column"), ("4444444", "Column 4 is full"), ("11223344", "the end of")):
        page.fill("#open-text", text)
        expect(page, "#open-note", problem)
        page.keyboard.press("Enter")
        assert page.locator("#open-dialog").is_visible()
    page.fill("#open-text", "1122334")
    expect(page, "#open-note", "^The game is over.$")
    page.fill("#open-text", "http://host.example/?key=1#44 437")
    expect(page, "#open-note", "^Yellow to move.$")
    press(page, ["ArrowLeft", "Enter"])  # in the field
    expect_moves(page, "44437")
    expect(page, "#resume", "Play on")
    expect(page, "#announcement", "^Yellow to move.")
    page.click("#open")
    for cell in ("Column 1, row 1: empty", "Column 1, row 4: empty", "Column 1, row 2: red"):
        page.get_by_label(cell).click()
    audit(page)
    expect(page, "#open-note", "^Yellow to move.")
    page.get_by_label("Column 1, row 1: red").click()
    expect(page, "#open-note", "^3 red and 4 yellow: Red has as many stones as Yellow, or one more.")
    page.click("#open-form .strong")
    page.get_by_label("Column 1, row 1: yellow").click()  # in the middle, thus red again
    page.click("#open-form .strong")
    expect_count(page, "g.stone.red:not(.possible)", 4)
    expect_count(page, "g.stone.yellow:not(.possible)", 3)
    page.go_back()
    expect_moves(page, "44437")


def test_cells_and_moves_are_one_tab_stop_each(browser: Browser, address: str) -> None:
    """Arrow keys move among the cells, and step through the game; the focus follows."""
    page = browser.open(address + "#1212")
    for selector in ("#open-cells", "#moves", "#board"):
        expect_count(page, f"{selector} [tabindex='0']", 1)
    page.focus("#moves [tabindex='0']")
    press(page, ["ArrowLeft", "ArrowLeft"])
    expect(page, "#moves button:focus", "^22$")
    press(page, ["o", "Tab", "Tab"])
    assert not page.locator("#open-cells :focus").count()
    press(page, ["Shift+Tab", "ArrowUp", "ArrowLeft"])
    assert page.get_attribute(":focus", "aria-label") == "Column 6, row 2: empty"
    press(page, ["ArrowRight", "ArrowDown", "ArrowDown", "Enter"])
    assert page.get_attribute(":focus", "aria-label") == "Column 7, row 1: red"


def test_pasted_moves_and_links_are_opened(browser: Browser, address: str) -> None:
    """Another text, and a link with illegal moves, lead to a message that is announced."""
    page = browser.open(address + "#12")
    for text, moves in (("4, 4, 3", "443"), ("https://host.example/page?pos=2255", "2255")):
        paste(page, text)
        expect_moves(page, moves)
    paste(page, "good morning")
    for name in ("#status", "#announcement"):
        expect(page, name, "^The pasted text is not a position. “g” is not a column.")
    expect_moves(page, "2255")
    page.evaluate("location.hash = '1111111'")
    for name in ("#status", "#announcement"):
        expect(page, name, "^The link has illegal moves: 1111111. Move 7 is illegal. Column 1 is full.")


def test_board_does_not_move_when_analysis_opens_on_a_phone(browser: Browser, address: str) -> None:
    page = browser.open(address + "#44", PHONE)
    before = page.locator("#board").bounding_box()
    page.check("#analyse")
    page.wait_for_selector("#variation button")
    page.evaluate("scrollTo(0, 0)")
    assert page.locator("#board").bounding_box() == before
    assert before["x"] + before["width"] / 2 == pytest.approx(PHONE["width"] / 2, abs=1)
    assert page.evaluate(FITS_WITH_LARGE_TEXT)
    widths = [page.locator(name).bounding_box()["width"] for name in ("#first", "#second")]
    assert min(widths) > 150, "the lists show the players' names"


def test_a_phone_in_landscape_shows_all_buttons_and_the_board_does_not_move_at_the_end(
    browser: Browser, address: str
) -> None:
    width, height = 844, 390
    page = browser.open(address + "#445566", {"width": width, "height": height})
    before = page.locator("#board").bounding_box()
    press(page, "7")
    expect(page, "#result", "You win!")
    assert page.locator("#board").bounding_box() == before
    press(page, ["ArrowLeft", "ArrowLeft"])
    page.wait_for_selector("#resume")  # one button more
    boxes = [button.bounding_box() for button in page.locator(".bars button:visible").all()]
    assert len(boxes) >= 10  # and those of plugins
    assert all(box["y"] + box["height"] <= height for box in boxes)
    players = [page.locator(name).bounding_box() for name in ("#first", "#second", "#swap")]
    assert all(box["x"] + box["width"] <= width for box in players)


def test_browser_stores_players_settings_and_position(browser: Browser, address: str) -> None:
    """They are kept with the moves that follow the position shown."""
    page = browser.open(address)
    page.select_option("#second", "club")
    page.click("#settings summary")
    page.check("#shapes")
    press(page, "4")
    expect(page, "#status", "Your move")
    moves = page.evaluate("location.hash.slice(1)")
    assert len(moves) == 2
    page.reload()
    page.wait_for_selector(".column[aria-disabled='false']")
    assert [page.input_value(f"#{side}") for side in ("first", "second")] == ["", "club"]
    expect_moves(page, moves)
    assert page.is_checked("#shapes")
    page.select_option("#second", "")
    press(page, [*"556", "ArrowLeft", "ArrowLeft"])
    expect(page, "#status", "^3 of 5 stones")
    page.reload()
    expect(page, "#status", "^3 of 5 stones")


def test_stored_players_and_games_of_another_version_are_ignored(browser: Browser, address: str) -> None:
    """A valid game among them is shown."""
    page, valid = browser.open(address), {"hash": "4", "moves": "44"}
    page.evaluate("""() => { localStorage.alphac4 = '{"players": ["", "god"]}'; }""")
    for stored in (5, [{"hash": "4", "moves": 5}], [valid, {"hash": None}]):
        page.evaluate("(stored) => sessionStorage.setItem('alphac4 /', JSON.stringify(stored))", stored)
        page.evaluate("history.replaceState({ hash: 5 }, '', '/')")
        page.reload()
        expect(page, "#status", "^1 of 2 stones" if stored == [valid, {"hash": None}] else "^You are Red")


def test_analysis_and_tree_are_shown_on_request(browser: Browser, address: str) -> None:
    """The tree is a list and a picture with clickable nodes; axe finds no problems."""
    page = browser.open(address + "#44")
    assert page.locator("#analysis").is_hidden()
    page.check("#analyse")
    page.click("#numbers summary")
    page.wait_for_selector("#columns tbody tr:nth-child(7)")
    expect(page, "#effort", "2,000 simulations")
    page.click("#tree summary")
    page.click("#nodes li:first-child button")
    expect_count(page, "#path button", 2)
    page.click("#path button >> nth=0")
    expect_count(page, "#path button", 1)
    page.locator("#picture .node").first.click()  # drawn first: the reply to the most visited move
    expect_count(page, "#path button", 3)
    page.click("#settings summary")
    audit(page)


def test_analysis_shows_the_numbers_of_the_search(browser: Browser, address: str) -> None:
    """Yellow is to move; the bar and the curve are for Red."""
    columns = [
        {"column": 0, "visits": 1, "visit_share": 0.03, "prior": 0.12, "value": -0.5, "proof": "loses in 1 move"},
        {"column": 2, "visits": 0, "visit_share": 0, "prior": 0.25, "value": None, "proof": ""},
        {"column": 3, "visits": 31, "visit_share": 0.97, "prior": 0.63, "value": 0.25, "proof": ""},
    ]
    analysis = {"moves": "444", "move": 3, "value": 0.2, "win": 0.5, "draw": 0.2, "loss": 0.3, "pv": [3, 0, 2]}
    analysis |= {"simulations": 1234, "seconds": 0.5, "finished": True, "columns": columns}

    def node(route: Any) -> None:
        route.fulfill(json={"columns": [] if route.request.post_data_json["path"] else columns})

    page = browser.new_page()
    for name in ("exact", "proof"):
        page.route(f"**/api/{name}", lambda _route: None)  # never answers
    page.route("**/api/analyze", lambda route: route.fulfill(body=json.dumps(analysis) + "\n"))
    page.route("**/api/node", node)
    page.goto(address + "#444")
    page.check("#analyse")
    expect(page, "#outlook", r"^The network's opinion: 60\s% \(wins 50\s%, draws 20\s%, loses 30\s%\)$")
    expect(page, "#viewpoint", r"for\s+Yellow")
    expect(page, "#variation", "^Its best line: 413$")
    expect(page, "#effort", r"^1,234 simulations, 0\.5 s$")
    expect(page, "#bar-text", "^60%$")
    assert page.get_attribute("#bar", "aria-label") == "Chances of Red: 40\u00a0%"
    assert page.get_attribute("#chart", "aria-label").endswith("3: 40\u00a0%")
    assert page.locator(".word").all_text_contents() == ["loss 1", "63\u00a0%"]
    assert page.locator("#columns tbody tr").all_text_contents() == [
        "13\u00a0%12\u00a0%25\u00a0%loses in 1 move",
        "30\u00a0%25\u00a0%\u2013",
        "497\u00a0%63\u00a0%63\u00a0%",
    ]
    assert page.locator("#columns .best").text_content().startswith("4")
    page.click("#numbers summary")
    page.click("#tree summary")
    expect(page, "#tree-note", "^Moves of Yellow, with chances for this side:$")
    expect_count(page, "#nodes li", 2)
    assert page.locator("#nodes li").all_text_contents() == [
        "4: 31 visits (97\u00a0%), chance 63\u00a0%, prior 63\u00a0%",
        "1: 1 visit (3\u00a0%), chance 25\u00a0%, prior 12\u00a0%, loses in 1 move",
    ]


def test_proven_results_are_shown_before_the_networks_opinion(browser: Browser, address: str) -> None:
    """The result, also shown on the board, is the solver's or else another proof's. The best line can be played."""
    page = browser.open(address + "#44")
    page.click("#exact")
    page.wait_for_selector(".word")  # from now on the server has loaded its book, and is quick
    page.check("#analyse")
    button = page.wait_for_selector("#variation button")
    expect(page, "#effort", "2,000 simulations")
    assert button.evaluate("button => button.isConnected")  # otherwise a click during the analysis could be lost
    expect(page, "#verdict", r"Red wins in \d+ moves \(exact; best: 4\)")
    expect(page, "#viewpoint", r"for\s+Red")
    expect(page, "#outlook", "The network's opinion: .*wins")
    expect_count(page, ".pill.win", 1)
    expect_count(page, ".pill.opinion", 0)
    expect_count(page, ".stone.suggested", 1)
    expect(page, "#effort", "2,000 simulations")  # from now on the line does not change
    page.hover("#variation button >> nth=1")
    expect_count(page, ".stone:not(.possible)", 4)
    page.mouse.move(1, 1)
    expect_count(page, ".stone:not(.possible)", 2)
    page.click("#variation button >> nth=1")
    expect_count(page, "#moves li", 4)
    press(page, ["ArrowLeft"])
    expect(page, "#status", "^3 of 4 stones")
    other = browser.new_page()
    other.route("**/api/exact", lambda _route: None)  # never answers
    result = {"side": 0, "plies": 37, "column": 3}
    other.route("**/api/proof", lambda route: route.fulfill(json={"result": result}))
    other.goto(address + "#44")
    other.check("#analyse")
    expect(other, "#verdict", r"Red wins within 19 moves \(proven\)")
    expect_count(other, ".pill.opinion", 7)
    expect_count(other, ".pill.opinion.strong", 1)
    other.goto(address + "#444")
    expect(other, "#viewpoint", r"for\s+Yellow")
    expect(other, "#verdict", r"Yellow loses within 18 moves \(proven\)")
    other.goto(address + "#4444")  # the same proof, but a sooner win follows from the earlier one
    expect(other, "#verdict", r"Red wins within 18 moves \(proven\)")
    hint = {"column": 3, "outcome": "wins within 19 moves", "source": "proven"}
    other.route("**/api/hint", lambda route: route.fulfill(json=hint))
    other.click("#hint")
    expect(other, "#status", r"^Hint: 4 wins \(proven\)")  # without the larger number


def test_threats_are_marked_on_request_and_a_hint_states_its_reason(browser: Browser, address: str) -> None:
    page = browser.new_page()
    hint = {"column": 2, "outcome": "wins in 1 move", "source": "exact"}
    page.route("**/api/hint", lambda route: route.fulfill(json=hint))
    page.goto(address + "#44556627")
    page.check("#threats")
    expect_count(page, ".threat", 3)
    assert page.locator(".threat.red").all_text_contents() == ["1"]
    assert page.locator(".threat.yellow").all_text_contents() == ["2", "2"]
    assert "red threat at height 1, yellow threat at height 2" in page.get_attribute(".column >> nth=2", "aria-label")
    page.click("#hint")
    expect(page, "#status", r"^Hint: 3 wins in 1 move \(exact\)\. It completes a row\.$")
    audit(page)
    press(page, "t")
    expect_count(page, ".threat", 0)


def test_exact_results_are_shown_above_the_columns(browser: Browser, address: str) -> None:
    """They are announced to screen readers, and are kept during analysis and after undo and a step forward."""
    page = browser.open(f"{address}#{LOST}")
    page.check("#analyse")
    page.click("#exact")
    expect(page, "#status", "Exact: every move loses; 3 holds out longest, for 11 moves")
    expect(page, "#announcement", "Exact: every move loses")
    expect(page, "#effort", r"(1,9\d\d|2,000) simulations")  # fewer, if they prove the outcome
    assert page.locator(".word").all_text_contents() == WORDS
    assert "loses in 11 moves, best" in page.get_attribute(".column >> nth=2", "aria-label")
    page.uncheck("#analyse")
    page.click("#undo")
    expect_count(page, ".word", 0)
    page.click("#forward")
    assert page.locator(".word").all_text_contents() == WORDS
    audit(page)


def test_buttons_are_hidden_until_the_page_is_loaded(browser: Browser, address: str) -> None:
    """A click on a slow connection would be lost."""
    page = browser.new_page()
    page.add_init_script(SLOW_SETUP)
    page.goto(address + "#444445267614")
    page.click("#exact")
    expect(page, "#status", "wins in 1 move with 3")


def test_unreachable_server_is_reported_and_can_be_retried(browser: Browser, address: str) -> None:
    """The report is one line with a button; the game then continues from the same position."""
    page, lost = browser.new_page(), threading.Event()
    page.route("**/api/*", lambda route: route.abort() if lost.is_set() else route.continue_())

    def expect_report() -> None:
        page.locator("#problem").wait_for()  # it has the text of the last report while it is hidden
        expect(page, "#problem", "The server does not answer")

    page.goto(address)
    page.wait_for_selector(".column[aria-disabled='false']")
    for ask, answered in (
        (lambda: press(page, "4"), "#moves li:nth-child(2)"),
        (lambda: page.click("#exact"), ".word"),
        (page.reload, "#moves li:nth-child(2)"),
    ):
        lost.set()
        ask()
        expect_report()
        if page.locator(".column").count():  # otherwise there is only the error
            audit(page)
        lost.clear()
        page.click("#retry")
        page.wait_for_selector(answered)
        expect(page, "#status", "[Yy]our move|to move|Exact: .* wins")
        page.locator("#problem").wait_for(state="hidden")
    lost.set()
    page.click("#exact")
    expect_report()
    lost.clear()
    page.click("#exact")  # instead of the button for another attempt
    page.wait_for_selector(".word")
    assert page.locator("#problem").is_hidden()
    browser.errors.clear()  # the requests that failed


def test_another_board_is_played_on_the_page(browser: Browser, address: str) -> None:
    setup = page_setup(make_board(5, 5, 4), "network", LEVELS, simulations=2000, exact=True, provenance={})
    page = browser.new_page()
    page.route("**/api/setup", lambda route: route.fulfill(json=setup))
    page.goto(address + "#1122334")
    expect(page, "#result", "Red wins")
    expect_count(page, ".column", 5)

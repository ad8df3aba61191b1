"""Reviews on the page, in a browser."""

import json
from pathlib import Path
from typing import Any

import numpy as np
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
    press,
)

from alphac4.game import Position
from alphac4.plugins.review.game import review_game
from alphac4.plugins.review.html import review_page
from examples import Counting, LateSolver, short_review

pytestmark = pytest.mark.slow
GAME = "6372714243736534153221"  # moves 17 to 21 are mistakes
SLOWER = "561644537123431111273563354727"
LONG_LINES = "61222675113454225611"  # the better line of move 15 has ten moves


def slower_wins(move: dict[str, Any]) -> list[str]:
    better = move["better"]
    return [name for name, verdict in move["columns"].items() if verdict["score"] > 0 and name not in better]


@pytest.fixture
def reviewed(browser: Browser, address: str) -> Any:
    """Opens a page with the review of a game, by default of `GAME` without its last move, for two people."""

    def open_page(size: dict[str, int] = DESKTOP, game: str = GAME[:-1]) -> tuple[Any, dict[str, Any]]:
        review = review_game(game, solver=LateSolver(game)).to_dict()  # type: ignore[arg-type]
        page = browser.new_page(size)
        page.route("**/api/review", lambda route: route.fulfill(body=json.dumps(review) + "\n"))
        page.goto(f"{address}#{game}")
        page.select_option("#second", "")
        page.click("#review-ask")
        expect(page, "#sides", "Red: .* best, . mistakes?.*Yellow: .* best, . mistakes?")
        return page, review

    return open_page


def forget_review(page: Any, game: str) -> None:
    """Open the game as a new one, without its review."""
    page.evaluate(
        "() => { for (const key of Object.keys(localStorage)) if (key !== 'alphac4') delete localStorage[key]; }"
    )
    address = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(f"{address}#{game}")
    expect_count(page, "#moves li", len(game))


def keeps(move: dict[str, Any], name: str) -> bool:
    """Return whether a column keeps the outcome of a reviewed move's position."""
    return bool(np.sign(move["columns"][name]["score"]) == np.sign(move["best"]["score"]))


def test_review_accepts_slower_wins_and_states_what_other_moves_lose(reviewed: Any) -> None:
    """At its move 20, column 3 wins at once and column 6 one move later."""
    page, review = reviewed(game=SLOWER)
    ply = next(ply for ply in review["mistakes"] if slower_wins(review["reviewed"][ply - 1]))
    move = review["reviewed"][ply - 1]
    while page.evaluate("location.hash") != f"#{SLOWER[: ply - 1]}":
        page.click("#next")
    lost = next(name for name, verdict in move["columns"].items() if verdict["score"] < 0 and name != move["move"])
    press(page, lost)
    expect(page, "#status", f"^No, {lost} {move['columns'][lost]['text']}. Find a better move")
    assert page.locator(".word").all_text_contents().count(f"loss {move['columns'][lost]['moves']}") == 1
    name = slower_wins(move)[0]
    press(page, name)
    later = move["columns"][name]["moves"] - move["best"]["moves"]
    expect(page, "#status", f"^Yes, {name} also wins, {later} moves? later.$")
    expect(page, "#now", f"Best: {move['better'][0]}")


def test_review_asks_for_a_better_move_at_each_mistake(reviewed: Any) -> None:
    """The best ones are hidden until one is found or requested; the first mistake follows the last."""
    page, review = reviewed()
    points, moves = review["mistakes"], review["reviewed"]
    game, count = review["moves"], len(review["mistakes"])
    for number, ply in enumerate([*points, points[0]]):
        move = moves[ply - 1]
        expect(page, "#mistake-number", f"^Mistake {number % count + 1} of {count}$")
        expect_moves(page, game[: ply - 1])
        if number < count:
            expect(page, "#status", f"^Find a better move for {('Red', 'Yellow')[move['side']]}")
            assert "Best" not in page.inner_text("#now")
            expect_count(page, ".stone.better", 0)
            legal = [str(column + 1) for column in Position.from_moves(game[: ply - 1]).legal_columns()]
            wrong = [name for name in legal if name != move["move"] and not keeps(move, name)]
            for name in wrong[:2]:
                press(page, name)
                verdict = move["columns"][name]
                expect(page, "#status", f"^No, {name} {verdict['text'] if verdict['score'] else 'only draws'}")
            press(page, move["move"])  # the mistake itself is ignored
            expect_moves(page, game[: ply - 1])
            if number % 2:
                page.click("#review-show")
            else:
                press(page, move["better"][0])
                expect(page, "#status", f"^Yes, {move['better'][0]} is best")
        expect(page, "#now", f"Best: {move['better'][0]}")
        expect_count(page, ".stone.better", len(move["better"]))
        press(page, ["ArrowDown"])
    page.click("#previous")
    page.click("#review-again")
    expect(page, "#status", "^Find a better move")
    audit(page)


def test_analysis_is_hidden_during_an_exercise_and_other_lines_lead_back_to_the_review(reviewed: Any) -> None:
    """Hint and solver are disabled too."""
    page, review = reviewed()
    page.check("#analyse")
    expect(page, "#outlook", "^Hidden while you look for the best move")
    assert page.locator("#verdict").is_hidden()
    assert page.get_attribute("#hint", "aria-disabled") == page.get_attribute("#exact", "aria-disabled") == "true"
    expect_count(page, ".stone.suggested", 0)
    ply, game = review["mistakes"][0], review["moves"]
    better = review["reviewed"][ply - 1]["better"][0]
    press(page, better)
    expect(page, "#status", "^Yes")
    page.wait_for_selector("#variation button")
    press(page, better)  # now as a move
    expect_moves(page, game[: ply - 1] + better)
    assert page.locator("#mistakes").is_hidden()
    page.click("#review-back")
    expect_moves(page, game[: ply - 1])
    expect(page, "#mistake-number", "^Mistake 1 of")


def test_moves_of_a_better_line_are_played_on_the_board(reviewed: Any) -> None:
    """One can step through the line, and return to the mistake."""
    page, review = reviewed(game=LONG_LINES)
    ply, game = review["mistakes"][0], review["moves"]
    line = "".join(review["reviewed"][ply - 1]["line"])
    page.click("#review-show")
    page.locator(".line button").nth(1).click()
    expect_moves(page, game[: ply - 1] + line[:2])
    expect_count(page, "#moves li", ply - 1 + len(line))
    press(page, ["ArrowRight"])
    expect_moves(page, game[: ply - 1] + line[:3])
    page.click("#review-back")
    expect_moves(page, game[: ply - 1])
    expect_count(page, ".line button", len(line))


def test_lessons_are_the_persons_own_mistakes(reviewed: Any) -> None:
    """They end with a summary, and the game can be played again from each. The level's mistakes show the best move."""
    page, review = reviewed()
    side = review["reviewed"][review["mistakes"][0] - 1]["side"]
    own = [ply for ply in review["mistakes"] if review["reviewed"][ply - 1]["side"] != side]
    assert len(own) == 2
    forget_review(page, review["moves"])
    page.select_option(f"#{('first', 'second')[side]}", "beginner")
    page.click("#review-ask")
    for number, ply in enumerate(own, start=1):
        expect(page, "#mistake-number", f"^Your mistake {number} of {len(own)}$")
        expect_moves(page, review["moves"][: ply - 1])
        expect(page, "#review-summary", "^$")
        if number < len(own):
            press(page, [review["reviewed"][ply - 1]["better"][0], "ArrowDown"])
    page.click("#review-show")
    for selector in ("#status", "#review-summary", "#announcement"):
        expect(page, selector, r"You found 1 of 2\.$")
    page.click("#review-again")
    expect(page, "#status", "^Find a better move")
    press(page, review["reviewed"][own[1] - 1]["better"][0])
    expect(page, "#review-summary", r"You found 2 of 2\.$")
    page.locator("#moves button").nth(review["mistakes"][0] - 1).click()
    expect(page, "#now", f"Best: {review['reviewed'][review['mistakes'][0] - 1]['better'][0]}")
    page.click("#next")
    audit(page)
    page.click("#review-play")
    expect_count(page, "#moves li", own[0] - 1)
    assert page.locator("#mistakes").is_hidden()
    page.go_back()
    expect(page, "#review-summary", r"You found 2 of 2\.$")


def test_what_a_running_review_knows_is_shown(reviewed: Any) -> None:
    """The curve, marks and accuracies; nothing is claimed about the moves that are not judged yet."""
    page, review = reviewed()
    judged = 5
    moves = [
        {**move, "columns": {}, "better": [], "line": []}
        if move["ply"] > len(review["moves"]) - judged
        else {**move, "grade": "unknown", "mark": "", "comment": "not judged", "best": None, "played": None}
        for move in review["reviewed"]
    ]
    line = review | {"done": judged, "total": 2 * len(moves), "reviewed": moves, "values": [0.5] * len(moves) + [None]}
    line["mistakes"] = [ply for ply in review["mistakes"] if ply > len(moves) - judged]
    forget_review(page, review["moves"])
    page.evaluate(
        """(line) => {
          const fetched = window.fetch, start = (stream) => stream.enqueue(new TextEncoder().encode(line));
          window.fetch = async (address, ...options) =>
            address === "api/review" ? new Response(new ReadableStream({ start })) : fetched(address, ...options);
        }""",
        json.dumps(line) + "\n",
    )
    page.click("#review-ask")
    expect(page, "#status", rf"^Reviewing … {round(50 * judged / len(moves))}\s%$")
    expect_count(page, "#chart .outcome:not(.unknown)", judged)
    assert page.get_attribute("#chart .curve", "points").count(",") == len(moves)
    assert page.locator(".mark.unknown").count() == len(moves) - judged
    page.click("#to-start")
    page.click("#forward")
    expect(page, "#now", "This move is judged later.")
    assert "time" not in page.inner_text("#unjudged").lower()
    audit(page)
    page.click("#review-ask")  # stop
    expect_count(page, "#chart .outcome", 0)
    expect(page, "#status", "^1 of 21 stones")


def test_review_is_kept_with_its_game(reviewed: Any) -> None:
    """After a reload, with earlier games, and for another page with the same moves."""
    page, review = reviewed()
    count, asked = len(review["mistakes"]), []
    page.on("request", lambda request: asked.append(request.url))
    other = page.context.new_page()
    other.goto(page.url.partition("#")[0] + f"#{review['moves']}")
    expect(other, "#mistake-number", f"of {count}$")
    assert other.locator("#chart .curve").count() == page.locator("#chart .curve").count()
    other.close()
    page.reload()
    expect(page, "#mistake-number", f"^Mistakes: {count}$")
    assert page.locator("#chart .outcome").count() == len(review["reviewed"])
    page.click("#next")
    expect(page, "#status", "^Find a better move")
    page.click("#new")
    page.reload()
    expect(page, "#status", "to move|Your move")
    assert page.locator("#mistake-number").is_hidden()
    page.go_back()
    expect(page, "#mistake-number", f"of {count}$|^Mistakes: {count}$")
    assert not [url for url in asked if url.endswith("/review")]


def test_incomplete_review_offers_to_judge_the_rest(reviewed: Any) -> None:
    """The curve is interrupted at positions without an evaluation."""
    page, _ = reviewed()
    assert page.locator("#outdated").is_hidden()
    press(page, ["End", GAME[-1]])
    expect(page, "#outdated", f"^Judged up to stone {len(GAME) - 1} of {len(GAME)}")
    assert page.get_attribute("#review-ask", "aria-disabled") == "false"
    page.evaluate("location.hash = '44'")
    short = review_game("44", player=Counting()).to_dict()  # type: ignore[arg-type]
    page.unroute("**/api/review")
    page.route("**/api/review", lambda route: route.fulfill(body=json.dumps(short) + "\n"))
    page.click("#review-ask")
    expect(page, "#moves li >> nth=1", "✓")
    press(page, [*"152537"])
    expect(page, "#result", "Red wins")
    expect(page, "#outdated", "^Judged up to stone 2 of 7")
    expect_count(page, "#chart .curve-point", 1)  # the end
    assert page.get_attribute("#chart .curve", "points").count(",") == len(short["values"])
    audit(page)
    with page.expect_request("**/api/review") as asked:
        page.click("#review-rest")
    assert asked.value.post_data_json["moves"] == "4415253"


def test_buttons_for_mistakes_are_visible_on_a_phone(reviewed: Any) -> None:
    page, _ = reviewed(PHONE)
    assert page.evaluate("scrollY") == 0
    for name in ("#previous", "#next", "#review-show"):
        box = page.locator(name).bounding_box()
        assert box["y"] + box["height"] < PHONE["height"]
    assert page.evaluate(FITS)
    assert page.evaluate(FITS_WITH_LARGE_TEXT)


def test_review_page_is_navigated_by_keys_and_clicks(browser: Browser, tmp_path: Path) -> None:
    """Keys and clicks lead from mistake to mistake and from game to game; axe finds no problems.

    The texts of the first game are those of `data/review.txt`.
    """
    first, file = short_review(), tmp_path / "review.html"
    second = review_game("2253", first.board, seconds=600)
    file.write_text(review_page([first, second]))
    page = browser.new_page()
    page.goto(file.as_uri())
    expect(page, "#result", "^Yellow wins · 10 stones$")
    expect(page, "#sides", r"^41\s%Red: 1 of 5 best, 3 mistakes64\s%Yellow: 2 of 5 best, 2 mistakes$")
    chances = [100, 75, 63, 55, 88, 35, 0, 20, 50, 63, 0]  # at the start and after each move
    label = ", ".join(f"{ply}: {chance}\u00a0%" for ply, chance in enumerate(chances))
    assert page.get_attribute("#chart", "aria-label") == f"Chances of Red after each move. {label}"
    bars = [str(bar.get_attribute("class")).split()[1] for bar in page.locator("#chart .outcome").all()]
    assert bars == ["red", "red", "red", "red", "yellow", "red", "yellow", "draw", "yellow", "yellow"]
    press(page, ["Home"])
    expect(page, "#now", "Start of the game")
    press(page, ["ArrowDown"])
    text = "With best play, Red wins in 6 moves; after this move it loses in 2 moves.Best: 3, for example 3312411554"
    text += r"4 lets Yellow play 3, which makes threats in 3 and 4 at once\. 3 makes an odd threat in 4\."
    opinion = r"The network estimated 88\s% for Red and would have played 1."
    expect(page, "#now", rf"^5\. Red plays 4 \?\? turns a win into a loss{text}{opinion}$")
    stones = page.locator("g.stone:not(.possible)").count()
    page.locator(".line button").nth(2).click()
    expect_count(page, "g.stone:not(.possible)", stones + 2)
    assert page.locator(".line button").nth(2).get_attribute("aria-current") == "true"
    audit(page)
    page.click("#to-end")
    text = "Yellow wins in 1 move with best play, counting this move.3 completes a row."
    opinion = r"The network estimated 38\s% for Yellow and would have played 5."
    expect(page, "#now", rf"^10\. Yellow plays 3 best{text}{opinion}$")
    page.get_by_label("2. Yellow plays 2, loses 2 moves sooner").click()
    expect(page, "#now", "^2. Yellow plays 2 ~ loses 2 moves soonerWith best play, Yellow loses in 4 moves; after this")
    page.select_option("#game", "1")
    expect(page, "#result", "Unfinished · 4 stones")
    audit(page)


def test_buttons_keep_their_places_during_a_review(browser: Browser, address: str) -> None:
    page = browser.new_page(PHONE)
    page.route("**/api/review", lambda _route: None)  # never answers
    page.goto(f"{address}#{GAME[:-1]}")
    buttons = page.locator(".bars button:visible")
    expect(page, "#status", "Your move|to move")
    before = [button.bounding_box() for button in buttons.all()]
    page.click("#review-ask")
    expect(page, "#review-ask", "^Stop$")
    assert [button.bounding_box() for button in buttons.all()] == before

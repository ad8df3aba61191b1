"""Puzzles and reviews on the page, in a browser."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import Counting, LateSolver, short_review
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
from alphac4.game.position import mirror_moves
from alphac4.play.web.pages import review_page
from alphac4.puzzles import Puzzle, packaged_puzzles
from alphac4.review import review_game
from alphac4.solver.solver import exact

pytestmark = pytest.mark.slow
GAME = "6372714243736534153221"  # moves 17 to 21 are mistakes
LONG_LINES = "61222675113454225611"  # the better line of move 15 has ten moves


def open_puzzles(browser: Browser, address: str, puzzle: Puzzle | None = None, size: dict[str, int] = DESKTOP) -> Any:
    """Open the page with this puzzle, or one of the page's choice."""
    page = browser.new_page(size)
    page.goto(f"{address}#puzzles" + (f"/{puzzle.moves}" if puzzle else ""))
    expect(page, "#status", "(Red|Yellow) to move and win")
    return page


def mirrored(puzzle: Puzzle) -> Puzzle:
    return replace(puzzle, moves=mirror_moves(puzzle.moves, 7), solution=6 - puzzle.solution)


def shown(page: Any) -> Puzzle:
    moves = page.evaluate("location.hash").removeprefix("#puzzles/")
    return next(image for one in packaged_puzzles() for image in (one, mirrored(one)) if image.moves == moves)


def finish(page: Any, puzzle: Puzzle) -> None:
    """Play out a puzzle by the solver's moves, until the page shows that it is solved."""
    position, column = puzzle.position, puzzle.solution
    for left in range(puzzle.distance - 1, 0, -1):
        press(page, str(column + 1))
        expect(page, "#status", rf"answers \d\. (Red|Yellow) wins in {left} move")
        answer = int(page.inner_text("#status").partition("answers ")[2][0]) - 1
        position = position.play(column).play(answer)
        verdicts = exact(position)
        assert max(verdict.moves for verdict in verdicts if verdict.best) == left, "the defence is the best"
        column = next(verdict.column for verdict in verdicts if verdict.best)
    press(page, str(column + 1))
    expect(page, "#status", r"^Solved!$")
    expect_count(page, ".ring.run", 4)


def test_puzzles_are_solved_and_the_streak_is_stored(browser: Browser, address: str) -> None:
    """A wrong move shows its result and ends the streak; a reload keeps everything."""
    page = open_puzzles(browser, address, size=PHONE)
    for count in (1, 2):
        puzzle = shown(page)
        assert (puzzle.difficulty, puzzle.distance) == (1, 2), "the nearest wins come first"
        finish(page, puzzle)
        expect(page, "#streak", str(count))
        page.click("#puzzle-next")
    page.reload()
    expect(page, "#streak", "2")
    expect(page, "#solved", "2 of")
    puzzle = shown(page)
    wrong = next(column for column in puzzle.position.legal_columns() if column != puzzle.solution)
    page.locator(".column").nth(wrong).click()
    expect(page, "#status", f"No, {wrong + 1} (only draws|loses in)")
    expect(page, "#best-streak", "2")
    finish(page, puzzle)
    expect(page, "#solved", "3 of")
    expect(page, "#streak", "0")
    assert page.evaluate(FITS)
    assert page.evaluate(FITS_WITH_LARGE_TEXT)


def test_puzzles_solved_in_two_tabs_are_both_stored(browser: Browser, address: str) -> None:
    """Each tab was opened before the other solved its puzzle."""
    first, second = [puzzle for puzzle in packaged_puzzles() if puzzle.difficulty == 1][:2]
    page = open_puzzles(browser, address, first)
    other = page.context.new_page()
    other.goto(f"{address}#puzzles/{second.moves}")
    expect(other, "#status", "to move and win")
    finish(page, first)
    while "bestStreak" not in (other.evaluate("localStorage.alphac4") or ""):  # other tabs see changes with a delay
        other.wait_for_timeout(50)
    finish(other, second)
    expect(other, "#solved", "2 of")
    page.reload()
    expect(page, "#solved", "2 of")


@pytest.mark.parametrize("solved", [5, {"a": 1}])
def test_stored_puzzles_of_another_version_are_ignored(solved: object, browser: Browser, address: str) -> None:
    page = browser.open(address)
    page.evaluate("(solved) => { localStorage.alphac4 = JSON.stringify({ solved }); }", solved)
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    finish(page, shown(page))
    expect(page, "#solved", "1 of")


def test_hints_never_rule_out_the_solution(browser: Browser, address: str) -> None:
    """They leave at least two moves. The solution is played out to the end. Both end the streak."""
    puzzle = next(puzzle for puzzle in packaged_puzzles() if len(puzzle.position.legal_columns()) == 7)
    page = open_puzzles(browser, address, puzzle)

    def press_with_streak(key: str) -> None:
        page.evaluate("localStorage.alphac4 = JSON.stringify({ streak: 3 })")
        press(page, key)
        assert page.evaluate("JSON.parse(localStorage.alphac4).streak") == 0

    press_with_streak("h")
    while page.get_attribute("#puzzle-hint", "aria-disabled") == "false":
        press(page, "h")
        expect(page, "#status", rf"one of .*{puzzle.solution + 1}")
    assert len(page.inner_text("#status").split("one of ")[1].split(",")) == 2
    audit(page)
    press_with_streak("s")
    expect(page, "#status", f"^{puzzle.solution + 1} wins in")
    expect_count(page, ".ring.run", 4)


def test_slower_wins_are_accepted_after_the_first_move(browser: Browser, address: str) -> None:
    """Moves that do not win are rejected."""
    puzzle = next(p for p in packaged_puzzles() if p.distance == 3)
    page = open_puzzles(browser, address, puzzle)
    press(page, str(puzzle.solution + 1))
    expect(page, "#status", "answers")
    answer = int(page.inner_text("#status").partition("answers ")[2][0]) - 1
    verdicts = exact(puzzle.position.play(puzzle.solution).play(answer))
    wrong = next(verdict.column for verdict in verdicts if verdict.score <= 0)
    press(page, str(wrong + 1))
    expect(page, "#status", rf"^No, {wrong + 1} (only draws|loses in)")
    slower = max((verdict for verdict in verdicts if verdict.score > 0), key=lambda verdict: verdict.moves)
    press(page, str(slower.column + 1))
    expect(page, "#status", rf"answers \d\. (Red|Yellow) wins in {slower.moves - 1} move")


def test_puzzles_have_links(browser: Browser, address: str) -> None:
    """Links work after a reload and within the page; the link of an unknown puzzle shows another puzzle."""
    first, second = packaged_puzzles()[0], packaged_puzzles()[-1]
    page = open_puzzles(browser, address, second)
    page.reload()
    expect(page, "#status", f"to move and win in {second.distance} move")
    assert shown(page) == second
    page.evaluate(f"location.hash = 'puzzles/{first.moves}'")
    expect(page, "#status", f"to move and win in {first.distance} move")
    page.evaluate("location.hash = 'puzzles/12'")
    expect(page, "#status", "Puzzle 12 was not found; here is another one")
    assert shown(page)


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


def test_review_asks_for_the_best_move_at_each_mistake(reviewed: Any) -> None:
    """It is hidden until it is found or requested; the first mistake follows the last."""
    page, review = reviewed()
    points, moves = review["mistakes"], review["reviewed"]
    game, count = review["moves"], len(review["mistakes"])
    for number, ply in enumerate([*points, points[0]]):
        move = moves[ply - 1]
        expect(page, "#mistake-number", f"^Mistake {number % count + 1} of {count}$")
        expect_moves(page, game[: ply - 1])
        if number < count:
            expect(page, "#status", f"^Find the best move for {('Red', 'Yellow')[move['side']]}")
            assert "Best" not in page.inner_text("#now")
            expect_count(page, ".stone.better", 0)
            legal = [str(column + 1) for column in Position.from_moves(game[: ply - 1]).legal_columns()]
            wrong = [name for name in legal if name not in [move["move"], *move["better"]]]
            for name in wrong[:2]:
                press(page, name)
                expect(page, "#status", f"^No, {name} is not best")
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
    expect(page, "#status", "^Find the best move")
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


def test_review_starts_with_the_persons_own_mistake(reviewed: Any) -> None:
    """The other side's mistakes can be reached from there."""
    page, review = reviewed()
    side = review["reviewed"][review["mistakes"][0] - 1]["side"]
    own = next(ply for ply in review["mistakes"] if review["reviewed"][ply - 1]["side"] != side)
    page.reload()
    page.select_option(f"#{('first', 'second')[side]}", "beginner")
    page.click("#review-ask")
    expect(page, "#mistake-number", f"^Mistake {review['mistakes'].index(own) + 1} of")
    expect_moves(page, review["moves"][: own - 1])


def test_incomplete_review_offers_to_judge_the_rest(reviewed: Any) -> None:
    """The curve is interrupted at positions without an evaluation."""
    page, _ = reviewed()
    assert page.locator("#outdated").is_hidden()
    press(page, ["End", GAME[-1]])
    expect(page, "#outdated", f"^Judged up to move {len(GAME) - 1} of {len(GAME)}")
    assert page.get_attribute("#review-ask", "aria-disabled") == "false"
    page.evaluate("location.hash = '44'")
    short = review_game("44", player=Counting()).to_dict()  # type: ignore[arg-type]
    page.unroute("**/api/review")
    page.route("**/api/review", lambda route: route.fulfill(body=json.dumps(short) + "\n"))
    page.click("#review-ask")
    expect(page, "#moves li >> nth=1", "✓")
    press(page, [*"152537"])
    expect(page, "#result", "Red wins")
    expect(page, "#outdated", "^Judged up to move 2 of 7")
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
    second = review_game("2253", first.geometry, seconds=600)
    file.write_text(review_page([first, second]))
    page = browser.new_page()
    page.goto(file.as_uri())
    expect(page, "#result", "^Yellow wins · 10 moves$")
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
    opinion = r"The network estimated 88\s% for Red and would have played 1."
    expect(page, "#now", rf"^5\. Red plays 4 \?\? turns a win into a loss{text}{opinion}$")
    stones = page.locator("g.stone:not(.possible)").count()
    page.locator(".line button").nth(2).click()
    expect_count(page, "g.stone:not(.possible)", stones + 2)
    assert page.locator(".line button").nth(2).get_attribute("aria-current") == "true"
    audit(page)
    page.click("#to-end")
    text = "Yellow wins in 1 move with best play, counting this move."
    opinion = r"The network estimated 38\s% for Yellow and would have played 5."
    expect(page, "#now", rf"^10\. Yellow plays 3 best{text}{opinion}$")
    page.get_by_label("Move 2: Yellow plays 2, loses 2 moves sooner").click()
    expect(page, "#now", "^2. Yellow plays 2 ~ loses 2 moves soonerWith best play, Yellow loses in 4 moves; after this")
    page.select_option("#game", "1")
    expect(page, "#result", "Unfinished · 4 moves")
    audit(page)

"""Puzzles on the page, in a browser."""

import threading
from dataclasses import replace
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

from alphac4.game.position import mirror_moves
from alphac4.plugins.puzzles.packaged import Puzzle, packaged_puzzles
from alphac4.solver.solver import exact

pytestmark = pytest.mark.slow


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
    for left in range(puzzle.moves_to_win - 1, 0, -1):
        press(page, str(column + 1))
        expect(page, "#status", rf"answers \d\. (Red|Yellow) wins in {left} move")
        answer = int(page.inner_text("#status").partition("answers ")[2][0]) - 1
        position = position.play(column).play(answer)
        verdicts = exact(position)
        assert max(verdict.moves for verdict in verdicts if verdict.is_best) == left, "the defence is the best"
        column = next(verdict.column for verdict in verdicts if verdict.is_best)
    press(page, str(column + 1))
    expect(page, "#status", r"^Solved!$")
    expect_count(page, ".ring.run", 4)


def test_puzzles_are_solved_and_the_streak_is_stored(browser: Browser, address: str) -> None:
    """A wrong move shows its result and ends the streak; a reload keeps everything."""
    page = open_puzzles(browser, address, size=PHONE)
    for count in (1, 2):
        puzzle = shown(page)
        assert (puzzle.difficulty, puzzle.moves_to_win) == (1, 2), "the nearest wins come first"
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
        expect(page, "#status", rf"It is .*{puzzle.solution + 1}")
    assert len(page.inner_text("#status").split("It is ")[1].split(" or ")) == 2
    audit(page)
    press_with_streak("s")
    expect(page, "#status", f"^{puzzle.solution + 1} wins in")
    expect_count(page, ".ring.run", 4)


def test_slower_wins_are_accepted_after_the_first_move(browser: Browser, address: str) -> None:
    """Moves that do not win are rejected."""
    puzzle = next(p for p in packaged_puzzles() if p.moves_to_win == 3)
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
    expect(page, "#status", f"to move and win in {second.moves_to_win} move")
    assert shown(page) == second
    page.evaluate(f"location.hash = 'puzzles/{first.moves}'")
    expect(page, "#status", f"to move and win in {first.moves_to_win} move")
    paste(page, f"{address}#puzzles/{second.moves}")
    expect(page, "#status", f"to move and win in {second.moves_to_win} move")
    page.go_back()
    expect(page, "#status", f"to move and win in {first.moves_to_win} move")
    page.evaluate("location.hash = 'puzzles/12'")
    expect(page, "#status", "Puzzle 12 was not found; here is another one")
    assert shown(page)


def test_a_game_is_kept_during_a_visit_to_the_puzzles(browser: Browser, address: str) -> None:
    """A level that was thinking moves afterwards."""
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
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    page.go_back()
    assert page.locator("#mode-game").get_attribute("aria-pressed") == "true"
    expect_moves(page, "41")
    page.goto(address + "#1212121")
    expect(page, "#result", "Red wins")
    page.click("#mode-puzzles")
    page.evaluate("location.hash = '44'")
    page.locator("#hint").wait_for()
    page.locator("#rematch").wait_for(state="hidden")


def test_puzzles_that_cannot_be_loaded_leave_the_game(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.route("**/puzzles.txt", lambda route: route.fulfill(status=500))
    page.goto(address)
    expect(page, "#problem", r"The puzzles cannot be loaded \(500\)\.")
    expect(page, "#status", "You are Red")
    page.unroute("**/puzzles.txt")
    page.click("#retry")
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    browser.errors.clear()  # the failed request


def test_a_puzzle_has_the_controls_of_a_game(browser: Browser, address: str) -> None:
    """One can step through it, try it again, share and analyse it, and return to an earlier one."""
    puzzle = next(p for p in reversed(packaged_puzzles()) if p.difficulty == 5)
    page, plies = open_puzzles(browser, address, puzzle), len(puzzle.moves)
    assert page.input_value("#difficulty") == "5"
    assert page.locator("#undo").is_hidden()
    press(page, "s")
    expect_count(page, ".ring.run", 4)
    expect(page, "#status", f"^{puzzle.solution + 1} wins in")
    end = page.locator("g.stone:not(.possible)").count()
    page.click("#puzzle-analyse")  # the end of a game has nothing to analyse
    expect_moves(page, puzzle.moves)
    expect_count(page, "#moves li", end)
    page.go_back()
    press(page, ["ArrowLeft", "ArrowLeft"])
    expect_count(page, "g.stone:not(.possible)", end - 2)
    expect(page, "#status", f"^After {end - 2} stones. (Red|Yellow) to move.$")
    page.click("#share")
    assert len(page.input_value("#share-moves")) == end - 2
    press(page, ["Escape"])
    page.click("#puzzle-again")
    expect(page, "#status", "to move and win")
    expect_count(page, "g.stone:not(.possible)", plies)
    page.evaluate("localStorage.alphac4 = JSON.stringify({ streak: 3 })")
    finish(page, puzzle)
    expect(page, "#streak", "3")  # after the solution was shown
    page.click("#puzzle-next")
    expect(page, "#status", "to move and win")
    assert shown(page) != puzzle
    page.click("#puzzle-previous")
    assert shown(page) == puzzle
    audit(page)
    page.click("#puzzle-analyse")
    expect_moves(page, puzzle.moves)
    assert page.is_checked("#analyse")
    page.go_back()
    expect(page, "#status", "to move and win")
    assert shown(page) == puzzle


def test_puzzle_of_the_day_counts_days_in_a_row(browser: Browser, address: str) -> None:
    """It changes at midnight. A day without it starts the count again."""
    page, days = browser.new_page(), (1, 2, 4)
    for day in days:
        page.clock.set_fixed_time(f"2026-03-0{day}T12:00:00")
        page.goto(f"{address}?{day}#puzzles")
        expect(page, "#daily-state", "A new one every day" + (r"\.$" if day != 2 else ""))
        page.click("#daily")
        puzzle = shown(page)
        finish(page, puzzle)
        expect(page, "#daily-state", "Solved today" + (r"\. 2 days in a row" if day == 2 else r"\.$"))
        page.click("#puzzle-next")
        assert shown(page) != puzzle


def test_a_phone_in_landscape_shows_all_buttons_of_a_puzzle(browser: Browser, address: str) -> None:
    height = 390
    page = open_puzzles(browser, address, size={"width": 844, "height": height})
    boxes = [button.bounding_box() for button in page.locator(".bars button:visible").all()]
    assert len(boxes) >= 11
    assert all(box["y"] + box["height"] <= height for box in boxes)

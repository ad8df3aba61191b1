"""Puzzles and reviews in the page, in a real browser."""

import re
from typing import Any

import pytest
from page_browser import DESKTOP, PHONE, expect, expect_moves, open_page

from alphac4.puzzles import Puzzle, packaged_puzzles

pytestmark = pytest.mark.slow
GAME = "4444452226671"


def shown(page: Any) -> Puzzle:
    """The puzzle on the board, found by its stones."""
    stones = page.evaluate(
        "[...document.querySelectorAll('.column')].map((lane) => lane.getAttribute('aria-label').split('bottom: ')[1])"
    )
    for puzzle in [image for one in packaged_puzzles() for image in (one, one.mirrored)]:
        grid = puzzle.position.grid()
        columns = [
            ", ".join("red" if cell == 1 else "yellow" for cell in grid[:, c] if cell) or "empty" for c in range(7)
        ]
        if all(told.startswith(column) for told, column in zip(stones, columns, strict=True)):
            return puzzle
    raise AssertionError(stones)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_puzzles_are_solved_and_the_streak_is_remembered(browser: Any, address: str, size: dict[str, int]) -> None:
    """Two at the first attempt; a wrong move is told what it does and ends the streak; a reload forgets nothing."""
    errors: list[str] = []
    page = open_page(browser, address, size, errors)
    page.click("#mode-puzzles")
    for count in (1, 2):
        expect(page, "#status", "(Red|Yellow) to move and win")
        puzzle = shown(page)
        expect(page, "#status", f"to move and win in {puzzle.distance} moves")
        assert (puzzle.difficulty, puzzle.distance) == (1, 2), "the nearest wins come first"
        page.locator(".column").nth(puzzle.solution).click()
        expect(page, "#status", f"Right! {puzzle.solution + 1} wins in {puzzle.distance} moves")
        if puzzle.distance > 1:
            expect(page, "#status", rf"For example {puzzle.solution + 1}( \d){{2,8}}\.")
        assert page.inner_text("#streak") == str(count)
        page.click("#puzzle-next")
    page.reload()
    expect(page, "#streak", "2")
    expect(page, "#solved", "2 of")
    puzzle = shown(page)
    wrong = next(column for column in puzzle.position.legal_columns() if column != puzzle.solution)
    page.locator(".column").nth(wrong).click()
    expect(page, "#status", f"No, {wrong + 1} (only draws|loses in)")
    assert page.inner_text("#streak") == "0"
    assert page.inner_text("#best-streak") == "2"
    expect(page, ".word", "loss|draw")
    page.locator(".column").nth(puzzle.solution).click()
    expect(page, "#status", "Right!")
    expect(page, "#solved", "3 of")
    assert page.inner_text("#streak") == "0"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert not errors


def test_tabs_side_by_side_forget_no_solved_puzzle(browser: Any, address: str) -> None:
    """Each has been opened before the other solves its puzzle; both are remembered, and the streak counts both."""
    first, second = [puzzle for puzzle in packaged_puzzles() if puzzle.difficulty == 1][:2]
    page = open_page(browser, f"{address}#puzzles/{first.moves}", DESKTOP, [])
    other = page.context.new_page()
    other.goto(f"{address}#puzzles/{second.moves}")
    for tab, puzzle in ((page, first), (other, second)):
        expect(tab, "#status", "to move and win")
        assert shown(tab) == puzzle
    for tab, puzzle in ((page, first), (other, second)):
        tab.locator(".column").nth(puzzle.solution).click()
        expect(tab, "#status", "Right!")
    expect(other, "#solved", "2 of")
    page.reload()
    expect(page, "#solved", "2 of")
    expect(page, "#streak", "2")


def test_hints_never_rule_the_solution_out(browser: Any, address: str) -> None:
    """And leave two moves at least; the solution can be shown, and the position played out."""
    page = open_page(browser, address, DESKTOP, [])
    page.goto(address + "#puzzles")
    expect(page, "#status", "to move and win")
    while page.get_attribute("#puzzle-hint", "aria-disabled") == "true":  # two legal moves: nothing to rule out
        page.click("#puzzle-next")
    puzzle = shown(page)
    while page.get_attribute("#puzzle-hint", "aria-disabled") == "false":
        page.keyboard.press("h")
        expect(page, "#status", rf"one of .*{puzzle.solution + 1}")
    assert len(page.inner_text("#status").split("one of ")[1].split(",")) == 2
    page.keyboard.press("s")
    expect(page, "#status", f"^{puzzle.solution + 1} wins in")
    page.keyboard.press("p")
    expect(page, "#status", "thinking|to move|You")
    page.wait_for_timeout(1000)  # the solver's line of best play, which comes late, is for the puzzle alone
    assert "For example" not in page.inner_text("#status")
    assert page.url.partition("#")[2].startswith(puzzle.moves)


def test_a_puzzle_has_a_link(browser: Any, address: str) -> None:
    """The address leads to it, also after a reload and within the page; one that names none leads to another."""
    first, second = packaged_puzzles()[0], packaged_puzzles()[-1]
    page = open_page(browser, address, DESKTOP, [])
    page.goto(f"{address}#puzzles/{second.moves}")
    expect(page, "#status", f"to move and win in {second.distance} move")
    assert shown(page) == second
    page.reload()
    expect(page, "#status", "to move and win")
    assert shown(page) == second
    page.evaluate(f"location.hash = 'puzzles/{first.moves}'")
    expect(page, "#status", f"to move and win in {first.distance} move")
    assert shown(page) == first
    page.click("#mode-game")
    page.click("#mode-puzzles")
    assert shown(page) == first
    page.click("#puzzle-next")
    assert shown(page) != first
    page.evaluate("location.hash = 'puzzles/12'")
    expect(page, "#status", "There is no puzzle 12; this is another")
    assert page.url.partition("#puzzles/")[2] == shown(page).moves


def test_quick_presses_open_the_puzzles_once(browser: Any, address: str) -> None:
    """Also where the second comes before the puzzles are here; after a failure they are asked for again."""
    page = open_page(browser, address, DESKTOP, [])
    page.route("**/api/puzzles", lambda route: route.abort())
    page.click("#mode-puzzles")
    expect(page, "#problem", "does not answer")
    assert page.get_attribute("#mode-puzzles", "aria-pressed") == "false"
    page.unroute("**/api/puzzles")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.evaluate("for (const id of ['retry', 'mode-puzzles', 'mode-puzzles']) document.getElementById(id).click()")
    expect(page, "#status", "to move and win")
    assert asked.count("puzzles") == 1
    levels = {str(puzzle.difficulty) for puzzle in packaged_puzzles()}
    offered = page.eval_on_selector_all("#difficulty option", "(options) => options.map(({ value }) => value)")
    assert offered == [*sorted(levels), ""]
    page.click("#puzzle-next")
    assert page.url.partition("#puzzles/")[2] == shown(page).moves


def test_a_full_column_is_told_in_puzzles_too(browser: Any, address: str) -> None:
    """It is no attempt: the streak goes on."""
    page = open_page(browser, address, DESKTOP, [])
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    page.locator(".column").nth(shown(page).solution).click()
    page.click("#puzzle-next")
    while not (full := set(range(7)) - set(shown(page).position.legal_columns())):
        page.click("#puzzle-next")
    name = min(full) + 1
    page.keyboard.press(str(name))
    expect(page, "#status", f"to move and win.*Column {name} is full")
    assert page.inner_text("#streak") == "1"


def test_the_exported_page_has_the_puzzles_too(browser: Any, static_address: str) -> None:
    """Its own solver tells what a wrong move does."""
    page = open_page(browser, static_address, PHONE, [])
    page.click("#mode-puzzles")
    expect(page, "#status", "to move and win")
    puzzle = shown(page)
    wrong = next(column for column in puzzle.position.legal_columns() if column != puzzle.solution)
    page.keyboard.press(str(wrong + 1))
    expect(page, "#status", f"No, {wrong + 1} (only draws|loses in)")
    page.keyboard.press(str(puzzle.solution + 1))
    expect(page, "#status", rf"Right!.* For example {puzzle.solution + 1} \d" if puzzle.distance > 1 else "Right!")


@pytest.mark.parametrize("page_of", ["address", "static_address"], ids=["served", "exported"])
def test_a_game_is_reviewed_on_the_board(browser: Any, request: pytest.FixtureRequest, page_of: str) -> None:
    """Accuracies, arrows from mistake to mistake with the better move, and another try from there."""
    errors: list[str] = []
    page = open_page(browser, request.getfixturevalue(page_of) + f"#{GAME}", DESKTOP, errors)
    page.select_option("#second", "")
    page.click("#review-ask")
    expect(page, "#review-summary", "Accuracy: Red .* Yellow")
    flags = page.locator("#chart .flag").count()
    assert flags >= 1
    page.click("#review-previous")
    expect(page, "#review-move", "slips|turns a win")
    move = page.inner_text("#review-move")
    ply, better = int(move.split(".")[0]), re.search(r"with (\d)", move)
    assert better is not None
    expect_moves(page, GAME[:ply])
    page.wait_for_selector(".ring.better")
    page.click("#review-again")
    expect_moves(page, GAME[: ply - 1])
    page.keyboard.press(better[1])
    expect_moves(page, GAME[: ply - 1] + better[1])
    assert page.get_attribute("#review-ask", "aria-disabled") == "false"
    page.click("#review-back")
    expect_moves(page, GAME[:ply])
    assert page.inner_text("#review-move") == move
    assert page.locator("#review-back").is_hidden()
    page.click("#review-again")
    page.click("#new")
    expect_moves(page, "")
    assert not errors

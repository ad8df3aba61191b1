"""Puzzles and reviews in the page, in a real browser."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from page_browser import DESKTOP, FITS, PHONE, Browser, audit, expect, expect_moves, press
from test_page_modules import LateSolver

from alphac4.cli import main
from alphac4.game import Position
from alphac4.puzzles import Puzzle, packaged_puzzles
from alphac4.review import review_game

pytestmark = pytest.mark.slow
GAME = "6372714243736534153221"  # moves 17 to 21 are mistakes


def open_puzzles(browser: Browser, address: str, puzzle: Puzzle | None = None, size: dict[str, int] = DESKTOP) -> Any:
    """The page with a puzzle: that one, or one of its own choice."""
    page = browser.new_page(size)
    page.goto(f"{address}#puzzles" + (f"/{puzzle.moves}" if puzzle else ""))
    expect(page, "#status", "(Red|Yellow) to move and win")
    return page


def shown(page: Any) -> Puzzle:
    """The puzzle that the address names."""
    moves = page.evaluate("location.hash").removeprefix("#puzzles/")
    return next(image for one in packaged_puzzles() for image in (one, one.mirrored) if image.moves == moves)


def test_puzzles_are_solved_and_the_streak_is_remembered(browser: Browser, address: str) -> None:
    """Two at the first attempt; a wrong move is told what it does and ends the streak; a reload forgets nothing."""
    page = open_puzzles(browser, address, size=PHONE)
    for count in (1, 2):
        puzzle = shown(page)
        assert (puzzle.difficulty, puzzle.distance) == (1, 2), "the nearest wins come first"
        press(page, str(puzzle.solution + 1))
        expect(page, "#status", f"Right! {puzzle.solution + 1} wins in 2 moves")
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
    press(page, str(puzzle.solution + 1))
    expect(page, "#status", "Right!")
    expect(page, "#solved", "3 of")
    expect(page, "#streak", "0")
    assert page.evaluate(FITS)


def test_tabs_side_by_side_forget_no_solved_puzzle(browser: Browser, address: str) -> None:
    """Each has been opened before the other solves its puzzle; both are remembered."""
    first, second = [puzzle for puzzle in packaged_puzzles() if puzzle.difficulty == 1][:2]
    page = open_puzzles(browser, address, first)
    other = page.context.new_page()
    other.goto(f"{address}#puzzles/{second.moves}")
    expect(other, "#status", "to move and win")
    press(page, str(first.solution + 1))
    expect(page, "#status", "Right!")
    while "bestStreak" not in (other.evaluate("localStorage.alphac4") or ""):  # browsers tell a page's other tabs later
        other.wait_for_timeout(50)
    press(other, str(second.solution + 1))
    expect(other, "#status", "Right!")
    expect(other, "#solved", "2 of")
    page.reload()
    expect(page, "#solved", "2 of")


def test_hints_never_rule_the_solution_out(browser: Browser, address: str) -> None:
    """And leave two moves at least; the solution can be shown, and the position played out."""
    puzzle = next(puzzle for puzzle in packaged_puzzles() if len(puzzle.position.legal_columns()) == 7)
    page = open_puzzles(browser, address, puzzle)
    while page.get_attribute("#puzzle-hint", "aria-disabled") == "false":
        press(page, "h")
        expect(page, "#status", rf"one of .*{puzzle.solution + 1}")
    assert len(page.inner_text("#status").split("one of ")[1].split(",")) == 2
    audit(page)
    press(page, "s")
    expect(page, "#status", f"^{puzzle.solution + 1} wins in")
    press(page, "p")
    expect(page, "#status", "thinking|to move|You")
    assert page.url.partition("#")[2].startswith(puzzle.moves)


def test_a_puzzle_has_a_link(browser: Browser, address: str) -> None:
    """The address leads to it, also after a reload and within the page; one that names none leads to another."""
    first, second = packaged_puzzles()[0], packaged_puzzles()[-1]
    page = open_puzzles(browser, address, second)
    page.reload()
    expect(page, "#status", f"to move and win in {second.distance} move")
    assert shown(page) == second
    page.evaluate(f"location.hash = 'puzzles/{first.moves}'")
    expect(page, "#status", f"to move and win in {first.distance} move")
    page.evaluate("location.hash = 'puzzles/12'")
    expect(page, "#status", "There is no puzzle 12; this is another")
    assert shown(page)


def test_a_game_is_reviewed_on_the_board(browser: Browser, address: str) -> None:
    """From mistake to mistake with the better move, and another try from there, which loses nothing."""
    game = GAME[:-1]
    review = review_game(game, solver=LateSolver(game))  # type: ignore[arg-type]
    page = browser.new_page()
    page.route("**/api/review", lambda route: route.fulfill(body=json.dumps(review.to_dict()) + "\n"))
    page.goto(f"{address}#{game}")
    page.select_option("#second", "")
    page.click("#review-ask")
    expect(page, "#sides", "Red: .* best, . mistakes?.*Yellow: .* best, . mistakes?")
    page.click("#previous")
    expect(page, "#now", "away|turns a win")
    move = page.inner_text("#now")
    ply, better = int(move.split(".")[0]), re.search(r"Better: (\d)", move)
    assert better is not None
    expect_moves(page, game[:ply])
    page.wait_for_selector(".ring.better")
    audit(page)
    page.click("#review-again")
    expect_moves(page, game[: ply - 1])
    press(page, better[1])
    expect_moves(page, game[: ply - 1] + better[1])
    page.click("#review-back")
    expect_moves(page, game[:ply])
    assert page.inner_text("#now") == move
    page.click("#review-again")
    legal = Position.from_moves(game[: ply - 1]).legal_columns()
    worse = [str(c + 1) for c in legal if str(c + 1) not in review.to_dict()["reviewed"][ply - 1]["better"]]
    for tried in worse[:2]:
        expect(page, "#status", "^Find a better move for")
        press(page, tried)
        expect(page, "#status", f"^No, {tried} is no better")
        press(page, "u")
    page.click("#review-back")
    press(page, ["End"])
    assert page.get_attribute("#review-ask", "aria-disabled") == "true"
    press(page, GAME[-1])
    page.wait_for_selector("#review-ask[aria-disabled='false']")  # there is more to judge now


def test_the_file_of_a_review_is_read(browser: Browser, tmp_path: Path) -> None:
    """From mistake to mistake, by keys and by clicks, one game after the other; axe finds nothing."""
    games, file = tmp_path / "games.txt", tmp_path / "review.html"
    games.write_text("1122334\n44235")  # three mistakes before red wins; unfinished
    board = ["--rows", "5", "--columns", "6"]
    assert main(["review", str(games), "--player", "uct:50", "--html", str(file), *board]) == 0
    page = browser.new_page()
    page.goto(file.as_uri())
    press(page, ["Home"])
    expect(page, "#now", "The game begins")
    press(page, ["ArrowDown"])
    expect(page, "#now", "With best play")
    audit(page)
    page.click("#to-end")
    expect(page, "#now", "7. Red plays 4")
    page.get_by_label("Move 2: Yellow plays 1").click()
    expect(page, "#now", "2. Yellow plays 1")
    page.select_option("#game", "1")
    expect(page, "#result", "Unfinished · 5 moves")
    audit(page)

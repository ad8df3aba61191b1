"""The exported page's exact solver and its reviews against ours."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.play.web import static_page
from alphac4.puzzles import packaged_puzzles
from alphac4.review import review_game
from alphac4.solver import no_known_scores, shared_solver
from alphac4.solver.verdict import exact

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node: install Node.js")

PREPARE = """
import { readFileSync } from "node:fs";
import { Bitboard } from "./bitboard.js";
import { ExactSolver } from "./exact.js";
const { setup, book, games } = JSON.parse(readFileSync("input.json"));
const solver = new ExactSolver(new WebAssembly.Module(readFileSync("solver.wasm")), setup, book);
const board = new Bitboard(setup);
"""
SOLVE = """
import { Judge } from "./judge.js";
class InOneThread extends Judge {
  async score(position) { return solver.score(position); }
}
const judge = new InOneThread(setup, book), verdicts = [];
for (const moves of games) verdicts.push(await judge.columns(moves));
console.log(JSON.stringify(verdicts));
"""
REVIEW = """
import { reviewGame } from "./reviewer.js";
const reviews = [], told = [];
for (const moves of games) {
  const first = solver.score(board.at(moves.slice(0, 14)));
  const score = async (position) => {
    const stones = position.occupied.toString(2).replaceAll("0", "").length;
    return stones < 14 ? first * (-1) ** stones : solver.score(position);
  };
  for await (const line of reviewGame(moves, setup, { score })) {
    if (line.reviewed) reviews.push(line);
    else told.push(line.total - line.done);
  }
}
console.log(JSON.stringify({ reviews, told }));
"""
PAUSE = """
const [first, second] = games.map((moves) => board.at(moves));
const paused = solver.advance(first) === null;
solver.abandon(); // the next question does not go on where this one was
const answers = [solver.score(second), solver.score(first)];
console.log(JSON.stringify({ paused, answers }));
"""


def run_in_node(folder: Path, script: str, games: list[str]) -> Any:
    """What a script prints, that finds the page's modules beside it and a solver prepared."""
    for path in (static_page.WEB / "local").iterdir():
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "script.js").write_text(PREPARE + script)
    given = {
        "setup": static_page.setup(STANDARD, "network"),
        "book": static_page.book(),
        "games": [[int(name) - 1 for name in game] for game in games],
    }
    (folder / "input.json").write_text(json.dumps(given))
    ran = subprocess.run([str(NODE), "script.js"], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def random_games(count: int, fewest: int) -> list[str]:
    """Unfinished positions of random games, spread over all numbers of stones from ``fewest``."""
    rng = np.random.default_rng(16)
    found: list[str] = []
    while len(found) < count:
        stones = fewest + len(found) * (42 - fewest) // count
        position = Position()
        while position.plies < stones and position.outcome() is None:
            position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is None:
            found.append(position.moves or "")
    return found


def test_the_pages_solver_is_ours(tmp_path: Path) -> None:
    """Scores, words and best columns from the opening, whose book it has, to the last stone."""
    openings = ["", "4", "1", "7", "444", "35", "172"]
    late = [puzzle.moves for puzzle in packaged_puzzles()[::12]] + ["4444452226671", "44444526222677"]
    full = "121212343434565656212121434343656565777777"[:-1]
    games = [*openings, *late, full, full[:-3], *random_games(100, 16)]
    for game, told in zip(games, run_in_node(tmp_path, SOLVE, games), strict=True):
        assert told == [
            {"column": item.column, "score": item.score, "outcome": item.outcome, "best": item.best}
            for item in exact(Position.from_moves(game))
        ], game


def test_a_search_goes_on_after_a_pause_and_can_be_abandoned(tmp_path: Path) -> None:
    """What was asked next gets its own answer, and so does the abandoned position when it is asked again."""
    found = run_in_node(tmp_path, PAUSE, ["12345671", "4444452226671"])
    assert found["paused"]
    solve = shared_solver(STANDARD).solve
    assert found["answers"] == [solve(Position.from_moves(moves)) for moves in ("4444452226671", "12345671")]


class LateSolver:
    """The solver, from 14 stones on; as though all moves before were the best, so that the opening takes no time."""

    book = no_known_scores()

    def __init__(self, game: str) -> None:
        self.first = shared_solver(STANDARD).solve(Position.from_moves(game[:14]))

    def solve(self, position: Position, _on_pause: object) -> int:
        """See `Solver.solve`."""
        late = position.plies >= 14
        return shared_solver(STANDARD).solve(position) if late else self.first * (-1) ** position.plies


def test_the_pages_reviews_are_ours(tmp_path: Path) -> None:
    """Grades, words, better moves, lines and accuracies of games with mistakes, finished and not."""
    games = [*random_games(6, 24), "121212343434565656212121434343656565777777"]
    found = run_in_node(tmp_path, REVIEW, games)
    for game, told in zip(games, found["reviews"], strict=True):
        ours = review_game(game, solver=LateSolver(game)).to_dict()  # type: ignore[arg-type]
        for name in ("moves", "turning_points", "unjudged", "reviewed"):
            assert told[name] == ours[name], (game, name)
        assert [side["accuracy"] for side in told["sides"]] == pytest.approx([s["accuracy"] for s in ours["sides"]])
    grades = {move["grade"] for review in found["reviews"] for move in review["reviewed"]}
    assert grades == {"best", "keeps", "slips-win", "slips-draw", "throws-win"}
    assert min(found["told"]) == 0

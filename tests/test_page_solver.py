"""The page's exact solver in JavaScript against ours."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.play.web import static_page
from alphac4.puzzles import packaged_puzzles
from alphac4.solver.verdict import exact

NODE = shutil.which("node")
SCRIPT = """
import { readFileSync } from "node:fs";
import { ExactSolver } from "./exact.js";
const { setup, book, games } = JSON.parse(readFileSync("input.json"));
const solver = new ExactSolver(setup, book);
console.log(JSON.stringify(games.map((moves) => solver.columnScores(moves))));
"""


@pytest.mark.skipif(NODE is None, reason="needs node: install Node.js")
def test_the_pages_solver_is_ours(tmp_path: Path) -> None:
    """Scores, words and best columns from the opening, whose book it has, to the last stone."""
    openings = ["", "4", "1", "7", "444", "35", "172"]
    late = [puzzle.moves for puzzle in packaged_puzzles()[::12]] + ["4444452226671", "44444526222677"]
    full = "121212343434565656212121434343656565777777"[:-1]
    games = [*openings, *late, full, full[:-3]]
    shutil.copy(static_page.WEB / "local" / "exact.js", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "script.js").write_text(SCRIPT)
    given = {
        "setup": static_page.setup(STANDARD, "network"),
        "book": static_page.book(),
        "games": [[int(name) - 1 for name in game] for game in games],
    }
    (tmp_path / "input.json").write_text(json.dumps(given))
    ran = subprocess.run(
        [str(NODE), "script.js"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    for game, told in zip(games, json.loads(ran.stdout), strict=True):
        assert told == [
            {"column": item.column, "score": item.score, "outcome": item.outcome, "best": item.best}
            for item in exact(Position.from_moves(game))
        ], game

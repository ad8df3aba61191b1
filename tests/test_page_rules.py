"""The page's rules in JavaScript against ours, told by `page_setup` as the server and the export tell them."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from alphac4.game import Geometry, Position, make_geometry
from alphac4.mcts.results import describe_proof
from alphac4.play.levels import LEVELS
from alphac4.play.web import static_page
from alphac4.play.web.page_setup import page_setup

NODE = shutil.which("node")
SCRIPT = """
import { readFileSync } from "node:fs";
import { Rules } from "./rules.js";
import { Bitboard } from "./bitboard.js";
const { setup, games, wrong } = JSON.parse(readFileSync("input.json"));
const rules = new Rules(setup), bits = new Bitboard(setup);
const answers = games.map((text) => {
  const moves = rules.read(text), { own, occupied } = bits.at(moves), winning = bits.winning(own, occupied);
  return {
    moves, written: rules.write(moves), result: rules.result(moves), legal: rules.legal(moves),
    wins: rules.legal(moves).filter((column) => winning & bits.landing(occupied, column)),
  };
});
console.log(JSON.stringify({ answers, wrong: wrong.map((text) => rules.read(text)) }));
"""


def random_games(geometry: Geometry, count: int) -> list[Position]:
    """Positions of random games, a good part of them finished."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(count):
        position = Position.from_moves("", geometry)
        for _ in range(int(rng.integers(1, geometry.cells + 1))):
            if position.outcome() is None:
                position = position.play(int(rng.choice(position.legal_columns())))
        found.append(position)
    return found


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.parametrize(
    "geometry",
    [make_geometry(), make_geometry(6, 7, 4, False), make_geometry(4, 12, 4), make_geometry(3, 4, 3, False)],
    ids=["standard", "no diagonals", "twelve columns", "small, no diagonals"],
)
def test_the_page_knows_the_rules_of_every_board(geometry: Geometry, tmp_path: Path) -> None:
    """Move strings, results, legal moves and wins in one are ours, without diagonals and beyond nine columns too."""
    positions = random_games(geometry, 200)
    for folder, name in (("static", "rules.js"), ("local", "bitboard.js")):
        shutil.copy(static_page.WEB / folder / name, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "script.js").write_text(SCRIPT)
    setup = page_setup(geometry, "network", LEVELS, simulations=1, exact=True, review=True)
    beyond = "123456789abcdefghijklmnopqrstuvwxyz"[geometry.columns]
    wrong = [beyond, "0", "x y", "1" * (geometry.rows + 1)]
    (tmp_path / "input.json").write_text(
        json.dumps({"setup": setup, "games": [position.moves for position in positions], "wrong": wrong})
    )
    ran = subprocess.run(
        [str(NODE), "script.js"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["wrong"] == [None] * len(wrong)
    finished = 0
    for position, told in zip(positions, answer["answers"], strict=True):
        assert told["written"] == position.moves
        outcome = position.outcome()
        if outcome is None:
            assert told["result"] is None
            assert told["legal"] == position.legal_columns()
            assert told["wins"] == [c for c in position.legal_columns() if position.play(c).outcome() == -1]
        else:
            finished += 1
            assert told["legal"] == []
            assert told["result"]["winner"] == (None if outcome == 0 else 1 - position.plies % 2)
    assert 10 < finished < len(positions)


def test_the_server_and_the_export_tell_the_page_the_same() -> None:
    """What both say of a board agrees; the export adds the settings of the search and leaves out the solver's level."""
    geometry = make_geometry(5, 10, 4, False)
    exported = static_page.setup(geometry, "network")
    served = page_setup(geometry, "network", LEVELS, simulations=2000, exact=True, review=True)
    assert {name for name in served if exported[name] != served[name]} == {"levels", "simulations", "exact", "review"}
    assert set(exported) - set(served) == {"search", "review_simulations"}
    assert served["diagonals"] is False
    assert served["column_names"] == "123456789a"


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_page_tells_proofs_in_our_words(tmp_path: Path) -> None:
    """Of every proof that a tree can hold; distances are moves of the winner, its last included."""
    for name in ("search.js", "bitboard.js"):
        shutil.copy(static_page.WEB / "local" / name, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    proofs = list(range(-128, 128))
    script = f'import {{ describeProof }} from "./search.js"; console.log(JSON.stringify({proofs}.map(describeProof)));'
    (tmp_path / "script.js").write_text(script)
    ran = subprocess.run(
        [str(NODE), "script.js"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    told = dict(zip(proofs, json.loads(ran.stdout), strict=True))
    assert told == {proof: describe_proof(proof) for proof in proofs}
    assert [told[proof] for proof in (99, 97, -98, -96, 0, 127)] == [
        "wins in 1 move", "wins in 2 moves", "loses in 1 move", "loses in 2 moves", "draws", ""
    ]  # fmt: skip

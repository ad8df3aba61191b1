"""Comparison of the compiled search with the plain one of examples/alphazero.py."""

import io
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import random_game, search_by_hand

from alphac4.game import Board, Position, make_board
from alphac4.mcts.puct import Puct
from alphac4.mcts.tree import ROOT

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "alphazero.py"
SIMULATIONS = 120
PARAMETERS = Puct(fpu_reduction=0.0, prior_temperature=1.0)


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


class LinearNetwork:
    """Linear network: logits [B, C] and values [B] of planes [B, 2, R, C], rounded so that sums are exact."""

    def __init__(self, board: Board, rng: np.random.Generator) -> None:
        cells = 2 * board.cells
        self.policy, self.value = rng.normal(size=(cells, board.columns)), rng.normal(size=cells) / 10

    def evaluate(self, planes: Any) -> tuple[Any, Any]:
        flat = planes.reshape(len(planes), -1)
        values = np.tanh(flat @ self.value)
        return (flat @ self.policy).astype(np.float32), np.round(values * 2**12).astype(np.float32) / 2**12


def quiet_position(board: Board, plies: int, rng: np.random.Generator) -> Position:
    """Return a random position that no move ends, because the package would evaluate others by proofs."""
    while True:
        position = random_game(plies, rng, board)
        after = [position.play(column) for column in position.legal_columns()] if position.outcome() is None else []
        if after and all(one.outcome() is None for one in after):
            return position


@pytest.mark.parametrize("shape", [(4, 5, 3), (6, 7, 4)])
def test_compiled_search_has_the_visits_of_the_plain_search(
    shape: tuple[int, int, int], plain: dict[str, Any], rng: np.random.Generator
) -> None:
    board, game, network = make_board(*shape), plain["Game"](*shape), LinearNetwork(make_board(*shape), rng)

    def evaluate(nodes: list[Any]) -> None:
        for node in nodes:
            logits, values = network.evaluate(game.planes(node.position)[None])
            weights = np.exp(logits[0][node.moves] - logits[0][node.moves].max())
            node.prior, node.value = (weights / weights.sum()).tolist(), float(values[0])

    compared = 0
    for plies in (0, 1, 2, 3, 5, 7, 8, 9):
        position = quiet_position(board, plies, rng)
        root = plain["Node"](game, (int(position.own), int(position.occupied)))
        evaluate([root])
        trees = search_by_hand(board, [position], network.evaluate, PARAMETERS, SIMULATIONS)
        plain["search"](game, [root], evaluate, SIMULATIONS)
        pairs = [(ROOT, root)]
        for number, node in pairs:
            visits = trees.visits[0, number]
            assert visits[node.moves].tolist() == node.visits
            np.testing.assert_allclose(trees.value_sum[0, number, node.moves], node.value_sum, atol=1e-4)
            children = zip(node.moves, node.children, strict=True)
            pairs += [
                (int(trees.child[0, number, move]), child)
                for move, child in children
                if child is not None and child.outcome is None
            ]
            compared += 1
    assert compared > 300


def test_example_counts_mistakes_by_exact_play(plain: dict[str, Any]) -> None:
    game = plain["Game"](4, 5, 3)
    positions = plain["decisive_positions"](game, 20)
    assert len(positions) == 20
    for (own, occupied), outcomes in positions.items():
        position = Position(np.uint64(own), np.uint64(occupied), board=make_board(4, 5, 3))
        assert list(outcomes) == position.legal_columns()
        assert all(outcomes[move] == 1 for move in outcomes if position.play(move).outcome() == -1)
        assert len(set(outcomes.values())) > 1
    for choose, expected in (max, 0.0), (min, 1.0):
        rate = plain["mistake_rate"](
            lambda cases, by=choose: [by(positions[c], key=positions[c].get) for c in cases], positions
        )
        assert rate.value == expected
        assert rate.low < rate.high


def test_example_plays_its_network_without_training_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with the input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n"))
    shown = []
    for options in (["--fast"], ["--play"]):
        monkeypatch.setattr("sys.argv", ["alphazero.py", *options])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        shown.append(capsys.readouterr().out)
    assert ["policy loss" in text for text in shown] == [True, False]
    assert shown[1].count("x, your column") == 2
    assert shown[1].count("o plays") == 1


def test_example_lets_a_person_play_the_network(
    plain: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Input that is not a column is asked for again, and the printed boards are those of the game."""
    typed = iter(["x", "7", "", *"0123401234012340123401234"])
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or next(typed))
    game = plain["Game"](4, 5, 3)
    plain["show_game"](game, plain["evaluate_by_rollouts"](game, np.random.default_rng(0)), 8, human=True)
    *moves, end = capsys.readouterr().out.split("\n\n")
    assert asked[0] == "x, your column, one of [0, 1, 2, 3, 4]: "
    assert moves[0].splitlines() == [". . . . ."] * 3 + ["x . . . .", "0 1 2 3 4"]  # columns count from 0
    for ply, text in enumerate(moves, start=1):
        board = "".join(text.splitlines()[-5:-1])
        assert (board.count("x"), board.count("o")) == ((ply + 1) // 2, ply // 2)
        assert text.startswith("o plays ") == (ply % 2 == 0)
    assert end.strip() in ("x wins", "o wins", "a draw")

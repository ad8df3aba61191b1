"""Kaggle's ConnectX: the submission in one file."""

import itertools
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kaggle_stub
import naive
import numpy as np
import numpy.typing as npt
import pytest
import torch
from helpers import SumsOfEighths, as_if_trained, random_positions
from kaggle_stub import Struct

from alphac4.cli import main
from alphac4.game import Position, make_board
from alphac4.game.planes import make_planes
from alphac4.mcts import search
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.puct import Puct
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import PROVEN_WIN, UNPROVEN
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork, fold_batch_norm
from alphac4.plugins.export import submission
from alphac4.plugins.export.kaggle import submission_text
from alphac4.plugins.export.submission import Game, Network, Rollouts, Searcher
from alphac4.storage.checkpoints import Checkpoint

TACTICS = {"112233": 3, "1122335": 3, "12121": 0, "1212127": 1}  # the winning or blocking move, by position


def patch_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> "itertools.count[float]":
    """Replace the clock by one that advances at each call, so that the machine's load does not matter."""
    ticks = itertools.count(0, seconds)
    monkeypatch.setattr(search.time, "perf_counter", lambda: next(ticks))
    return ticks


def play_column(moves: str = "", timeout: float = 0.05) -> int:
    """Return the column that the submission without weights plays."""
    obs = Struct(board=Position.from_moves(moves).to_kaggle(), mark=len(moves) % 2 + 1)
    return submission.agent(obs, Struct(rows=6, columns=7, inarow=4, actTimeout=timeout))


def test_the_submission_takes_a_win_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_clock(monkeypatch, 0.001)
    assert {moves: play_column(moves) for moves in TACTICS} == TACTICS


def test_the_submission_plays_a_legal_move_if_another_player_is_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kaggle never asks the second player on an empty board; the stones of ``mark`` are those of the side to move."""
    patch_clock(monkeypatch, 0.001)
    for moves in ("", "4", "444444", "112233"):
        obs = Struct(board=Position.from_moves(moves).to_kaggle(), mark=2 - len(moves) % 2)
        column = submission.agent(obs, Struct(rows=6, columns=7, inarow=4, actTimeout=0.05))
        assert column in Position.from_moves(moves).legal_columns()


def test_a_network_trained_without_diagonals_is_not_exported(network: PolicyValueNetwork) -> None:
    with pytest.raises(ValueError, match="diagonal"):
        submission_text(Checkpoint(network=network, board=make_board(diagonals=False)))


@pytest.mark.slow
def test_the_submission_wins_in_kaggles_own_environment(network: PolicyValueNetwork, tmp_path: Path) -> None:
    environments = pytest.importorskip("kaggle_environments")
    path = tmp_path / "main.py"
    path.write_text(submission_text(Checkpoint(network=network)))
    random.seed(0)  # the opponent's random state
    for side in (0, 1):
        agents = ["random", "random"]
        agents[side] = str(path)
        env = environments.make("connectx", configuration={"actTimeout": 0.5})
        env.run(agents)
        assert [state.status for state in env.state] == ["DONE", "DONE"]
        assert env.state[side].reward == 1
    assert np.shape(env.state[0].observation.board) == (42,)


@pytest.mark.parametrize(("rows", "columns", "run"), [(6, 7, 4), (4, 9, 5), (9, 11, 4)])
def test_runs_and_winning_cells_agree_with_a_scan_of_the_grid(rows: int, columns: int, run: int) -> None:
    """Boards of more than 64 bits and unreachable cells are included."""
    game = Game(rows, columns, run)
    draws = random.Random(1)
    for _ in range(60):
        stacks, _ = naive.random_board(draws, rows, columns, draws.randrange(rows * columns))
        x, o = (naive.bits(stacks, side, rows) for side in "xo")
        assert game.has_run(x) == naive.wins(stacks, "x", rows, run)
        landing = game.landing(x | o)
        completing = game.completing(x, x | o) & landing
        for column in range(columns):
            full = len(stacks[column]) == rows
            assert bool(landing & game.column_cells[column]) != full
            if not full and not game.has_run(x):
                completes = naive.wins(naive.drop(stacks, column, "x"), "x", rows, run)
                assert bool(completing & game.column_cells[column]) == completes


class ExactNetwork(Network):
    """Exact outputs without rounding, the same as `SumsOfEighths` gives to the package's search."""

    def __init__(self, game: Game) -> None:
        super().__init__(game, {})
        self.sums = SumsOfEighths(make_board(game.rows, game.columns))

    def predict(self, position: tuple[int, int]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        own, occupied = position
        planes = [[side >> bit & 1 for bit in self.game.bits] for side in (own, own ^ occupied)]
        logits, wdl = self.sums.evaluate(np.array([planes], np.float32))
        return logits[0], wdl[0]


def as_integers(position: Position) -> tuple[int, int]:
    return int(position.own), int(position.occupied)


def as_package_proof(proof: int | None) -> int:
    if not proof:
        return UNPROVEN if proof is None else 0
    return int(np.sign(proof)) * (PROVEN_WIN - (submission.PROVEN_WIN - abs(proof)))


@pytest.mark.parametrize("shape", [(6, 7, 4), (4, 5, 3)])
def test_the_submissions_search_matches_the_packages(shape: tuple[int, int, int]) -> None:
    """Visits, proofs and moves are the same with the same evaluator, from the opening to proven positions."""
    board, rng = make_board(*shape), np.random.default_rng(8)
    network = ExactNetwork(Game(*shape))
    ours = NetworkSearch(network.sums, board=board, rng=rng)
    for position, simulations in zip(random_positions(40, rng, board), (1, 2, 7, 40, 150) * 8, strict=True):
        expected = ours.search([position], Budget(simulations=simulations))
        theirs = Searcher(network.game, network)
        root = theirs.new_node(as_integers(position))
        for _ in range(simulations):
            if root.outcome() is None:
                theirs.simulate(root)
        visits = np.zeros(board.columns, int)
        visits[root.moves] = root.visits
        assert visits.tolist() == expected.visits[0].tolist(), position.moves
        assert list(map(as_package_proof, root.proofs)) == expected.proofs[0][root.moves].tolist(), position.moves
        assert root.best_move() == expected.moves[0], position.moves


def test_without_visits_the_submission_plays_the_move_of_the_highest_prior() -> None:
    position = Position.from_moves("4435")
    game = Game(6, 7, 4)
    root = Searcher(game, ExactNetwork(game)).new_node(as_integers(position))
    assert root.best_move() == int(np.argmax(root.prior)) != 0


def test_the_submission_has_the_packages_settings() -> None:
    for name, value in Puct()._asdict().items():
        assert getattr(submission, name.upper()) == value


def load(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return namespace


@pytest.mark.parametrize(
    ("rows", "columns", "blocks", "network"),
    [(6, 7, 2, "stones"), (4, 5, 1, "lines")],
    indirect=["network"],
)
def test_the_submissions_outputs_match_the_network(
    network: PolicyValueNetwork, rows: int, columns: int, blocks: int
) -> None:
    """The submission has half-precision weights and numpy, the network fp32 and PyTorch."""
    board = make_board(rows, columns, 4)
    if (rows, columns) != (6, 7):
        network = as_if_trained(NetworkConfig(planes="lines", rows=rows, columns=columns, channels=8, blocks=blocks))
    namespace = load(submission_text(Checkpoint(network=network, board=board)))
    guide = namespace["player_for"](rows, columns, 4).guide
    for position in random_positions(15, np.random.default_rng(4), board):
        count = network.config.input_planes
        planes = make_planes(board, np.array([position.own]), np.array([position.occupied]), count)
        with torch.inference_mode():
            logits, value = network(torch.from_numpy(planes))
        actual_logits, actual_wdl = guide.predict(as_integers(position))
        np.testing.assert_allclose(actual_logits, logits[0], atol=0.02 * max(1.0, float(logits.abs().max())))
        np.testing.assert_allclose(actual_wdl, torch.softmax(value, dim=1)[0], atol=0.02)


def test_the_submission_stops_before_the_act_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = patch_clock(monkeypatch, 0.1)
    submission.player_for.cache_clear()
    play_column(timeout=2.0)
    root = submission.player_for(6, 7, 4).root
    assert root is not None
    assert 15 <= sum(root.visits) <= 18
    assert next(ticks) < 2.0


def test_the_submission_reuses_its_tree_two_moves_later() -> None:
    game = Game(6, 7, 4)
    player = Searcher(game, Rollouts(game, random.Random(0)))
    player.root = root = player.new_node((0, 0))
    for _ in range(200):
        player.simulate(root)
    known = root.children[3].children[3]
    assert sum(known.visits) > 0
    second = Position.from_moves("44")
    player.choose(as_integers(second), deadline=0.0)
    assert player.root is known


KINDS = {
    "dictionaries": lambda **entries: entries,
    "dictionaries with attributes": Struct,
    "objects": SimpleNamespace,
}


@pytest.mark.parametrize("kind", KINDS)
def test_agents_accept_all_types_of_observations_and_configurations(
    kind: str, network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = KINDS[kind]
    patch_clock(monkeypatch, 0.01)
    agent = kaggle_stub.last_callable(submission_text(Checkpoint(network=network)))
    for moves, column in TACTICS.items():
        obs = make(board=Position.from_moves(moves).to_kaggle(), mark=len(moves) % 2 + 1)
        assert agent(obs, make(rows=6, columns=7, inarow=4, actTimeout=0.05)) == column
    assert agent(obs, make(rows=6, columns=7, inarow=4)) == column  # without a time limit, as in old versions
    assert agent(obs, make()) == column  # the standard board by default


def test_the_submission_ends_with_the_agent_and_is_reproducible(
    network: PolicyValueNetwork, checkpoint: Path, tmp_path: Path
) -> None:
    assert main(["export", str(checkpoint), "--kaggle", str(tmp_path / "main.py")]) == 0
    text = (tmp_path / "main.py").read_text()
    assert text == submission_text(Checkpoint(network=network))
    assert kaggle_stub.last_callable(text).__name__ == "agent"


def test_the_submission_needs_only_numpy(network: PolicyValueNetwork, tmp_path: Path) -> None:
    """It beats random moves on its own board, a small one, and one of more than 64 bits, unless no win is possible."""
    (tmp_path / "main.py").write_text(submission_text(Checkpoint(network=network)))
    games = [(6, 7, 4, 1), (6, 7, 4, 2), (5, 5, 3, 1), (8, 9, 5, 2), (3, 3, 4, 1), (2, 1, 1, 1)]
    command = [sys.executable, "-I", kaggle_stub.__file__, "main.py", json.dumps(games)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [0 if game[:3] == (3, 3, 4) else game[3] for game in games]
    (tmp_path / "main.py").write_text("import alphac4")  # to check that other imports fail
    failed = subprocess.run([*command[:-1], "[]"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "No module named 'alphac4'" in failed.stderr


@pytest.mark.parametrize("head", ["policy", "value"])
def test_a_submission_with_different_outputs_is_not_written(
    head: str,
    network: PolicyValueNetwork,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error_line: Callable[..., str],
) -> None:
    """One logit of one head is too large by 0.5, or the outputs are not finite."""
    path, folded = tmp_path / "main.py", fold_batch_norm(network)
    path.write_text(before := submission_text(Checkpoint(network=network)))
    monkeypatch.setattr("alphac4.plugins.export.kaggle.fold_batch_norm", lambda _network: folded)
    getattr(folded, head).bias[2] += 0.5
    for deviation in ("0.1", "nan"):
        error = error_line(f"export {checkpoint} --overwrite --kaggle", path)
        assert f"the submission was not written: its outputs differ from PyTorch's by {deviation}" in error
        assert path.read_text() == before
        for parameter in folded.parameters():
            torch.nn.init.constant_(parameter, 6e4)


def test_weights_beyond_half_precision_are_not_exported(network: PolicyValueNetwork) -> None:
    with torch.no_grad():
        network.value.bias[0] = 1e6
    with pytest.raises(ValueError, match="half precision"):
        submission_text(Checkpoint(network=network))

import dataclasses
import json
import math
import os
import pickle
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pytest
import torch
from campaigns.tiny_run import SETTINGS
from matplotlib import pyplot
from matplotlib.patches import Circle
from torch import nn
from tqdm import tqdm

import alphac4
from alphac4.arena.players import RandomPlayer
from alphac4.game.planes import make_planes, stones
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.puct import check_selection
from alphac4.mcts.search import Budget
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork

Planes = npt.NDArray[np.float32]
REPORTS = Path(__file__).resolve().parents[2] / "docs" / "notebooks" / "quick-reports.jsonl"  # reports of a real run


def load(player: Any, **options: Any) -> alphac4.Agent:
    """Load an agent without measuring backends."""
    if not str(player).startswith("uct:"):
        options |= {"backend": "torch-fp32", "device": "cpu"}
    return alphac4.load(player, **options)


def test_an_agents_result_agrees_with_that_of_its_search(checkpoint: Path, network: PolicyValueNetwork) -> None:
    moves = ["44", "445", "111111"]
    agent = load(checkpoint)
    results = agent.search(moves, simulations=40)
    search = NetworkSearch(Evaluator(network, backend="torch-fp32"))
    expected = search.search([alphac4.Position.from_moves(text) for text in moves], Budget(simulations=40))
    for row, result in enumerate(results):
        assert (result.move, result.simulations) == (expected.moves[row], 40)
        assert result.value == pytest.approx(expected.value[row])
        assert result.wdl.win - result.wdl.loss == pytest.approx(result.value)
        assert tuple(result.wdl) == pytest.approx(tuple(expected.wdl[row]))
        assert result.pv == expected.variations[row]
        assert {column: seen.visits for column, seen in result.columns.items()} == {
            column: expected.visits[row, column] for column in result.position.legal_columns()
        }
    given, written = load(checkpoint, selection_rule=alphac4.Puct(c_init=3)), load(f"{checkpoint}@100,c-init=3")
    assert given.search("44").columns == written.search("44").columns != load(checkpoint).search("44").columns
    own, usual = (
        alphac4.load(network.train(), selection_rule=each, device="cpu", backend="torch-fp32")
        for each in (alphac4.Puct(c_init=3), None)
    )
    assert own.search("44").columns == given.search("44").columns
    assert usual.search("44").columns == load(checkpoint).search("44").columns
    assert network.training


@pytest.mark.parametrize("player", ["FILE", "FILE@auto", "uct:50"])
def test_a_results_tree_does_not_change_with_later_searches(player: str, checkpoint: Path) -> None:
    agent = load(player.replace("FILE", str(checkpoint)))
    first, second = agent.search(["44", "1"], simulations=30)
    drawn = [first.tree._repr_svg_(), second.tree.svg(depth=1)]
    timed = agent.search(["1122", "7"], seconds=1.0)  # each in its own tree
    assert [first.tree._repr_svg_(), second.tree.svg(depth=1)] == drawn
    for one, other in ((first, second), timed):
        assert one.tree.svg(depth=1) != other.tree.svg(depth=1)
        for result in (one, other):
            ElementTree.fromstring(result.tree.svg())
    if player == "FILE":
        assert agent.search("44", simulations=0).tree is None


def test_any_function_on_planes_is_a_network() -> None:
    def right(planes: Planes) -> tuple[Planes, Planes]:
        logits = np.zeros((len(planes), 7), np.float32)
        logits[:, 6] = 3
        return logits, np.full(len(planes), 0.5, np.float32)

    result = alphac4.load(right).search("44", simulations=0)
    assert (result.player, result.move, result.value, result.wdl) == ("right", 6, 0.5, (0.75, 0, 0.25))
    masked = [-math.inf] + [0.0] * 6
    assert alphac4.load(lambda planes: ([masked] * len(planes), [0.0] * len(planes))).search("4", simulations=30).move


def always(logits: list[float], value: float | list[float]) -> Any:
    return lambda planes: ([logits] * len(planes), [value] * len(planes))


def forgets_planes(planes: Planes) -> Any:
    """Evaluate only the full column, and overwrite the argument."""
    planes[:] = 0
    return always([-math.inf] * 3 + [0] + [-math.inf] * 3, 0)(planes)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (always([0] * 3, 0), r"returned a policy \[1, 3\] and a value \[1\] for 1 .*expected a policy \[1, 7\] and a"),
        (
            lambda planes: ({}, planes),
            r"returned tuple of 2 \(dict, ndarray \[1, 2, 6, 7\]\) for 1 position; expected",
        ),
        (lambda planes: planes.no, r"failed on planes \[1, 2, 6, 7\] with AttributeError: .*no attribute 'no'"),
        (always([0] * 7, 5), r"value of size 5; expected -1 \(lost\) to 1 \(won\)"),
        (always([-math.inf] * 3 + [0] + [-math.inf] * 3, 0), "policy without a largest"),  # column 4 is full
        (forgets_planes, "policy without a largest"),
        (always([0] * 7, [0.9, 0.9, 0.9]), "are not probabilities"),
    ],
)
def test_invalid_outputs_of_a_network_are_rejected(network: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        alphac4.load(network).search("444444", simulations=30)
    assert "\n" not in str(error.value)


class Module(nn.Module):
    """Network of one layer for each cell that returns logits, win/draw/loss probabilities, or a value."""

    def __init__(self, planes: int = 2, answers: str = "logits") -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Linear(planes, 4)
        self.norm = nn.BatchNorm2d(4)
        self.policy, self.outcome, self.answers = nn.Linear(168, 7), nn.Linear(168, 3), answers

    def forward(self, planes: torch.Tensor) -> Any:
        features = self.norm(self.embed(planes.movedim(1, 3)).movedim(3, 1)).flatten(1)
        policy, outcome = self.policy(features), self.outcome(features)
        if self.answers == "value":
            return policy, torch.tanh(outcome[:, :1])
        return (policy, outcome) if self.answers == "logits" else (policy.softmax(dim=1), outcome.softmax(dim=1))


@pytest.mark.parametrize("planes", [2, 8])
def test_load_takes_a_module_that_returns_logits_or_probabilities(planes: int) -> None:
    module = Module(planes).train()
    position = alphac4.Position.from_moves("44")  # its own mirror image
    seen = make_planes(position.board, *stones([position]), planes)
    with torch.no_grad():
        policy, outcome = module.eval()(torch.from_numpy(seen))
    module.train()
    prior, wdl = policy[0].softmax(dim=0).tolist(), outcome[0].softmax(dim=0).tolist()
    for given in (module, Module(planes, "probabilities")):
        result = alphac4.load(given).search("44", simulations=0)
        assert [column.prior for column in result.columns.values()] == pytest.approx(prior, abs=1e-5)
        assert result.wdl == pytest.approx(wdl, abs=1e-5)
    assert module.training
    assert (result.player, result.move) == ("Module", int(np.argmax(prior)))
    value = alphac4.load(Module(planes, "value")).search("44", simulations=0).value
    assert value == pytest.approx(math.tanh(outcome[0, 0]), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_load_takes_a_module_of_half_precision_that_returns_probabilities(dtype: torch.dtype) -> None:
    module = Module(2, "probabilities").eval().to(dtype)
    position = alphac4.Position.from_moves("44")  # its own mirror image
    seen = make_planes(position.board, *stones([position]), 2)
    with torch.no_grad():
        policy, outcome = module(torch.from_numpy(seen).to(dtype))
    result = alphac4.load(module).search("44", simulations=0)
    assert [column.prior for column in result.columns.values()] == pytest.approx(policy[0].tolist(), abs=0.01)
    assert result.wdl == pytest.approx(outcome[0].tolist(), abs=0.01)


def test_load_takes_a_function_that_returns_tensors_of_chosen_planes() -> None:
    module = Module(8).eval()

    def function(planes: Planes) -> Any:
        policy, _ = module(torch.from_numpy(planes))
        return policy, torch.zeros(len(planes), requires_grad=True)

    result = alphac4.load(function, planes="lines").search("44", simulations=0)
    assert result.move == alphac4.load(module).search("44", simulations=0).move
    assert result.value == 0


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            Module(5),
            r'planes="stones": Module failed on planes \[32, 2, 6, 7\] .*; planes="lines": Module failed',
        ),
        (nn.Flatten(), r"Flatten returned Tensor \[32, 84\] for 32 positions; expected a policy \[32, 7\] and a value"),
        (nn.Bilinear(2, 2, 2), r"Bilinear failed on planes \[32, 2, 6, 7\] with TypeError: .*missing"),
    ],
)
def test_modules_with_invalid_inputs_or_outputs_are_rejected(module: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        alphac4.load(module)
    assert "\n" not in str(error.value)


def test_a_module_is_not_called_in_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = alphac4.load(Module())
    monkeypatch.setattr(os, "getpid", Mock(return_value=os.getpid() + 1))
    with pytest.raises(ValueError, match="forked from one that has loaded a network"):
        agent.search("44", simulations=2)


def test_results_print_columns_from_0() -> None:
    result = alphac4.load("uct:200").search("4455")
    first, *table = repr(result).splitlines()
    assert first == f"uct:200 plays {result.move} after '4455' (columns count from 0)"
    names = ("uct:200", "uct:200,exploration=1", "quick@200,c-init=2")
    searched = [alphac4.load(name).search("4455", simulations=50).player for name in names]
    assert searched == ["uct", "uct,exploration=1", "quick,c-init=2"]  # without their own limit of 200
    starred = next(line for line in table if "*" in line)
    assert starred.split()[:2] == [str(result.move), str(result.columns[result.move].visits)]
    assert f"best line {' '.join(map(str, result.pv))}" in table
    tree = alphac4.load("uct:200").search("4455").tree
    assert repr(tree) == "<SearchTree of Position.from_moves('4455'), 1 visit; svg() draws it>"  # a win is proven


class Misnamed(NamedTuple):
    prior_temperature: float = 1.0

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> Any:  # noqa: ARG002
        return trees.priors[t, node, action] * self.nope  # type: ignore[attr-defined]


class Undecided(NamedTuple):
    prior_temperature: float = 1.0

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> Any:  # noqa: ARG002
        return None if action else 1.0


class TakesLess(NamedTuple):
    prior_temperature: float = 1.0

    def score(self, trees: Any, node: int) -> Any:
        return trees.priors[node]


class DecidesNothing(NamedTuple):
    prior_temperature: float = 1.0

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> Any:  # noqa: ARG002
        return 1.0

    def final_score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> Any:  # noqa: ARG002
        return trees


class HasNoScore(NamedTuple):
    prior_temperature: float = 1.0


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (
            Misnamed(),
            r"Misnamed\.score cannot be compiled by Numba: .*'nope'.* \(File .*test_api.py\", line \d+\)",
        ),
        (Undecided(), r"Undecided\.score returns OptionalType.*expected a number in every case"),
        (TakesLess(), r"TakesLess\.score takes \(self, trees, node\); expected \(self, trees, t, node, action, totals"),
        (DecidesNothing(), r"DecidesNothing\.final_score returns .*expected a number in every case"),
    ],
)
def test_an_invalid_selection_raises_a_clear_value_error(selection: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        check_selection(selection)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (HasNoScore(), "is a NamedTuple with a field prior_temperature and a method score, not .*HasNoScore"),
        (Misnamed, r"a selection is an instance: write Misnamed\(\)"),
    ],
)
def test_a_selection_of_another_type_raises_a_type_error(selection: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        alphac4.load("quick", selection_rule=selection)


def test_a_stopped_run_returns_its_state_so_far(tmp_path: Path) -> None:
    class StopAtOnce(alphac4.Callback):
        def on_progress(self, _progress: object) -> None:
            raise alphac4.StopTraining

    run = alphac4.train("quick", run=tmp_path / "run", callbacks=[StopAtOnce()], progress=False, settings=SETTINGS)
    assert (run.history, run.closing_matches, run.best_checkpoint.is_file()) == ([], (), True)
    config = alphac4.TrainConfig.preset("quick", **SETTINGS)
    assert list(alphac4.iterate(config, callbacks=[StopAtOnce()])) == []


def test_a_position_of_impossible_stones_is_rejected(checkpoint: Path) -> None:
    floating = alphac4.Position(np.uint64(0), np.uint64(2), moves=None)  # unchecked, as internal code makes positions
    for use in (alphac4.solve, alphac4.analyze, alphac4.draw_board, alphac4.load(checkpoint).search):
        with pytest.raises(ValueError, match="impossible board: a stone has nothing below it"):
            use(floating)


def test_an_argument_of_a_wrong_type_raises_a_clear_type_error() -> None:
    agent, position = alphac4.load("uct:9"), alphac4.Position.from_moves("44")
    call: Any
    for call, message in (
        (lambda: position.play(3.0), r"column must be an integer, not 3\.0"),
        (
            lambda: alphac4.Position.from_moves(4455),
            "moves must be a string of 1-based columns such as '4455', not 4455",
        ),
        (
            lambda: alphac4.Position("4455"),
            r"takes the bits of its stones, not '4455'; write Position.from_moves\('4455'",
        ),
        (lambda: alphac4.make_board(6, 7, 4, "no"), "diagonals must be True or False, not 'no'"),
        (lambda: alphac4.load(7), "7 is not a player"),
        (lambda: alphac4.load(SimpleNamespace(choose=3, name="a")), "is not a player: it needs a name"),
        (lambda: alphac4.load(RandomPlayer), "player must be an instance of RandomPlayer, not the class"),
        (lambda: alphac4.load("quick", backend=3), "backend must be str, not 3"),
        (lambda: agent.search("44", seconds=True), "seconds must be float, not True"),
        (lambda: alphac4.Position.from_kaggle("0" * 42), "cells must be a list"),
        (lambda: alphac4.draw_board("44", 0.5), r"policy must be a list of float, not 0\.5"),
        (lambda: next(alphac4.iterate("quick")), "config must be a TrainConfig, .*, not 'quick'"),
        (lambda: next(alphac4.iterate(alphac4.TrainConfig(), start="best")), "start must be a network, .*, not 'best'"),
        (lambda: alphac4.train(iterations=3), r"it is a setting: settings=\{'iterations': \.\.\.\}"),
        (lambda: alphac4.train(lr=0.1), r"it is a setting: settings=\{'learning': \{'learning_rate': \.\.\.\}\}"),
        (lambda: alphac4.train(losses=len), r"unknown argument 'losses' \(is it loss\?\)"),
        (lambda: alphac4.train(batch_size=8), "unknown argument 'batch_size'; it is a setting"),
        (lambda: type("Mine", (alphac4.Callback,), {"on_iterations": len}), r"never called \(is it on_iteration\?\)"),
        (lambda: agent.search("44", simulation=3), "search: got an unexpected keyword argument 'simulation'"),
        (lambda: alphac4.Samples.from_games("1212121"), "games must be a list of str, not '1212121'"),
        (
            lambda: next(alphac4.iterate(alphac4.TrainConfig(), losses=len)),
            r"unknown argument 'losses' \(is it",
        ),
        (lambda: alphac4.learn(3, alphac4.TrainConfig()), "samples must be Samples, such as .*, not 3"),
        (lambda: alphac4.read_reports(None), "run must be a path such as 'runs/mine', not None"),
        (
            lambda: alphac4.load("quick", selection_rule=3),
            "selection_rule must be a Puct, or a NamedTuple of your own, not 3",
        ),
        (lambda: alphac4.draw_game(5), "game must be a GameRecord, .*, not 5"),
        (lambda: alphac4.draw_board("44", axes=5), "axes must be axes of Matplotlib, not 5"),
        (lambda: agent.choose("4455"), "positions must be a list of .*, not '4455'"),
        (lambda: alphac4.play_match(3, "random"), "3 is not a player"),
        (lambda: alphac4.solve("44", board=5), "board must be a board from make_board, not 5"),
        (lambda: alphac4.play_match("random", "random", progress="no"), "progress must be bool, not 'no'"),
        (lambda: alphac4.evaluate("random", positions=[5]), r"positions\[0\] must be str or Path, not 5"),
        (lambda: alphac4.evaluate("random", simulations=100), "simulations must be a list of int, not 100"),
    ):
        with pytest.raises(TypeError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_a_wrong_value_of_an_argument_raises_a_clear_value_error() -> None:
    agent, small, position = alphac4.load("uct:9"), alphac4.make_board(5, 6), alphac4.Position()
    for call, message in (
        (lambda: alphac4.Position(1, 0), "own has stones that are not in occupied"),
        (lambda: alphac4.Position(0, 2**64), "occupied must be at most 64 bits"),
        (lambda: alphac4.Position(-1, 1), "own must be at least 0, not -1"),
        (lambda: alphac4.load("uct:9", batch_size=0), "batch_size must be at least 1, not 0"),
        (lambda: alphac4.load("quick", batch_size=10**9), "batch_size must be at most 65,536, not 1000000000"),
        (lambda: alphac4.load("uct:9", batch_size=4), "batch_size does not apply to uct:9: leave it out"),
        (lambda: alphac4.load(agent, seed=3), "seed does not apply to uct:9"),
        (
            lambda: alphac4.play_match("random", "random", games=10**9),
            "games must be at most 1,000,000",
        ),
        (lambda: alphac4.TrainConfig(iterations="3"), "iterations must be int, not '3'"),
        (lambda: alphac4.TrainConfig(board=None), "board must be an object with the fields of BoardConfig, not None"),
        (lambda: alphac4.evaluate("random", simulations=[]), "simulations must not be empty: give at least one number"),
        (lambda: alphac4.load("nobody"), "unknown player 'nobody'"),
        (lambda: alphac4.load("x" * 100_000), "unknown player 'xxx"),
        (lambda: alphac4.load("quick", board=small), "plays on 6 x 7 .*, not on 5 x 6"),
        (lambda: alphac4.read_reports("x" * 5000), "no reports of a run here"),
        (lambda: alphac4.solve(alphac4.Position(), board=small), "on a different board"),
        (lambda: alphac4.load(""), "the player's name is empty; .* such as best@600 or uct:1000"),
        (
            lambda: alphac4.load("quick", backend="foo"),
            "unknown backend 'foo' on this machine; available: auto, torch-",
        ),
        (lambda: alphac4.load("quick", device="tpu"), "unknown device 'tpu'; available: auto, cpu, cuda"),
        (lambda: alphac4.evaluate("uct:9", simulations=[5]), "simulations apply to a checkpoint .* out for uct:9"),
        (lambda: position.play(10**5000), "column is too large: a number of 16610 bits"),
        (lambda: agent.search("44", seconds=10**400), "seconds must be float, not such a large number"),
        (lambda: alphac4.draw_board("44", [2.0] * 7), r"policy\[0\] must be at most 1, not 2\.0"),
        (lambda: alphac4.solve(alphac4.Position(moves="44")), "the moves '44' do not lead to the position's stones"),
        (lambda: alphac4.load("random").search("44"), "random only chooses moves"),
        (lambda: agent.search("44", seconds=math.nan), "a positive number of at most 1e\\+09, not nan"),
        (lambda: alphac4.train(settings={"learning.batch_size": 9}), r"write \{'learning': \{'batch_size': \.\.\.\}\}"),
        (
            lambda: alphac4.load("uct:9", selection_rule=alphac4.Puct()),
            "selection_rule does not apply to uct:9: leave it out",
        ),
        (lambda: alphac4.load("uct:9", planes="lines"), "planes does not apply to uct:9"),
        (
            lambda: alphac4.load(lambda planes: planes, planes="all"),
            "planes must be one of 'stones', 'lines', not 'all'",
        ),
        (lambda: alphac4.draw_board("4455", [0.2] * 5), "policy needs 7 numbers, one for each column, not 5"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 6000


def test_a_call_starts_no_thread_of_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tqdm, "monitor", None)
    alphac4.play_match("random", "random", games=2, progress=True)
    alphac4.evaluate("random", count=1)
    assert tqdm.monitor is None


def test_analyze_returns_the_score_of_every_column() -> None:
    solved = alphac4.analyze("4455")  # 3 and 6 win; the public solver's score is 18
    assert (solved.score, solved.outcome, solved.best_columns) == (18, 1, [2, 5])
    assert alphac4.solve("4455") == 18
    assert "column 2: +18, wins in 2 moves *" in repr(solved)


def test_matches_accept_all_kinds_of_players_and_depend_on_the_seed(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Leftmost:
        name = "leftmost"

        def choose(self, positions: list[alphac4.Position]) -> list[int]:
            return [position.legal_columns()[0] for position in positions]

    one, two = (alphac4.play_match("uct:60", Leftmost(), games=6, seed=4) for _ in range(2))
    assert one == two
    assert one.score > 0.8
    assert len(one.games) == 6
    assert alphac4.play_match(load(checkpoint), "random", games=2).game_count == 2
    openings = [
        {game[:2] for game in alphac4.play_match(Leftmost(), Leftmost(), games=6, seed=seed).games} for seed in (4, 5)
    ]
    assert openings[0] != openings[1]
    monkeypatch.setattr("alphac4.api.tasks.match_openings", lambda *_: [alphac4.Position.from_moves("44")])
    chosen = [alphac4.play_match("random", "random", games=2, seed=seed).games for seed in (4, 5)]
    assert chosen[0] != chosen[1]


def test_evaluate_agrees_with_the_command_in_every_form_of_a_network(
    checkpoint: Path, network: PolicyValueNetwork, run_command: Callable[..., str]
) -> None:
    command = f"evaluate {checkpoint} --simulations 0 8 --count 3 --backend torch-fp32 --device cpu --json"
    budgets = json.loads(run_command(command))["subjects"][0]["budgets"]
    agent = load(checkpoint)
    for player in (checkpoint, network, agent, agent.player):
        report = alphac4.evaluate(player, simulations=[8, 0], count=3, backend="torch-fp32", device="cpu")
        for index, budget in enumerate((0, 8)):
            expected = {name: figures["mistakes"]["value"] for name, figures in budgets[index]["sets"].items()}
            assert report.mistake_rates(budget) == expected
        last = 100 * expected["all"]
        assert repr(report).splitlines()[-1].startswith(f"Mistakes in 18 positions: {last:.1f} ± ")
    assert alphac4.evaluate(load(f"{checkpoint}@8"), count=3).mistake_rates() == expected  # with its own limit
    assert alphac4.evaluate(always([0] * 7, 0), simulations=[0], count=1).mistake_rates()


def test_reports_agree_with_the_lines_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "reports.jsonl").write_bytes(REPORTS.read_bytes())  # a folder is read like its file
    reports, lines = alphac4.read_reports(tmp_path), [json.loads(line) for line in REPORTS.read_text().splitlines()]
    assert reports == alphac4.read_reports(REPORTS)
    assert [report.gate.promoted for report in reports] == [line["gate"]["promoted"] for line in lines]
    last, line = reports[-1], lines[-1]
    gate, calibration = line["gate"], line["selfplay"]["value_calibration"]
    assert last.evaluation is not None
    assert last.evaluation.raw.mistake_rate_by_set == line["evaluation"]["raw"]["mistake_rate_by_set"]
    expected = sum(n * abs(value - outcome) for value, outcome, n in calibration) / sum(n for _, _, n in calibration)
    assert last.selfplay.calibration_error == pytest.approx(expected)
    points, games = gate["wins"] + gate["draws"] / 2, gate["wins"] + gate["draws"] + gate["losses"]
    assert last.gate.score == points / games
    assert dataclasses.asdict(last)["time_shares"] == line["time_shares"]


def test_a_policy_may_be_a_tensor_that_needs_gradients() -> None:
    policy = torch.full((7,), 1 / 7, requires_grad=True)
    assert alphac4.draw_board("44", policy).patches  # type: ignore[arg-type]


def test_a_pickled_result_has_no_tree() -> None:
    found = alphac4.load("uct:20").search("44")
    again = pickle.loads(pickle.dumps(found))
    assert (again.to_dict(), again.position, again.tree) == (found.to_dict(), found.position, None)


def test_a_run_with_wrong_callbacks_creates_no_folder(tmp_path: Path) -> None:
    for callbacks, message in (
        ([3], r"callbacks\[0\] must be an instance of a class of alphac4\.Callback, not 3"),
        (alphac4.Callback(), "callbacks must be a list"),
    ):
        with pytest.raises(TypeError, match=message):
            alphac4.train("quick", run=tmp_path / "run", callbacks=callbacks)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_training_rejects_states_of_pytorch_that_it_cannot_use(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(RuntimeError, match=r"needs torch\.float32 as default dtype, not torch\.float64"):
            next(alphac4.iterate(alphac4.TrainConfig()))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"leave torch\.inference_mode"):
        alphac4.train("quick", run=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_drawn_board_has_its_stones() -> None:
    axes = alphac4.draw_board("4455", [0.1] * 7, title="here")
    discs = [patch for patch in axes.patches if isinstance(patch, Circle) and patch.radius > 0.3]
    colours = [disc.get_facecolor() for disc in discs]
    assert sorted(colours.count(colour) for colour in set(colours)) == [2, 2, 38]
    assert axes.get_title() == "here"
    pyplot.close(axes.figure)


def test_threads_may_share_an_agent(checkpoint: Path) -> None:
    positions = ["44", "12", "4433", "1"] * 5
    expected = [load(f"{checkpoint}@60").search(moves).value for moves in positions]
    agent = load(f"{checkpoint}@60")
    with ThreadPoolExecutor(4) as pool:
        actual = [result.value for result in pool.map(agent.search, positions)]
    assert actual == pytest.approx(expected)

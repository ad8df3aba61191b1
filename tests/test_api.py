import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import alphac4
from alphac4 import cli
from alphac4.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.game import column_name
from alphac4.mcts import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.nn import Evaluator, PolicyValueNetwork

Planes = npt.NDArray[np.float32]


@pytest.fixture
def file(tmp_path: Path, network: PolicyValueNetwork) -> Path:
    """A small network's checkpoint."""
    path = tmp_path / "small.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    return path


def load(file: Path) -> alphac4.Agent:
    """The small network's agent, without a measurement of backends."""
    return alphac4.load(file, backend="torch-fp32", device="cpu")


@pytest.mark.slow
def test_importing_the_package_loads_nothing_heavy() -> None:
    """Neither PyTorch nor Numba, and the solver does without PyTorch; every public name is there when asked for."""
    program = """
import sys, alphac4
heavy = ("torch", "numba", "numpy")
before = [name for name in heavy if name in sys.modules]
listed = set(alphac4.__all__) <= set(dir(alphac4))
score = alphac4.solve("4455")
solving = "torch" in sys.modules
print(before, listed, score, solving, all(getattr(alphac4, name) is not None for name in alphac4.__all__))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "[] True 18 False True\n"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        alphac4.nonsense  # noqa: B018


def test_the_module_is_the_command() -> None:
    """`python -m alphac4` answers as `alphac4` does."""
    done = subprocess.run([sys.executable, "-m", "alphac4", "--version"], capture_output=True, check=True, text=True)
    assert done.stdout == f"alphac4 {alphac4.__version__}\n"


def test_an_agent_sees_what_its_search_saw(file: Path, network: PolicyValueNetwork) -> None:
    """Moves, values and visits of a batch, against the search underneath; a single position is no list."""
    moves = ["44", "445", "111111"]
    results = load(file).search(moves, simulations=40)
    search = NetworkSearch(Evaluator(network, backend="torch-fp32"), rng=np.random.default_rng(0))
    expected = search.search([alphac4.Position.from_moves(text) for text in moves], Budget(simulations=40))
    for row, result in enumerate(results):
        assert (result.move, result.simulations) == (expected.moves[row], 40)
        assert result.value == pytest.approx(expected.value[row])
        assert result.wdl.win - result.wdl.loss == pytest.approx(result.value)
        assert {column: seen.visits for column, seen in result.columns.items()} == {
            column: expected.visits[row, column] for column in result.position.legal_columns()
        }
        assert repr(result).startswith(f"small@100 plays column {column_name(result.move)} after {moves[row]!r}")
    single = load(file).search(alphac4.Position.from_moves("44"), simulations=40)
    assert single.columns[3].visits == results[0].columns[3].visits
    assert load(file).search("44").simulations == 100
    assert load(file).search([]) == []


def test_settings_of_the_search_may_be_given_as_an_object(file: Path) -> None:
    """They are those that the specification writes, and are named in the same way."""
    given = alphac4.load(file, puct=alphac4.PuctConfig(c_init=3), backend="torch-fp32", device="cpu")
    written = alphac4.load(f"{file}@100,c-init=3", backend="torch-fp32", device="cpu")
    assert given.name == written.name == "small@100,c-init=3"
    assert [[seen.visits for seen in agent.search("44").columns.values()] for agent in (given, written)] == [
        [seen.visits for seen in written.search("44").columns.values()]
    ] * 2


def test_a_tree_stays_as_it_was_drawn(file: Path) -> None:
    """Also after the agent has searched something else, and for each of several positions."""
    agent = load(file)
    first, second = agent.search(["44", "1"], simulations=30)
    assert first.tree is not None
    assert second.tree is not None
    drawn = first.tree._repr_svg_()
    assert agent.search("7777", simulations=50).tree is not None
    assert first.tree._repr_svg_() == drawn
    assert second.tree.svg(depth=1) != first.tree.svg(depth=1)
    ElementTree.fromstring(drawn)
    assert agent.search("44", simulations=0).tree is None


@pytest.mark.parametrize("player", ["uct:50", "auto", "certificate"])
def test_every_kind_of_players_tree_stays_as_it_was(player: str, file: Path) -> None:
    """Also where several positions have their own time each, and of players that ask another one."""
    agent = alphac4.load(f"{file}@auto" if player == "auto" else player)
    found = agent.search("44", simulations=30)
    assert found.tree is not None
    drawn = found.tree.svg()
    timed = agent.search(["1122", "7"], seconds=0.5)
    assert found.tree.svg() == drawn
    for position in timed:
        assert position.tree is not None
        ElementTree.fromstring(position.tree.svg())
    assert timed[0].tree is not None
    assert timed[1].tree is not None
    assert timed[0].tree.svg() != timed[1].tree.svg()


def test_any_function_on_planes_is_a_network() -> None:
    """With a value or with win, draw and loss; answers of another shape are reported in one line."""

    def right(planes: Planes) -> tuple[Planes, Planes]:
        logits = np.zeros((len(planes), 7), np.float32)
        logits[:, 6] = 3
        return logits, np.full(len(planes), 0.5, np.float32)

    result = alphac4.load(right).search("44", simulations=0)
    assert (result.player, result.move, result.value, result.wdl) == ("right", 6, 0.5, (0.75, 0, 0.25))
    with pytest.raises(ValueError, match=r"returned a policy \(1, 3\) and a value \(1,\).*expected \(1, 7\)") as error:
        alphac4.load(lambda planes: (np.zeros((len(planes), 3)), np.zeros(len(planes)))).search("44")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="must return a policy and a value"):
        alphac4.load(lambda _planes: None).search("44")


@pytest.mark.parametrize(
    ("logits", "value", "told"),
    [
        ([math.nan] * 7, 0.0, "policy whose highest logit is no finite number"),
        ([0, 0, math.inf, 0, 0, 0, 0], 0.0, "policy whose highest logit"),
        ([-math.inf] * 7, 0.0, "policy whose highest logit"),
        ([-math.inf] * 3 + [0] + [-math.inf] * 3, 0.0, "policy whose highest logit"),  # column 4 is full
        ([0] * 7, math.nan, "value that is no finite number"),
        ([0] * 7, [3.0, 0.0, -3.0], "no probabilities"),
        ([0] * 7, [0.9, 0.9, 0.9], "no probabilities"),
    ],
)
def test_numbers_that_no_search_can_use_are_refused(logits: list[float], value: float | list[float], told: str) -> None:
    """In one line, instead of a game's worth of confident nonsense; what a mask hides may be -inf."""

    def wrong(planes: Planes) -> tuple[list[list[float]], list[Any]]:
        return [logits] * len(planes), [value] * len(planes)

    with pytest.raises(ValueError, match=told) as error:
        alphac4.load(wrong).search("444444", simulations=30)
    assert "\n" not in str(error.value)
    masked = [-math.inf] + [0.0] * 6
    assert alphac4.load(lambda planes: ([masked] * len(planes), [0.0] * len(planes))).search("4", simulations=30).move


@pytest.mark.parametrize(
    ("moves", "told"),
    [
        ("444444444", "illegal move"),
        ("49", "columns are written 1 to 7"),
        ("1212121", "the game is over after 1212121"),
        (4455, "a position is a move string such as '4455', or a Position, not 4455"),
    ],
)
def test_bad_positions_are_one_clear_value_error(moves: str, told: str) -> None:
    """Wherever they are given."""
    for ask in (alphac4.load("uct:10").search, alphac4.solve, alphac4.analyze):
        with pytest.raises(ValueError, match=told) as error:
            ask(moves)
        assert "\n" not in str(error.value)


def test_bad_arguments_are_one_clear_value_error(file: Path) -> None:
    """Players, limits and numbers of games."""
    for call, told in (
        (lambda: alphac4.load("nobody"), "unknown player 'nobody'"),
        (lambda: alphac4.load(7), "7 is no player"),  # type: ignore[arg-type]
        (lambda: alphac4.load("missing.safetensors"), "missing.safetensors: no such file"),
        (lambda: alphac4.load("random").search("44"), "random only chooses moves"),
        (lambda: alphac4.load("uct:9").search("44", simulations=0), "at least one simulation"),
        (lambda: load(file).search("44", simulations=-1), "must not be negative, and its seconds must be positive"),
        (lambda: load(file).search("44", simulations=10**10), "1,073,741,824 simulations at most"),
        (lambda: load(file).search(alphac4.Position(geometry=alphac4.make_geometry(5, 6))), "on another board"),
        (lambda: alphac4.play_match("random", "random", games=3), "games must be an even number, not 3"),
        (lambda: alphac4.train("fast"), "no preset 'fast'; there are quick, standard, strong"),
        (lambda: alphac4.train(settings={"speed": 1}), "unknown setting 'speed'"),
        (lambda: alphac4.evaluate("random", simulations=[]), "numbers of simulations"),
        (lambda: alphac4.evaluate("random", simulations=100), "numbers of simulations"),  # type: ignore[arg-type]
        (lambda: alphac4.evaluate("random", simulations=[1.5]), "whole numbers"),  # type: ignore[list-item]
        (lambda: alphac4.evaluate("random", simulations=[10**9]), "whole numbers up to 10,000,000"),
        (lambda: alphac4.evaluate("random", positions="end-easy.columns"), "are lists, also of a single one"),
        (lambda: alphac4.evaluate("random", games=-2), "none of its numbers may be negative"),
        (lambda: alphac4.evaluate("random", count=1).errors(600), "not with 600"),
        (lambda: alphac4.load("uct:9").search("44", simulations=2.5), "a whole number of"),  # type: ignore[call-overload]
        (lambda: alphac4.load("uct:9").search("44", simulations=math.inf), "a whole number of"),  # type: ignore[call-overload]
        (lambda: alphac4.load("uct:9").search("44", simulations="5"), "a whole number of"),  # type: ignore[call-overload]
        (lambda: alphac4.load("uct:9").search("44", seconds=math.nan), "a positive number, not nan"),
        (lambda: alphac4.load("uct:9").search("44", seconds=math.inf), "a positive number, not inf"),
        (lambda: alphac4.load("uct:9").choose("4455"), "several positions are a list of them, not '4455'"),
        (lambda: alphac4.load("random", device="gpu"), "a device is auto, cpu, cuda, not 'gpu'"),
        (lambda: alphac4.load("random", threads=0), "threads must be at least 1, not 0"),
        (lambda: alphac4.draw_board(5), "a position is a move string"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=told) as error:
            call()
        assert "\n" not in str(error.value)


def test_the_solver_tells_the_score_of_every_column() -> None:
    """4455 is won by 3 and 6, whose scores the public solver gives as 18."""
    solved = alphac4.analyze("4455")
    assert (solved.score, solved.outcome, solved.best) == (18, 1, [2, 5])
    assert alphac4.solve("4455") == 18
    assert "column 3: +18, wins in 2 moves *" in repr(solved)


def test_matches_take_players_of_every_kind_and_repeat_themselves(file: Path) -> None:
    """By name, as agents, or of one's own; the result is the first player's."""

    class Leftmost:
        name = "leftmost"

        def choose(self, positions: list[alphac4.Position]) -> list[int]:
            return [position.legal_columns()[0] for position in positions]

    one, two = (alphac4.play_match("uct:60", Leftmost(), games=6, seed=4) for _ in range(2))  # type: ignore[arg-type]
    assert one == two
    assert one.score > 0.8
    assert len(one.games) == 6
    assert repr(one) == f"MatchResult(wins={one.wins}, draws={one.draws}, losses={one.losses})"
    assert str(one).startswith(f"{one.wins} won, {one.draws} drawn, {one.losses} lost, ")
    assert alphac4.play_match(load(file), "random", games=2).played == 2


def test_measuring_strength_finds_what_the_command_finds(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same figures, by the same budgets on the same positions."""
    report = alphac4.evaluate(file, simulations=[8, 0], count=3, backend="torch-fp32", device="cpu")
    arguments = ["--simulations", "0,8", "--count", "3", "--backend", "torch-fp32", "--device", "cpu", "--json", "-"]
    assert cli.main(["evaluate", str(file), *arguments]) == 0
    told = json.loads(capsys.readouterr().out)["subjects"][0]["budgets"]
    for index, simulations in enumerate((0, 8)):
        expected = {name: figures["moves"]["error"]["value"] for name, figures in told[index]["sets"].items()}
        assert report.errors(simulations) == expected
    assert report.errors() == report.errors(8)
    assert "Move errors" in repr(report)


@pytest.mark.slow
def test_training_runs_in_its_folder_and_goes_on(tmp_path: Path) -> None:
    """Settings from a mapping over the preset; the same call again finds the run done."""
    tiny = {
        "iterations": 1,
        "samples": 120,
        "backend": "torch-fp32",
        "network": {"channels": 8, "blocks": 1},
        "selfplay": {"games": 8, "full_simulations": 8, "fast_simulations": 4},
        "learning": {"batch_size": 64},
        "gate": {"pairs": 1, "simulations": 2, "classic_every": 0, "closing_pairs": 1, "classic_rollouts": [5]},
        "evaluation": {"every": 0},
    }
    trained = alphac4.train("quick", run=tmp_path / "run", settings=tiny)
    assert (trained.iterations, len(trained.history), len(trained.closing)) == (1, 1, 1)
    assert str(trained).startswith("Trained 1 iterations in ")
    assert load_checkpoint(trained.best).network.config.channels == 8
    again = alphac4.train(run=tmp_path / "run")
    assert (again.games, again.config) == (trained.games, trained.config)

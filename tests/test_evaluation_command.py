import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alphac4 import cli
from alphac4.arena.players import NetworkPlayer
from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.evaluation.accuracy import judge_moves
from alphac4.evaluation.answers import ask_players
from alphac4.evaluation.measurement import untrained
from alphac4.evaluation.positions import SETS, packaged_positions
from alphac4.evaluation.report import SubjectReport, budget_report
from alphac4.game import make_geometry
from alphac4.mcts.search import Budget
from alphac4.nn import NetworkConfig, PolicyValueNetwork
from alphac4.nn.evaluator import Evaluator


@pytest.fixture
def checkpoint(tmp_path: Path, network: PolicyValueNetwork) -> str:
    """A small network's file."""
    path = tmp_path / "small.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    return str(path)


def evaluate(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The report of `alphac4 evaluate` as its JSON says it."""
    assert cli.main(["evaluate", *arguments, "--backend", "torch-fp32", "--json", "-"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    return report


def check_estimate(estimate: dict[str, Any], count: int, *, share: bool) -> None:
    """Every number of an estimate is there and in its place."""
    assert set(estimate) == {"value", "error", "low", "high", "count"}
    assert estimate["count"] == count
    assert estimate["low"] <= estimate["value"] <= estimate["high"]
    if share:
        assert estimate["low"] >= 0
        assert estimate["high"] <= 1


def test_the_json_holds_every_figure_for_every_set_and_budget(
    checkpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Subjects, budgets, sets and figures as documented; numbers that do not exist are null, never NaN."""
    report = evaluate(capsys, checkpoint, "--simulations", "8,0", "--count", "12", "--reference", "random")
    assert report["format"] == "alphac4 strength report 1"
    assert [part["name"] for part in report["sets"]] == [*SETS, "all"]
    assert [part["positions"] for part in report["sets"]] == [12] * 6 + [72]
    assert [subject["name"] for subject in report["subjects"]] == [checkpoint, "untrained", "random"]
    for subject in report["subjects"]:
        random = subject["name"] == "random"
        assert [budget["simulations"] for budget in subject["budgets"]] == ([None] if random else [0, 8])
        for budget in subject["budgets"]:
            assert list(budget["sets"]) == [*SETS, "all"]
            for part in report["sets"]:
                figures = budget["sets"][part["name"]]
                for kind, count in (("moves", part["positions"]), ("decisive", part["decisive"])):
                    assert set(figures[kind]) == {"error", "keeps", "fastest", "loss"}
                    for name in ("error", "keeps", "fastest"):
                        check_estimate(figures[kind][name], count, share=True)
                    assert figures[kind]["error"]["value"] + figures[kind]["keeps"]["value"] == pytest.approx(1)
                if random:
                    assert figures["value"] is None
                else:
                    check_estimate(figures["value"]["absolute"], part["positions"], share=False)
                    assert sum(b["count"] for b in figures["value"]["bins"]) == part["positions"]


def test_the_report_agrees_with_the_arenas_player(
    checkpoint: str, network: PolicyValueNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    """The raw network and 8 simulations a move, asked through the arena's player instead."""
    report = evaluate(capsys, checkpoint, "--simulations", "0,8", "--count", "12")
    sets = packaged_positions(12)
    evaluator = Evaluator(network, backend="torch-fp32")
    for index, budget in enumerate((Budget(simulations=0), Budget(simulations=8))):
        player = NetworkPlayer("network", evaluator, budget, np.random.default_rng(0))
        expected = judge_moves(sets, ask_players([player], sets).columns).error.value
        assert report["subjects"][0]["budgets"][index]["sets"]["all"]["moves"]["error"]["value"] == expected


def test_the_untrained_network_has_the_same_shape_and_is_always_the_same(network: PolicyValueNetwork) -> None:
    """Its architecture is the checkpoint's, its weights depend on the seed alone, no other random number is drawn."""
    state = torch.random.get_rng_state()
    first, again, other = (untrained(Checkpoint(network=network), seed).network for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.config == network.config
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.policy.weight, other.policy.weight)
    assert not torch.equal(first.policy.weight, network.policy.weight)


def test_the_table_lays_sets_beside_each_other(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Sets in columns, budgets in rows, once for the network and once for the untrained one."""
    assert cli.main(["evaluate", checkpoint, "--simulations", "0,4", "--count", "6", "--backend", "torch-fp32"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["simulations", *SETS, "all"]
    assert [line.split()[:1] for line in lines if line.startswith(" ") and "raw" in line] == [["0"]] * 6
    assert sum(line.startswith("untrained") for line in lines) == 3
    assert len({len(line) for line in lines[1:4]}) == 1


@pytest.mark.slow
def test_the_untrained_twin_can_be_left_out(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its figures are missing; the checkpoint's are what they are beside it."""
    arguments = ["evaluate", checkpoint, "--simulations", "0", "--count", "2", "--json", "-"]
    reports = []
    for option in ([], ["--no-twin"]):
        assert cli.main([*arguments, *option]) == 0
        reports.append(json.loads(capsys.readouterr().out)["subjects"])
    (ours, twin), (alone,) = reports
    assert twin["name"] == "untrained"
    assert ours["budgets"][0]["sets"] == alone["budgets"][0]["sets"]


def test_any_player_can_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """A player that tells no value has the same table without value figures; nobody's untrained twin is added."""
    report = evaluate(capsys, "negamax:2", "--count", "6")
    assert [subject["name"] for subject in report["subjects"]] == ["negamax:2"]
    assert report["subjects"][0]["budgets"][0]["sets"]["all"]["value"] is None


def test_games_against_the_perfect_player_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a small board: results by colour, the plies of the slips, a picture, and the moves in the JSON."""
    geometry = make_geometry(4, 4, 3)
    small = PolicyValueNetwork(NetworkConfig(rows=4, columns=4, channels=8, blocks=1)).eval()
    path = tmp_path / "small.safetensors"
    save_checkpoint(path, Checkpoint(network=small, geometry=geometry))
    positions = tmp_path / "mine.columns"
    positions.write_text("1234 1 1 1 1\n11 0 1 -1 0\n")
    files = tmp_path / "report.json", tmp_path / "report.png"
    arguments = [str(path), "--positions", str(positions), "--simulations", "0,4", "--games", "6"]
    arguments += ["--games-simulations", "0", "--backend", "torch-fp32"]
    assert cli.main(["evaluate", *arguments, "--json", str(files[0]), "--picture", str(files[1])]) == 0
    printed = capsys.readouterr().out
    assert "moving first from the empty board" in printed
    report = json.loads(files[0].read_text())
    for subject in report["subjects"]:
        games = subject["games"]["games"]
        assert [game["first"] for game in games] == [True, False] * 3
        slipped = sum(bool(game["slips"]) for game in games if game["first"])
        assert f"slipped in {slipped} of 3 games" in printed
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_a_set_without_decisive_positions_has_no_rate(
    tmp_path: Path, checkpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No rate is better than one of nothing: null in the JSON, a dash in the table."""
    positions = tmp_path / "lost.columns"
    positions.write_text("44 -1 -1 -2 -1 -3 -1 -1\n")
    arguments = [checkpoint, "--positions", str(positions), "--simulations", "0"]
    report = evaluate(capsys, *arguments)
    assert report["subjects"][0]["budgets"][0]["sets"]["lost"]["decisive"]["error"]["value"] is None
    assert cli.main(["evaluate", *arguments, "--backend", "torch-fp32"]) == 0
    assert " -" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.safetensors"], "absent.safetensors: no such file"),
        (["uct"], "'uct': '' is no budget"),
        (["chess"], "unknown player 'chess'"),
        (["random", "--simulations", "0,many"], "--simulations takes numbers such as 0,100,600, not '0,many'"),
        (["random", "--simulations", ","], "--simulations takes numbers"),
        (["random", "--count", "0"], "count must be at least 1, not 0"),
        (["random", "--games", "-2"], "--games must be at least 0"),
        (["random", "--positions", "absent.columns"], "absent.columns: no such file"),
        (["random", "--count", "2", "--picture", "report.txt"], "report.txt: a picture's name must end in .png"),
        (["random", "--reference", "go"], "unknown player 'go'"),
        (["fast,temperature=2"], "a temperature needs a limit, such as fast@100"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 2 and one line on the standard error that names what is wrong."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["evaluate", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_positions_of_another_board_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The packaged sets are of the standard board, a checkpoint of another needs its own; files must fit as well."""
    path = tmp_path / "other.safetensors"
    network = PolicyValueNetwork(NetworkConfig(rows=5, columns=6, channels=8, blocks=0)).eval()
    save_checkpoint(path, Checkpoint(network=network, geometry=make_geometry(5, 6, 4)))
    assert cli.main(["evaluate", str(path)]) == 2
    assert "plays on 5 x 6 with runs of 4, not on 6 x 7 with runs of 4" in capsys.readouterr().err
    positions = tmp_path / "mine.columns"
    positions.write_text("44 1 1 1 1 1 1 1\n")
    assert cli.main(["evaluate", str(path), "--positions", str(positions)]) == 2
    assert "line 1: expected moves and a score for each of 6 columns, found 7" in capsys.readouterr().err


def test_position_sets_are_made_and_can_be_evaluated_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`alphac4 positions` writes what `alphac4 evaluate --positions` reads; unknown sets are named."""
    assert cli.main(["positions", str(tmp_path), "--sets", "end-easy", "middle-easy", "--count", "5"]) == 0
    files = [str(tmp_path / f"{name}.columns") for name in ("end-easy", "middle-easy")]
    report = evaluate(capsys, "solver", "--positions", *files)
    assert [part["name"] for part in report["sets"]] == ["middle-easy", "end-easy", "all"]
    assert report["subjects"][0]["budgets"][0]["sets"]["all"]["moves"]["error"]["value"] == 0.0
    assert cli.main(["positions", str(tmp_path), "--sets", "end-hard"]) == 2
    assert "no set 'end-hard'" in capsys.readouterr().err


def test_a_budget_report_keeps_the_sets_apart() -> None:
    """Each set's figures are its own, and those of all sets are over all positions."""
    sets = packaged_positions(10)
    network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=0)).eval()
    player = NetworkPlayer("untrained", Evaluator(network, backend="torch-fp32"), Budget(simulations=0))
    answers = ask_players([player], sets)
    report = SubjectReport(name="x", description="", budgets=[budget_report(sets, answers, None, 0.0)]).budgets[0]
    errors = [report.sets[name].moves.error.value for name in SETS]
    for part, columns, error in zip(sets, answers.columns, errors, strict=True):
        assert judge_moves([part], [columns]).error.value == error
    assert report.sets["all"].moves.error.value == pytest.approx(np.mean(errors))


def test_a_name_with_dollars_is_drawn_as_it_is(checkpoint: str, tmp_path: Path) -> None:
    """What stands between dollars is no formula: neither of a network's file nor of a set's."""
    network, positions = tmp_path / "my $\\frac$ net.safetensors", tmp_path / "set $_$.columns"
    shutil.copy(checkpoint, network)
    positions.write_text("2252576253462244111563365343671351441 . . . . . -1 -2\n")
    picture = tmp_path / "report$^$.svg"
    arguments = [str(network), "--simulations", "0", "--positions", str(positions)]
    assert cli.main(["evaluate", *arguments, "--backend", "torch-fp32", "--picture", str(picture)]) == 0
    assert picture.stat().st_size > 1000

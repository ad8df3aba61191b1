import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from alphac4.cli import main
from alphac4.evaluation.curves import CurvePoint, find_checkpoints
from alphac4.evaluation.pictures import band
from alphac4.evaluation.positions import format_line
from alphac4.game import Position
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.solver import Solver
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint


def make_run(folder: Path, iterations: int) -> None:
    """A run's folder with tiny untrained networks, which tell what they have cost."""
    for iteration in range(1, iterations + 1):
        network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=0)).eval()
        provenance = {"iteration": iteration, "seconds": 60 * iteration, "evaluations": 1000 * iteration}
        checkpoint = Checkpoint(network=network, geometry=STANDARD, provenance=provenance)
        save_checkpoint(folder / "checkpoints" / f"{iteration:06d}.safetensors", checkpoint)


def test_the_last_network_is_always_among_those_judged(tmp_path: Path) -> None:
    make_run(tmp_path, 5)
    assert [path.stem for path in find_checkpoints(tmp_path, 2)] == ["000001", "000003", "000005"]


OPTIONS = ("--simulations", "0,2", "--count", "5", "--backend", "torch-fp32")


def lines_of(picture: Path) -> list[str]:
    """The curves of an SVG picture."""
    return re.findall(r'd="(M[^"]+)"', picture.read_text())


def labels(picture: Path) -> set[str]:
    """The texts of an SVG picture."""
    return set(re.findall("<!-- (.*) -->", picture.read_text()))


def test_an_interrupted_curve_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Networks in the file are not judged again; a line that a full disk cut short is told, and judged again."""
    make_run(tmp_path / "run", 2)
    output, picture = tmp_path / "curve.jsonl", tmp_path / "curve.svg"
    command = ["curve", str(tmp_path / "run"), "--output", str(output), "--picture", str(picture), *OPTIONS]
    assert main(command) == 0
    assert "iteration 2, 2.0 min, 2 simulations" in capsys.readouterr().out
    whole, drawn = output.read_text().splitlines(), lines_of(picture)
    points = [json.loads(line) for line in whole[1:]]
    found = [(p["iteration"], p["simulations"], p["minutes"], p["evaluations"]) for p in points]
    assert found == [(1, 0, 1, 1000), (1, 2, 1, 1000), (2, 0, 2, 2000), (2, 2, 2, 2000)]
    assert points[0]["error"] == pytest.approx(np.mean(list(points[0]["errors"].values())))  # sets of one size here
    output.write_text("\n".join(whole)[:-40])
    assert main(command) == 0
    assert re.findall(r"iteration (\d), .* (\d) simulations", capsys.readouterr().out) == [("2", "2")]
    assert "line 5 is damaged and left out" in caplog.text
    lines = output.read_text().splitlines()
    assert (lines[:4], lines[5:]) == (whole[:4], whole[4:])
    assert lines_of(picture) == drawn
    assert main([*command, "--count", "6"]) == 2
    assert "figures of different positions" in capsys.readouterr().err
    assert output.read_text().splitlines() == lines


def test_several_runs_are_drawn_beside_each_other_and_again_without_their_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each name; two seeds of one name are a line with a band; each figure says which run it is of."""
    for name, iterations in (("q0", 2), ("q1", 1), ("s=0", 1)):
        make_run(tmp_path / name, iterations)
    output, picture = tmp_path / "curve.jsonl", tmp_path / "curve.svg"
    options = [*OPTIONS, "--simulations", "0", "--picture", str(picture)]
    runs = [f"quick={tmp_path / 'q0'},{tmp_path / 'q1'}", str(tmp_path / "s=0")]
    assert main(["curve", *runs, "--output", str(output), *options]) == 0
    assert {"quick (2 runs)", "s=0", "minutes of training"} < labels(picture)
    drawn = lines_of(picture)
    for name in ("q0", "q1", "s=0"):
        shutil.rmtree(tmp_path / name)
    assert main(["curve", str(output), *options]) == 0
    assert lines_of(picture) == drawn
    make_run(tmp_path / "q0", 1)
    assert main(["curve", str(output), f"quick={tmp_path / 'q0'}", *options]) == 2
    assert f"the run {tmp_path / 'q0'} is given twice" in capsys.readouterr().err


def test_a_file_without_figures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.jsonl").write_text('{"iteration": 1}\n')
    assert main(["curve", str(tmp_path / "other.jsonl")]) == 2
    assert f"{tmp_path / 'other.jsonl'} is no alphac4-curve file" in capsys.readouterr().err


def test_seeds_become_a_mean_in_a_band_of_their_extremes() -> None:
    def point(folder: str, iteration: int, minutes: float, error: float) -> CurvePoint:
        return CurvePoint(
            iteration=iteration,
            minutes=minutes,
            evaluations=0,
            simulations=0,
            errors={},
            error=error,
            positions=1,
            run="",
            folder=folder,
        )

    points = [point("a", 2, 4, 0.1), point("a", 1, 1, 0.2), point("a", 3, 9, 0), point("b", 1, 3, 0.5)]
    found = band([*points, point("b", 2, 6, 0.3)], "minutes")
    assert (found.across, found.low, found.high) == ([2, 5], [20, 10], [50, 30])
    assert found.middle == pytest.approx([35, 20])


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([], "name at least one run's folder"),
        (["a", "b/a"], "the name a is given twice"),
        (["one=a,b"], "one: its runs have kept no network of the same iteration"),
        (["many=" + ",".join(f"missing-{n}" for n in range(40))], "missing-0: no networks of a run here"),
        (["."], "no networks of a run here"),
        (["a", "--every", "0"], "every must be at least 1"),
        (["a", "--picture", "curve.txt"], "curve.txt"),
    ],
)
def test_runs_that_cannot_be_told_apart_are_refused(
    runs: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        make_run(Path(name), 1)
    Path("b/checkpoints/000001.safetensors").rename("b/checkpoints/000007.safetensors")
    assert main(["curve", *runs]) == 2
    assert words in capsys.readouterr().err


def test_a_run_of_another_board_is_judged_on_its_own_positions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board, run, own = make_geometry(4, 5, 3), tmp_path / "run", tmp_path / "own.columns"
    network = PolicyValueNetwork(NetworkConfig(rows=4, columns=5, channels=4, blocks=0)).eval()
    make_run(run, 1)
    save_checkpoint(run / "checkpoints" / "000001.safetensors", Checkpoint(network=network, geometry=board))
    command = ["curve", str(run), "--simulations", "0,4", "--picture", str(tmp_path / "curve.png")]
    assert main(command) == 2
    assert "--positions takes files of another" in capsys.readouterr().err
    positions = [Position.from_moves(moves, board) for moves in ("3312", "1525", "4422")]
    own.write_text("".join(f"{format_line(position, Solver(board).analyze(position))}\n" for position in positions))
    assert main([*command, "--positions", str(own)]) == 0

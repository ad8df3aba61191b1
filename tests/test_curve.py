import json
import re
import shutil
from pathlib import Path

import pytest

from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.commands.curve import find_checkpoints
from alphac4.evaluation.curves import CurvePoint, band
from alphac4.evaluation.positions import format_line
from alphac4.game import Position
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.nn import NetworkConfig, PolicyValueNetwork
from alphac4.solver import Solver


def make_run(folder: Path, iterations: int) -> None:
    """A run's folder with tiny untrained networks and the reports that the curve reads."""
    for iteration in range(1, iterations + 1):
        network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=0)).eval()
        checkpoint = Checkpoint(network=network, geometry=STANDARD, provenance={"iteration": iteration})
        save_checkpoint(folder / "checkpoints" / f"{iteration:06d}.safetensors", checkpoint)
    reports = [
        {"iteration": i, "seconds_total": 60.0 * i, "evaluations_total": 1000 * i} for i in range(1, iterations + 1)
    ]
    (folder / "reports.jsonl").write_text("".join(json.dumps(report) + "\n" for report in reports))


def test_the_last_network_is_always_among_those_judged(tmp_path: Path) -> None:
    """Every second of five, counted from the last: 1, 3, 5."""
    make_run(tmp_path, 5)
    assert [path.stem for path in find_checkpoints(tmp_path, 2)] == ["000001", "000003", "000005"]


def test_a_curve_is_judged_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two networks with two budgets: four lines of figures at their minutes and evaluations, and a picture."""
    make_run(tmp_path / "run", 2)
    output, picture = tmp_path / "curve.jsonl", tmp_path / "curve.png"
    arguments = ["curve", str(tmp_path / "run"), "--simulations", "0,2", "--count", "5"]
    assert main([*arguments, "--output", str(output), "--picture", str(picture), "--backend", "torch-fp32"]) == 0
    points = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(p["iteration"], p["simulations"], p["minutes"]) for p in points] == [
        (1, 0, 1),
        (1, 2, 1),
        (2, 0, 2),
        (2, 2, 2),
    ]
    assert points[-1]["evaluations"] == 2000
    assert all(0 <= share <= 1 for p in points for share in p["errors"].values())
    assert picture.stat().st_size > 10_000
    assert "iteration 2, 2.0 min, 2 simulations" in capsys.readouterr().out


def test_several_runs_are_drawn_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each name; two seeds of one name are a line with a band; each figure says which run it is of."""
    for name, iterations in (("q0", 2), ("q1", 1), ("s=0", 1)):
        make_run(tmp_path / name, iterations)
    output, picture = tmp_path / "curve.jsonl", tmp_path / "curve.svg"
    runs = [f"quick={tmp_path / 'q0'},{tmp_path / 'q1'}", str(tmp_path / "s=0")]
    arguments = ["--simulations", "0", "--count", "5", "--output", str(output), "--picture", str(picture)]
    assert main(["curve", *runs, *arguments, "--backend", "torch-fp32"]) == 0
    points = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(Path(p["folder"]).name, p["run"], p["iteration"]) for p in points] == [
        ("q0", "quick", 1),
        ("q0", "quick", 2),
        ("q1", "quick", 1),
        ("s=0", "s=0", 1),
    ]
    shares = list(points[0]["errors"].values())
    assert points[0]["error"] == pytest.approx(sum(shares) / len(shares))  # the sets are of one size here
    assert f"{tmp_path / 'q1'}: iteration 1, 1.0 min" in capsys.readouterr().out
    drawn = picture.read_text()
    assert all(f"<!-- {label} -->" in drawn for label in ("quick (2 runs)", "s=0", "minutes of training"))


def test_figures_are_drawn_again_without_their_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of figures keeps its names, and joins a run judged now; figures of other positions are refused."""
    for name in ("q0", "q1", "s0"):
        make_run(tmp_path / name, 1)
    output, picture = tmp_path / "curve.jsonl", tmp_path / "curve.svg"
    runs = [f"quick={tmp_path / 'q0'},{tmp_path / 'q1'}", "--output", str(output)]
    options = ["--simulations", "0", "--count", "5", "--picture", str(picture), "--backend", "torch-fp32"]
    assert main(["curve", *runs, *options]) == 0
    first = picture.read_text()
    for name in ("q0", "q1"):
        shutil.rmtree(tmp_path / name)
    assert main(["curve", str(output), *options]) == 0
    assert re.findall(r'd="(M[^"]+)"', picture.read_text()) == re.findall(r'd="(M[^"]+)"', first)
    capsys.readouterr()
    assert main(["curve", f"new={output}", f"standard={tmp_path / 's0'}", *options]) == 0
    assert all(f"<!-- {label} -->" in picture.read_text() for label in ("new (2 runs)", "standard"))
    assert len(capsys.readouterr().out.splitlines()) == 1  # the one judged
    for name in ("q0", "q2"):
        make_run(tmp_path / name, 1)
    assert main(["curve", str(output), f"quick={tmp_path / 'q2'}", *options]) == 0
    assert "<!-- quick (3 runs) -->" in picture.read_text()
    assert main(["curve", str(output), f"quick={tmp_path / 'q0'}", *options]) == 2
    assert f"quick: the run {tmp_path / 'q0'} is there twice" in capsys.readouterr().err
    assert main(["curve", str(output), str(tmp_path / "s0"), *options, "--count", "6"]) == 2
    assert "figures of different positions" in capsys.readouterr().err


def test_an_interrupted_curve_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What the file holds is not judged again; a line that a full disk cut short is told, and judged again."""
    make_run(tmp_path / "run", 2)
    output, picture = tmp_path / "curve.jsonl", tmp_path / "curve.svg"
    command = ["curve", str(tmp_path / "run"), "--output", str(output), "--picture", str(picture)]
    command += ["--simulations", "0,2", "--backend", "torch-fp32"]
    assert main([*command, "--count", "5"]) == 0
    whole = output.read_text().splitlines()
    drawn = picture.read_text()
    output.write_text("\n".join(whole)[:-40])
    capsys.readouterr()
    assert main([*command, "--count", "5"]) == 0
    assert re.findall(r"iteration (\d), .* (\d) simulations", capsys.readouterr().out) == [("2", "2")]
    assert "line 4: not JSON" in caplog.text
    lines = output.read_text().splitlines()
    assert (lines[:3], lines[4:]) == (whole[:3], whole[3:])
    assert main([*command, "--count", "5"]) == 0
    assert output.read_text().splitlines() == lines
    assert re.findall(r'd="(M[^"]+)"', picture.read_text()) == re.findall(r'd="(M[^"]+)"', drawn)
    assert main(["curve", str(output), "--picture", str(picture)]) == 0
    capsys.readouterr()
    assert main([*command, "--count", "6"]) == 2
    assert "figures of different positions" in capsys.readouterr().err
    assert output.read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no figures of a run here"),
        ('{"iteration": 1}\n', "line 1: minutes is missing"),
        ("\n7\n", "line 2: CurvePoint must be an object, not 7"),
        ("nonsense\n", "line 1: not JSON"),
    ],
)
def test_a_file_without_figures_is_refused(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the file and where it is wrong."""
    path = tmp_path / "other.jsonl"
    path.write_text(text)
    assert main(["curve", str(path)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert str(path) in line
    assert words in line


def test_seeds_become_a_mean_in_a_band_of_their_extremes() -> None:
    """Worked by hand; an iteration that one of them lacks is left out."""

    def point(folder: str, iteration: int, minutes: float, error: float) -> CurvePoint:
        return CurvePoint(
            iteration=iteration, minutes=minutes, evaluations=0, simulations=0, errors={}, error=error, folder=folder
        )

    points = [point("a", 2, 4, 0.1), point("a", 1, 1, 0.2), point("a", 3, 9, 0), point("b", 1, 3, 0.5)]
    found = band([*points, point("b", 2, 6, 0.3)], lambda p: p.minutes)
    assert (found.across, found.low, found.high) == ([2, 5], [20, 10], [50, 30])
    assert found.middle == pytest.approx([35, 20])


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([], "name at least one run's folder"),
        (["=a"], "names no runs; write FOLDER, or NAME=FOLDER,FOLDER"),
        (["quick="], "names no runs"),
        (["a", "b/a"], "the name a is given twice"),
        (["one=a", "two=a"], "is given twice"),
        (["one=a,b"], "no network of the same iteration"),
    ],
)
def test_runs_that_cannot_be_told_apart_are_refused(
    runs: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is judged, in one line."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        make_run(Path(name), 1)
    Path("b/checkpoints/000001.safetensors").rename("b/checkpoints/000007.safetensors")
    assert main(["curve", *runs]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert words in line


def test_a_run_of_another_board_is_judged_on_its_own_positions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The packaged sets are of the standard board, and no judge of any other game, with or without a search."""
    board = make_geometry(4, 5, 3)
    checkpoint = Checkpoint(
        network=PolicyValueNetwork(NetworkConfig(rows=4, columns=5, channels=4, blocks=0)).eval(), geometry=board
    )
    run = tmp_path / "run"
    make_run(run, 1)
    save_checkpoint(run / "checkpoints" / "000001.safetensors", checkpoint)
    picture = ["--picture", str(tmp_path / "curve.png")]
    for simulations in ("0", "10"):
        assert main(["curve", str(run), "--simulations", simulations, *picture]) == 2
        assert "000001.safetensors: plays on another board" in capsys.readouterr().err
    positions = tmp_path / "own.columns"
    positions.write_text(
        "\n".join(
            format_line(p, Solver(board).analyze(p))
            for p in (Position.from_moves(moves, board) for moves in ("3312", "1525", "4422"))
        )
        + "\n"
    )
    assert main(["curve", str(run), "--simulations", "0,4", "--positions", str(positions), *picture]) == 0
    assert "own" in capsys.readouterr().out


def test_a_folder_without_a_run_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2; also for a picture of an unknown kind."""
    assert main(["curve", str(tmp_path)]) == 2
    assert "no reports of a run here" in capsys.readouterr().err
    make_run(tmp_path, 1)
    assert main(["curve", str(tmp_path), "--picture", "curve.txt"]) == 2
    assert main(["curve", str(tmp_path), "--every", "0"]) == 2

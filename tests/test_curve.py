import json
from pathlib import Path

import pytest

from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.commands.curve import find_checkpoints
from alphac4.game.rules import STANDARD
from alphac4.nn import NetworkConfig, PolicyValueNetwork


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


def test_a_folder_without_a_run_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2; also for a picture of an unknown kind."""
    assert main(["curve", str(tmp_path)]) == 2
    assert "no reports of a run here" in capsys.readouterr().err
    make_run(tmp_path, 1)
    assert main(["curve", str(tmp_path), "--picture", "curve.txt"]) == 2
    assert main(["curve", str(tmp_path), "--every", "0"]) == 2

"""The scripts behind docs/speedrun.md, docs/gpu.md and the choice of settings."""

import dataclasses
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import alphac4
from alphac4.evaluation.positions import packaged_positions
from alphac4.game import Position
from alphac4.solver import Solver
from alphac4.training.config import PRESETS

ROOT = Path(__file__).parents[2]
# The networks of a run: a run's seconds, the best network then, and its mistakes in the three sets of the target, which
# have 1,000 positions each. In floating point, 100 * (70 / 1000) is more than 7.
RUN = [
    (10.0, 0, None),  # the untrained network is not measured
    (20.0, 2, (70, 21, 20)),
    (30.0, 2, None),  # the same network again
    (40.0, 4, (70, 20, 20)),
    (50.0, 5, (10, 10, 10)),
]


@pytest.fixture
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "speedrun.py"))


@pytest.mark.parametrize(("iterations", "seconds"), [(3, None), (5, 40.0)])
def test_the_clock_stops_at_the_first_network_that_reaches_the_target_in_every_set(
    script: dict[str, Any], iterations: int, seconds: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RUN[:iterations]
    mistakes = {f"{best:06d}": [count / 1000 for count in counts] for _, best, counts in run if counts}
    work = {"samples_total": 6, "evaluations_total": 7, "time_shares": {"self-play": 0.75, "learning": 0.25}}
    reports = [
        SimpleNamespace(iteration=number, best_iteration=best, seconds_total=total, **work)
        for number, (total, best, _) in enumerate(run, start=1)
    ]
    measure = script["measure"]
    judge = Mock(mistakes=lambda path: dict(zip(script["TARGET"], mistakes[path.stem], strict=True)), simulations=8)
    measure.__globals__["train"] = Mock(return_value=reports)
    config = dataclasses.replace(PRESETS["quick"], seed=3)
    assert measure(tmp_path / "new", config, judge) == seconds
    measure.__globals__["train"].assert_called_once_with(tmp_path / "new", config)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(mistakes) + 2
    assert lines[0] == "seed 3, iteration 2, 20.0 s: begin-hard 7.0 %, begin-medium 2.1 %, middle-medium 2.0 %"
    later = run[-1][0] - 10
    assert lines[-2].endswith(f"self-play {0.75 * later:.1f} s, learning {0.25 * later:.1f} s")
    reached = "never" if seconds is None else "after 40.0 s"
    target = "begin-hard 7.0 %, begin-medium 2.0 %, middle-medium 2.0 %"
    assert lines[-1] == f"seed 3: target ({target}) at 8 simulations reached {reached}"


def test_mistakes_are_those_of_an_evaluation(script: dict[str, Any]) -> None:
    judge = script["Judge"](packaged_positions(20), 8, PRESETS["quick"])
    report = alphac4.evaluate("quick", simulations=(8,), count=20)
    expected = {name: metrics.mistakes.value for name, metrics in report.subjects[0].budgets[0].sets.items()}
    del expected["all"]
    assert judge.mistakes(Path("quick")) == expected


SETS = Path(alphac4.__file__).parent / "evaluation" / "sets"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--positions", "missing.columns"], "No such file or directory: 'missing.columns'"),
        (["--seeds", "0", "-1"], "seed must be at least 0, not -1"),
        (["--settings", '{"iteration": 1}'], "unknown entry 'iteration'"),
    ],
)
def test_wrong_options_are_rejected_before_training(
    words: list[object],
    message: str,
    script: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["speedrun.py", "quick", *map(str, words)])
    script["main"].__globals__["train"] = Mock(side_effect=AssertionError)
    with pytest.raises(SystemExit, match="2"):
        script["main"]()
    assert message in capsys.readouterr().err


def test_the_last_half_of_a_set_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (SETS / "begin-hard.columns").read_text().splitlines(keepends=True)[:41]
    part = tmp_path / "half.columns"
    part.write_text("".join(lines[20:]))
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "begin-hard.columns").write_text("".join(lines))
    words = ["quick", "--sets", tmp_path / "whole", "--half", "last", "--simulations", 0]
    monkeypatch.setattr(sys, "argv", ["measure.py", *map(str, words)])
    runpy.run_path(str(ROOT / "experiments" / "measure.py"), run_name="__main__")
    expected = alphac4.evaluate("quick", simulations=(0,), positions=[part]).subjects[0].budgets[0].sets["all"]
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:2] == ["quick", "0"]
    assert row[2] == f"{100 * expected.mistakes.value:.1f}"
    assert row[-1] == f"{100 * expected.mistakes_in_decisive.value:.2f}"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_gpu_report_repeats_failed_steps(tmp_path: Path) -> None:
    python = tmp_path / "python"  # fails in the step that names peers.py
    python.write_text('#!/bin/sh\necho ran; case "$*" in *peers.py*) exit 1;; esac\n')
    python.chmod(0o755)
    for expected in (["tests", "quick", "speed", "peers", "best"], ["peers"]):
        command = [ROOT / "scripts" / "gpu_report.sh", tmp_path / "report"]
        done = subprocess.run(
            command, env={"PATH": "/usr/bin:/bin", "PYTHON": str(python)}, capture_output=True, text=True
        )
        assert done.returncode == 1
        started = [line.partition(":")[0] for line in done.stdout.splitlines() if "at most" in line]
        assert started == expected
        assert done.stdout.endswith("unfinished, for the next call: peers\n")


def test_share_of_best_defences_is_that_of_all_games() -> None:
    """The levels of merged positions give the probability that a recursion over single games gives."""
    script = runpy.run_path(str(ROOT / "experiments" / "keeping_the_win.py"))
    player, solver, opening = alphac4.load("quick@0").player, Solver(), "4444413666633161154113"

    def kept(position: Position) -> float:
        after = position.play(player.choose([position])[0])
        if after.outcome() is not None:
            return 1.0
        if (best := max(score for score in solver.analyze(after) if score is not None)) >= 0:
            return 0.0
        replies = [column for column, score in enumerate(solver.analyze(after)) if score == best]
        return sum(kept(after.play(column)) for column in replies) / len(replies)

    tree = script["walk"](player, script["ExactScores"](None), opening, 100)
    assert 0 < tree.kept < 1
    assert tree.kept == pytest.approx(kept(Position.from_moves(opening)))
    assert 1 - tree.kept == pytest.approx(sum(mistake.share for mistake in tree.mistakes))

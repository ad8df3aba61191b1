"""The measurement behind docs/speedrun.md."""

import argparse
import dataclasses
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import alphac4
from alphac4.evaluation.positions import packaged_positions
from alphac4.training.config import PRESETS

SCRIPT = Path(__file__).parents[1] / "scripts" / "speedrun.py"
# The networks of a run: a run's seconds, the best network then, and its mistakes in the three sets of the target.
RUN = [
    (10.0, 0, None),  # the untrained network is not measured
    (20.0, 2, (7.0, 2.1, 2.0)),
    (30.0, 2, None),  # the same network again
    (40.0, 4, (7.0, 2.0, 2.0)),
    (50.0, 5, (1.0, 1.0, 1.0)),
]


@pytest.fixture
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize(("iterations", "seconds"), [(3, None), (5, 40.0)])
def test_the_clock_stops_at_the_first_network_that_reaches_the_target_in_every_set(
    script: dict[str, Any], iterations: int, seconds: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RUN[:iterations]
    mistakes = {f"{best:06d}": shares for _, best, shares in run if shares}
    work = {"samples_total": 6, "evaluations_total": 7, "time_shares": {"self-play": 0.75, "learning": 0.25}}
    reports = [
        SimpleNamespace(iteration=number, best_iteration=best, seconds_total=total, **work)
        for number, (total, best, _) in enumerate(run, start=1)
    ]
    measure = script["measure"]
    judge = Mock(mistakes=lambda path: dict(zip(script["TARGET"], mistakes[path.stem], strict=True)))
    measure.__globals__.update({"train": Mock(return_value=reports), "Judge": Mock(return_value=judge)})
    options = argparse.Namespace(folder=tmp_path, preset="quick", simulations=8)
    assert measure(PRESETS["quick"], 3, [], options) == seconds
    (folder, config), _ = measure.__globals__["train"].call_args
    assert (folder, config) == (tmp_path / "quick-3", dataclasses.replace(PRESETS["quick"], seed=3))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(mistakes) + 2
    assert lines[0] == "seed 3, iteration 2, 20.0 s: begin-hard 7.0 %, begin-medium 2.1 %, middle-medium 2.0 %"
    later = run[-1][0] - 10
    assert lines[-2].endswith(f"self-play {0.75 * later:.1f} s, learning {0.25 * later:.1f} s")
    assert lines[-1].endswith("never" if seconds is None else "after 40.0 s")


def test_mistakes_are_those_of_an_evaluation(script: dict[str, Any]) -> None:
    judge = script["Judge"](packaged_positions(20), 8, PRESETS["quick"])
    report = alphac4.evaluate("quick", simulations=(8,), count=20)
    expected = {name: 100 * metrics.mistakes.value for name, metrics in report.subjects[0].budgets[0].sets.items()}
    del expected["all"]
    assert judge.mistakes(Path("quick")) == pytest.approx(expected)


def test_a_set_of_the_target_must_not_be_missing(
    script: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = Path(alphac4.__file__).parent / "evaluation" / "sets"
    words = ["quick", "--positions", sets / "begin-hard.columns", sets / "middle-easy.columns"]
    monkeypatch.setattr(sys, "argv", ["speedrun.py", *map(str, words)])
    with pytest.raises(SystemExit):
        script["main"]()
    assert "--positions lacks begin-medium, middle-medium: " in capsys.readouterr().err

"""A run whose networks are judged against exact play."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from campaigns.tiny_run import SETTINGS, outcome, tiny_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alphac4.runs.folder import RunFolder
from alphac4.runs.reports import IterationReport, read_reports
from alphac4.runs.session import TrainingSession
from alphac4.runs.state import STATE_FILE, load_state
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.training.config import TrainConfig

BASELINE = {"interval": 2, "simulations": [20], "pairs": 2}


def judged_run(interval: int = 1) -> TrainConfig:
    gate = SETTINGS["gate"] | {"pairs": 3, "simulations": 4}
    return tiny_run(iterations=2, gate=gate, baseline=BASELINE, evaluation={"interval": interval})


@pytest.fixture(scope="module", autouse=True)
def _few_positions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphac4.runs.judge.POSITIONS_PER_SET", 6)
        patch.setattr("alphac4.runs.judge.SIMULATIONS", 4)
        patch.setattr("alphac4.training.matches.BASELINE_MATCH_SIMULATIONS", 4)
        patch.setattr("alphac4.runs.session.CLOSING_PAIRS", 3)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run with evaluations on six positions per set, and play its closing matches."""
    path = tmp_path_factory.mktemp("judged")
    with TrainingSession(RunFolder(path, judged_run())) as session:
        session.train()
        session.play_closing_matches()
    return path


def reports(folder: Path) -> list[IterationReport]:
    return read_reports(folder / "reports.jsonl")


def test_run_writes_reports_checkpoints_and_curves(folder: Path) -> None:
    first, report = reports(folder)
    assert report.samples_total >= 100
    assert first.selfplay.games + report.selfplay.games == report.games_total
    assert sum(report.time_shares.values()) == pytest.approx(1.0, abs=0.02)
    assert len(set(report.gate.games)) > 3
    assert [(match.opponent, len(match.games)) for match in report.matches] == [("uct:20", 2 * BASELINE["pairs"])]
    best = load_checkpoint(folder / "checkpoints" / "best.safetensors")
    assert best.provenance["iteration"] == report.best_iteration
    assert best.strength["uct:20"]["games"] == 6  # of the closing match
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"images": 0, "scalars": 0})
    events.Reload()
    assert {"games/openings", "value/calibration"} < set(events.Tags()["images"])
    assert [image.step for image in events.Images("games/openings")] == [1, 2]  # always including the last iteration
    tags = events.Tags()["scalars"] + events.Tags()["images"]
    groups = sorted({tag.partition("/")[0] for tag in tags})  # TensorBoard's order
    first_cards = {tag for tag in tags if tag.startswith(f"{groups[0]}/")}
    assert first_cards > {"Mistakes/raw", "Mistakes/with search", "Mistakes/by set"}
    assert groups[1] == "Strength"
    (point,) = events.Scalars("Strength/closing match against uct:20")
    assert (point.step, point.value) == (2, pytest.approx(best.strength["uct:20"]["score"]))


def test_run_is_finished_after_the_closing_matches_of_its_settings(folder: Path) -> None:
    state, config = load_state(folder / STATE_FILE), judged_run()
    assert state.closing_matches is not None
    assert [match.opponent for match in state.closing_matches] == ["uct:20"]
    assert state.is_finished(config)
    assert not state.is_finished(dataclasses.replace(config, iterations=3))
    more = dataclasses.replace(config.baseline, simulations=(20, 50))
    assert not state.is_finished(dataclasses.replace(config, baseline=more))
    other = dataclasses.replace(config.baseline, simulations=(50,))
    assert not state.is_finished(dataclasses.replace(config, baseline=other))
    assert not dataclasses.replace(state, closing_matches=None).is_finished(config)


@pytest.mark.usefixtures("no_pictures")
def test_time_of_matches_and_evaluation_and_warnings_of_the_history(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here matches take a second, and an evaluation, in every second iteration, none."""
    verdict, lengths = reports(folder)[0].evaluation, list[int]()

    def warn(_report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
        lengths.append(len(history))
        return [f"warning {len(history)}"]

    monkeypatch.setattr("alphac4.runs.session.measure_network", lambda *_arguments: verdict)
    monkeypatch.setattr("alphac4.runs.session.find_warnings", warn)
    with TrainingSession(RunFolder(tmp_path, judged_run(interval=2))) as session:
        monkeypatch.setattr(session.loop.matches, "against_classic", lambda *_arguments: time.sleep(1.0) or [])
        session.train()
    first, second = reports(tmp_path)
    assert (first.evaluation, second.evaluation) == (None, verdict)
    seconds = second.seconds_total - first.seconds_total
    assert second.time_shares["matches"] * seconds >= 0.95 > second.time_shares["evaluation"] * seconds
    assert lengths == [0, 1]
    assert [report.warnings for report in (first, second)] == [["warning 0"], ["warning 1"]]


def test_reported_mistakes_equal_those_of_the_evaluate_command(folder: Path, run_command: Callable[..., str]) -> None:
    best = folder / "checkpoints" / "best.safetensors"
    printed = run_command(f"evaluate {best} --count 6 --simulations 0,4 --backend torch-fp32 --json")
    budgets = json.loads(printed)["subjects"][0]["budgets"]
    evaluation = reports(folder)[-1].evaluation
    assert evaluation is not None
    assert (evaluation.positions, evaluation.simulations) == (36, 4)
    for figures, budget in zip((evaluation.raw, evaluation.search), budgets, strict=True):
        share = budget["sets"]["all"]["mistakes"]
        assert (figures.mistake_rate, figures.ci_low, figures.ci_high) == (share["value"], share["low"], share["high"])
        assert figures.value_error == pytest.approx(budget["sets"]["all"]["value"]["absolute_error"]["value"], abs=1e-6)
        for name, error in figures.mistake_rate_by_set.items():
            assert error == budget["sets"][name]["mistakes"]["value"]


@pytest.mark.usefixtures("no_pictures")
def test_evaluation_does_not_change_what_is_learned(folder: Path, tmp_path: Path) -> None:
    with TrainingSession(RunFolder(tmp_path, judged_run(interval=0))) as session:
        session.train()
    judged, other = outcome(folder), outcome(tmp_path)
    for report in (*judged["reports"], *other["reports"]):
        del report["evaluation"], report["warnings"]
    assert judged == other  # bit for bit
    assert [report.evaluation for report in reports(tmp_path)] == [None, None]

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from campaigns.tiny_run import SETTINGS, outcome, tiny_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alphac4.arena.ratings import score_interval
from alphac4.runs.reports import (
    HEADINGS,
    EvaluationReport,
    ExactPlayMetrics,
    IterationReport,
    TrainedRun,
    find_warnings,
    read_reports,
)
from alphac4.runs.session import TrainingSession
from alphac4.runs.state import STATE_FILE, load_state
from alphac4.runs.tensorboard import scalars
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.training.config import TrainConfig

GATE = SETTINGS["gate"] | {"pairs": 3, "simulations": 4}
BASELINE = {"interval": 2, "rollouts": [20], "pairs": 2}


def judged_run(interval: int = 1) -> TrainConfig:
    return tiny_run(iterations=2, gate=GATE, baseline=BASELINE, evaluation={"interval": interval})


@pytest.fixture(scope="module", autouse=True)
def _few_positions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphac4.runs.judge.POSITIONS_PER_SET", 6)
        patch.setattr("alphac4.runs.judge.SIMULATIONS", 4)
        patch.setattr("alphac4.training.matches.BASELINE_MATCH_SIMULATIONS", 4)
        patch.setattr("alphac4.runs.session.CLOSING_PAIRS", 2)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run with evaluations on six positions per set, and play its closing matches."""
    path = tmp_path_factory.mktemp("judged")
    with TrainingSession(path, judged_run()) as session:
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
    assert report.matches[0].opponent == "uct:20"
    best = load_checkpoint(folder / "checkpoints" / "best.safetensors")
    assert best.provenance["iteration"] == report.best_iteration
    assert best.strength["uct:20"]["games"] == 4
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"images": 0, "scalars": 0})
    events.Reload()
    for tag, value in scalars([first, report]).items():
        assert events.Scalars(tag)[-1].value == pytest.approx(value, rel=1e-5, abs=1e-6), tag
    assert {"games/openings", "value/calibration"} < set(events.Tags()["images"])
    assert [image.step for image in events.Images("games/openings")] == [1, 2]  # always including the last iteration
    tags = events.Tags()["scalars"] + events.Tags()["images"]
    groups = sorted({tag.partition("/")[0] for tag in tags})  # TensorBoard's order
    first_cards = {tag for tag in tags if tag.startswith(f"{groups[0]}/")}
    assert first_cards == {"Mistakes/raw", "Mistakes/with search", "Mistakes/by set"}
    assert groups[1] == "Strength"
    (point,) = events.Scalars("Strength/closing match against uct:20")
    assert (point.step, point.value) == (2, pytest.approx(best.strength["uct:20"]["score"]))


def test_iteration_row_is_aligned_with_the_headings(folder: Path) -> None:
    report = reports(folder)[-1]
    row, judged, (match,) = report.row(report.iteration), report.evaluation, report.matches
    assert judged is not None
    cells = [
        f"{judged.raw.mistake_rate:.1%}",
        f"{judged.search.mistake_rate:.1%}",
        f"{report.gate.score:.0%}",
        f"{match.score:.0%}",
    ]
    assert row.split()[2:6] == cells
    assert row.endswith("pass") == bool(report.gate.accepted)
    assert row.index(cells[0]) + len(cells[0]) == HEADINGS.index("raw") - HEADINGS.index("\n") - 1 + len("raw")
    assert report.row(10**6).startswith(row)
    minute = dataclasses.replace(report, seconds_total=60.0 * report.iteration)
    assert [minute.row(report.iteration + more).split()[-2:] for more in (1, 12)] == [["1", "min"], ["12", "min"]]
    slow = dataclasses.replace(report, iteration=1, seconds_total=600.0)  # the first iteration compiles
    later = dataclasses.replace(report, iteration=3, seconds_total=720.0)
    assert later.row(13, slow).split()[-2:] == ["10", "min"]
    shorter = dataclasses.replace(report, seconds_total=10.0 * report.iteration).row(report.iteration + 2)
    assert shorter.endswith("< 1 min")
    assert len(shorter) == len(HEADINGS.splitlines()[1]) < 80, "rows are as wide as the headings, which fit terminals"


def test_closing_text_names_the_iteration_of_an_earlier_evaluation(folder: Path) -> None:
    first, last = reports(folder)
    texts = [
        str(TrainedRun(folder=folder, best=folder, config=judged_run(), history=[first, second], closing=[]))
        for second in (
            dataclasses.replace(last, evaluation=None, best_iteration=first.best_iteration),
            dataclasses.replace(last, evaluation=None, best_iteration=first.best_iteration + 1),
        )
    ]
    closing = TrainedRun(folder=folder, best=folder, config=judged_run(), history=[first], closing=[])
    assert str(closing).startswith("Trained 1 iteration in ")
    assert texts[0].startswith("Trained 2 iterations in ")
    assert [text.splitlines()[1].partition(":")[0] for text in texts] == [
        "Mistakes by the exact solver",
        "Mistakes by the exact solver after iteration 1",
    ]


def test_run_is_finished_after_the_closing_matches_of_its_settings(folder: Path) -> None:
    state, config = load_state(folder / STATE_FILE), judged_run()
    assert state.closing is not None
    assert [match.opponent for match in state.closing] == ["uct:20"]
    assert state.is_finished(config)
    assert not state.is_finished(dataclasses.replace(config, iterations=3))
    more = dataclasses.replace(config.baseline, rollouts=(20, 50))
    assert not state.is_finished(dataclasses.replace(config, baseline=more))
    assert not dataclasses.replace(state, closing=None).is_finished(config)


def test_reported_mistakes_equal_those_of_the_evaluate_command(folder: Path, run_command: Callable[..., str]) -> None:
    best = folder / "checkpoints" / "best.safetensors"
    printed = run_command(f"evaluate {best} --count 6 --simulations 0,4 --backend torch-fp32 --json")
    budgets = json.loads(printed)["subjects"][0]["budgets"]
    evaluation = reports(folder)[-1].evaluation
    assert evaluation is not None
    assert (evaluation.positions, evaluation.simulations) == (36, 4)
    for figures, budget in zip((evaluation.raw, evaluation.search), budgets, strict=True):
        assert figures.mistake_rate == budget["sets"]["all"]["mistakes"]["value"]
        assert figures.value_error == pytest.approx(budget["sets"]["all"]["value"]["absolute_error"]["value"], abs=1e-6)
        for name, error in figures.mistakes_by_set.items():
            assert error == budget["sets"][name]["mistakes"]["value"]


@pytest.mark.usefixtures("no_pictures")
def test_evaluation_does_not_change_what_is_learned(folder: Path, tmp_path: Path) -> None:
    with TrainingSession(tmp_path, judged_run(interval=0)) as session:
        session.train()
    judged, other = outcome(folder), outcome(tmp_path)
    for report in (*judged["reports"], *other["reports"]):
        del report["evaluation"], report["warnings"]
    assert judged == other  # bit for bit
    assert [report.evaluation for report in reports(tmp_path)] == [None, None]


def judged(error: float, iteration: int, like: IterationReport) -> IterationReport:
    """Return a report with the share ``error`` of mistakes in 240 positions, raw and with search."""
    half = 1.96 * (error * (1 - error) / 240) ** 0.5
    figures = ExactPlayMetrics(
        mistakes_by_set={}, mistake_rate=error, ci_low=error - half, ci_high=error + half, value_error=0.5
    )
    evaluation = EvaluationReport(positions=240, simulations=64, raw=figures, search=figures)
    return dataclasses.replace(like, iteration=iteration, evaluation=evaluation)


def test_rise_of_mistakes_is_a_warning_if_the_gate_promotes(folder: Path) -> None:
    like = reports(folder)[-1]
    passed, refused = (dataclasses.replace(like.gate, accepted=accepted) for accepted in (True, False))
    history = [judged(0.3, 1, like), judged(0.05, 2, like), judged(0.1, 3, like)]
    warnings = find_warnings(dataclasses.replace(judged(0.2, 4, like), gate=passed), history)
    messages = [warning for warning in warnings if "the promoted network makes more mistakes" in warning]
    assert "raw, in 20.0% of the positions, up from 5.0% after iteration 2" in messages[0]
    for gate, error in ((passed, 0.08), (refused, 0.2)):
        quiet = find_warnings(dataclasses.replace(judged(error, 4, like), gate=gate), history)
        assert not [warning for warning in quiet if "the promoted network makes more mistakes" in warning]


def test_a_lost_gate_is_a_warning_if_it_has_enough_games(folder: Path) -> None:
    like = reports(folder)[-1]
    gate = dataclasses.replace(like.gate, wins=1, draws=0, losses=3)
    for high, count in ((0.6, 0), (0.4, 1)):
        found = find_warnings(dataclasses.replace(like, gate=dataclasses.replace(gate, high=high)), [])
        assert len([warning for warning in found if "it has become worse" in warning]) == count


def after_match(like: IterationReport, points: npt.NDArray[np.int_]) -> IterationReport:
    """Return a report with a match against classic MCTS; ``points`` [pairs] are those of its pairs of games."""
    interval, wins = score_interval(points.tolist()), int(points.sum())
    match = dataclasses.replace(like.gate, opponent="uct:1000", wins=wins, draws=0, losses=2 * len(points) - wins)
    return dataclasses.replace(like, matches=[dataclasses.replace(match, low=interval.low, high=interval.high)])


def falls(run: list[IterationReport]) -> list[str]:
    return [line for index, now in enumerate(run) for line in find_warnings(now, run[:index]) if "fell" in line]


def test_falling_score_against_classic_mcts_is_a_warning(folder: Path) -> None:
    like = reports(folder)[-1]
    good, lucky, bad = (after_match(like, np.repeat([2, 0], [won, 10 - won])) for won in (8, 9, 2))
    none = dataclasses.replace(like, matches=[])
    assert falls([lucky, good, bad, none, good]) == ["score against uct:1000 fell to 0.20, from 0.90 at its highest"]


def test_constant_score_against_classic_mcts_is_rarely_a_warning(folder: Path, rng: np.random.Generator) -> None:
    """The highest of several equal scores is biased upwards: warnings of any drop by 0.2 would fail 13 of 100 runs."""
    like = dataclasses.replace(reports(folder)[-1], evaluation=None)
    runs = [[after_match(like, points) for points in rng.binomial(2, 0.5, (4, 20))] for _ in range(100)]
    assert sum(bool(falls(run)) for run in runs) <= 5


def test_skipped_steps_are_a_warning(folder: Path) -> None:
    like = reports(folder)[-1]
    learning = dataclasses.replace(like.learning, steps=3, skipped_steps=1)
    warnings = find_warnings(dataclasses.replace(like, learning=learning), [])
    assert "1 of 3 gradient steps were skipped" in warnings[0]
    assert not [warning for warning in find_warnings(like, []) if "skipped" in warning]


def iterations(like: IterationReport, **changes: list[Any]) -> list[IterationReport]:
    """Return iterations of a run that improves, except for ``changes``."""
    figures = {"entropy": falling(1.2, 0.9), "loss": falling(1.5, 1.1), "error": falling(0.2, 0.05)} | changes
    quiet = dataclasses.replace(
        like,
        matches=[],
        evaluation=None,
        selfplay=dataclasses.replace(like.selfplay, openings={}),
        gate=dataclasses.replace(like.gate, wins=6, draws=0, losses=4, accepted=False),
    )
    return [
        dataclasses.replace(
            quiet if error is None else judged(error, number, quiet),
            selfplay=dataclasses.replace(quiet.selfplay, policy_entropy=entropy),
            learning=dataclasses.replace(quiet.learning, losses={"policy": loss}),
        )
        for number, (entropy, loss, error) in enumerate(zip(*figures.values(), strict=True), start=1)
    ]


def falling(start: float, end: float) -> list[float]:
    return np.linspace(start, end, 36).tolist()


def warnings_of(run: list[IterationReport]) -> list[str]:
    """Return all warnings of a run, except those of missing promotions."""
    lines = [line for index, report in enumerate(run) for line in find_warnings(report, run[:index])]
    return [line for line in lines if "promoted" not in line]


@pytest.mark.parametrize(
    ("name", "figures", "message"),
    [("entropy", falling(1.2, 0.4), "entropy of policy targets"), ("error", [0.1] * 36, "overfits")],
)
def test_each_sign_of_stalling_is_reported_once(folder: Path, name: str, figures: list[float], message: str) -> None:
    (line,) = warnings_of(iterations(reports(folder)[-1], **{name: figures}))
    assert message in line


def test_healthy_run_has_no_warnings(folder: Path) -> None:
    like = reports(folder)[-1]
    assert not warnings_of(iterations(like))
    assert not warnings_of(iterations(like, error=[None] * 36))  # without evaluations

import dataclasses
import json
import logging
import re
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alphac4 import cli
from alphac4.checkpoint import load_checkpoint
from alphac4.evaluation.positions import SETS
from alphac4.game.rules import STANDARD
from alphac4.training.config import TrainConfig, from_dict
from alphac4.training.figures import errors_figure
from alphac4.training.loop import TrainingLoop
from alphac4.training.monitor import LAYOUT, Monitor, scalars
from alphac4.training.progress import find_warnings
from alphac4.training.reports import EvaluationReport, ExactPlayFigures, IterationReport, read_reports, summarise

REAL_RUN = Path(__file__).resolve().parents[1] / "docs" / "notebooks" / "quick-reports.jsonl"
TINY = {
    "iterations": 2,
    "samples": 300,
    "backend": "torch-fp32",
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"games": 16, "full_simulations": 8, "fast_simulations": 4},
    "learning": {"batch_size": 64},
    "gate": {"pairs": 1, "simulations": 2, "classic_every": 0},
}


def tiny(**evaluation: int) -> TrainConfig:
    """A run of seconds."""
    return from_dict(TINY | {"evaluation": evaluation})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run judged at every iteration on six positions."""
    path = tmp_path_factory.mktemp("judged")
    TrainingLoop.open(path, tiny(positions=6, simulations=4)).run()
    return path


def reports(folder: Path) -> list[IterationReport]:
    """What the run wrote."""
    return [IterationReport.from_json(line) for line in (folder / "reports.jsonl").read_text().splitlines()]


def judged(error: float, iteration: int, like: IterationReport) -> IterationReport:
    """A report whose network erred in that share of 240 positions, raw and with search."""
    half = 1.96 * (error * (1 - error) / 240) ** 0.5
    figures = ExactPlayFigures(errors={}, error=error, low=error - half, high=error + half, value_error=0.5)
    evaluation = EvaluationReport(positions=240, simulations=64, raw=figures, search=figures)
    return dataclasses.replace(like, iteration=iteration, evaluation=evaluation)


def test_reports_say_what_the_command_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last report's errors and value errors are those of `alphac4 evaluate` for the best network."""
    arguments = [str(folder / "checkpoints" / "best.safetensors"), "--count", "6", "--simulations", "0,4"]
    assert cli.main(["evaluate", *arguments, "--backend", "torch-fp32", "--json", "-"]) == 0
    budgets = json.loads(capsys.readouterr().out)["subjects"][0]["budgets"]
    evaluation = reports(folder)[-1].evaluation
    assert evaluation is not None
    assert (evaluation.positions, evaluation.simulations) == (36, 4)
    for figures, budget in zip((evaluation.raw, evaluation.search), budgets, strict=True):
        assert figures.error == budget["sets"]["all"]["moves"]["error"]["value"]
        assert figures.value_error == pytest.approx(budget["sets"]["all"]["value"]["absolute"]["value"], abs=1e-6)
        for name, error in figures.errors.items():
            assert error == budget["sets"][name]["moves"]["error"]["value"]


@pytest.mark.slow
def test_the_judge_changes_nothing_that_is_learned(folder: Path, tmp_path: Path) -> None:
    """A run that is never judged ends with the same weights, bit for bit, and the same promotions."""
    TrainingLoop.open(tmp_path, tiny(every=0)).run()
    for iteration in (1, 2):
        name = f"checkpoints/{iteration:06d}.safetensors"
        with_judge, without = (load_checkpoint(path / name).network.state_dict() for path in (folder, tmp_path))
        assert all(torch.equal(with_judge[key], without[key]) for key in without)
    gates = [[report.gate.accepted for report in reports(path) if report.gate] for path in (folder, tmp_path)]
    assert gates[0] == gates[1]
    assert [report.evaluation for report in reports(tmp_path)] == [None, None]


def test_curves_and_the_line_show_the_errors(folder: Path) -> None:
    """Every set has its curves, the charts of the custom page one or two each; the line has both."""
    report = reports(folder)[-1]
    curves = [tag for tag in scalars(report) if "error" in tag and tag.startswith("strength/")]
    assert len(curves) == 2 * 7 + 2
    patterns = [pattern for chart in LAYOUT["Is it getting stronger?"].values() for pattern in chart[1]]
    for kind in ("move error raw", "move error search", "value error"):
        found = [{tag for tag in curves if re.search(pattern, tag)} for pattern in patterns]
        assert any(tags and all(kind in tag for tag in tags) for tags in found)
        assert all(len(tags) <= 2 for tags in found)  # which TensorBoard draws in one colour
    assert report.evaluation is not None
    assert f"errs {report.evaluation.raw.error:.1%} raw, {report.evaluation.search.error:.1%} at 4" in summarise(report)


def test_the_picture_of_the_errors_has_a_colour_for_each_set() -> None:
    """Six sets and all together, raw and with search; a real run's reports."""
    history = read_reports(REAL_RUN)
    raw, search = errors_figure(history).axes
    for axes, which in ((raw, "raw"), (search, "search")):
        lines = {line.get_label(): line for line in axes.get_lines()}
        assert set(lines) == {"all", *SETS}
        assert len({line.get_color() for line in lines.values()}) == 7
        hard = [100 * getattr(report.evaluation, which).errors["begin-hard"] for report in history]
        assert list(lines["begin-hard"].get_ydata()) == pytest.approx(hard)


def test_the_closing_matches_are_in_tensorboard(tmp_path: Path) -> None:
    """As a point at the run's last iteration, and in words."""
    history = read_reports(REAL_RUN)
    (match,) = history[-1].matches
    with Monitor(tmp_path, {}, STANDARD, history) as monitor:
        monitor.record_closing([match], 36)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (point,) = events.Scalars("strength/closing match against uct:1000")
    assert (point.step, point.value) == (36, pytest.approx(0.825))
    (said,) = events.Tensors("closing matches/text_summary")
    assert b"82.5% of the points [70.2%, 94.8%] in 40 colour-swapped games" in said.tensor_proto.string_val[0]


def test_a_run_goes_on_with_another_judge(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Like the gate's settings, the judge's may change between sessions; reports from before it existed are read."""
    line = json.loads(reports(folder)[0].to_json())
    del line["evaluation"], line["checksum"]
    assert IterationReport.from_json(json.dumps(line)).evaluation is None
    with caplog.at_level(logging.INFO):
        history = TrainingLoop.open(folder, from_dict(TINY | {"evaluation": {"every": 0}})).run()
    assert [report.iteration for report in history] == [1, 2]


def test_a_clear_rise_of_errors_is_warned_of_while_the_gate_passes(folder: Path) -> None:
    """5 % to 20 % of 240 positions is clear, 5 % to 8 % is not; a candidate that the gate refused changes nothing."""
    like = reports(folder)[-1]
    assert like.gate is not None
    passed, refused = (dataclasses.replace(like.gate, accepted=accepted) for accepted in (True, False))
    history = [judged(0.3, 1, like), judged(0.05, 2, like), judged(0.1, 3, like)]
    found = find_warnings(like.selfplay, passed, history, (), judged(0.2, 4, like).evaluation)
    messages = [warning for warning in found if "exact play" in warning]
    assert len(messages) == 2
    assert "raw in 20.0% of the positions, up from 5.0% after iteration 2" in messages[0]
    for gate, error in ((passed, 0.08), (refused, 0.2)):
        quiet = find_warnings(like.selfplay, gate, history, (), judged(error, 4, like).evaluation)
        assert not [warning for warning in quiet if "exact play" in warning]


def test_a_falling_score_against_classic_search_is_warned_of_at_once(folder: Path) -> None:
    """In the iteration of the match, and in no later one that plays none."""
    like = reports(folder)[-1]
    assert like.gate is not None
    good, bad = (
        dataclasses.replace(like.gate, player="best", opponent="uct:1000", **score)
        for score in ({"wins": 9, "draws": 0, "losses": 1}, {"wins": 2, "draws": 0, "losses": 8})
    )
    history = [dataclasses.replace(like, matches=[good])]
    found = find_warnings(like.selfplay, like.gate, history, [bad])
    assert "score against uct:1000 fell from 0.90 to 0.20" in found
    for matches in ([], [good]):
        later = find_warnings(like.selfplay, like.gate, [*history, dataclasses.replace(like, matches=[bad])], matches)
        assert not [warning for warning in later if "fell" in warning]


def test_bad_settings_of_the_judge_are_named() -> None:
    """No positions, no simulations or a negative interval make no sense."""
    for name, value in (("positions", 0), ("simulations", 0), ("every", -1)):
        with pytest.raises(ValueError, match=name):
            tiny(**{name: value})

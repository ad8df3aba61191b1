import json
import re
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from alphac4.benchmarks import presets
from alphac4.benchmarks.presets import LATER_WORK, OTHER_WORK, measure_preset
from alphac4.cli import main
from alphac4.commands import doctor
from alphac4.cuda.device import NO_DEVICE
from alphac4.play import installation
from alphac4.play.installation import EXTRAS, Check, check_installation, find_extras
from alphac4.selfplay.blocks import Block, Work
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.training.config import LearningConfig, NetworkSize, TrainConfig
from alphac4.training.learner import LearningPlan
from alphac4.training.reports import read_reports

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def test_this_installation_is_sound() -> None:
    """Every check passes and says what it found."""
    checks = list(check_installation())
    assert [check.name for check in checks if not check.sound] == []
    assert all(check.says for check in checks)


def test_every_extra_of_the_project_is_known() -> None:
    """But for the developers' own, those of `pyproject.toml`."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev"}


def test_a_missing_extra_is_named_with_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what has to be installed for it."""
    monkeypatch.setattr(installation, "EXTRAS", {"web": (("json", "no_such_module"), "the page")})
    (extra,) = find_extras()
    assert extra.missing == ("no_such_module",)
    assert "pip install 'alphac4[web]'" in doctor._describe_extra(extra)


def test_what_does_not_work_is_told_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured then."""
    monkeypatch.setattr(doctor, "check_installation", lambda: [Check(name="the sky", sound=False, says="it fell")])
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "BAD  the sky: it fell" in output
    assert "not sound" in output
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["sound"] is False
    assert report["checks"] == [{"name": "the sky", "sound": False, "says": "it fell"}]


def test_a_damaged_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a network whose file has been altered, or code that gives wrong scores."""
    monkeypatch.setattr("alphac4.solver.solve", lambda _position: 1)
    assert not installation._checked("solver", installation._check_solver).sound
    monkeypatch.setattr("alphac4.checkpoint_header.SHIPPED", {"best": "missing.safetensors"})
    assert not installation._checked("networks", installation._check_networks).sound


def test_the_estimate_brings_a_recorded_run_back() -> None:
    """From its first iteration's work a position, its mean step and its settings, within a tenth of what it took.

    The first iteration's own seconds include compilation, so an untrained network's self-play is the later iterations'
    time an evaluation at the first one's evaluations a position.
    """
    history = read_reports(PROJECT.parent / "docs" / "notebooks" / "quick-reports.jsonl")
    first, later = history[0], history[1:]
    seconds = later[-1].seconds_total - first.seconds_total
    each = sum(report.selfplay.seconds for report in later) / sum(report.selfplay.evaluations for report in later)
    play = sum(report.selfplay.samples for report in later) * each * first.selfplay.evaluations / first.selfplay.samples
    learn = sum(report.learning.seconds for report in later)
    assert (LATER_WORK * play + learn) / (1 - OTHER_WORK) == pytest.approx(seconds, rel=0.1)
    assert (play + learn) / (1 - OTHER_WORK) > 1.15 * seconds  # as if all of it were played by the untrained network


class ByTheClock:
    """Two actors whose blocks come at set times, until they are stopped."""

    BLOCKS = ((0, 1, 100), (1, 2, 50), (0, 3, 300), (1, 4, 100), (0, 5, 900), (0, 9, 1))  # actor, second, evaluations

    def __init__(self, *left_out: int) -> None:
        self.now = 0.0
        self._blocks = [block for block in self.BLOCKS if block[0] not in left_out]

    def __len__(self) -> int:
        return 2

    def play(self, _samples: int, stop: threading.Event, on_block: Callable[[int, Block], None]) -> None:
        """See `Actors.play`."""
        for actor, second, evaluations in self._blocks:
            if stop.is_set():
                return
            self.now = second
            work = Work(evaluations=evaluations)
            on_block(actor, SimpleNamespace(samples=[], work=work))  # type: ignore[arg-type]
        raise AssertionError("nobody has stopped it")


@pytest.mark.parametrize(
    ("seconds", "left_out", "rate"),
    [
        (3, (), 300 / 2 + 100 / 2),  # each from its first block to its last
        (4, (), 1200 / 4 + 100 / 2),
        (1, (), 100 / 1 + 50 / 2),  # each has had one block
        (3, (1,), 2 * 1200 / 4),  # one has had none: it is taken to be as fast
    ],
)
def test_self_play_is_timed_from_block_to_block(
    seconds: float, left_out: tuple[int, ...], rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations a second, worked by hand; the games stop at the first block after the time."""
    actors = ByTheClock(*left_out)
    monkeypatch.setattr(presets, "time", SimpleNamespace(perf_counter=lambda: actors.now))
    replay = SimpleNamespace(add=lambda *_block: None)
    assert presets._measure_self_play(actors, replay, seconds) == pytest.approx(rate)  # type: ignore[arg-type]


@pytest.mark.parametrize(("step", "learned"), [(2.0, [2, 2]), (0.5, [2, 2, 8]), (0.01, [2, 2, 8, 32, 128, 512])])
def test_a_slow_network_learns_few_steps(step: float, learned: list[int]) -> None:
    """Two to warm up, and then as many as it takes to fill half of three seconds."""
    asked = []

    class Learner:
        """Takes its time for each step, and as much again for the first."""

        def learn(self, _replay: object, plan: LearningPlan) -> SimpleNamespace:
            """See `alphac4.training.learner.Learner`."""
            asked.append(plan.steps)
            return SimpleNamespace(seconds=step * (plan.steps + (len(asked) == 1)))

    replay = SimpleNamespace(total=1)
    rate = presets._measure_learning(Learner(), replay, TrainConfig(), 3.0)  # type: ignore[arg-type]
    assert rate == pytest.approx(1 / step)
    assert asked == learned


def test_no_rate_is_nothing() -> None:
    """A slow machine takes 0.4 steps a second, not 0."""
    written = {0.38: "0.38", 0.043: "0.043", 4.26: "4.3", 15.6: "16", 12345.6: "12,346"}
    assert {value: doctor._rate(value) for value in written} == written


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_what_needs_a_gpu_is_not_said_to_work_without_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package may be installed; and --device cuda is refused, whether anything is to be measured or not."""
    monkeypatch.setattr(installation, "EXTRAS", {"cuda": (("json",), "the GPU"), "web": (("json",), "the page")})
    told = [doctor._describe_extra(extra) for extra in find_extras()]
    assert told == ["  ok   cuda: the GPU (installed, but PyTorch finds no GPU here)", "  ok   web: the page"]
    for measure in ("--measure", "--no-measure"):
        assert main(["doctor", "--device", "cuda", measure]) == 2
        assert capsys.readouterr().err.splitlines() == [f"alphac4 doctor: {NO_DEVICE}"]


@pytest.mark.slow
def test_a_presets_duration_follows_from_its_settings() -> None:
    """Twice as many iterations take twice as long; the rates are those of what was measured."""
    config = TrainConfig(
        iterations=10,
        samples=2_000,
        device="cpu",
        network=NetworkSize(channels=8, blocks=1),
        selfplay=SelfPlayConfig(games=32, full_simulations=8, fast_simulations=4),
        learning=LearningConfig(batch_size=64),
    )
    found = measure_preset(config, seconds=0.2, device="cpu")
    play, learn = 2_000 / found.samples_a_second, 2_000 * 2 / 64 / found.steps_a_second
    assert found.minutes == pytest.approx(10 * (0.55 * play + learn) / 0.75 / 60, rel=0.02)
    assert re.match(r"torch|openvino", found.backend)

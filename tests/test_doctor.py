import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
import torch
from campaigns.tiny_run import tiny_run

from alphac4.cli import main
from alphac4.commands import doctor
from alphac4.commands.doctor import CHECKS, EXTRAS, LATER_WORK, OTHER_WORK, find_extras, measure_preset
from alphac4.compute.gpu.device import NO_DEVICE
from alphac4.runs.reports import read_reports

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@pytest.mark.slow
def test_this_installation_is_sound() -> None:
    assert all(check() for check in CHECKS.values())


def test_every_extra_of_the_project_is_known() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev"}


def test_a_missing_extra_is_named_with_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"web": (("json", "no_such_module"), "the page")})
    assert list(find_extras()) == ["  --   web, for the page: ./scripts/setup.sh web (no_such_module)"]
    monkeypatch.setattr("alphac4.machine.__file__", "/usr/lib/python3/site-packages/alphac4/machine.py")
    (extra,) = find_extras()
    assert "pip install 'alphac4[web]'" in extra  # where there is no clone


def test_what_does_not_work_is_told_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("alphac4.solver.Solver.solve", lambda _solver, _position: 1)
    for module in ("commands.doctor", "storage.checkpoints"):
        monkeypatch.setattr(f"alphac4.{module}.SHIPPED", {"best": "missing.safetensors"})
    monkeypatch.setattr(doctor, "CHECKS", {name: CHECKS[name] for name in ("rules and solver", "networks", "the page")})
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "BAD  rules and solver: the solver scores 112233 as 1 instead of 18" in told
    assert "BAD  networks: the shipped network 'best' is not here" in told
    assert "ok   the page: " in told


def test_the_estimate_brings_a_recorded_run_back() -> None:
    """From its first iteration's work a position and its mean step, within a tenth of what it took.

    The first iteration's own seconds include compilation: the later ones' time an evaluation is taken.
    """
    history = read_reports(PROJECT.parent / "docs" / "notebooks" / "quick-reports.jsonl")
    first, later = history[0], history[1:]
    seconds = later[-1].seconds_total - first.seconds_total
    each = sum(report.selfplay.seconds for report in later) / sum(report.selfplay.evaluations for report in later)
    play = sum(report.selfplay.samples for report in later) * each * first.selfplay.evaluations / first.selfplay.samples
    learn = sum(report.learning.seconds for report in later)
    assert (LATER_WORK * play + learn) / (1 - OTHER_WORK) == pytest.approx(seconds, rel=0.1)


def test_what_needs_a_gpu_is_not_said_to_work_without_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["doctor", "--device", "cuda"]) == 2
    assert capsys.readouterr().err.splitlines() == [f"alphac4 doctor: {NO_DEVICE}"]


@pytest.mark.parametrize(
    ("seconds", "actors", "rate"),
    [
        (3, "ab", 300 / 2 + 100 / 2),  # each from its first block to its last
        (1, "ab", 100 / 1 + 50 / 2),  # each has had one block
        (3, "a", 2 * 1200 / 4),  # b has had none: it is taken to be as fast
    ],
)
def test_self_play_is_timed_from_block_to_block(
    seconds: float, actors: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations a second, worked by hand; the games stop at the first block after the time."""
    now = [0.0]

    def play(_samples: int, stop: threading.Event, on_block: Callable[..., None]) -> None:
        for actor, now[0], evaluations in (("a", 1, 100), ("b", 2, 50), ("a", 3, 300), ("b", 4, 100), ("a", 5, 900)):
            if actor in actors and not stop.is_set():
                on_block(actor, Mock(samples=[], work=Mock(evaluations=evaluations)))

    monkeypatch.setattr(doctor, "time", Mock(perf_counter=lambda: now[0]))
    playing = MagicMock(play=play, __len__=lambda _self: 2)
    assert doctor._measure_self_play(playing, Mock(), seconds) == pytest.approx(rate)


def test_a_presets_duration_follows_from_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", lambda *_args, **_options: ["torch-fp32"])
    config = tiny_run(iterations=10, samples=2_000, learning={"batch_size": 64})
    found = measure_preset(config, seconds=0.1, device="cpu")
    play, learn = 2_000 / found.samples, 2_000 * 2 / 64 / found.steps
    assert found.minutes(1) == pytest.approx(10 * (0.55 * play + learn) / 0.75 / 60, rel=0.02)
    assert found.backend == "torch-fp32"


def test_what_more_cores_take_over_follows_from_games_parts_and_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worked by hand: 64 games keep two cores playing, a batch of 256 has four parts, matches have four streams."""
    monkeypatch.setattr(doctor, "cores", lambda: 2)
    monkeypatch.setattr(doctor, "_measure_self_play", lambda *_: 1_000.0)
    monkeypatch.setattr(doctor, "_measure_learning", lambda *_: 10.0)
    monkeypatch.setattr(doctor, "choose_for_run", lambda *_: Mock(actors=lambda *_: MagicMock(__len__=lambda _self: 2)))
    monkeypatch.setattr(doctor, "make_learner", Mock())
    games = {"games": 64, "full_simulations": 4, "fast_simulations": 2, "full_search_prob": 0.5}
    config = tiny_run(iterations=3, samples=200_000, selfplay=games, learning={"batch_size": 256, "passes": 1.536})
    found = measure_preset(config)
    play, learn = 2 * 3 * 0.55 * 200_000 / found.samples, 2 * 3 * config.learning_steps / 10
    other = (play + learn) / 3
    for count, players, learners, streams in ((1, 1, 1, 1), (2, 2, 2, 2), (4, 2, 4, 4), (64, 2, 4, 4)):
        assert found.minutes(count) == pytest.approx((play / players + learn / learners + other / streams) / 60)
    assert found.memory_mb(64) == found.memory_mb(2) > found.memory_mb(1)

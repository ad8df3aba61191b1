import json
import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
import torch
from campaigns.tiny_run import tiny_run

from alphac4.commands import doctor
from alphac4.commands.doctor import (
    CHECKS,
    EXTRAS,
    LATER_WORK_SHARE,
    OTHER_WORK_SHARE,
    find_extras,
    measure_preset,
    run_minutes,
    self_play_rate,
)
from alphac4.compute.gpu.device import NO_DEVICE
from alphac4.nn.config import NetworkConfig
from alphac4.runs.reports import read_reports

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@pytest.mark.slow
def test_this_installation_passes_all_checks() -> None:
    assert all(check() for check in CHECKS.values())


def test_extras_are_those_of_the_project() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev"}


def test_missing_extra_is_listed_with_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"web": (("json", "no_such_module"), "the page")})
    assert list(find_extras()) == ["  --   web, for the page: ./scripts/setup.sh web (no_such_module)"]
    monkeypatch.setattr("alphac4.machine.__file__", "/usr/lib/python3/site-packages/alphac4/machine.py")
    (extra,) = find_extras()
    assert "pip install 'alphac4[web]'" in extra  # where there is no clone


def test_failed_checks_are_listed_and_end_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    monkeypatch.setattr("alphac4.solver.Solver.solve", lambda _solver, _position: 1)
    for module in ("commands.doctor", "storage.checkpoints"):
        monkeypatch.setattr(f"alphac4.{module}.SHIPPED", {"best": "missing.safetensors"})
    monkeypatch.setattr(doctor, "CHECKS", {name: CHECKS[name] for name in ("rules and solver", "networks", "web page")})
    output = run_command("doctor", status=1)
    assert "BAD  rules and solver: the solver scores 112233 as 1 instead of 18" in output
    assert "BAD  networks: the shipped network 'best' is missing" in output
    assert "ok   web page: " in output
    assert "The installation is broken" in output


def test_estimated_duration_agrees_with_a_recorded_run() -> None:
    """Estimate within a tenth, from the first iteration's work per position and the mean time per evaluation and step.

    The time per evaluation is that of the later iterations, because the first one includes compilation.
    """
    history = read_reports(PROJECT.parent / "docs" / "notebooks" / "quick-reports.jsonl")
    first, later = history[0], history[1:]
    seconds = later[-1].seconds_total - first.seconds_total
    each = sum(report.selfplay.seconds for report in later) / sum(report.selfplay.evaluations for report in later)
    play = sum(report.selfplay.samples for report in later) * each * first.selfplay.evaluations / first.selfplay.samples
    learn = sum(report.learning.seconds for report in later)
    assert (LATER_WORK_SHARE * play + learn) / (1 - OTHER_WORK_SHARE) == pytest.approx(seconds, rel=0.1)


def test_device_cuda_is_rejected_without_a_gpu(monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert error_line("doctor --device cuda") == f"alphac4 doctor: {NO_DEVICE}"


@pytest.mark.parametrize(
    ("seconds", "actors", "rate"),
    [
        (3, "ab", 300 / 2 + 100 / 2),  # each from its first block to its last
        (1, "ab", 100 / 1 + 50 / 2),  # each has one block
        (3, "a", 2 * 1200 / 4),  # b has none, and is assumed to be as fast as a
    ],
)
def test_self_play_rate_is_measured_between_blocks(
    seconds: float, actors: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations per second, computed by hand; the games stop at the first block after the time limit."""
    now = [0.0]

    def play(_samples: int, on_block: Callable[..., None]) -> None:
        for actor, now[0], evaluations in (("a", 1, 100), ("b", 2, 50), ("a", 3, 300), ("b", 4, 100), ("a", 5, 900)):
            if actor in actors:
                on_block(actor, Mock(stats=Mock(evaluations=evaluations)))

    monkeypatch.setattr(doctor, "time", Mock(perf_counter=lambda: now[0]))
    playing = MagicMock(play=play, __len__=lambda _self: 2)
    assert self_play_rate(playing, seconds)[0] == pytest.approx(rate)


def test_run_minutes_follow_from_the_settings() -> None:
    """By hand: 10 iterations of 2,000 positions at 50/s and 125 steps at 5/s; other work is a quarter of a run."""
    config = tiny_run(iterations=10, samples=2_000, learning={"batch_size": 32, "replay_ratio": 2})
    assert run_minutes(config, samples=50, steps=5) == pytest.approx((0.55 * 400 + 250) / 0.75 / 60)


def test_preset_is_measured_by_self_play_and_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", lambda *_args, **_options: ["torch-fp32"])
    config = tiny_run(iterations=10, samples=2_000)
    found = measure_preset("tiny", config, seconds=0.1, device="cpu")
    samples, steps = map(float, re.findall(r"([\d.e+]+) (?:positions|steps)/s", found.unit.replace(",", "")))
    assert found.value == pytest.approx(run_minutes(config, samples, steps), rel=0.02)
    assert "torch-fp32" in found.unit


def test_inference_measures_the_network_with_every_backend(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    monkeypatch.setattr(doctor, "INFERENCE_SECONDS", 0.01)
    results = json.loads(run_command("doctor --json --only inference --network", checkpoint))
    assert results["checks"] == []
    names = [item["name"] for item in results["measurements"]]
    assert {f"{checkpoint}, torch-fp32, batch 1", f"{checkpoint}, torch-fp32, batch 128"} <= set(names)
    assert len(set(names)) == len(names)
    assert all(item["value"] > 0 for item in results["measurements"])


@pytest.mark.slow
def test_peer_programs_can_be_measured() -> None:
    for package in ("pyspiel", "jax", "pgx", "mctx"):
        pytest.importorskip(package, reason="needs pip install 'alphac4[peers]'")
    peers = runpy.run_path(str(Path(__file__).parents[1] / "experiments" / "peers.py"))
    rates = peers["pgx_mctx_rate"](NetworkConfig(channels=4, blocks=1), games=4, simulations=4, seconds=0.05)
    assert all(np.isfinite(rate) and rate > 0 for rate in (*rates, peers["openspiel_rate"](50, 0.05)))

import json
import re
import resource
import runpy
import tomllib
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError
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
    measure_presets,
    rate,
    run_minutes,
    self_play_rate,
)
from alphac4.compute.gpu.device import NO_DEVICE
from alphac4.nn.backends import make_backend
from alphac4.nn.config import NetworkConfig
from alphac4.runs.reports import read_reports
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.hub import SHIPPED

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@pytest.mark.slow
def test_this_installation_passes_all_checks() -> None:
    assert all(check() for check in CHECKS.values())


def test_extras_are_those_of_the_project() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev"}


NEEDS = {"dependencies": ["numpy>=2"], "web": ["page>=1.9", "server<4,>=3", "alphac4[docs]"], "docs": ["fonts"]}


@pytest.fixture(params=["clone", "wheel"])
def installed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the installed versions, which the test changes, of the packages that alphac4 and its page need."""
    versions = {"alphac4": "0.1.0", "numpy": "2.0.1", "page": "1.10.0rc1", "server": "3.0", "fonts": "1.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    if request.param == "clone":  # where the metadata may be old
        lists = [f"{name} = {json.dumps(lines)}" for name, lines in NEEDS.items()]
        text = "\n".join(["[project]", lists[0], "[project.optional-dependencies]", *lists[1:]])
        (tmp_path / "pyproject.toml").write_text(text)
        metadata = ["numpy>=1"]
    else:
        extras = [f'{line}; extra == "{name}"' for name, lines in list(NEEDS.items())[1:] for line in lines]
        metadata = [*NEEDS["dependencies"], *extras]
    monkeypatch.setattr(doctor, "__file__", str(tmp_path / "alphac4" / "commands" / "doctor.py"))
    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("importlib.metadata.requires", lambda _name: metadata)
    monkeypatch.setattr(doctor, "EXTRAS", {"web": "the page"})
    return versions


def test_incomplete_extra_is_listed_with_its_purpose(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(find_extras()) == ["  ok   web: the page"]
    installed |= {"page": "1.8.9", "server": "4.1"}
    unsupported = "page 1.8.9 instead of >=1.9, server 4.1 instead of <4,>=3"
    assert list(find_extras()) == [f"  --   web, for the page: ./scripts/setup.sh web ({unsupported})"]
    del installed["page"], installed["server"], installed["fonts"]
    monkeypatch.setattr("alphac4.machine.__file__", "/usr/lib/python3/site-packages/alphac4/machine.py")
    assert list(find_extras()) == ["  --   web, for the page: pip install 'alphac4[web]' (page, server, fonts)"]


def test_unsupported_package_fails_the_check(installed: dict[str, str]) -> None:
    check = CHECKS["packages"]
    assert check() == "versions are supported"
    installed["numpy"] = "1.26.4"
    with pytest.raises(ImportError, match=r"unsupported: numpy 1\.26\.4 instead of >=2; run \./scripts/setup"):
        check()


def player_with(move: int, *values: float) -> Mock:
    """Return a player that plays ``move`` in two positions of these values."""
    return Mock(return_value=Mock(search=lambda _positions: Mock(moves=[move, 0], value=values)))


MISJUDGED = "best@50 misjudges 44, which the first player wins: the network or its backend is broken"
REINSTALL = "its files are missing: reinstall the package"


@pytest.mark.parametrize(
    ("check", "name", "broken", "detail"),
    [
        ("rules and solver", "solver.Solver.solve", lambda *_: 1, "the solver scores 112233 as 1 instead of 18: "),
        (
            "networks",
            "storage.checkpoints.SHIPPED",
            SHIPPED | {"gpu-best": "no.safetensors"},
            "the shipped network 'gpu-best' is missing",
        ),
        ("search", "commands.doctor.parse_searching_player", player_with(2, 0.9, -0.9), MISJUDGED),
        ("search", "commands.doctor.parse_searching_player", player_with(3, 0.5, -0.9), MISJUDGED),
        ("search", "commands.doctor.parse_searching_player", player_with(3, 0.9, -0.5), MISJUDGED),
        ("web page", "commands.doctor.resources.files", MagicMock(), REINSTALL),
        (
            "compiled code",
            "commands.doctor.machine_code_folder",
            lambda: None,
            "no cache folder is writable or has room, so ",
        ),
    ],
)
def test_broken_part_is_bad_and_ends_with_exit_code_1(
    check: str, name: str, broken: object, detail: str, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    monkeypatch.setattr(f"alphac4.{name}", broken)
    monkeypatch.setattr(doctor, "CHECKS", {check: CHECKS[check]})
    output = run_command("doctor --only checks", status=1)
    assert f"BAD  {check}: {detail}" in output
    assert output.endswith("The installation is broken: see the lines with BAD.\n")
    (result,) = json.loads(run_command("doctor --json --only checks", status=1))["checks"]
    assert (result["name"], result["passed"], result["detail"].startswith(detail)) == (check, False, True)


def test_intact_part_is_ok(monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]) -> None:
    monkeypatch.setattr(doctor, "parse_searching_player", player_with(3, 0.9, -0.9))
    monkeypatch.setattr(doctor, "CHECKS", {name: CHECKS[name] for name in ("search", "web page")})
    output = run_command("doctor --only checks")
    assert "ok   search: best@50 judges 44 correctly\n  ok   web page: " in output
    assert output.endswith("The installation works.\n")


def test_a_full_disk_under_the_cache_of_machine_code_fails_the_check() -> None:
    """The limit of a file's size ends the write as a full disk does."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limit[1]))
    try:
        with pytest.raises(OSError, match=r"machine-code-.*: File too large, so code is compiled at each start"):
            CHECKS["compiled code"]()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


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


def actors_with(blocks: Sequence[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Return two actors that finish blocks: name of the actor, time by the clock of this test, and evaluations."""
    now = [0.0]

    def play(_samples: int, on_block: Callable[..., None]) -> None:
        for actor, now[0], evaluations in blocks:
            on_block(actor, Mock(stats=Mock(evaluations=evaluations)))

    monkeypatch.setattr(doctor, "time", Mock(perf_counter=lambda: now[0]))
    return MagicMock(play=play, __len__=lambda _self: 2, backend="scripted")


@pytest.mark.parametrize(
    ("seconds", "names", "rate"),
    [
        (3, "ab", 300 / 2 + 100 / 2),  # each from its first block to its last
        (1, "ab", 100 / 1 + 50 / 2),  # each has one block
        (3, "a", 2 * 1200 / 4),  # b has none, and is assumed to be as fast as a
    ],
)
def test_self_play_rate_is_measured_between_blocks(
    seconds: float, names: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations per second, computed by hand; the games stop at the first block after the time limit."""
    blocks = (("a", 1, 100), ("b", 2, 50), ("a", 3, 300), ("b", 4, 100), ("a", 5, 900))
    actors = actors_with([block for block in blocks if block[0] in names], monkeypatch)
    assert self_play_rate(actors, seconds)[0] == pytest.approx(rate)


def test_run_minutes_follow_from_the_settings() -> None:
    """By hand: 10 iterations of 2,000 positions at 50/s and 125 steps at 5/s; other work is a quarter of a run."""
    config = tiny_run(iterations=10, samples=2_000, learning={"batch_size": 32, "replay_ratio": 2})
    assert run_minutes(config, samples=50, steps=5) == pytest.approx((0.55 * 400 + 250) / 0.75 / 60)


def test_preset_rates_follow_from_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: an untrained network takes 0.55 evaluations for each of 0.25 * 8 + 0.75 * 4 = 5 simulations.

    Its two actors make 60 and 50 evaluations/s, so 40 positions/s, and the learner 8 steps/s.
    """
    actors = actors_with([("a", 1, 9), ("b", 2, 9), ("a", 3, 120), ("b", 4, 100)], monkeypatch)
    learner = Mock(learn=lambda *_replay, steps, **_options: Mock(seconds=steps / 8))
    compute = Mock(actors=lambda *_settings: actors)
    monkeypatch.setattr(doctor, "choose_compute", lambda *_device, **_options: compute)
    monkeypatch.setattr(doctor, "make_learner", lambda *_settings: learner)
    for name in ("Replay", "concatenate", "make_samples"):
        monkeypatch.setattr(doctor, name, Mock())
    searches = {"games": 4, "full_simulations": 8, "fast_simulations": 4, "full_search_prob": 0.25}
    learning = {"batch_size": 32, "replay_ratio": 2}
    config = tiny_run(iterations=10, samples=2_000, selfplay=searches, learning=learning)
    measured = measure_preset("tiny", config, seconds=3, device="cpu")
    minutes = (0.55 * 10 * 2_000 / 40 + 10 * 125 / 8) / 0.75 / 60
    rates = "40 positions/s of self-play by scripted, 8 steps/s of learning"
    assert measured == ("train --preset tiny", pytest.approx(minutes), f"minutes ({rates})")


@pytest.mark.parametrize(
    ("device", "names"),
    [("cpu", ["quick", "standard"]), ("cuda", ["quick", "standard", "gpu-quick", "gpu-best"])],
)
def test_presets_of_a_gpu_are_measured_with_a_gpu(
    device: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "choose_compute", lambda name: Mock(learning_device=torch.device(name)))
    monkeypatch.setattr(doctor, "measure_preset", lambda *settings: (settings[0], settings[-1]))
    assert list(measure_presets(Mock(device=device))) == [(name, device) for name in names]


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
    """Its rate is the sum of all threads' positions per second; here every call takes a quarter of a second."""
    monkeypatch.setattr(doctor, "cores", lambda: 3)
    monkeypatch.setattr(doctor, "rate", lambda work, _seconds: 4 * work())
    make = Mock(side_effect=make_backend)
    monkeypatch.setattr(doctor, "make_backend", make)
    results = json.loads(run_command("doctor --json --only inference --network", checkpoint))
    assert results["checks"] == []
    rates = {item["name"]: item["value"] for item in results["measurements"]}
    assert {f"{checkpoint}, torch-fp32, batch 1", f"{checkpoint}, torch-fp32, batch 128"} <= set(rates)
    assert len(rates) == len(results["measurements"])
    assert {call.args[1].config for call in make.call_args_list} == {load_checkpoint(checkpoint).network.config}
    assert all(rate == 3 * 4 * int(name.split()[-1]) for name, rate in rates.items())


def test_rate_divides_by_the_time_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls of 0.75 s end after the requested second."""
    now = [0.0]

    def work() -> float:
        now[0] += 0.75
        return 3.0

    monkeypatch.setattr(doctor, "time", Mock(perf_counter=lambda: now[0]))
    assert rate(work, 1.0) == pytest.approx(6 / 1.5)


@pytest.mark.slow
def test_peer_programs_can_be_measured() -> None:
    for package in ("pyspiel", "jax", "pgx", "mctx"):
        pytest.importorskip(package, reason="needs pip install 'alphac4[peers]'")
    peers = runpy.run_path(str(Path(__file__).parents[1] / "experiments" / "peers.py"))
    rates = peers["pgx_mctx_rate"](NetworkConfig(channels=4, blocks=1), games=4, simulations=4, seconds=0.05)
    assert all(np.isfinite(rate) and rate > 0 for rate in (*rates, peers["openspiel_rate"](50, 0.05)))

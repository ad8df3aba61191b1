import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
import torch
from campaigns.tiny_run import tiny_run

from alphac4.commands import doctor
from alphac4.commands.doctor import (
    CHECKS,
    describe_extras,
    measure_training,
    rate,
    self_play_rate,
)
from alphac4.compute import choose_compute
from alphac4.compute.devices import NO_DEVICE
from alphac4.nn.backends import make_backend
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.networks import SHIPPED
from alphac4.training.learner import make_learner


@pytest.mark.slow
def test_this_installation_passes_all_checks() -> None:
    assert all(check() for check in CHECKS.values())


NEEDS = {
    "dependencies": ["numpy>=2"],
    "web": ["page>=1.9", "server<4,>=3", "alphac4[docs]"],
    "docs": ["fonts"],
    "dev": ["absent"],
}


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
    monkeypatch.setattr("importlib.metadata.metadata", lambda _name: Mock(get_all=lambda _field: list(NEEDS)[1:]))
    return versions


def test_incomplete_extra_is_listed(installed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(describe_extras()) == ["  ok   docs", "  ok   web"]
    installed |= {"page": "1.8.9", "server": "4.1"}
    unsupported = "page 1.8.9 instead of >=1.9, server 4.1 instead of <4,>=3"
    assert list(describe_extras()) == ["  ok   docs", f"  --   web: ./scripts/setup.sh web ({unsupported})"]
    del installed["page"], installed["server"], installed["fonts"]
    monkeypatch.setattr("alphac4.machine.__file__", "/usr/lib/python3/site-packages/alphac4/machine.py")
    advice = {"docs": "fonts", "web": "page, server, fonts"}
    assert list(describe_extras()) == [
        f"  --   {name}: pip install 'alphac4[{name}]' ({each})" for name, each in advice.items()
    ]


def test_unsupported_package_fails_the_check(installed: dict[str, str]) -> None:
    check = CHECKS["packages"]
    assert check() == "versions are supported"
    installed["numpy"] = "1.26.4"
    with pytest.raises(ImportError, match=r"unsupported: numpy 1\.26\.4 instead of >=2; run \./scripts/setup"):
        check()


def player_with(move: int, *values: float) -> Mock:
    """Return a player that plays ``move`` in two positions of these values."""
    return Mock(return_value=Mock(search=lambda _positions: Mock(moves=[move, 0], value=values)))


MISJUDGED = "best@50 misjudges 44 or 4, which the first player wins: the network or its backend is broken"
REINSTALL = "its files are missing: reinstall the package"


@pytest.mark.parametrize(
    ("check", "name", "broken", "detail"),
    [
        ("rules and solver", "solver.Solver.solve", lambda *_: 1, "the solver scores 112233 as 1 instead of 18: "),
        (
            "networks",
            "storage.checkpoints.SHIPPED",
            SHIPPED | {"quick": "no.safetensors"},
            "the shipped network 'quick' is missing",
        ),
        ("search", "commands.doctor.parse_searching_player", player_with(2, 0.9, -0.9), MISJUDGED),
        ("web page", "commands.doctor.resources.files", MagicMock(), REINSTALL),
        (
            "compiled code",
            "commands.doctor.cache_problems",
            ["no cache folder is writable, so code is compiled at each start"],
            "no cache folder is writable, so ",
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


def test_device_cuda_is_rejected_without_a_gpu(monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert error_line("doctor --device cuda") == f"alphac4 doctor: {NO_DEVICE}"


def test_self_play_rate_is_measured_from_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: the first block at 1 s starts the clock, and the games stop at the first block after 3 more seconds."""
    now = [0.0]

    def play(_samples: int, on_block: Callable[..., None]) -> None:
        for actor, now[0], evaluations in (("a", 1, 900), ("b", 2, 50), ("a", 3, 300), ("b", 5, 100), ("a", 6, 900)):
            on_block(actor, Mock(stats=Mock(evaluations=evaluations)))

    monkeypatch.setattr(doctor, "time", Mock(perf_counter=lambda: now[0]))
    evaluations, blocks = self_play_rate(Mock(play=play), 3)
    assert evaluations == pytest.approx((50 + 300 + 100) / (5 - 1))
    assert len(blocks) == 4


def test_rate_divides_by_the_time_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls of 0.75 s end after the requested second."""
    now = [0.0]

    def work() -> float:
        now[0] += 0.75
        return 3.0

    monkeypatch.setattr(doctor, "time", Mock(perf_counter=lambda: now[0]))
    assert rate(work, 1.0) == pytest.approx(6 / 1.5)


@pytest.mark.parametrize(("device", "preset"), [("cpu", "quick"), ("cuda", "gpu-quick")])
def test_self_play_and_learning_of_the_devices_preset_are_measured(
    device: str, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of learning takes a batch of 32."""
    compute = choose_compute("cpu", "torch-fp32", threads=1, for_run=True)
    chosen = Mock(actors=compute.actors, learning_device=torch.device(device))
    monkeypatch.setattr(doctor, "choose_compute", lambda *_device, **_options: chosen)
    monkeypatch.setattr(doctor, "make_learner", lambda config, _compute: make_learner(config, compute))
    monkeypatch.setattr(doctor, "PRESETS", {preset: tiny_run(learning={"batch_size": 32})})
    monkeypatch.setattr(doctor, "SELF_PLAY_SECONDS", 0.1)
    monkeypatch.setattr(doctor, "learning_steps_rate", lambda *_settings: 5.0)
    self_play, learning = measure_training(Mock(device="auto"))
    assert self_play.name == f"self-play, {preset}, torch-fp32"
    assert self_play.value > 0
    assert learning == (f"learning, {preset}", 5.0 * 32, "positions/s")


def test_inference_measures_the_network_with_every_backend(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    """Its rate is the sum of all threads' positions per second; here every call takes a quarter of a second."""
    monkeypatch.setattr(doctor, "cores", lambda: 3)
    monkeypatch.setattr(doctor, "rate", lambda work, _seconds: 4 * work())
    make = Mock(side_effect=make_backend)
    monkeypatch.setattr(doctor, "make_backend", make)
    results = json.loads(run_command("doctor --json --only inference --checkpoint", checkpoint))
    assert results["checks"] == []
    rates = {item["name"]: item["value"] for item in results["measurements"]}
    assert {f"{checkpoint}, torch-fp32, batch 1", f"{checkpoint}, torch-fp32, batch 128"} <= set(rates)
    assert len(rates) == len(results["measurements"])
    assert {call.args[1].config for call in make.call_args_list} == {load_checkpoint(checkpoint).network.config}
    assert all(rate == 3 * 4 * int(name.split()[-1]) for name, rate in rates.items())

import dataclasses
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alphac4.checkpoint import load_checkpoint
from alphac4.checkpoint_header import shipped_checkpoint
from alphac4.cli import main
from alphac4.commands.train import parse
from alphac4.game import STANDARD
from alphac4.mcts.puct import PuctConfig
from alphac4.nn import Evaluator, NetworkConfig
from alphac4.nn.backends import INT8
from alphac4.selfplay.replay import Batch, Replay
from alphac4.selfplay.shards import load_shard
from alphac4.training.config import PRESETS, LearningConfig, TrainConfig, from_dict, load_config, to_dict
from alphac4.training.earlier_runs import FORMER_PRESETS
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import ownership_loss, policy_loss, value_loss
from alphac4.training.loop import Stopped, TrainingLoop
from alphac4.training.monitor import scalars
from alphac4.training.reports import IterationReport
from alphac4.training.run_state import RunError
from alphac4.training.schedule import Schedule

pytestmark = pytest.mark.beside
TINY = {
    "iterations": 4,
    "samples": 600,
    "backend": "torch-fp32",
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"games": 16, "full_simulations": 12, "fast_simulations": 4},
    "learning": {"batch_size": 64},
    "gate": {"pairs": 3, "simulations": 4, "classic_every": 2, "classic_rollouts": [20], "classic_pairs": 2,
             "classic_simulations": 4, "closing_pairs": 2},
}  # fmt: skip

SCHEDULE = Schedule(start_rate=5e-3, end_step=400)


def tiny(**changes: object) -> TrainConfig:
    """A run of seconds."""
    return from_dict(TINY | changes)


def test_losses_are_those_worked_by_hand() -> None:
    """Cross-entropy of (ln 3 apart) logits: softmax is 3/4, 1/4; only weighted rows count."""
    logits = torch.tensor([[math.log(3.0), 0.0], [5.0, 5.0]])
    target = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    expected = -(0.5 * math.log(0.75) + 0.5 * math.log(0.25))
    assert float(policy_loss(logits, target, torch.tensor([1.0, 0.0]))) == pytest.approx(expected)
    assert float(policy_loss(logits, target, torch.tensor([1.0, 1.0]))) == pytest.approx((expected + math.log(2)) / 2)
    wdl = torch.tensor([[1.0, 0.0, 0.0]])
    assert float(value_loss(torch.zeros(1, 3), wdl)) == pytest.approx(math.log(3))


def test_the_learning_rate_warms_up_and_falls_to_its_end() -> None:
    """Linear over the warm-up, half-way at half time, the final rate at the end."""
    config = LearningConfig(learning_rate=1.0, final_learning_rate=0.1, warmup_steps=10)
    schedule = Schedule.of_run(config, 1000)
    assert schedule.rate(config, 0) == pytest.approx(0.1)
    assert schedule.rate(config, 500) == pytest.approx(0.55)
    assert schedule.rate(config, 1000) == pytest.approx(0.1)


def test_a_longer_run_goes_on_at_the_rate_where_it_was() -> None:
    """A finished run stays at its final rate; one that is made longer half-way falls from there, and never rises."""
    config = LearningConfig(learning_rate=1.0, final_learning_rate=0.1, warmup_steps=10)
    schedule = Schedule.of_run(config, 1000)
    assert schedule.until(config, 1000, 2000).rate(config, 1000) == pytest.approx(0.1)
    assert schedule.until(config, 1000, 2000).rate(config, 1500) == pytest.approx(0.1)
    longer = schedule.until(config, 500, 1500)
    rates = [longer.rate(config, step) for step in range(500, 1501, 100)]
    assert rates[0] == pytest.approx(0.55)
    assert rates == sorted(rates, reverse=True)
    assert rates[5] == pytest.approx((0.55 + 0.1) / 2)
    assert rates[-1] == pytest.approx(0.1)
    assert schedule.until(config, 300, 1000) is schedule


def test_ownership_loss_by_hand() -> None:
    """One empty cell of two: it ends as the opponent's, foreseen with probability 1/2; the occupied cell is ignored."""
    planes = torch.zeros(1, 2, 1, 2)
    planes[0, 0, 0, 1] = 1
    final = planes.clone()
    final[0, 1, 0, 0] = 1
    logits = torch.zeros(1, 3, 1, 2)
    logits[0, :, 0, 0] = torch.log(torch.tensor([0.25, 0.5, 0.25]))
    logits[0, :, 0, 1] = torch.tensor([-50.0, 50.0, 0.0])
    assert float(ownership_loss(logits, final, planes)) == pytest.approx(math.log(2))


def memorable_batches(count: int) -> list[Batch]:
    """The same 64 random positions again and again, each with one right move and a sure outcome."""
    rng = np.random.default_rng(0)
    stones = rng.integers(0, 3, (64, 6, 7))
    planes = np.stack([stones == 1, stones == 2], axis=1).astype(np.float32)
    policy = np.eye(7, dtype=np.float32)[rng.integers(0, 7, 64)]
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 64)]
    return [Batch(planes, policy, np.ones(64, np.float32), wdl, planes)] * count


def test_the_learner_memorises_a_few_positions() -> None:
    """Both losses fall far below those of a uniform guess."""
    learner = HostLearner(NetworkConfig(channels=16, blocks=1), LearningConfig(learning_rate=5e-3), STANDARD, seed=0)
    learner.learn_from(memorable_batches(80), SCHEDULE, 64)
    report = learner.learn_from(memorable_batches(20), SCHEDULE, 64)
    assert report.policy_loss < 0.3 * math.log(7)
    assert report.value_loss < 0.3 * math.log(3)


def test_a_restored_learner_goes_on_as_if_nothing_had_happened() -> None:
    """Weights, average and optimiser: the next steps give the same weights."""
    config = NetworkConfig(channels=8, blocks=1)
    first, second = (HostLearner(config, LearningConfig(), STANDARD, seed=seed) for seed in (0, 1))
    first.learn_from(memorable_batches(5), SCHEDULE, 64)
    second.restore(first.state())
    for learner in (first, second):
        learner.learn_from(memorable_batches(5), SCHEDULE, 64)
    for name, value in first.state().items():
        assert torch.equal(value, second.state()[name]), name


def test_settings_are_read_back_and_unknown_ones_named() -> None:
    """Every preset survives JSON; a typing error is reported with its place."""
    for preset in PRESETS.values():
        assert from_dict(json.loads(json.dumps(to_dict(preset)))) == preset
    with pytest.raises(ValueError, match=r"learning\.batch_sise"):
        from_dict({"learning": {"batch_sise": 3}})
    with pytest.raises(ValueError, match=r"selfplay\.puct\.c_init must be float"):
        from_dict({"selfplay": {"puct": {"c_init": "much"}}})
    with pytest.raises(ValueError, match="policy_target"):
        from_dict({"selfplay": {"policy_target": "vibes"}})
    with pytest.raises(ValueError, match="full_share"):
        from_dict({"selfplay": {"full_share": 1.5}})


def test_a_settings_file_that_cannot_be_used_is_reported_in_one_line(tmp_path: Path) -> None:
    """Missing, or not JSON."""
    with pytest.raises(ValueError, match="cannot be read"):
        load_config(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        load_config(tmp_path / "bad.json")


def weights(folder: Path, iteration: int) -> dict[str, torch.Tensor]:
    """A run's network after an iteration."""
    return load_checkpoint(folder / "checkpoints" / f"{iteration:06d}.safetensors").network.state_dict()


EXPLORING = {
    "selfplay": {**TINY["selfplay"], "fork_share": 0.5, "learn_proofs": True, "root_value": "best"},  # type: ignore[dict-item]
    "learning": {**TINY["learning"], "merge_duplicates": True, "optimizer": "muon"},  # type: ignore[dict-item]
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, EXPLORING], ids=["plain", "forks, proofs, merging and Muon"])
def test_two_iterations_and_two_more_equal_four(tmp_path: Path, settings: dict[str, object]) -> None:
    """A run stopped after its second iteration and taken up again ends with the same weights, bit for bit."""
    TrainingLoop.open(tmp_path / "straight", tiny(**settings)).run()
    stop = threading.Event()
    halved = TrainingLoop.open(tmp_path / "halved", tiny(**settings), stop)
    commit = halved.folder.commit

    def commit_and_stop(state: object, report: IterationReport) -> None:
        commit(state, report)  # type: ignore[arg-type]
        if report.iteration == 2:
            stop.set()

    halved.folder.commit = commit_and_stop  # type: ignore[assignment, method-assign]
    with pytest.raises(Stopped):
        halved.run()
    # What the stopped third iteration recorded would be kept; for the comparison it starts afresh.
    for shard in (tmp_path / "halved" / "replay").glob("000003-*"):
        shard.unlink()
    history = TrainingLoop.open(tmp_path / "halved", tiny(**settings)).run()
    assert [report.iteration for report in history] == [1, 2, 3, 4]
    straight, resumed = weights(tmp_path / "straight", 4), weights(tmp_path / "halved", 4)
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


@pytest.mark.slow
def test_a_run_reports_what_it_did(tmp_path: Path) -> None:
    """Reports add up, the gate plays varied games, checkpoints say where they come from, curves show the reports."""
    loop = TrainingLoop.open(tmp_path, tiny(iterations=2))
    history = loop.run()
    closing = loop.close(history)
    assert closing[0].wins + closing[0].draws + closing[0].losses == 4
    report = history[-1]
    assert report.samples_total >= 1200
    assert sum(past.selfplay.games for past in history) == report.games_total
    assert sum(report.time_shares.values()) == pytest.approx(1.0, abs=0.02)
    assert report.gate is not None
    assert len(set(report.gate.games)) > 3
    assert report.matches[0].opponent == "uct:20"
    best = load_checkpoint(tmp_path / "checkpoints" / "best.safetensors")
    assert best.provenance["iteration"] == report.best_iteration
    assert best.strength["uct:20"]["games"] == 4
    assert IterationReport.from_json(report.to_json()) == report
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"images": 0, "scalars": 0})
    events.Reload()
    for tag, value in scalars(report).items():
        assert events.Scalars(tag)[-1].value == pytest.approx(value, rel=1e-5, abs=1e-6), tag
    images = events.Tags()["images"]
    for tag in ("games/first moves", "games/openings", "value/calibration", "strength/elo by iteration"):
        assert tag in images
    assert any(tag.startswith("sample games/") for tag in images)


@pytest.mark.slow
def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    """By name; more iterations are fine."""
    TrainingLoop.open(tmp_path, tiny(iterations=1)).run()
    with pytest.raises(RunError, match="samples"):
        TrainingLoop.open(tmp_path, tiny(samples=601))
    assert len(TrainingLoop.open(tmp_path, tiny(iterations=2)).run()) == 2


@pytest.mark.slow
def test_a_run_begins_with_a_given_network_and_lets_it_grow(tmp_path: Path) -> None:
    """Its first network is the given one; one that does not fit is refused before anything is written."""
    TrainingLoop.open(tmp_path / "small", tiny(iterations=1)).run()
    start = tmp_path / "small/checkpoints/000001.safetensors"
    given = load_checkpoint(start).network
    changes = {"iterations": 1, "start_from": str(start), "network": {"channels": 8, "blocks": 3}}
    loop = TrainingLoop.open(tmp_path / "grown", tiny(**changes))
    planes = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (20, 2, 6, 7)).astype(np.float32))
    for network in (loop.best, load_checkpoint(tmp_path / "grown/checkpoints/000000.safetensors").network):
        for ours, theirs in zip(network(planes), given(planes), strict=True):
            torch.testing.assert_close(ours, theirs)
    loop.run()
    start.unlink()  # needed no longer
    TrainingLoop.open(tmp_path / "grown", tiny(**changes))
    wider = tiny(start_from=str(tmp_path / "grown/checkpoints/000001.safetensors"), network={"channels": 9})
    with pytest.raises(ValueError, match="only blocks may be added"):
        TrainingLoop.open(tmp_path / "wider", wider)
    assert not (tmp_path / "wider").exists()


@pytest.mark.slow
def test_a_full_disk_ends_the_run_and_leaves_it_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writing fails from some moment on: exit code 2 and one line; with space again, the run goes on to its end."""
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(TINY | {"iterations": 2}))
    arguments = ["train", "--run", str(tmp_path / "run"), "--settings", str(settings)]
    real, calls = os.fsync, [0]

    def filling(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] > 9:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr("os.fsync", filling)
    assert main(arguments) == 2
    assert "No space left on device" in capsys.readouterr().err
    monkeypatch.setattr("os.fsync", real)
    assert main(["train", "--run", str(tmp_path / "run")]) == 0  # a run goes on with its own settings
    assert len((tmp_path / "run" / "reports.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_a_run_killed_again_and_again_loses_nothing_recorded(tmp_path: Path) -> None:
    """Kill -9 at random moments: shards, reports and counters only grow, and the run reaches its end."""
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(TINY | {"samples": 1500}))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "alphac4.cli", "train", "--run", str(run), "--settings", str(settings)]
    rng = random.Random(2)
    reports: list[str] = []
    for _ in range(6):
        shards_before = {path.name: path.read_bytes() for path in (run / "replay").glob("*.safetensors")}
        reports_before = reports
        process = subprocess.Popen(
            [*command, "--iterations", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        # Wait until it has got going, then kill it at a random moment of the next seconds.
        while time.monotonic() < deadline and len(list((run / "replay").glob("*.safetensors"))) <= len(shards_before):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 1.5))
        assert process.poll() is None, "it must be killed, not end by itself"
        process.send_signal(signal.SIGKILL)
        process.wait()
        for name, content in shards_before.items():
            assert (run / "replay" / name).read_bytes() == content
        reports = (run / "reports.jsonl").read_text().splitlines() if (run / "reports.jsonl").exists() else []
        assert reports[: len(reports_before)] == reports_before
        for path in (run / "replay").glob("*.safetensors"):
            load_shard(path)
    last = IterationReport.from_json(reports[-1]).iteration if reports else 0
    finished = subprocess.run(
        [*command, "--iterations", str(last + 2)], capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stderr
    lines = (run / "reports.jsonl").read_text().splitlines()
    assert sorted({IterationReport.from_json(line).iteration for line in lines}) == list(range(1, last + 3))
    replay = Replay(run / "replay")
    replay.load(last + 1)
    assert sum(recorded.samples for recorded in replay.begin(last + 2).values()) >= 1500


@pytest.mark.slow
def test_ctrl_c_stops_at_once_and_the_run_goes_on(tmp_path: Path) -> None:
    """Exit code 130 within seconds, a line that says how to go on, and going on works."""
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(TINY | {"iterations": 1, "samples": 3000}))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "alphac4.cli", "train", "--run", str(run), "--settings", str(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((run / "replay").glob("*.safetensors")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    interrupted = time.monotonic()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - interrupted < 10
    assert "goes on from there" in output
    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0


def test_an_unwritable_folder_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Here a file lies where the folder should be."""
    (tmp_path / "file").write_text("")
    assert main(["train", "--preset", "quick", "--run", str(tmp_path / "file" / "run")]) == 2
    assert "file" in capsys.readouterr().err


def test_the_command_line_explains_itself_and_refuses_the_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """An overview without arguments, exit code 2 and one line for what it does not know."""
    assert main([]) == 0
    assert "train" in capsys.readouterr().out
    assert main(["fly"]) == 2
    assert "no command 'fly'" in capsys.readouterr().err
    assert main(["arena", "random", "nobody"]) == 2
    assert "unknown player 'nobody'" in capsys.readouterr().err
    assert main(["arena"]) == 2
    capsys.readouterr()
    assert main(["train", "--learning.batch-sise", "3"]) == 2
    assert "no option --learning.batch-sise; is it --learning.batch-size" in capsys.readouterr().err


def test_help_gives_meaning_and_the_papers_value(capsys: pytest.CaptureFixture[str]) -> None:
    """For every parameter of the run."""
    assert main(["train", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--selfplay.puct.c-init" in text
    assert "AlphaZero" in text


def test_selfplay_and_arena_commands_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Games on disk as move strings; a match with a crosstable."""
    output = tmp_path / "games"
    assert main(["selfplay", "--samples", "200", "--output", str(output), "--games", "8", "--backend", "torch-fp32",
                 "--full-simulations", "8", "--fast-simulations", "4"]) == 0  # fmt: skip
    assert all(7 <= len(line) <= 42 for line in (output / "games.txt").read_text().splitlines())
    assert "simulations/s" in capsys.readouterr().out
    assert main(["arena", "uct:50", "random", "--games", "4"]) == 0
    assert "uct:50 v. random" in capsys.readouterr().out


def test_a_seed_fixes_the_games_of_an_untrained_network_too(tmp_path: Path) -> None:
    """Another seed makes others; games end in an order of their own."""
    found = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        options = ["--samples", "60", "--games", "8", "--full-simulations", "8", "--fast-simulations", "4"]
        options += ["--seed", seed, "--output", str(tmp_path / name), "--backend", "torch-fp32"]
        assert main(["selfplay", *options]) == 0
        found.append(sorted((tmp_path / name / "games.txt").read_text().split()))
    assert found[0] == found[1] != found[2]


def test_strength_is_never_measured_with_8_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 8 bits are by far the fastest: self-play takes them; gate, matches, judge and closing score do not.

    A later session remembers both; every network that a run loads into an evaluator is seen here.
    """
    pytest.importorskip("openvino")
    rates = {INT8: 100.0, "torch-bf16": 3.0, "torch-fp32": 2.0}
    monkeypatch.setattr("alphac4.nn.evaluator.measure_backends", lambda _network, found, *_args: {
        name: rates.get(name, 1.0) for name in found
    })  # fmt: skip
    used: list[str] = []
    evaluate = Evaluator.evaluate

    def seen(evaluator: Evaluator, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        used.append(evaluator.backend)
        return evaluate(evaluator, planes)

    monkeypatch.setattr(Evaluator, "evaluate", seen)
    config = tiny(iterations=1, samples=60, backend="auto", evaluation={"positions": 2, "simulations": 2})
    loop = TrainingLoop.open(tmp_path, config)
    record_games, played = loop.actors.play, []

    def play(*arguments: Any) -> None:
        used.clear()
        record_games(*arguments)
        played.extend(used)
        used.clear()

    monkeypatch.setattr(loop.actors, "play", play)
    history = loop.run()
    closing = loop.close(history)
    assert set(played) == {INT8}
    assert set(used) == {"torch-bf16"}
    report = history[-1]
    assert report.selfplay.evaluator == INT8
    assert report.gate is not None
    assert report.evaluation is not None
    assert report.gate.evaluator == report.evaluation.evaluator == closing[0].evaluator == "torch-bf16"
    strength = load_checkpoint(tmp_path / "checkpoints" / "best.safetensors").strength
    assert strength["uct:20"]["evaluator"] == "torch-bf16"
    rates["torch-fp32"], rates["torch-bf16"] = 50.0, 1.0
    resumed = TrainingLoop.open(tmp_path, dataclasses.replace(config, iterations=2))
    assert (resumed.state.backend, resumed.state.evaluating_backend) == (INT8, "torch-bf16")


@pytest.mark.slow
def test_an_older_run_goes_on_with_the_search_that_it_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that recorded no search of the gate, and one that recorded today's, keep theirs if the default changes."""
    TrainingLoop.open(tmp_path / "new", tiny(iterations=1)).run()
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    recorded = json.loads((tmp_path / "new" / "config.json").read_text())
    assert recorded["gate"]["puct"] == recorded["evaluation"]["puct"] == dataclasses.asdict(PuctConfig())
    for part in ("gate", "evaluation"):
        del recorded[part]["puct"]
    (tmp_path / "old" / "config.json").write_text(json.dumps(recorded))
    used = PuctConfig()
    later = PuctConfig(c_init=9.0, prior_temperature=3.0)
    changed = {name: dataclasses.replace(
        preset,
        gate=dataclasses.replace(preset.gate, puct=later),
        evaluation=dataclasses.replace(preset.evaluation, puct=later),
    ) for name, preset in PRESETS.items()}  # fmt: skip
    monkeypatch.setattr("alphac4.training.session.PRESETS", changed)
    for folder in (tmp_path / "new", tmp_path / "old"):
        for arguments in ([], ["--preset", "standard"]):
            config = parse(["--run", str(folder), *arguments]).config
            assert config.gate.puct == config.evaluation.puct == used
        asked = parse(["--run", str(folder), "--gate.puct.c-init", "2"]).config
        assert (asked.gate.puct.c_init, asked.evaluation.puct.c_init) == (2.0, used.c_init)
    assert parse(["--run", str(tmp_path / "none")]).config.gate.puct == later
    resumed = TrainingLoop.open(tmp_path / "old", tiny(iterations=1))
    assert resumed.config.gate.puct == used


SHARED_BY_QUICK = {
    "samples": 30_000,
    "network": {"channels": 32, "blocks": 4},
    "selfplay": {"full_simulations": 64, "fast_simulations": 16, "full_share": 0.4, "games": 100},
}
MUON = {"optimizer": "muon", "batch_size": 128, "learning_rate": 4e-3, "muon_rate": 1.5}


SHORT = {"iterations": 24, "gate": {"pairs": 20, "simulations": 16, "classic_every": 6}}


@pytest.mark.parametrize(
    ("began", "unknown", "learning"),
    [
        (
            {
                "iterations": 36,
                "learning": {"passes": 3.0, "window_minimum": 80_000, "weight_decay": 0.5},
                "gate": {"pairs": 40, "classic_every": 6},
            },
            ("optimizer", "muon_rate", "fast_weight"),
            ("adamw", 512, 0.0),
        ),
        (
            {**SHORT, "learning": {**MUON, "window_minimum": 80_000, "weight_decay": 0.5}},
            ("fast_weight",),
            ("muon", 128, 0.0),
        ),
        (
            {**SHORT, "learning": {**MUON, "window_minimum": 80_000, "weight_decay": 0.5, "fast_weight": 0.5}},
            (),
            ("muon", 128, 0.5),
        ),
    ],
    ids=["AdamW", "Muon", "Muon, from fast searches too"],
)
def test_a_run_goes_on_with_the_preset_that_it_began_with(
    began: dict[str, Any], unknown: Sequence[str], learning: tuple[str, int, float], tmp_path: Path
) -> None:
    """Whatever has become of it since, and whatever options there were besides; a new run takes today's.

    What its version did not know is not in its file.
    """
    began = {**SHARED_BY_QUICK, **began}
    recorded = to_dict(from_dict(began))
    for later in unknown:
        del recorded["learning"][later]
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "old" / "config.json").write_text(json.dumps(recorded))
    options = ["--preset", "quick", "--selfplay.games", "100", "--learning.weight-decay", "0.5"]
    old, new = (parse(["--run", str(tmp_path / folder), *options]).config for folder in ("old", "new"))
    assert old == from_dict(began)
    assert (old.learning.optimizer, old.learning.batch_size, old.learning.fast_weight) == learning
    assert new.selfplay.games == 100
    assert new.learning == dataclasses.replace(PRESETS["quick"].learning, weight_decay=0.5)
    assert (new.learning.optimizer, new.learning.fast_weight) == ("muon", 0.5)


@pytest.mark.parametrize("preset", ["quick", "standard"])
def test_the_command_of_a_former_preset_still_gives_its_settings(preset: str) -> None:
    """The presets have changed; what is told beside the networks says how they were."""
    told = (shipped_checkpoint().parent / "README.md").read_text(encoding="utf-8")
    command = re.findall(rf"`alphac4 train (--preset {preset} --iterations .*)`", told)
    assert len(command) == 1
    given = parse([*command[0].split(), "--learning.muon-rate", "3"]).config  # which AdamW does not read
    first, *_ = FORMER_PRESETS[preset]
    assert given == from_dict(first)


@pytest.mark.slow
def test_the_gates_search_is_the_configured_one(tmp_path: Path) -> None:
    """Another one plays other games, from the same openings."""
    games = []
    for number, puct in enumerate(({}, {"c_init": 20.0, "prior_temperature": 0.3})):
        gate = TINY["gate"] | {"puct": puct, "simulations": 12}  # type: ignore[operator]
        report = TrainingLoop.open(tmp_path / str(number), tiny(iterations=1, gate=gate)).run()[0]
        assert report.gate is not None
        games.append(report.gate.games)
    assert games[0] != games[1]
    assert [game[:2] for game in games[0]] == [game[:2] for game in games[1]]

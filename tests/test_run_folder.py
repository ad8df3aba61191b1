import contextlib
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.numpy
import torch
from campaigns.tiny_run import EXPLORING, outcome, tiny_run
from test_files import HOLD
from test_selfplay import some_samples

from alphac4.checkpoint import load_checkpoint
from alphac4.game import STANDARD
from alphac4.machine import cores
from alphac4.nn import NetworkConfig
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.replay import Batch, Replay
from alphac4.selfplay.shards import load_shard, save_shard
from alphac4.selfplay.statistics import move_string
from alphac4.training.config import LearningConfig
from alphac4.training.costs import SECONDS_BETWEEN_ENTRIES, CostJournal, Costs
from alphac4.training.host_learner import HostLearner
from alphac4.training.loop import Stopped, TrainingLoop
from alphac4.training.monitor import Monitor
from alphac4.training.reports import IterationReport
from alphac4.training.run_folder import RunFolder
from alphac4.training.run_state import PREVIOUS_STATE_FILE, STATE_FILE, RunError, load_state, save_state
from alphac4.training.schedule import Schedule


def flip(path: Path, share: float = 0.7) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 1
    path.write_bytes(content)


def train(folder: Path, **changes: object) -> list[IterationReport]:
    """Train a tiny run to its end and let go of its folder."""
    with TrainingLoop.open(folder, tiny_run(**changes)) as loop:
        history = loop.run()
        loop.close(history)
    return history


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two iterations; tests work on copies."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(folder, iterations=2)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_damaged_best_network_never_replaces_the_good_copy(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One flipped bit in the numbered file: the copy stays, takes its place, and the run goes on."""
    best = load_state(run / STATE_FILE).best_iteration
    numbered, good = run / "checkpoints" / f"{best:06d}.safetensors", run / "checkpoints" / "best.safetensors"
    before = good.read_bytes()
    flip(numbered)
    with TrainingLoop.open(run, tiny_run(iterations=3)) as loop:
        assert good.read_bytes() == before == numbered.read_bytes()
        assert f"{best:06d}.safetensors" in caplog.text
        assert len(loop.run()) == 3


def test_a_damaged_state_costs_an_iteration_and_not_the_run(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The one before is taken up, and the run comes to the same end; the damaged one never becomes the older one."""
    expected = outcome(run)
    flip(run / STATE_FILE)
    previous = (run / PREVIOUS_STATE_FILE).read_bytes()
    with TrainingLoop.open(run, tiny_run(iterations=2)) as loop:
        assert loop.state.iteration == 1
        loop.close(loop.run())
    assert "goes on from iteration 1" in caplog.text
    assert (run / PREVIOUS_STATE_FILE).read_bytes() == previous
    assert outcome(run) == expected


@pytest.mark.slow
def test_a_damaged_state_doubles_no_games_of_the_next_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of that was recorded already: it is played again, and the run comes to the same end bit for bit."""
    monkeypatch.setattr("alphac4.selfplay.actor.SECONDS_BETWEEN_BLOCKS", float("inf"))
    train(tmp_path / "straight", iterations=4)
    interrupt(TrainingLoop.open(tmp_path / "halting", tiny_run(iterations=4)), 2 * cores() + 1)  # in the third
    flip(tmp_path / "halting" / STATE_FILE)
    train(tmp_path / "halting", iterations=4)
    assert "games recorded after iteration 2 are removed, and played again" in caplog.text
    assert outcome(tmp_path / "halting") == outcome(tmp_path / "straight")


def test_two_damaged_states_are_reported_in_one_line(run: Path) -> None:
    """Both files are named, and nothing is begun anew."""
    for name in (STATE_FILE, PREVIOUS_STATE_FILE):
        flip(run / name)
    with pytest.raises(RunError, match=r"state\.safetensors.*state\.previous\.safetensors") as caught:
        TrainingLoop.open(run, tiny_run(iterations=3))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_an_empty_config_costs_nothing(run: Path, content: bytes) -> None:
    """The state knows the settings; others are still refused."""
    (run / "config.json").write_bytes(content)
    with pytest.raises(RunError, match="samples"):
        TrainingLoop.open(run, tiny_run(iterations=2, samples=61))
    (run / "config.json").write_bytes(content)
    with TrainingLoop.open(run, tiny_run(iterations=2)) as loop:
        assert loop.state.iteration == 2
    assert json.loads((run / "config.json").read_text())["samples"] == 50


def test_weights_that_are_not_finite_are_no_state_to_go_on_from(run: Path) -> None:
    """As an earlier version could commit them: the state before is taken up."""
    state = load_state(run / STATE_FILE)
    state.learner["network.policy.bias"][0] = float("nan")
    save_state(run / STATE_FILE, state)
    with TrainingLoop.open(run, tiny_run(iterations=3)) as loop:
        assert loop.state.iteration == 1


def test_every_changed_bit_of_a_shard_is_noticed(tmp_path: Path) -> None:
    """Shards have a digest; those of the format before it are still read, unless they hold what cannot be."""
    path = tmp_path / "000001-000-00000.safetensors"
    save_shard(path, some_samples(20), 1)
    content = path.read_bytes()
    for index in np.linspace(0, len(content) - 1, 120).astype(int):
        changed = bytearray(content)
        changed[index] ^= 4
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="000001-000-00000"):
            load_shard(path)
    samples = some_samples(20)
    earlier = samples.arrays() | {"plies_left": np.ones(20, np.uint8)}  # which was written once, and never read
    path.write_bytes(safetensors.numpy.save(earlier, {"format": "alphac4-replay-3", "iteration": "1"}))
    np.testing.assert_array_equal(load_shard(path).policy, samples.policy)
    samples.returns[3, 0] = np.nan
    path.write_bytes(safetensors.numpy.save(samples.arrays(), {"format": "alphac4-replay-3", "iteration": "1"}))
    with pytest.raises(ValueError, match="not finite"):
        load_shard(path)


def some_batches(bad: int) -> list[Batch]:
    """Three batches, of which the one numbered ``bad`` has a target that is not a number."""
    rng = np.random.default_rng(0)
    batches = []
    for number in range(3):
        planes = rng.integers(0, 2, (8, 2, 6, 7)).astype(np.float32)
        planes[:, 1] *= 1 - planes[:, 0]
        wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 8)]
        if number == bad:
            wdl[0, 0] = np.nan
        policy = np.full((8, 7), 1 / 7, np.float32)
        batches.append(Batch(planes, policy, np.ones(8, np.float32), wdl, planes))
    return batches


def test_a_step_that_is_not_finite_is_skipped() -> None:
    """The weights stay numbers, the others are learned from, and the report says how many were skipped."""
    learner = HostLearner(NetworkConfig(channels=4, blocks=1), LearningConfig(), STANDARD, seed=0)
    report = learner.learn_from(some_batches(bad=1), Schedule(start_rate=1e-3, end_step=10), 24)
    assert learner.is_finite()
    assert all(bool(torch.isfinite(value).all()) for value in learner.network.state_dict().values())
    assert (report.steps, report.skipped_steps) == (3, 1)
    assert np.isfinite([report.policy_loss, report.value_loss, report.gradient_norm]).all()
    assert "1 of 3 gradient steps were skipped" in report.warnings[0]


@pytest.mark.slow
def test_a_run_whose_weights_are_not_finite_goes_back(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last good ones, with a warning in the report; the next iteration learns again."""
    with TrainingLoop.open(run, tiny_run(iterations=4)) as loop:
        real = loop.learner.learn

        def diverge(*arguments: object) -> object:
            report = real(*arguments)  # type: ignore[arg-type]
            if loop.state.iteration == 2:
                loop.learner.average.policy.bias[0] = float("inf")
            return report

        before = {name: value.clone() for name, value in loop.learner.average.state_dict().items()}
        monkeypatch.setattr(loop.learner, "learn", diverge)
        history = loop.run()
    assert history[2].learning.went_back
    assert any("not finite" in warning for warning in history[2].warnings)
    assert not history[3].learning.went_back
    assert load_state(run / STATE_FILE).iteration == 4
    third = load_state(run / PREVIOUS_STATE_FILE).learner
    assert all(torch.equal(third[f"average.{name}"], value) for name, value in before.items())


@pytest.mark.slow
def test_a_second_process_is_refused_in_one_line(run: Path) -> None:
    """With the name of the folder and of who has it; afterwards the run goes on."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(run / "lock")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    reports = (run / "reports.jsonl").read_bytes()
    with pytest.raises(RunError, match=f"in use by process {holder.pid}") as caught:
        TrainingLoop.open(run, tiny_run(iterations=3))
    assert str(run) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (run / "reports.jsonl").read_bytes() == reports
    holder.kill()
    holder.wait()
    assert len(train(run, iterations=3)) == 3


@pytest.mark.slow
def test_strays_are_reported_and_left_out(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Copies with other names end nothing, and nobody's files are removed."""
    shard = next((run / "replay").iterdir())
    strays = [
        run / "checkpoints" / "000001-copy.safetensors",
        run / "checkpoints" / "000000 (1).safetensors",
        shard.with_name(shard.name.replace(".safetensors", " (1).safetensors")),
        shard.with_name("000003-copy.safetensors"),
        run / "notes" / ".draft.tmp",
        run / ".x.tmp",
    ]
    (run / "notes").mkdir()
    for stray in strays:
        stray.write_bytes(shard.read_bytes())
    assert len(train(run, iterations=3)) == 3
    assert all(stray.exists() for stray in strays)
    assert "000003-copy.safetensors" in caplog.text


def test_damaged_lines_of_reports_are_reported_and_left_out(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that are no text, deep nesting, wrong types, and a figure that was changed."""
    path = run / "reports.jsonl"
    first, second = path.read_bytes().splitlines()
    nested = b'{"iteration":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    wrong = first.replace(b'"iteration":1', b'"iteration":"x"').rpartition(b',"checksum"')[0] + b"}"
    changed = second.replace(b'"seconds_total":', b'"seconds_total":9')
    path.write_bytes(b"\n".join([first, b"\xff\xfe{", nested, wrong, changed, b"7", b""]))
    folder = RunFolder(run, tiny_run(iterations=2))
    state = folder.load_state()
    assert [report.iteration for report in folder.reports(state)] == [1, 2]  # the second from the state
    folder.close()
    for number in range(2, 7):
        assert f"reports.jsonl: line {number} is damaged" in caplog.text


def test_each_network_carries_what_had_been_spent_when_it_was_made(run: Path) -> None:
    """Also the best one after the closing matches, which add its strength and nothing else."""
    reports = [IterationReport.from_json(line) for line in (run / "reports.jsonl").read_text().splitlines()]
    for path in (run / "checkpoints").iterdir():
        provenance = load_checkpoint(path).provenance
        spent = [report for report in reports if report.iteration == provenance["iteration"]]
        if spent:
            assert provenance["evaluations"] == spent[0].evaluations_total
            assert provenance["games"] == spent[0].games_total
            assert provenance["seconds"] <= spent[0].seconds_total + 1
        else:
            assert provenance["evaluations"] == 0
    assert "elo" in load_checkpoint(run / "checkpoints" / "best.safetensors").strength


def interrupt(loop: TrainingLoop, blocks: int) -> list[Block]:
    """Let a run die once it has recorded so many blocks, as far as its files are concerned; returns them."""
    seen: list[Block] = []
    real = loop.folder.record

    def record(block: Block, iteration: int, actor: int, number: int) -> None:
        real(block, iteration, actor, number)
        seen.append(block)
        if len(seen) == blocks:
            raise KeyboardInterrupt

    loop.folder.record = record  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    loop.folder.close()
    return seen


@pytest.mark.slow
def test_interrupted_attempts_count_in_the_costs(tmp_path: Path) -> None:
    """Evaluations and games of both sessions, seconds as well."""
    first = interrupt(TrainingLoop.open(tmp_path, tiny_run(iterations=1)), 1)
    history = train(tmp_path, iterations=1)
    lost = sum(block.work.evaluations for block in first)
    assert lost > 0
    assert history[0].evaluations_total == history[0].selfplay.evaluations + lost
    assert history[0].games_total == history[0].selfplay.games + sum(len(block.games.plies) for block in first)
    network = load_checkpoint(tmp_path / "checkpoints" / "000001.safetensors")
    assert network.provenance["evaluations"] == history[0].evaluations_total


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, EXPLORING], ids=["plain", "exploring"])
def test_an_interrupted_run_comes_to_the_same_end(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, also with forks of games, learned proofs, the best move's value and a cache that overflows."""
    monkeypatch.setattr("alphac4.selfplay.actor.SECONDS_BETWEEN_BLOCKS", float("inf"))
    train(tmp_path / "straight", iterations=3, **settings)
    for blocks in (1, 2, 1, 1):  # in the middle of iterations, or at their first block
        interrupt(TrainingLoop.open(tmp_path / "halting", tiny_run(iterations=3, **settings)), blocks)
    train(tmp_path / "halting", iterations=3, **settings)
    assert outcome(tmp_path / "halting") == outcome(tmp_path / "straight")


def test_what_is_damaged_in_an_interrupted_iteration_is_recorded_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A shard, the games under way, and the costs: each is told in one line, and the run comes to its end."""
    interrupt(TrainingLoop.open(tmp_path, tiny_run(iterations=1)), 1)
    shard = next((tmp_path / "replay").iterdir())
    damaged = [shard, tmp_path / "under_way" / shard.name, tmp_path / "costs.json"]
    for path in damaged:
        flip(path)
    content = shard.read_bytes()
    history = train(tmp_path, iterations=1)
    assert history[0].samples_total >= 50
    for path in damaged:
        assert sum(str(path) in line for line in caplog.text.splitlines()) == 1
    assert shard.read_bytes() == content  # it may be mended one day, and its name is never given again
    assert len(load_shard(next(path for path in (tmp_path / "replay").iterdir() if path != shard))) > 0


def test_a_kill_makes_the_costs_forget_two_seconds_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an iteration goes on; what was played is written with its games."""
    now = [100.0]
    monkeypatch.setattr("alphac4.training.costs.time", SimpleNamespace(perf_counter=lambda: now[0]))
    journal = CostJournal(tmp_path / "costs.json", Costs(seconds=50.0))
    for tick in range(200):
        now[0] += 0.5
        journal.tick()
        left = CostJournal(tmp_path / "costs.json", Costs(seconds=50.0)).now()
        assert journal.now().seconds == 50.0 + 0.5 * (tick + 1)
        assert 0 <= journal.now().seconds - left.seconds <= SECONDS_BETWEEN_ENTRIES + 0.5
    journal.add(games=3, evaluations=40)
    left = CostJournal(tmp_path / "costs.json", Costs()).now()
    assert left == journal.now()


def test_time_that_two_threads_count_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The players of a match tick as they please; one is held up after it has read what had been counted."""
    now = [0.0]
    reading, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr("alphac4.training.costs.time", SimpleNamespace(perf_counter=lambda: now[0]))

    class HeldUp(CostJournal):
        @property
        def _costs(self) -> Costs:
            counted: Costs = self.__dict__["counted"]
            if threading.current_thread() is held_up and not reading.is_set():
                reading.set()
                go_on.wait()
            return counted

        @_costs.setter
        def _costs(self, costs: Costs) -> None:
            self.__dict__["counted"] = costs

    held_up = threading.Thread()
    journal = HeldUp(tmp_path / "costs.json", Costs())
    now[0] = 3.0
    held_up, other = threading.Thread(target=journal.tick), threading.Thread(target=journal.tick)
    held_up.start()
    reading.wait()
    other.start()
    other.join(0.2)
    go_on.set()
    held_up.join()
    other.join()
    assert journal.now().seconds == 3.0


@pytest.mark.slow
def test_an_interrupted_iteration_goes_on_with_its_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All games under way come to their end and are recorded: dropping them would favour short games."""
    monkeypatch.setattr("alphac4.selfplay.actor.SECONDS_BETWEEN_BLOCKS", 0.0)
    settings = {"iterations": 1, "samples": 600}
    seen = interrupt(TrainingLoop.open(tmp_path, tiny_run(**settings)), 4)
    replay = Replay(tmp_path / "replay")
    begun = []
    for actor, recorded in replay.begin(1).items():
        assert recorded.next_number > 0
        folder = RunFolder(tmp_path, tiny_run(**settings))
        games = folder.games_under_way(1, actor, recorded.next_number - 1)
        folder.close()
        assert games is not None
        for moves, plies, stage in zip(games["games.moves"], games["games.plies"], games["games.stage"], strict=True):
            if stage != 0:
                begun.append("".join(str(column + 1) for column in moves[:plies]))
    assert sum(map(bool, begun)) >= 2
    ended = []
    loop = TrainingLoop.open(tmp_path, tiny_run(**settings))
    real = loop.folder.record

    def record(block: Block, iteration: int, actor: int, number: int) -> None:
        ended.extend(move_string(block.games, row) for row in range(len(block.games.plies)))
        real(block, iteration, actor, number)

    loop.folder.record = record  # type: ignore[method-assign]
    loop.run()
    loop.folder.close()
    for moves in begun:
        assert any(game.startswith(moves) for game in ended), moves
    before = [move_string(block.games, row) for block in seen for row in range(len(block.games.plies))]
    assert not set(before) & set(ended) or max(map(len, set(before) & set(ended))) < 12  # none is played twice


@pytest.mark.slow
def test_a_finished_run_made_longer_keeps_its_final_learning_rate(run: Path) -> None:
    """And the change is in the provenance of the networks made afterwards."""
    history = train(run, iterations=4)
    config = LearningConfig()
    warm = [min(1.0, report.learning.steps * report.iteration / config.warmup_steps) for report in history]
    rates = [report.learning.learning_rate / share for report, share in zip(history, warm, strict=True)]
    assert rates[1] < rates[0]
    assert rates[2] == pytest.approx(config.final_learning_rate)
    assert rates[3] == pytest.approx(config.final_learning_rate)
    changes = load_checkpoint(run / "checkpoints" / "000004.safetensors").provenance["changes"]
    assert changes == [{"after_iteration": 2, "setting": "iterations", "from": 2, "to": 4}]


@pytest.mark.slow
def test_the_costs_of_the_network_a_run_begins_with_are_reported(run: Path, tmp_path: Path) -> None:
    """Added up over a chain of runs, also once the first network's file is gone."""
    start = run / "checkpoints" / "000002.safetensors"
    given = load_checkpoint(start).provenance["evaluations"]
    train(tmp_path / "second", iterations=1, start_from=str(start))
    middle = tmp_path / "second" / "checkpoints" / "000001.safetensors"
    own = load_checkpoint(middle).provenance["evaluations"]
    train(tmp_path / "third", iterations=1, start_from=str(middle))
    start.unlink()
    train(tmp_path / "second", iterations=2, start_from=str(start))
    for folder, name, before in (("second", "000002", given), ("third", "000001", given + own)):
        provenance = load_checkpoint(tmp_path / folder / "checkpoints" / f"{name}.safetensors").provenance
        assert provenance["with_start"]["evaluations"] == provenance["evaluations"] + before
        assert provenance["started_from"]["iteration"] in (1, 2)


@pytest.mark.slow
def test_a_stopped_run_keeps_its_games(tmp_path: Path) -> None:
    """Ctrl-C in the middle of an iteration leaves nothing that blocks the next start."""
    stop = threading.Event()
    loop = TrainingLoop.open(tmp_path, tiny_run(iterations=1, samples=400), stop)
    real = loop.folder.record

    def record(block: Block, iteration: int, actor: int, number: int) -> None:
        real(block, iteration, actor, number)
        stop.set()

    loop.folder.record = record  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        loop.run()
    loop.folder.close()
    assert len(train(tmp_path, iterations=1, samples=400)) == 1


def test_curves_on_a_full_disk_are_reported_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """TensorBoard writes from a thread of its own, which must print no traceback."""
    with Monitor(tmp_path, {}, STANDARD) as monitor:
        queue = monitor._writer.file_writer.event_writer._async_writer

        def full(_content: bytes) -> None:
            raise OSError(28, "No space left on device")

        queue._writer.write = full
        with contextlib.suppress(OSError):  # where the thread has failed already, at what it was still writing
            monitor._writer.add_text("settings", "x", 0)
        queue._worker.join(60)
    assert "No space left" in caplog.text or queue._worker.exception is not None
    assert "Traceback" not in capfd.readouterr().err

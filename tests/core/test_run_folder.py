import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from campaigns.tiny_run import SETTINGS, outcome, tiny_run
from helpers import held_elsewhere
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import alphac4
from alphac4.compute.cores import Actors
from alphac4.game import STANDARD
from alphac4.nn.backends import INT8, backend_names
from alphac4.nn.network import PolicyValueNetwork, torch_seed
from alphac4.runs import folder as folder_module
from alphac4.runs.costs import WRITE_INTERVAL_S, CostCounter
from alphac4.runs.folder import RunFolder
from alphac4.runs.reports import IterationReport
from alphac4.runs.session import TrainingSession, find_config
from alphac4.runs.state import STATE_FILE, Costs, load_state, save_state, stored_settings
from alphac4.runs.tensorboard import Monitor
from alphac4.selfplay.games import NEW_GAME
from alphac4.selfplay.replay import Replay
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.locks import LOCK_FILE
from alphac4.training.config import LearningConfig
from alphac4.training.learner import Learner
from alphac4.training.loop import Callback, Progress, StopTraining
from alphac4.training.matches import Matches


@pytest.fixture(scope="module", autouse=True)
def _alike_everywhere() -> Iterator[None]:
    """Use two actors on any machine, and draw no images, which take two seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHAC4_CORES", "2")
        patch.setattr("alphac4.compute.cores.MIN_GAMES", 1)
        patch.setattr(Monitor, "_figures", lambda _monitor, _report: {})
        yield


def flip(path: Path, share: float = 0.7) -> None:
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 1
    path.write_bytes(content)


def train(folder: Path, **changes: object) -> list[IterationReport]:
    with TrainingSession(RunFolder(folder, tiny_run(**changes))) as session:
        history = session.train()
        session.play_closing_matches()
    return history


def watch(session: TrainingSession, seen: Callable[[Progress], object]) -> None:
    """Call a function whenever games of a run have ended."""
    real = session.costs.on_progress

    def on_progress(progress: Progress) -> None:
        real(progress)
        if progress.games:
            seen(progress)

    session.costs.on_progress = on_progress  # type: ignore[method-assign]


def interrupt(session: TrainingSession, blocks: int = 0, done: int = 0) -> list[Progress]:
    """Interrupt a run after ``blocks`` blocks of games and ``done`` iterations; return the progress of its games."""
    seen: list[Progress] = []

    def die_after(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) >= blocks and session.state.iteration >= done:
            raise KeyboardInterrupt

    watch(session, die_after)
    with session, pytest.raises(KeyboardInterrupt):
        session.train()
    return seen


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run of two iterations; tests use copies of it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(folder, iterations=2)
    return folder


@pytest.fixture(scope="module")
def straight(finished: Path) -> dict[str, Any]:
    return outcome(finished)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_new_run_does_not_replace_the_samples_of_another(run: Path, tmp_path: Path) -> None:
    """Only the shards have been copied."""
    folder = tmp_path / "copied"
    shutil.copytree(run / "replay", folder / "replay")
    before = sorted(path.name for path in (folder / "replay").iterdir())
    with pytest.raises(ValueError, match=r"replay holds samples up to iteration 2, .* has no state after iteration 0"):
        train(folder)
    assert sorted(path.name for path in (folder / "replay").iterdir()) == before


def test_run_that_cannot_start_leaves_no_settings(tmp_path: Path) -> None:
    wrong = tiny_run(iterations=1, machine={"backend": "nothing", "device": "cpu"})
    with pytest.raises(ValueError, match="nothing"):
        TrainingSession(RunFolder(tmp_path, wrong))
    assert stored_settings(tmp_path) is None
    with TrainingSession(RunFolder(tmp_path, tiny_run(iterations=1, positions_per_iteration=61))):
        assert stored_settings(tmp_path) is not None


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"positions_per_iteration": 51}, "positions_per_iteration 50 -> 51"),
        ({"board": {"rows": 5}}, "board.rows 6 -> 5"),
        ({"network": {"channels": 8}}, "network.channels 4 -> 8"),
        ({"selfplay": {"full_visits": 5}}, "selfplay.full_visits 4 -> 5"),
        ({"learning": {"batch_size": 32}}, "learning.batch_size 16 -> 32"),
        ({"iterations": 3}, ""),
        ({"gate": {"pairs": 2}}, ""),
        ({"baseline": {"interval": 1}}, ""),
        ({"machine": {"keep_checkpoints": 2}}, ""),
    ],
    ids=str,
)
def test_run_resumes_only_with_settings_that_its_files_do_not_depend_on(
    change: dict[str, Any], refused: str, run: Path
) -> None:
    ((name, value),) = change.items()
    changed = {name: SETTINGS.get(name, {}) | value if isinstance(value, dict) else value}
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    if refused:
        with pytest.raises(ValueError, match=f"holds a run with other settings: {refused}; choose another folder"):
            TrainingSession(RunFolder(run, tiny_run(**changed)))
        after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        assert after | {run / LOCK_FILE: before[run / LOCK_FILE]} == before
    else:
        with TrainingSession(RunFolder(run, tiny_run(**changed))):
            pass


@pytest.mark.parametrize("kind", ["state", "best network"])
def test_damaged_state_or_best_network_is_rejected_with_advice(kind: str, run: Path) -> None:
    """The files are not changed. The best network's copy is damaged as well."""
    copy, iteration = run / "checkpoints" / "best.safetensors", load_state(run / STATE_FILE).best_iteration
    best = run / "checkpoints" / f"{iteration:06d}.safetensors"
    for path in (run / STATE_FILE,) if kind == "state" else (best, copy):
        flip(path)
    content = copy.read_bytes()
    with pytest.raises(ValueError, match=r"\w+\.safetensors: .*: restore the file, or start a run in a new folder"):
        TrainingSession(RunFolder(run, tiny_run(iterations=3)))
    assert copy.read_bytes() == content


def test_damaged_best_network_is_restored_from_its_copy(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    best = run / "checkpoints" / f"{load_state(run / STATE_FILE).best_iteration:06d}.safetensors"
    content = best.read_bytes()
    flip(best)
    with TrainingSession(RunFolder(run, tiny_run(iterations=3))):
        assert "its copy" in caplog.text
        assert best.read_bytes() == content


@pytest.mark.parametrize("channels", [8, 4])
def test_other_network_in_the_place_of_the_best_is_replaced_by_the_copy(
    channels: int, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other network has the iteration and run of the best one, and the run's architecture or another."""
    copy, iteration = run / "checkpoints" / "best.safetensors", load_state(run / STATE_FILE).best_iteration
    best, content = run / "checkpoints" / f"{iteration:06d}.safetensors", copy.read_bytes()
    config = tiny_run(network=SETTINGS["network"] | {"channels": channels}).network_config()
    with torch_seed(1):  # the run's seed is 0, and its first network may be its best
        other = PolicyValueNetwork(config)
    save_checkpoint(best, Checkpoint(network=other, provenance=load_checkpoint(copy).provenance))
    with TrainingSession(RunFolder(run, tiny_run(iterations=2))):
        assert f"{best}: not the run's best network" in caplog.text
        assert best.read_bytes() == copy.read_bytes() == content
    for path in (best, copy):
        save_checkpoint(path, Checkpoint(network=other, provenance=load_checkpoint(copy).provenance))
    content = copy.read_bytes()
    with pytest.raises(ValueError, match=rf"{best.name}: not .*{copy.name}: not .*: restore the file, or start"):
        TrainingSession(RunFolder(run, tiny_run(iterations=2)))
    assert copy.read_bytes() == content


def test_network_replaced_during_a_run_is_not_copied_over_the_best(run: Path) -> None:
    copy, best = run / "checkpoints" / "best.safetensors", load_state(run / STATE_FILE).best_iteration
    content = copy.read_bytes()
    with contextlib.closing(RunFolder(run, tiny_run(iterations=2))) as folder:
        flip(folder.checkpoint_path(best))
        folder.commit(folder.reports()[-1])
        assert folder.checkpoint_path(best).read_bytes() == copy.read_bytes() == content


def test_damaged_config_is_replaced_by_the_settings_of_the_state(run: Path) -> None:
    whole = (run / "config.json").read_bytes()
    for content in (whole, b"", b"\xff\xfe", b"[" * 100_000):
        (run / "config.json").write_bytes(content)
        with pytest.raises(ValueError, match="positions_per_iteration 50 -> 61"):
            TrainingSession(RunFolder(run, tiny_run(iterations=2, positions_per_iteration=61)))
        (run / "config.json").write_bytes(content)
        with TrainingSession(RunFolder(run, tiny_run(iterations=2))) as session:
            assert session.state.iteration == 2
        assert (run / "config.json").read_bytes() == whole
    (run / "config.json").unlink()
    for preset in (None, "quick"):
        assert find_config(run, preset, None).iterations == tiny_run(iterations=2).iterations


def test_closing_matches_of_an_earlier_end_are_forgotten(run: Path) -> None:
    longer = tiny_run(iterations=3)
    with TrainingSession(RunFolder(run, longer)) as session:
        assert session.state.closing_matches is not None
        session.train()
    state = load_state(run / STATE_FILE)
    assert state.closing_matches is None
    assert not state.is_finished(longer)


def test_costs_never_fall_below_the_committed_ones(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text('{"seconds": 1.0, "games": 9, "evaluations": 3}')
    costs = CostCounter(tmp_path / "costs.json", Costs(seconds=50.0, games=2, evaluations=40)).now()
    assert costs.seconds >= 50.0
    assert (costs.games, costs.evaluations) == (9, 40)


def test_time_left_is_estimated_from_the_iterations_of_this_session(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, firsts = IterationReport.row, list[int | None]()

    def recording(report: IterationReport, iterations: int, first: IterationReport | None = None) -> str:
        firsts.append(None if first is None else first.iteration)
        return row(report, iterations, first)

    monkeypatch.setattr(IterationReport, "row", recording)
    train(run, iterations=5)
    assert firsts == [None, 3, 3]


def test_change_of_a_setting_survives_a_resumed_run_without_a_commit(run: Path) -> None:
    for _ in range(2):
        with TrainingSession(RunFolder(run, tiny_run(iterations=3))) as session:
            (change,) = session.state.changes
            assert change == {"after_iteration": 2, "setting": "iterations", "from": 2, "to": 3}


def test_weights_that_are_not_finite_are_rolled_back(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TrainingSession(RunFolder(run, tiny_run(iterations=3))) as session:
        real = session.loop.learner.learn

        def diverge(*arguments: Any, **options: Any) -> object:
            report = real(*arguments, **options)
            session.loop.learner.average.policy.bias[0] = float("inf")
            return report

        before = {name: value.clone() for name, value in session.loop.learner.average.state_dict().items()}
        monkeypatch.setattr(session.loop.learner, "learn", diverge)
        session.train()
    third = load_state(run / STATE_FILE).learner
    assert all(torch.equal(third[f"average.{name}"], value) for name, value in before.items())
    assert third["steps"] == 3 * tiny_run().steps_per_iteration  # those of the schedule; the discarded ones count
    history = train(run, iterations=4)
    assert history[2].learning.rolled_back
    assert any("not finite" in warning for warning in history[2].warnings)
    assert not history[3].learning.rolled_back


def test_iteration_whose_steps_were_all_skipped_has_no_figures_of_learning(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TrainingSession(RunFolder(run, tiny_run(iterations=3))) as session:
        monkeypatch.setattr(session.loop.learner, "_step", lambda *_arguments: np.full(5, np.nan))
        session.train()
    learned = train(run, iterations=4)[2].learning
    assert learned.skipped_steps == learned.steps > 0
    assert (learned.losses, learned.policy_entropy, learned.gradient_norm) == ({}, None, None)
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    for tag in ("learning/gradient norm", "policy/network entropy", "loss/policy"):
        assert [point.step for point in events.Scalars(tag)] == [1, 2, 4]


def test_curves_are_on_the_disk_before_the_commit(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def steps() -> list[int]:
        events = EventAccumulator(str(run / "tensorboard"))
        events.Reload()
        return [point.step for point in events.Scalars("loss/policy")]

    def end(_folder: RunFolder, _report: IterationReport) -> None:
        assert steps() == [1, 2, 3]  # already on the disk
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "commit", end)
        with pytest.raises(KeyboardInterrupt), TrainingSession(RunFolder(run, tiny_run(iterations=3))) as session:
            session.train()
    train(run, iterations=4)
    assert steps() == [1, 2, 3, 4]


def test_second_process_cannot_open_a_run(run: Path) -> None:
    reports = (run / "reports.jsonl").read_bytes()
    with held_elsewhere(run / LOCK_FILE), pytest.raises(ValueError, match="in use by process 4711"):
        TrainingSession(RunFolder(run, tiny_run(iterations=3)))
    assert (run / "reports.jsonl").read_bytes() == reports
    with TrainingSession(RunFolder(run, tiny_run(iterations=3))) as session:
        assert session.state.iteration == 2


def test_file_that_cannot_be_read_is_not_taken_for_damaged(run: Path) -> None:
    """The run stops, with the name of the file, instead of continuing without it or with a copy."""
    best = f"checkpoints/{load_state(run / STATE_FILE).best_iteration:06d}.safetensors"
    copy, shard = "checkpoints/best.safetensors", "replay/000001.safetensors"
    for path in (run / name for name in (best, copy, shard, STATE_FILE, "reports.jsonl", "costs.json")):
        path.rename(run / "kept")
        path.symlink_to("/proc/self/mem")  # Linux reads no byte of it
        with pytest.raises(OSError, match=f"Input/output error: '{path}'"):
            TrainingSession(RunFolder(run, tiny_run(iterations=3)))
        (run / "kept").rename(path)
    (run / "config.json").unlink()
    (run / "config.json").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match=r"Input/output error: .*config\.json"):
        stored_settings(run)


def test_damaged_and_stray_files_are_reported_and_skipped(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    shard = run / "replay" / "000001.safetensors"
    strays = [
        run / "checkpoints" / "000000 (1).safetensors",
        shard.with_name(shard.name.replace(".safetensors", " (1).safetensors")),
        shard.with_name("000003-copy.safetensors"),
        run / ".x.tmp",
    ]
    for stray in strays:
        stray.write_bytes(shard.read_bytes())
    flip(shard)
    content, costs = shard.read_bytes(), run / "costs.json"
    costs.write_bytes(costs.read_bytes()[:-9])
    _, second, third = train(run, iterations=3)
    assert third.games_total == second.games_total + third.selfplay.games
    assert all(stray.exists() for stray in strays)
    assert shard.read_bytes() == content  # damaged files are not removed
    for path in (strays[2], shard, costs):
        assert sum(str(path) in line for line in caplog.text.splitlines()) == 1


def test_damaged_lines_of_reports_are_reported_and_skipped(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = run / "reports.jsonl"
    first, second = path.read_bytes().splitlines()
    nested = b'{"iteration":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    wrong = first.replace(b'"iteration":1', b'"iteration":"x"')
    path.write_bytes(b"\n".join([first, b"\xff\xfe{", nested, wrong, second[:-20], b"7", b""]))
    folder = RunFolder(run, tiny_run(iterations=2))
    assert [report.iteration for report in folder.reports()] == [1]
    folder.close()
    for number in range(2, 7):
        assert f"reports.jsonl: line {number} is damaged" in caplog.text


def test_missing_reports_are_announced_and_their_candidates_not_counted(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (run / "reports.jsonl").unlink()
    resumed = alphac4.train(tiny_run(iterations=3), run=run, progress=False)
    assert f"{run / 'reports.jsonl'}: reports of 2 iterations are missing" in caplog.text
    assert str(resumed).startswith("Trained 3 iterations")
    assert "promoted" not in str(resumed)


def test_a_run_without_its_state_is_not_replaced_by_a_new_one(run: Path) -> None:
    (run / "state.safetensors").unlink()
    before = {path: path.read_bytes() for path in run.rglob("*.safetensors")}
    with pytest.raises(ValueError, match=r"up to iteration 2, .* has no state after .* 0: restore state.safetensors"):
        RunFolder(run, tiny_run(iterations=3))
    assert {path: path.read_bytes() for path in run.rglob("*.safetensors")} == before


def test_costs_in_provenance_include_interrupted_attempts(tmp_path: Path) -> None:
    first = interrupt(TrainingSession(RunFolder(tmp_path, tiny_run(iterations=1))), 1)
    (report,) = train(tmp_path, iterations=1)
    lost = sum(progress.evaluations for progress in first)
    assert lost > 0
    assert report.evaluations_total == report.selfplay.evaluations + lost
    assert report.games_total == report.selfplay.games + sum(progress.games for progress in first)
    carried = load_checkpoint(tmp_path / "checkpoints" / "000001.safetensors").provenance
    assert (carried["evaluations"], carried["games"]) == (report.evaluations_total, report.games_total)
    assert carried["seconds"] <= report.seconds_total + 1


def after(owner: Any, name: str) -> Callable[[pytest.MonkeyPatch, TrainingSession], None]:
    """Return a function that interrupts a run after it has called a method in its second iteration."""

    def arm(patch: pytest.MonkeyPatch, session: TrainingSession) -> None:
        real, target = getattr(owner, name), owner

        def call_and_die(*arguments: Any, **options: Any) -> object:
            result = real(*arguments, **options)
            if session.state.iteration >= 1:
                raise KeyboardInterrupt
            return result

        patch.setattr(target, name, call_and_die)

    return arm


def fill_disk(patch: pytest.MonkeyPatch, session: TrainingSession) -> None:
    """Simulate a full disk when the costs are written in the second iteration."""

    def fill(_progress: Progress) -> None:
        if session.state.iteration:
            patch.setattr("alphac4.runs.costs.WRITE_INTERVAL_S", 0.0)
            patch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))

    watch(session, fill)


POINTS = {
    "self-play": after(Actors, "play"),
    "learning": after(Learner, "learn"),
    "gate": after(Matches, "gate"),
    "shard": after(Replay, "save_latest"),
    "report": after(folder_module, "append_line"),
    "state": after(folder_module, "save_state"),
    "best network": after(RunFolder, "_finish_commit"),
    "full disk": fill_disk,
}


@pytest.mark.parametrize("point", POINTS)
def test_interrupted_run_repeats_the_iteration_and_ends_bit_identical(
    point: str, straight: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupt a run at each point, on another number of cores; `campaigns.kills` does so with SIGKILL."""
    with monkeypatch.context() as patch:
        patch.setenv("ALPHAC4_CORES", "3")
        with TrainingSession(RunFolder(tmp_path, tiny_run(iterations=2))) as session:
            POINTS[point](patch, session)
            with pytest.raises((KeyboardInterrupt, OSError)) as end:
                session.train()
    assert point != "full disk" or "No space left on device: " in str(end.value)
    train(tmp_path, iterations=2)
    assert outcome(tmp_path) == straight


def test_kill_loses_at_most_two_seconds_of_the_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("alphac4.runs.costs.time", SimpleNamespace(perf_counter=lambda: now[0]))
    counter = CostCounter(tmp_path / "costs.json", Costs(seconds=50.0))
    for tick in range(200):
        now[0] += 0.5
        counter.on_progress(Progress(iteration=1, phase="self-play"))
        left = CostCounter(tmp_path / "costs.json", Costs(seconds=50.0)).now()
        assert counter.now().seconds == 50.0 + 0.5 * (tick + 1)
        assert 0 <= counter.now().seconds - left.seconds <= WRITE_INTERVAL_S + 0.5
    counter.on_progress(Progress(iteration=1, phase="self-play", games=3, evaluations=40))
    counter.write()
    assert CostCounter(tmp_path / "costs.json", Costs()).now() == counter.now()


def test_stopped_run_returns_the_reports_of_committed_iterations(run: Path) -> None:
    """An interrupted iteration may have left a report."""
    reports = run / "reports.jsonl"
    reports.write_text(reports.read_text() + reports.read_text().replace('"iteration":2', '"iteration":3'))

    class StopAtOnce(Callback):
        def on_progress(self, _progress: Progress) -> None:
            raise StopTraining

    stopped = alphac4.train(tiny_run(iterations=3), run=run, callbacks=[StopAtOnce()], progress=False)
    assert [report.iteration for report in stopped.history] == [1, 2]
    assert str(stopped).startswith("Trained 2 iterations")
    assert stopped.closing_matches == ()
    assert stopped.best_checkpoint == run / "checkpoints" / "best.safetensors"


def test_run_without_closing_matches_prints_that_it_resumes_with_them(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for iterations, expected in ((2, "Resuming with the closing matches."), (3, "Resuming with iteration 3.")):
        with TrainingSession(RunFolder(run, tiny_run(iterations=iterations)), progress=True) as session:
            assert expected in capsys.readouterr().err
            if iterations == 2:
                session.train()
                assert capsys.readouterr().err == ""  # no table without iterations


def test_resumed_run_writes_changed_settings_to_tensorboard(run: Path) -> None:
    def tables() -> list[tuple[int, str]]:
        events = EventAccumulator(str(run / "tensorboard"))
        events.Reload()
        written = events.Tensors("settings/text_summary")
        return [(table.step, table.tensor_proto.string_val[0].decode()) for table in written]

    ((first, _),) = tables()
    with TrainingSession(RunFolder(run, tiny_run(iterations=2))):
        pass
    assert [step for step, _ in tables()] == [first]
    with TrainingSession(RunFolder(run, tiny_run(iterations=5))):
        pass
    (_, before), (step, now) = tables()
    assert ("| iterations | 2 |" in before, "| iterations | 5 |" in now) == (True, True)
    assert (first, step) == (0, 2)


def test_extended_run_keeps_its_final_learning_rate(run: Path) -> None:
    """Changed evaluation and gate settings are recorded in provenance."""
    history = train(run, iterations=4, evaluation={"interval": 9}, gate=SETTINGS["gate"] | {"simulations": 3})
    rates = [report.learning.learning_rate for report in history]
    assert rates[1] < rates[0]
    assert rates[2:] == pytest.approx([LearningConfig().final_learning_rate] * 2)
    changes = load_checkpoint(run / "checkpoints" / "000004.safetensors").provenance["changes"]
    recorded = {change["setting"]: (change["after_iteration"], change["from"], change["to"]) for change in changes}
    assert recorded == {"iterations": (2, 2, 4), "gate.simulations": (2, 2, 3), "evaluation.interval": (2, 0, 9)}


@pytest.mark.slow
def test_run_starts_from_a_network_grows_it_and_adds_its_costs(run: Path, tmp_path: Path) -> None:
    start = run / "checkpoints" / "000002.safetensors"
    given = load_checkpoint(start)
    second: dict[str, Any] = {"start_from": str(start), "network": SETTINGS["network"] | {"blocks": 3}}
    with TrainingSession(RunFolder(tmp_path / "second", tiny_run(iterations=1, **second))) as session:
        planes = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (20, 8, 6, 7)).astype(np.float32))
        written = load_checkpoint(tmp_path / "second" / "checkpoints" / "000000.safetensors").network
        for network in (session.loop.best.network, written):
            for ours, theirs in zip(network(planes), given.network(planes), strict=True):
                torch.testing.assert_close(ours, theirs)
        session.train()
    with pytest.raises(ValueError, match="it may only have more blocks and planes"):
        TrainingSession(RunFolder(tmp_path / "wider", tiny_run(start_from=str(start), network={"channels": 9})))
    assert not (tmp_path / "wider").exists()
    start.unlink()  # a resumed run does not need it
    train(tmp_path / "second", iterations=2, **second)
    last = tmp_path / "second" / "checkpoints" / "000002.safetensors"
    costs = load_checkpoint(last).provenance
    assert costs["with_start"]["evaluations"] == costs["evaluations"] + given.provenance["evaluations"]
    assert costs["started_from"]["iteration"] == 2
    with TrainingSession(RunFolder(tmp_path / "third", tiny_run(**second | {"start_from": str(last)}))):
        third = load_checkpoint(tmp_path / "third" / "checkpoints" / "000000.safetensors").provenance
    assert third["with_start"]["evaluations"] == costs["with_start"]["evaluations"]


@pytest.mark.parametrize("provenance", [{"with_start": 3}])
def test_initial_network_with_invalid_costs_is_rejected(provenance: dict[str, Any], tmp_path: Path) -> None:
    """The run is rejected before anything is written."""
    start = tmp_path / "start.safetensors"
    network = PolicyValueNetwork(tiny_run().network_config())
    save_checkpoint(start, Checkpoint(network=network, provenance=provenance))
    with pytest.raises(ValueError, match=rf"start\.safetensors: {next(iter(provenance))} must be"):
        TrainingSession(RunFolder(tmp_path / "run", tiny_run(start_from=str(start))))
    assert not (tmp_path / "run").exists()


def test_samples_and_window_grow_as_configured(tmp_path: Path) -> None:
    """Surplus samples count toward the next iteration, so the replay ratio stays the same.

    The window has N samples, and beyond ``base_window`` c samples ``c (1 + 0.4 ((N / c)^0.75 - 1) / 0.75)``.
    """
    requested: dict[int, int] = {}

    class Watch(Callback):
        def on_progress(self, progress: Progress) -> None:
            if progress.phase == "self-play":
                requested[progress.iteration] = progress.total

    config = tiny_run(iterations=4, positions_per_iteration=100, learning=SETTINGS["learning"] | {"base_window": 250})
    with TrainingSession(RunFolder(tmp_path, config), callbacks=[Watch()]) as session:
        history = session.train()
    before = 0
    for number, report in enumerate(history, start=1):
        total = report.samples_total
        assert requested[number] == max(1, 100 * number - before)
        assert 0 <= total - before - requested[number] < 4 * STANDARD.cells
        grown = 250 * (1 + 0.4 * ((total / 250) ** 0.75 - 1) / 0.75)
        assert report.learning.window == (total if total <= 250 else int(grown))
        before = total
    assert before > history[-1].learning.window


@pytest.mark.parametrize("rows", [0, 5])
def test_saved_games_that_do_not_fit_are_replaced_by_new_ones(
    rows: int, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Saved games have another number of games, or are missing as after self-play elsewhere."""
    state = load_state(run / STATE_FILE)
    state.actors = {name: np.resize(array, (rows, *array.shape[1:])) for name, array in state.actors.items() if rows}
    save_state(run / STATE_FILE, state)
    with TrainingSession(RunFolder(run, tiny_run(iterations=3))) as session:
        assert not (session.loop.actors.state()["games.stage"] != NEW_GAME).any()
    assert "new games begin" in caplog.text


MANY_CORES: dict[str, Any] = {
    "iterations": 2,
    "positions_per_iteration": 300,
    "board": {"rows": 4, "columns": 5, "run_length": 3},
    "selfplay": SETTINGS["selfplay"] | {"parallel_games": 16, "full_visits": 8},
    "learning": {"batch_size": 128, "replay_ratio": 4.0},  # two parts
    "gate": SETTINGS["gate"] | {"pairs": 16, "simulations": 8},
}


def begin_on(cores: int, folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> TrainingSession:
    """Start a run with one actor per core, however few games each has."""
    monkeypatch.setenv("ALPHAC4_CORES", str(cores))
    session = TrainingSession(RunFolder(folder, tiny_run(**MANY_CORES | changes)))
    assert len(session.loop.actors) == cores
    return session


def outcome_on(cores: int, folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> dict[str, Any]:
    with begin_on(cores, folder, monkeypatch, **changes) as session:
        session.train()
    return outcome(folder)


def die() -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch-fp32", INT8])
def test_run_is_bit_identical_on_any_number_of_cores(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes a run resumed on another number of cores, games in progress and the gate's decisions."""
    if backend not in backend_names("cpu"):
        pytest.skip(f"no {backend} here")
    where = {"backend": backend, "device": "cpu"}
    once, other = (outcome_on(cores, tmp_path / str(cores), monkeypatch, machine=where) for cores in (1, 16))
    assert once["samples"] >= 600
    assert once["best"] > 0
    with begin_on(16, tmp_path / "moved", monkeypatch, machine=where) as session:
        commit = session.folder.commit
        monkeypatch.setattr(session.folder, "commit", lambda *state: (commit(*state), die()))
        with pytest.raises(KeyboardInterrupt):
            session.train()
    assert other == once == outcome_on(3, tmp_path / "moved", monkeypatch, machine=where)

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_run_folder import some_batches
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from alphac4.game import STANDARD
from alphac4.game.planes import make_planes
from alphac4.game.rules import U64_0, mirror, play
from alphac4.game.symmetry import mirror_where
from alphac4.nn.network import NetworkConfig
from alphac4.selfplay.merging import orient
from alphac4.selfplay.replay import Batch, Replay, batches, value_targets
from alphac4.selfplay.shards import Samples
from alphac4.training.config import LearningConfig
from alphac4.training.device_learner import DeviceLearner
from alphac4.training.device_window import DeviceWindow
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import Learner, LearningPlan, TensorBatch
from alphac4.training.schedule import Schedule

CPU = torch.device("cpu")
NETWORK = NetworkConfig(channels=8, blocks=1, ownership=True)
CONFIG = LearningConfig(batch_size=32, warmup_steps=2)
SCHEDULE = Schedule.of_run(CONFIG, 40)
BOTH_OPTIMIZERS = pytest.mark.parametrize(
    "config", [CONFIG, dataclasses.replace(CONFIG, optimizer="muon")], ids=lambda config: config.optimizer
)


def some_samples(count: int, seed: int = 0) -> Samples:
    """Positions of random games with arbitrary targets."""
    rng = np.random.default_rng(seed)
    own, occupied = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    for index in range(count):
        mine, all_stones = U64_0, U64_0
        for _ in range(rng.integers(0, 20)):
            mine, all_stones = play(STANDARD, mine, all_stones, int(rng.integers(7)))
        own[index], occupied[index] = mine, all_stones
    return Samples(
        own=own,
        occupied=occupied,
        policy=rng.dirichlet(np.ones(7), count).astype(np.float16),
        full=rng.random(count) < 0.5,
        outcome=rng.integers(-1, 2, count).astype(np.int8),
        value=rng.uniform(-1, 1, count).astype(np.float32),
        draw=rng.uniform(0, 0.2, count).astype(np.float32),
        returns=rng.dirichlet(np.ones(3), count).astype(np.float16),
        final_own=own,
        final_occupied=occupied | STANDARD.bottom,
    )


def as_tensors(stream: Iterator[Batch]) -> Iterator[TensorBatch]:
    """The same batches for the other learner."""
    return (TensorBatch(*map(torch.from_numpy, batch)) for batch in stream)


def test_batches_are_those_made_on_the_host() -> None:
    """Planes, mirror images and targets, from the bitboards."""
    samples = some_samples(50)
    window = DeviceWindow(STANDARD, CPU, 0.7)
    flip = np.random.default_rng(1).random(50) < 0.5
    batch = window.make_batch(window.fields(samples), torch.from_numpy(flip))
    for tensor, own, occupied in (
        (batch.planes, samples.own, samples.occupied),
        (batch.final, samples.final_own, samples.final_occupied),
    ):
        planes = make_planes(STANDARD, own, occupied)
        planes[flip] = planes[flip][..., ::-1]
        np.testing.assert_array_equal(tensor.numpy(), planes)
    policy = samples.policy.astype(np.float32)
    policy[flip] = policy[flip][:, ::-1]
    np.testing.assert_array_equal(batch.policy.numpy(), policy)
    np.testing.assert_array_equal(batch.policy_weight.numpy(), samples.full)
    np.testing.assert_allclose(batch.wdl.numpy(), value_targets(samples, 0.7))


def test_fast_searches_teach_the_policy_as_much_as_is_said() -> None:
    """On the device and off it; full ones always count whole."""
    samples = some_samples(50)
    expected = sorted((value, 1.0 if full else 0.25) for value, full in zip(samples.value, samples.full, strict=True))
    window = DeviceWindow(STANDARD, CPU, 0.0, fast_weight=0.25)
    on_device = next(iter(window.batches([(Path("a"), samples)], 50, 50, 1, seed=3)))
    on_host = next(batches(samples, STANDARD, 50, 1, 0.0, np.random.default_rng(0), fast_weight=0.25))
    for batch in (on_device, on_host):
        values = np.asarray(batch.wdl)[:, 0] - np.asarray(batch.wdl)[:, 2]
        found = sorted(zip(values.tolist(), np.asarray(batch.policy_weight).tolist(), strict=True))
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_window_is_the_latest_samples_in_whole_passes() -> None:
    """Of several shards, some of them new and some gone since the last iteration."""
    shards = [(Path(str(number)), some_samples(40, number)) for number in range(4)]
    window = DeviceWindow(STANDARD, CPU, 1.0)
    for present, size in ((shards[:3], 100), (shards[1:], 70), (shards[3:], 500)):
        latest = np.concatenate([samples.value for _, samples in present])[-size:]
        expected = sorted(np.concatenate([value_targets(samples, 1.0) for _, samples in present])[-size:, 0].tolist())
        made = list(window.batches(present, size, 10, 2 * len(latest) // 10, seed=3))
        for half in (made[: len(made) // 2], made[len(made) // 2 :]):
            assert sorted(torch.cat([batch.wdl[:, 0] for batch in half]).tolist()) == expected


def test_canonical_batches_are_the_same_for_either_orientation_on_the_device_and_off_it() -> None:
    """As the search's own rule orients positions; with half of a batch mirrored they would differ."""
    samples = some_samples(60)
    mirrored = np.ones(60, np.bool_)
    other = dataclasses.replace(
        samples,
        policy=samples.policy[:, ::-1],
        **{
            name: mirror_where(STANDARD, getattr(samples, name), mirrored)
            for name in ("own", "occupied", "final_own", "final_occupied")
        },
    )
    made = []
    for given in (samples, other):
        window = DeviceWindow(STANDARD, CPU, 1.0, canonical=True)
        made.append(next(iter(window.batches([(Path("a"), given)], 60, 60, 1, seed=3))))
        rng = np.random.default_rng(0)
        made.append(next(iter(batches(orient(given, STANDARD), STANDARD, 60, 1, 1.0, rng, flip_half=False))))
    keys = canonical_keys(samples)
    for batch in made:
        planes = np.asarray(batch.planes)
        found = sorted(plane.tobytes() for plane in planes.astype(np.float32))
        assert found == keys
    for ours, theirs in ((made[0], made[2]), (made[1], made[3])):
        planes = np.asarray(ours.planes)
        one_sided = (planes != planes[..., ::-1]).any(axis=(1, 2, 3))  # what is its own mirror image is never turned
        assert one_sided.sum() > 40
        for name in ("policy", "final"):
            found, expected = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
            np.testing.assert_array_equal(found[one_sided], expected[one_sided])


def canonical_keys(samples: Samples) -> list[bytes]:
    """The planes of each position or of its mirror image, whichever has the lesser key, worked out in Python."""
    planes = []
    for own, occupied in zip(samples.own.tolist(), samples.occupied.tolist(), strict=True):
        images = [int(mirror(STANDARD, np.uint64(word))) for word in (own, occupied)]
        if sum(images) < own + occupied:
            own, occupied = images
        planes.append(make_planes(STANDARD, np.array([own], np.uint64), np.array([occupied], np.uint64))[0].tobytes())
    return sorted(planes)


@BOTH_OPTIMIZERS
def test_both_learners_learn_the_same(config: LearningConfig) -> None:
    """From the same batches: figures, weights and averaged weights."""
    samples = some_samples(200)
    plain = HostLearner(NETWORK, config, STANDARD, seed=5, replicas=1)
    ours = DeviceLearner(NETWORK, config, STANDARD, CPU, seed=5)
    stream = list(batches(samples, STANDARD, 32, 12, 1.0, np.random.default_rng(2)))
    expected = plain.learn_from(iter(stream), SCHEDULE, 200)
    found = ours.learn_from(as_tensors(iter(stream)), SCHEDULE, 200)
    for name in ("steps", "window", "learning_rate"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("policy_loss", "value_loss", "ownership_loss", "policy_entropy", "gradient_norm"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-4)
    for ours_now, theirs_now in ((ours.average, plain.average), (ours.network, plain.network)):
        theirs = theirs_now.state_dict()
        for name, value in ours_now.state_dict().items():
            torch.testing.assert_close(value, theirs[name], atol=1e-5, rtol=1e-4)


@BOTH_OPTIMIZERS
def test_learning_goes_on_after_a_restart(config: LearningConfig) -> None:
    """A learner with another's state, as a file keeps it, takes the same next steps."""
    samples = some_samples(100)
    first, second = (DeviceLearner(NETWORK, config, STANDARD, CPU, seed=seed) for seed in (1, 2))
    first.learn_from(as_tensors(batches(samples, STANDARD, 32, 6, 1.0, np.random.default_rng(0))), SCHEDULE, 100)
    second.restore({name: value.contiguous() for name, value in first.state().items()})
    reports = [
        learner.learn_from(as_tensors(batches(samples, STANDARD, 32, 6, 1.0, np.random.default_rng(1))), SCHEDULE, 100)
        for learner in (first, second)
    ]
    assert reports[0].policy_loss == pytest.approx(reports[1].policy_loss, rel=1e-6)
    assert first.steps == second.steps == 12
    for name, value in first.candidate().state_dict().items():
        torch.testing.assert_close(value, second.candidate().state_dict()[name])


@pytest.mark.parametrize("make", [HostLearner, lambda *args, seed: DeviceLearner(*args, CPU, seed)])
def test_a_learner_follows_its_plan(tmp_path: Path, make: Callable[..., Learner]) -> None:
    """So many steps from the window, the order fixed by the plan's numbers; each step is announced and may end it."""
    replay = Replay(tmp_path)
    for number in range(3):
        replay.add(some_samples(60, number), 1, 0, number)
    weights = []
    for seed in (0, 0, 1):
        learner, told = make(NETWORK, CONFIG, STANDARD, seed=3), []
        plan = LearningPlan(
            steps=5, schedule=SCHEDULE, window=100, rng=np.random.default_rng(seed), on_step=partial(told.append, 1)
        )
        report = learner.learn(replay, plan)
        assert (report.steps, report.window, learner.steps, len(told)) == (5, 100, 5, 5)
        weights.append(learner.candidate().state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert any(not torch.equal(weights[0][name], weights[2][name]) for name in weights[0])

    def end() -> None:
        raise InterruptedError

    plan = LearningPlan(steps=5, schedule=SCHEDULE, window=100, rng=np.random.default_rng(0), on_step=end)
    with pytest.raises(InterruptedError):
        make(NETWORK, CONFIG, STANDARD, seed=3).learn(replay, plan)


class Recorded(TorchDispatchMode):
    """Records what is done to tensors, and does the same again to the same memory, as a CUDA graph does."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, tuple[Any, ...], Mapping[str, Any], Any]] = []

    def __torch_dispatch__(
        self, function: Any, _types: Any, arguments: tuple[Any, ...] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        """See `TorchDispatchMode`."""
        assert function is not torch.ops.aten._local_scalar_dense.default, "a captured step cannot ask for a number"
        result = function(*arguments, **(named or {}))
        self.done.append((function, arguments, named or {}, result))
        return result

    def replay(self) -> None:
        """See `torch.cuda.CUDAGraph`."""
        with torch.no_grad():
            for function, arguments, named, result in self.done:
                again = function(*arguments, **named)
                for before, now in zip(tree_leaves(result), tree_leaves(again), strict=True):
                    if isinstance(before, torch.Tensor) and before.data_ptr() != now.data_ptr():
                        before.copy_(now)


def replay_from_the_second_step(learner: DeviceLearner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a learner on the CPU do what it does on a GPU: its first step makes the optimiser's memory."""
    launch, launched = learner._launch, []

    def record() -> None:
        launched.append(1)
        if len(launched) == 1:
            launch()
            return
        with Recorded() as graph:
            launch()
        learner._graph = graph  # type: ignore[assignment]

    monkeypatch.setattr(learner, "_launch", record)


@BOTH_OPTIMIZERS
@pytest.mark.parametrize("replayed", [False, True], ids=["launched", "replayed"])
@pytest.mark.parametrize("bad", [0, 1, 2, 4])
def test_a_step_that_is_not_finite_is_skipped_on_a_device(
    config: LearningConfig, replayed: bool, bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is learned is what the other batches teach, bit for bit: weights, their average, the optimiser's moments.

    So too where the step is replayed from a graph, in which the host decides nothing.
    """
    stream = [*some_batches(bad=bad), *some_batches(bad=bad - 3)]
    batches = [TensorBatch(*map(torch.from_numpy, batch)) for batch in stream]
    plan = Schedule(start_rate=1e-3, end_step=100)
    ours, others = (DeviceLearner(NetworkConfig(channels=4, blocks=1), config, STANDARD, CPU, seed=0) for _ in range(2))
    if replayed:
        replay_from_the_second_step(ours, monkeypatch)
    report = ours.learn_from(iter(batches), plan, 48)
    figures = []
    for index, batch in enumerate(batches):
        if index == bad:
            others.steps += 1
        else:
            figures.append(others.learn_from([batch], plan, 48).value_loss)
    assert (ours._graph is not None) is replayed
    assert (report.steps, report.skipped_steps) == (6, 1)
    assert report.value_loss == pytest.approx(np.mean(figures))
    assert ours.is_finite()
    parameters = {kind: dict(getattr(ours, kind).named_parameters()) for kind in ("network", "average")}
    expected = others.state()
    for name, value in ours.state().items():
        kind, _, inner = name.partition(".")
        if kind in ("optimizer", "muon") or inner in parameters.get(
            kind, ()
        ):  # batch norm's means have seen the bad batch too
            assert torch.equal(value, expected[name]), name

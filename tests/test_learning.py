import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_rules import random_positions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from alphac4.game import STANDARD
from alphac4.game.planes import PLANES, make_planes, stones
from alphac4.game.rules import mirror, mirror_where
from alphac4.nn.network import NetworkConfig
from alphac4.nn.precision import FP32
from alphac4.selfplay.merging import orient
from alphac4.selfplay.replay import Batch, Replay, batches, value_targets
from alphac4.selfplay.shards import Samples
from alphac4.training.config import LearningConfig
from alphac4.training.device_learner import DeviceLearner
from alphac4.training.device_window import DeviceWindow
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import Learner, LearningPlan, TensorBatch, ownership_loss, policy_loss, value_loss
from alphac4.training.reports import LearningReport
from alphac4.training.schedule import Schedule

CPU = torch.device("cpu")
NETWORK = NetworkConfig(channels=8, blocks=1, ownership=True)
CONFIG = LearningConfig(batch_size=32, warmup_steps=2)
SCHEDULE = Schedule.of_run(CONFIG, 40)
BOTH_OPTIMIZERS = pytest.mark.parametrize(
    "config", [CONFIG, dataclasses.replace(CONFIG, optimizer="muon")], ids=lambda config: config.optimizer
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Networks are so small here that threads would only wait for each other, for minutes on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def host_learner(config: LearningConfig = CONFIG, seed: int = 0, replicas: int | None = None) -> HostLearner:
    """In a precision that does not depend on the processor, nor on what is timed."""
    return HostLearner(NETWORK, config, STANDARD, seed, replicas, FP32)


def device_learner(config: LearningConfig = CONFIG, seed: int = 0) -> DeviceLearner:
    """Likewise."""
    return DeviceLearner(NETWORK, config, STANDARD, CPU, seed=seed, precision=FP32)


BOTH_LEARNERS = pytest.mark.parametrize("make", [host_learner, device_learner])


def some_samples(count: int, seed: int = 0) -> Samples:
    """Positions of random games with arbitrary targets."""
    rng = np.random.default_rng(seed)
    own, occupied = stones(random_positions(count, rng))
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


def learn(
    learner: Learner, stream: Iterable[Batch], schedule: Schedule = SCHEDULE, window: int = 200
) -> LearningReport:
    """Learn from batches, wherever the learner wants them."""
    if isinstance(learner, HostLearner):
        return learner.learn_from(stream, schedule, window)
    return learner.learn_from((TensorBatch(*map(torch.from_numpy, batch)) for batch in stream), schedule, window)


def stream_of(samples: Samples, count: int, seed: int) -> Iterator[Batch]:
    """Batches as the host makes them."""
    return batches(samples, STANDARD, 32, count, 1.0, np.random.default_rng(seed))


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


def test_losses_are_those_worked_by_hand() -> None:
    # Cross-entropy of logits ln 3 apart: softmax is 3/4, 1/4; only weighted rows count.
    logits = torch.tensor([[math.log(3.0), 0.0], [5.0, 5.0]])
    target = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    expected = -(0.5 * math.log(0.75) + 0.5 * math.log(0.25))
    assert float(policy_loss(logits, target, torch.tensor([1.0, 0.0]))) == pytest.approx(expected)
    assert float(policy_loss(logits, target, torch.tensor([1.0, 1.0]))) == pytest.approx((expected + math.log(2)) / 2)
    wdl = torch.tensor([[1.0, 0.0, 0.0]])
    assert float(value_loss(torch.zeros(1, 3), wdl)) == pytest.approx(math.log(3))


def test_the_loss_of_ownership_is_that_worked_by_hand() -> None:
    # One empty cell of two ends as the opponent's, foreseen with probability 1/2; the occupied cell is ignored.
    planes = torch.zeros(1, 2, 1, 2)
    planes[0, 0, 0, 1] = 1
    final = planes.clone()
    final[0, 1, 0, 0] = 1
    logits = torch.zeros(1, 3, 1, 2)
    logits[0, :, 0, 0] = torch.log(torch.tensor([0.25, 0.5, 0.25]))
    logits[0, :, 0, 1] = torch.tensor([-50.0, 50.0, 0.0])
    assert float(ownership_loss(logits, final, planes)) == pytest.approx(math.log(2))


def test_the_loss_is_the_weighted_sum_of_its_parts() -> None:
    learner = host_learner(dataclasses.replace(CONFIG, value_weight=0.5, ownership_weight=0.25))
    (batch,) = stream_of(some_samples(32), 1, seed=0)
    loss, (policy, value, _, ownership) = learner.losses(learner.network, TensorBatch(*map(torch.from_numpy, batch)))
    assert loss.item() == pytest.approx(float(policy + 0.5 * value + 0.25 * ownership), rel=1e-6)


def test_the_learning_rate_warms_up_and_falls_and_goes_on_in_a_longer_run_where_it_was() -> None:
    config = LearningConfig(learning_rate=1.0, final_learning_rate=0.1, warmup_steps=10)
    schedule = Schedule.of_run(config, 1000)
    assert [schedule.rate(config, step) for step in (0, 500, 1000)] == pytest.approx([0.1, 0.55, 0.1])
    assert schedule.until(config, 1000, 2000).rate(config, 1500) == pytest.approx(0.1)
    longer = schedule.until(config, 500, 1500)
    assert [longer.rate(config, step) for step in (500, 1000, 1500)] == pytest.approx([0.55, (0.55 + 0.1) / 2, 0.1])


def test_a_learner_memorises_a_few_positions() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 3, (64, 6, 7))
    planes = np.stack([cells == 1, cells == 2], axis=1).astype(np.float32)
    policy = np.eye(7, dtype=np.float32)[rng.integers(0, 7, 64)]
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 64)]
    batch = Batch(planes, policy, np.ones(64, np.float32), wdl, planes)
    learner = host_learner(LearningConfig(learning_rate=5e-3), replicas=2)
    schedule = Schedule(start_rate=5e-3, end_step=400)
    learn(learner, [batch] * 100, schedule)
    report = learn(learner, [batch] * 20, schedule)
    assert report.policy_loss < 0.3 * math.log(7)
    assert report.value_loss < 0.3 * math.log(3)


@pytest.mark.parametrize("count", PLANES.values())
def test_batches_are_those_made_on_the_host(count: int) -> None:
    samples = some_samples(50)
    window = DeviceWindow(STANDARD, CPU, 0.7, planes=count)
    flip = np.random.default_rng(1).random(50) < 0.5
    batch = window.make_batch(window.fields(samples), torch.from_numpy(flip))
    for tensor, own, occupied, number in (
        (batch.planes, samples.own, samples.occupied, count),
        (batch.final, samples.final_own, samples.final_occupied, 2),
    ):
        planes = make_planes(STANDARD, own, occupied, number)
        planes[flip] = planes[flip][..., ::-1]
        np.testing.assert_array_equal(tensor.numpy(), planes)
    policy = samples.policy.astype(np.float32)
    policy[flip] = policy[flip][:, ::-1]
    np.testing.assert_array_equal(batch.policy.numpy(), policy)
    np.testing.assert_array_equal(batch.policy_weight.numpy(), samples.full)
    np.testing.assert_allclose(batch.wdl.numpy(), value_targets(samples, 0.7))


def test_fast_searches_teach_the_policy_as_much_as_is_said() -> None:
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
    shards = [(Path(str(number)), some_samples(40, number)) for number in range(4)]
    window = DeviceWindow(STANDARD, CPU, 1.0)
    for present, size in ((shards[:3], 100), (shards[1:], 70), (shards[3:], 500)):
        latest = np.concatenate([samples.value for _, samples in present])[-size:]
        expected = sorted(np.concatenate([value_targets(samples, 1.0) for _, samples in present])[-size:, 0].tolist())
        made = list(window.batches(present, size, 10, 2 * len(latest) // 10, seed=3))
        for half in (made[: len(made) // 2], made[len(made) // 2 :]):
            assert sorted(torch.cat([batch.wdl[:, 0] for batch in half]).tolist()) == expected


def test_canonical_batches_are_the_same_for_either_orientation_on_the_device_and_off_it() -> None:
    samples = some_samples(60)
    mirrored = np.ones(60, np.bool_)
    boards = ("own", "occupied", "final_own", "final_occupied")
    turned = {name: mirror_where(STANDARD, getattr(samples, name), mirrored) for name in boards}
    other = dataclasses.replace(samples, policy=samples.policy[:, ::-1], **turned)
    ours, theirs = (
        next(iter(DeviceWindow(STANDARD, CPU, 1.0, canonical=True).batches([(Path("a"), given)], 60, 60, 1, seed=3)))
        for given in (samples, other)
    )
    on_host = next(batches(orient(other, STANDARD), STANDARD, 60, 1, 1.0, np.random.default_rng(0), flip_half=False))
    for batch in (ours, theirs, on_host):
        assert sorted(plane.tobytes() for plane in np.asarray(batch.planes, np.float32)) == canonical_keys(samples)
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
    plain, ours = host_learner(config, seed=5, replicas=1), device_learner(config, seed=5)
    assert not plain.by_winograd
    expected, found = (learn(learner, stream_of(some_samples(200), 12, seed=2)) for learner in (plain, ours))
    for name in ("steps", "learning_rate", "policy_loss", "value_loss", "ownership_loss", "gradient_norm"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-4)
    for ours_now, theirs_now in ((ours.average, plain.average), (ours.network, plain.network)):
        theirs = theirs_now.state_dict()
        for name, value in ours_now.state_dict().items():
            torch.testing.assert_close(value, theirs[name], atol=1e-5, rtol=1e-4)


@BOTH_LEARNERS
@BOTH_OPTIMIZERS
def test_learning_goes_on_bit_for_bit_after_a_restart(config: LearningConfig, make: Callable[..., Learner]) -> None:
    samples = some_samples(100)
    first, second = (make(config, seed=seed) for seed in (1, 2))
    learn(first, stream_of(samples, 6, seed=0))
    second.restore({name: value.contiguous() for name, value in first.state().items()})  # as a file keeps it
    for learner in (first, second):
        learn(learner, stream_of(samples, 6, seed=1))
    assert first.steps == second.steps == 12
    for name, value in first.state().items():
        assert torch.equal(value, second.state()[name]), name


@BOTH_LEARNERS
def test_a_learner_follows_its_plan(tmp_path: Path, make: Callable[..., Learner]) -> None:
    replay = Replay(tmp_path)
    for number in range(3):
        replay.add(some_samples(60, number), 1, 0, number)
    weights = []
    for seed in (0, 0, 1):
        learner, told = make(seed=3), []
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
        make(seed=3).learn(replay, plan)


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


def test_a_step_that_is_not_finite_is_skipped_and_reported() -> None:
    learner = host_learner()
    report = learn(learner, some_batches(bad=1), Schedule(start_rate=1e-3, end_step=10), 24)
    assert learner.is_finite()
    assert (report.steps, report.skipped_steps) == (3, 1)
    assert np.isfinite([report.policy_loss, report.value_loss, report.gradient_norm]).all()
    assert "1 of 3 gradient steps were skipped" in report.warnings[0]


@BOTH_OPTIMIZERS
@pytest.mark.parametrize("replayed", [False, True], ids=["launched", "replayed"])
@pytest.mark.parametrize("bad", [0, 1, 4])
def test_a_step_that_is_not_finite_is_skipped_on_a_device(
    config: LearningConfig, replayed: bool, bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is learned is what the other batches teach, bit for bit: weights, their average, the optimiser's moments.

    So too where the step is replayed from a graph, in which the host decides nothing.
    """
    stream = [*some_batches(bad=bad), *some_batches(bad=bad - 3)]
    plan = Schedule(start_rate=1e-3, end_step=100)
    ours, others = device_learner(config), device_learner(config)
    if replayed:
        replay_from_the_second_step(ours, monkeypatch)
    report = learn(ours, stream, plan)
    figures = []
    for index, batch in enumerate(stream):
        if index == bad:
            others.steps += 1
        else:
            figures.append(learn(others, [batch], plan).value_loss)
    assert (ours._graph is not None) is replayed
    assert (report.steps, report.skipped_steps) == (6, 1)
    assert report.value_loss == pytest.approx(np.mean(figures))
    assert ours.is_finite()
    expected = others.state()
    for name, value in ours.state().items():
        if "running" not in name and "num_batches" not in name:  # batch norm's means have seen the bad batch too
            assert torch.equal(value, expected[name]), name

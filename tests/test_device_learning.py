from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from alphac4.game import STANDARD
from alphac4.game.planes import make_planes
from alphac4.game.rules import U64_0, play
from alphac4.nn.network import NetworkConfig
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


def test_both_learners_learn_the_same() -> None:
    """From the same batches: figures, weights and averaged weights; AdamW's fused form rounds a little otherwise."""
    samples = some_samples(200)
    plain = HostLearner(NETWORK, CONFIG, STANDARD, seed=5, replicas=1)
    ours = DeviceLearner(NETWORK, CONFIG, STANDARD, CPU, seed=5)
    stream = list(batches(samples, STANDARD, 32, 12, 1.0, np.random.default_rng(2)))
    expected = plain.learn_from(iter(stream), SCHEDULE, 200)
    found = ours.learn_from(as_tensors(iter(stream)), SCHEDULE, 200)
    for name in ("steps", "window", "learning_rate"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("policy_loss", "value_loss", "ownership_loss", "policy_entropy", "gradient_norm"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=2e-2)
    for ours_now, theirs_now in ((ours.average, plain.average), (ours.network, plain.network)):
        theirs = theirs_now.state_dict()
        for name, value in ours_now.state_dict().items():
            torch.testing.assert_close(value, theirs[name], atol=2e-3, rtol=5e-2)


def test_learning_goes_on_after_a_restart() -> None:
    """A learner with another's state takes the same next steps."""
    samples = some_samples(100)
    first, second = (DeviceLearner(NETWORK, CONFIG, STANDARD, CPU, seed=seed) for seed in (1, 2))
    first.learn_from(as_tensors(batches(samples, STANDARD, 32, 6, 1.0, np.random.default_rng(0))), SCHEDULE, 100)
    second.restore(first.state())
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

import copy
import dataclasses
import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import torch
from helpers import random_positions

from alphac4.game import STANDARD
from alphac4.game.planes import PLANES, stones
from alphac4.nn.backends import FP32
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Outputs
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import Samples
from alphac4.training.config import LearningConfig
from alphac4.training.learner import ENTROPY, PART_SIZE, Learner
from alphac4.training.losses import LearningBatch, batches, standard_losses, with_weights
from alphac4.training.optimizer import CosineSchedule

NETWORK = NetworkConfig(channels=8, blocks=1, ownership=True)
CONFIG = LearningConfig(batch_size=32, optimizer="adamw", learning_rate=2e-3)
SCHEDULE = CosineSchedule(final=0.1, end_step=40, warmup_steps=2)
BOTH_OPTIMIZERS = pytest.mark.parametrize(
    "config", [CONFIG, dataclasses.replace(CONFIG, optimizer="muon")], ids=lambda config: config.optimizer
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread, because with networks this small, threads spend minutes waiting for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_learner(
    config: LearningConfig = CONFIG, seed: int = 0, workers: int | None = None, network: NetworkConfig = NETWORK
) -> Learner:
    """Return a learner whose precision does not depend on the processor."""
    return Learner(network, config, STANDARD, seed, workers=workers, precision=FP32)


def some_samples(count: int, seed: int = 0) -> Samples:
    """Return positions of random games with arbitrary targets."""
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


def stream_of(
    samples: Samples, count: int, seed: int, size: int = 32, planes: int = PLANES["stones"]
) -> Iterator[LearningBatch]:
    """Yield batches as learners make them."""
    return batches(samples, STANDARD, size, count, np.random.default_rng(seed), planes=planes)


def some_batches(bad: int) -> list[LearningBatch]:
    """Return three batches, of which number ``bad`` has a NaN target."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(3):
        planes = rng.integers(0, 2, (8, 2, 6, 7)).astype(np.float32)
        planes[:, 1] *= 1 - planes[:, 0]
        wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 8)]
        if number == bad:
            wdl[0, 0] = np.nan
        policy = np.full((8, 7), 1 / 7, np.float32)
        made.append(with_weights(*map(torch.from_numpy, (planes, policy, np.ones(8, np.float32), wdl, planes))))
    return made


def test_standard_losses_match_values_by_hand() -> None:
    """Losses are cross-entropies: of weighted policies, of values, and of the owners of empty cells."""
    # Logits differ by ln 3: their softmax is 3/4, 1/4. The second position's policy has half the weight of the first's.
    policy = torch.tensor([[math.log(3.0), 0.0], [5.0, 5.0]])
    value = torch.log(torch.tensor([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]]))
    # One of two cells is empty in the first position, both are in the second. The first cell will be the opponent's,
    # predicted with probability 1/2; the wrong prediction of the occupied cell is ignored.
    planes, final = torch.zeros(2, 2, 1, 2), torch.zeros(2, 2, 1, 2)
    planes[0, 0, 0, 1] = final[0, 0, 0, 1] = final[0, 1, 0, 0] = 1
    ownership = torch.zeros(2, 3, 1, 2)
    ownership[0, :, 0, 0] = torch.log(torch.tensor([0.25, 0.5, 0.25]))
    ownership[0, :, 0, 1] = torch.tensor([-50.0, 50.0, 0.0])
    batch = with_weights(
        planes,
        torch.tensor([[0.5, 0.5], [1.0, 0.0]]),
        torch.tensor([1.0, 0.5]),
        torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]),
        final,
    )
    losses = standard_losses(Outputs(policy, value, ownership), batch, ownership_weight=0.25)
    means = {name: float(loss.mean()) for name, loss in losses.items()}
    of_policy = -(0.5 * math.log(0.75) + 0.5 * math.log(0.25))
    assert means == pytest.approx(
        {
            "policy": (of_policy + 0.5 * math.log(2)) / 1.5,
            "value": (1.5 * math.log(2) + math.log(3)) / 2,
            "ownership": 0.25 * (math.log(2) + 2 * math.log(3)) / 3,
        }
    )


def test_gradient_is_the_clipped_sum_over_all_parts() -> None:
    """Compute each part's gradient with a copy of the network, and clip their sum."""
    learner = make_learner(dataclasses.replace(CONFIG, batch_size=3 * PART_SIZE))
    (batch,) = stream_of(some_samples(3 * PART_SIZE), 1, seed=0, size=3 * PART_SIZE)
    batch = batch._replace(wdl=100 * batch.wdl)  # makes the gradient large enough to be clipped
    expected = []
    for part in zip(*(tensor.split(PART_SIZE) for tensor in batch), strict=True):
        copied = copy.deepcopy(learner.network)
        copied.zero_grad()
        losses, _ = learner.forward(copied, LearningBatch(*part))
        (sum(loss.sum() for loss in losses.values()) / (3 * PART_SIZE)).backward()  # type: ignore[union-attr]
        expected.append(torch.cat([p.grad.flatten() for p in copied.parameters() if p.grad is not None]))
    report = learner.learn_from([batch], SCHEDULE, 3 * PART_SIZE)
    actual = torch.cat([p.grad.flatten() for p in learner.network.parameters() if p.grad is not None])
    total = sum(expected[1:], start=expected[0])
    assert report.gradient_norm == pytest.approx(float(total.norm()), rel=1e-5)
    assert report.gradient_norm > 5
    torch.testing.assert_close(actual, total / float(total.norm()), atol=1e-6, rtol=1e-4)


def test_losses_of_parts_equal_those_of_the_batch() -> None:
    """Compare in evaluation mode, in which batch norm does not depend on the part."""
    learner = make_learner()
    learner.network.eval()
    (whole,) = stream_of(some_samples(32), 1, seed=0)
    losses, entropy = learner.forward(learner.network, whole)
    parts = [LearningBatch(*part) for part in zip(*(tensor.tensor_split([5, 24]) for tensor in whole), strict=True)]
    outputs = [learner.forward(learner.network, part) for part in parts]
    for name, loss in {**losses, ENTROPY: entropy}.items():
        joined = torch.cat([part[name] if name != ENTROPY else other for part, other in outputs])
        torch.testing.assert_close(joined, loss, msg=name)


@pytest.mark.parametrize("planes", PLANES)
@BOTH_OPTIMIZERS
def test_learning_is_bit_identical_on_any_number_of_cores(config: LearningConfig, planes: str) -> None:
    """Compare weights, running statistics, averages, moments and losses, with either kind of planes."""
    network = dataclasses.replace(NETWORK, planes=planes)
    config = dataclasses.replace(config, batch_size=3 * PART_SIZE - 10)
    states, figures = [], []
    for workers in (1, 3, 16):
        learner = make_learner(config, seed=4, workers=workers, network=network)
        stream = stream_of(some_samples(300), 4, seed=1, size=config.batch_size, planes=network.input_planes)
        report = learner.learn_from(stream, SCHEDULE, 300)
        assert report.skipped_steps == 0
        states.append(learner.state())
        figures.append(dataclasses.replace(report, seconds=0.0))
    for state, report in zip(states[1:], figures[1:], strict=True):
        assert report == figures[0]
        for name, value in state.items():
            assert torch.equal(value, states[0][name]), name


def test_running_statistics_are_the_mean_over_all_parts() -> None:
    """Compute each part's mean and variance after the stem's convolution, whose input is known."""
    learner = make_learner(dataclasses.replace(CONFIG, batch_size=2 * PART_SIZE))
    (batch,) = stream_of(some_samples(2 * PART_SIZE), 1, seed=0, size=2 * PART_SIZE)
    convolution, norm = learner.network.stem  # type: ignore[misc]
    with torch.no_grad():
        features = convolution(batch.planes).split(PART_SIZE)
    learner.learn_from([batch], SCHEDULE, 2 * PART_SIZE)
    mean = torch.stack([part.mean(dim=(0, 2, 3)) for part in features]).mean(dim=0)
    variance = torch.stack([part.var(dim=(0, 2, 3)) for part in features]).mean(dim=0)
    torch.testing.assert_close(norm.running_mean, 0.1 * mean)
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * variance)


def test_average_matches_values_by_hand_and_is_the_candidate() -> None:
    """The decay after n steps is (1 + n) / (10 + n), up to the configured one."""
    learner = make_learner(dataclasses.replace(CONFIG, ema_decay=0.25))
    expected = {name: value.double() for name, value in learner.network.state_dict().items()}
    for step, batch in enumerate(stream_of(some_samples(64), 4, seed=0)):
        learner.learn_from([batch], SCHEDULE, 64)
        decay = [1 / 10, 2 / 11, 3 / 12, 0.25][step]
        for name, value in learner.network.state_dict().items():
            expected[name] = decay * expected[name] + (1 - decay) * value.double()
    candidate = learner.candidate()
    assert not candidate.training
    for name, value in candidate.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value.double(), expected[name], atol=1e-6, rtol=1e-5)
            if "weight" in name or "running" in name:
                assert not torch.equal(value, learner.network.state_dict()[name]), name


def test_learning_rate_warms_up_falls_and_continues_in_an_extended_run() -> None:
    config = LearningConfig(learning_rate=2.0, final_learning_rate=0.2)
    schedule = CosineSchedule.of_run(config, 1000)
    assert schedule.warmup_steps == 50  # a twentieth
    assert CosineSchedule.of_run(config, 10_000).warmup_steps == 100
    assert [schedule(step) for step in (0, 500, 1000)] == pytest.approx([1 / 50, 0.55, 0.1])
    assert schedule.with_end(1000, 2000)(1500) == pytest.approx(0.1)
    longer = schedule.with_end(500, 1500)
    assert [longer(step) for step in (500, 1000, 1500)] == pytest.approx([0.55, (0.55 + 0.1) / 2, 0.1])


def test_learner_memorises_a_few_positions() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 3, (64, 6, 7))
    planes = np.stack([cells == 1, cells == 2], axis=1).astype(np.float32)
    policy = np.eye(7, dtype=np.float32)[rng.integers(0, 7, 64)]
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 64)]
    batch = with_weights(*map(torch.from_numpy, (planes, policy, np.ones(64, np.float32), wdl, planes)))
    learner = make_learner(LearningConfig(batch_size=64, learning_rate=5e-3))
    schedule = CosineSchedule(end_step=400)
    learner.learn_from([batch] * 100, schedule, 64)
    report = learner.learn_from([batch] * 20, schedule, 64)
    assert report.policy_loss < 0.3 * math.log(7)
    assert report.value_loss < 0.3 * math.log(3)


def test_policies_of_fast_searches_have_the_configured_weight() -> None:
    """Weights have the mean 1 over the batch."""
    samples = some_samples(50)
    batch = next(batches(samples, STANDARD, 50, 1, np.random.default_rng(0), fast_search_weight=0.25))
    weights = np.where(samples.full, 1.0, 0.25)
    weights /= weights.mean()
    expected = np.array(sorted(zip(samples.returns[:, 0].tolist(), weights.tolist(), strict=True)))
    actual = sorted(zip(batch.wdl[:, 0].tolist(), batch.policy_weight.tolist(), strict=True))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_batches_are_whole_passes_over_the_window() -> None:
    samples = some_samples(40)
    made = list(stream_of(samples, 8, seed=3, size=10))
    for half in (made[:4], made[4:]):
        drawn = np.concatenate([batch.wdl[:, 0] for batch in half])
        assert sorted(drawn.tolist()) == sorted(samples.returns[:, 0].tolist())


@BOTH_OPTIMIZERS
def test_restored_learner_continues_bit_identical(config: LearningConfig) -> None:
    config, samples = dataclasses.replace(config, batch_size=2 * PART_SIZE), some_samples(200)
    first, second = (make_learner(config, seed=seed) for seed in (1, 2))
    first.learn_from(stream_of(samples, 4, seed=0, size=config.batch_size), SCHEDULE, 200)
    second.restore({name: value.contiguous() for name, value in first.state().items()})  # as loaded from a file
    for learner in (first, second):
        learner.learn_from(stream_of(samples, 4, seed=1, size=config.batch_size), SCHEDULE, 200)
    assert first.steps == second.steps == 8
    for name, value in first.state().items():
        assert torch.equal(value, second.state()[name]), name


def test_learner_takes_the_given_steps_in_the_order_of_its_rng() -> None:
    replay, weights = Replay(), []
    replay.add(some_samples(100), 1)
    for seed in (0, 0, 1):
        learner, calls = make_learner(seed=3), []
        rng, on_step = np.random.default_rng(seed), partial(calls.append, 1)
        report = learner.learn(replay, 100, steps=5, schedule=SCHEDULE, rng=rng, on_step=on_step)
        assert (report.steps, report.window, learner.steps, len(calls)) == (5, 100, 5, 5)
        weights.append(learner.candidate().state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert any(not torch.equal(weights[0][name], weights[2][name]) for name in weights[0])

    def end() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        make_learner(seed=3).learn(replay, 100, steps=5, schedule=SCHEDULE, rng=rng, on_step=end)


@BOTH_OPTIMIZERS
@pytest.mark.parametrize("bad", [0, 2])
def test_step_that_is_not_finite_is_skipped_and_reported(config: LearningConfig, bad: int) -> None:
    """The state after the other batches is bit-identical to learning without the skipped one."""
    ours, others = make_learner(config), make_learner(config)
    stream = some_batches(bad)
    report = ours.learn_from(stream, SCHEDULE, 24)
    figures = []
    for index, batch in enumerate(stream):
        if index == bad:
            others.steps += 1
        else:
            figures.append(others.learn_from([batch], SCHEDULE, 24).value_loss)
    assert ours.is_finite()
    assert (report.steps, report.skipped_steps) == (3, 1)
    assert report.value_loss == pytest.approx(np.mean(figures))
    expected = others.state()
    for name, value in ours.state().items():
        assert torch.equal(value, expected[name]), name

import copy
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import torch
from helpers import Linear, random_positions
from torch import Tensor, nn
from torch.nn import functional as F

from alphac4.game import STANDARD
from alphac4.game.planes import PLANES, make_planes, stones
from alphac4.nn import winograd
from alphac4.nn.backends import BF16, FP32, learning_precision, make_backend, random_inputs
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Outputs, PolicyValueNetwork, torch_seed
from alphac4.selfplay.replay import Replay, draw_batches
from alphac4.selfplay.samples import Samples
from alphac4.training.config import LearningConfig
from alphac4.training.extensions import Extensions
from alphac4.training.learner import PART_SIZE, Learner
from alphac4.training.losses import TrainingBatch, batches, cross_entropy, default_losses, with_weights
from alphac4.training.optimizer import MUON_RATE, CosineSchedule, Muon, orthogonalised

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
        board=STANDARD,
        own=own,
        occupied=occupied,
        policy_target=rng.dirichlet(np.ones(7), count).astype(np.float16),
        is_full_search=rng.random(count) < 0.5,
        outcome=rng.integers(-1, 2, count).astype(np.int8),
        value=rng.uniform(-1, 1, count).astype(np.float32),
        draw=rng.uniform(0, 0.2, count).astype(np.float32),
        value_target=rng.dirichlet(np.ones(3), count).astype(np.float16),
        final_own=own,
        final_occupied=occupied | STANDARD.bottom,
        iteration=np.zeros(count, np.int32),
    )


def stream_of(
    samples: Samples, count: int, seed: int, size: int = 32, planes: int = PLANES["stones"]
) -> Iterator[TrainingBatch]:
    """Yield batches as learners make them."""
    return batches(samples, STANDARD, size, count, np.random.default_rng(seed), planes=planes)


def random_batch(size: int, network: NetworkConfig, seed: int = 1) -> TrainingBatch:
    rng = np.random.default_rng(seed)
    planes = random_inputs(network, size, rng)
    policy = rng.random((size, 7)).astype(np.float32)
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, size)]
    policy /= policy.sum(axis=1, keepdims=True)
    return with_weights(*map(torch.from_numpy, (planes, policy, np.ones(size, np.float32), wdl, planes[:, :2])))


def test_cross_entropy_rejects_targets_of_another_shape() -> None:
    """A single target would be broadcast over the batch."""
    logits = torch.zeros(4, 7)
    for ours, target in ((logits, torch.ones(1, 7) / 7), (logits, torch.ones(4, 3) / 3), (logits[0], logits[0])):
        with pytest.raises(ValueError, match=r"must both be \[B, K, \.\.\.\], not"):
            cross_entropy(ours, target)
    with pytest.raises(TypeError, match="must be tensors, not Tensor and list"):
        cross_entropy(logits, [0])  # type: ignore[arg-type]


def test_default_losses_match_values_by_hand() -> None:
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
        ownership_weight=0.25,
    )
    losses = default_losses(Outputs(policy, value, ownership), batch)
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
    batch = batch._replace(value_target=100 * batch.value_target)  # makes the gradient large enough to be clipped
    expected = []
    for part in batch.split(3):
        copied = copy.deepcopy(learner.network)
        copied.zero_grad()
        losses, _ = learner.forward(copied, part)
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
    parts = whole.split([5, 24])
    outputs = [learner.forward(learner.network, part) for part in parts]
    for name, loss in losses.items():
        torch.testing.assert_close(torch.cat([part[name] for part, _ in outputs]), loss, msg=name)
    torch.testing.assert_close(torch.cat([other for _, other in outputs]), entropy)


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
    weights = np.where(samples.is_full_search, 1.0, 0.25)
    weights /= weights.mean()
    expected = np.array(sorted(zip(samples.value_target[:, 0].tolist(), weights.tolist(), strict=True)))
    actual = sorted(zip(batch.value_target[:, 0].tolist(), batch.policy_weight.tolist(), strict=True))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_batches_are_whole_passes_over_the_window() -> None:
    """The size of a batch need not divide the number of samples."""
    samples = some_samples(40)
    drawn = np.concatenate([batch.value_target[:, 0] for batch in stream_of(samples, 8, seed=3, size=15)])
    for part in np.split(drawn, 3):
        assert sorted(part.tolist()) == sorted(samples.value_target[:, 0].tolist())


def test_samples_are_drawn_by_their_weights() -> None:
    weights = np.array([0, 0.25, 0, 0.75])
    drawn = np.concatenate([rows for rows, _ in draw_batches(4, 100, 10, np.random.default_rng(0), weights)])
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 1000, weights, atol=0.04)  # three standard errors
    assert not (drawn % 2 == 0).any()


def test_positions_are_mirrored_together_with_their_targets() -> None:
    samples, (rows, flip) = some_samples(40), next(draw_batches(40, 40, 1, np.random.default_rng(3)))
    batch = next(stream_of(samples, 1, seed=3, size=40))
    assert 10 < flip.sum() < 30
    for actual, expected in (
        (batch.planes, make_planes(STANDARD, samples.own, samples.occupied)),
        (batch.final_stones, make_planes(STANDARD, samples.final_own, samples.final_occupied)),
        (batch.policy_target, samples.policy_target.astype(np.float32)),
    ):
        for part, row, is_mirrored in zip(actual.numpy(), rows, flip, strict=True):
            np.testing.assert_array_equal(part, expected[row][..., ::-1] if is_mirrored else expected[row])


def test_cells_are_empty_if_neither_side_has_a_stone_there() -> None:
    """Further planes do not count."""
    lines, plain = (
        next(stream_of(some_samples(20), 1, seed=3, size=20, planes=PLANES[kind])) for kind in ("lines", "stones")
    )
    assert lines.planes.shape[1] > plain.planes.shape[1] == 2
    torch.testing.assert_close(lines.cell_weight, plain.cell_weight)
    torch.testing.assert_close(plain.cell_weight, torch.full((20,), 20 / (20 * 42 - plain.planes.sum())))


@BOTH_OPTIMIZERS
def test_weights_decay_but_not_norms_and_biases(config: LearningConfig) -> None:
    learner = make_learner(dataclasses.replace(config, weight_decay=0.125))
    groups = [group for optimizer in learner.optimizers for group in optimizer.param_groups]
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    for name, parameter in learner.network.named_parameters():
        assert decay[id(parameter)] == (0.125 if parameter.ndim > 1 else 0), name


def test_configured_weights_of_losses_are_used() -> None:
    """Fast searches change the learned policy, and the loss of ownership is proportional to its weight."""
    samples, learned, losses = some_samples(64), [], []
    network, replay = dataclasses.replace(NETWORK, ownership=True), Replay()
    replay.add(samples, 1)
    for weight in (0.0, 0.5):
        config = dataclasses.replace(CONFIG, fast_search_weight=0.5, ownership_weight=1 + weight)
        learner = make_learner(config, network=network)
        learning = learner.learn(replay, 64, steps=1, schedule=SCHEDULE, rng=np.random.default_rng(0))
        losses.append(learning.losses["ownership"])
        learner = make_learner(dataclasses.replace(CONFIG, fast_search_weight=weight), network=network)
        learner.learn(replay, 64, steps=2, schedule=SCHEDULE, rng=np.random.default_rng(0))
        learned.append(learner.network.policy.weight.clone())
    assert losses[1] == pytest.approx(1.5 * losses[0])
    assert not torch.equal(*learned)


class AdaptiveSgd(torch.optim.SGD):
    """A user's optimiser with noise, and with values of all kinds in its groups, as Prodigy has, and in its state."""

    def step(self) -> None:  # type: ignore[override]
        common = self.state["common"]  # type: ignore[index]
        common["factor"] = common.get("factor", 1.0) * 0.99
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
            group["momentum"] = np.float64(0.9 - 0.7 ** group["count"])
            group["scale"].mul_(0.99)  # in place
            for parameter in group["params"]:
                state = self.state[parameter]
                state["steps"] = state.get("steps", 0) + 1
                state["exact"] = state.get("exact", parameter.double()) * (1 - 1e-4)
                state["moved"] = state.get("moved", torch.zeros_like(parameter, dtype=torch.bool)) | (parameter > 0)
                if parameter.grad is not None:
                    parameter.grad *= common["factor"] * group["scale"][1] / (1 + 0.3 ** state["steps"])
                    parameter.grad += 1e-3 * (state["exact"] * state["moved"]) + 1e-3 * torch.randn_like(parameter)
        super().step()


def adaptive_sgd(module: nn.Module) -> AdaptiveSgd:
    scale = torch.tensor([1.0, 0.5], dtype=torch.float64)
    return AdaptiveSgd([{"params": list(module.parameters()), "scale": scale}], lr=0.1)


class Dropout(Linear):
    """A user's module that draws random numbers in training."""

    def forward(self, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(F.dropout(planes, 0.3, self.training))


@pytest.mark.parametrize(
    "extensions",
    [
        Extensions(),
        Extensions(optimizer=adaptive_sgd),
        Extensions(network=Dropout),
    ],
    ids=["muon", "user's optimiser", "dropout"],
)
def test_restored_learner_continues_bit_identical(extensions: Extensions) -> None:
    """The second learner has another number of cores; neither changes the caller's random state."""
    config, samples = LearningConfig(batch_size=2 * PART_SIZE, optimizer="muon"), some_samples(200)
    before = torch.get_rng_state()
    first, second = (
        Learner(NETWORK, config, STANDARD, seed=1, workers=workers, precision=FP32, extensions=extensions)
        for workers in (2, 1)
    )
    initial = first.state()
    first.learn_from(stream_of(samples, 4, seed=0, size=config.batch_size), SCHEDULE, 200)
    second.restore({name: value.contiguous() for name, value in first.state().items()})  # as loaded from a file
    for learner in (first, second):
        learner.learn_from(stream_of(samples, 4, seed=1, size=config.batch_size), SCHEDULE, 200)
    assert first.steps == second.steps == 8
    for name, value in first.state().items():
        assert torch.equal(value, second.state()[name]), name
    assert torch.equal(torch.get_rng_state(), before)
    first.restore(initial)
    assert initial.keys() == first.state().keys()
    assert all(torch.equal(value, first.state()[name]) for name, value in initial.items())


def test_learning_and_seeded_blocks_of_another_thread_do_not_disturb_each_other() -> None:
    """Such a block, as of another training, is entered before each step and ends in the first call of the losses."""
    config, samples = LearningConfig(batch_size=2 * PART_SIZE), some_samples(200)
    batches = list(stream_of(samples, 3, seed=0, size=config.batch_size))
    may_end, drawn, callers, others = (
        threading.Event(),
        list[list[float]](),
        list[threading.Thread](),
        list[threading.Thread](),
    )

    def draw(has_entered: threading.Event) -> None:
        with torch_seed(2):
            first = torch.rand(2).tolist()
            has_entered.set()
            may_end.wait(0.3)  # the step may wait for this block
            drawn.append(first + torch.rand(2).tolist())

    def enter_block() -> None:
        may_end.clear()
        others.append(threading.Thread(target=draw, args=(entered := threading.Event(),)))
        others[-1].start()
        entered.wait()

    def loss(outputs: Outputs, batch: TrainingBatch) -> dict[str, Tensor]:
        may_end.set()
        for other in others:
            other.join()
        callers.append(threading.current_thread())
        return default_losses(outputs, batch)

    def learned(on_step: Callable[[], object]) -> dict[str, Tensor]:
        extensions = Extensions(loss=loss)
        learner = Learner(NETWORK, config, STANDARD, seed=1, workers=2, precision=FP32, extensions=extensions)
        learner.learn_from(batches, SCHEDULE, 200, on_step)
        return learner.state()

    before, expected = torch.get_rng_state(), learned(lambda: None)
    callers.clear()
    for name, value in learned(enter_block).items():
        assert torch.equal(value, expected[name]), name
    assert torch.equal(torch.get_rng_state(), before)
    with torch_seed(2):
        assert drawn == 3 * [torch.rand(4).tolist()]
    assert threading.main_thread() not in callers[2:]  # in parallel, once it is known that the losses draw nothing


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
    stream = [random_batch(8, NETWORK, seed) for seed in range(3)]
    stream[bad].value_target[0, 0] = np.nan
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


def convolved(x: Tensor, kernel: Tensor) -> Tensor:
    """Call `winograd.convolve` with PyTorch's layout [B, channels, R, C]."""
    return winograd.convolve(x.permute(2, 3, 0, 1).contiguous(), kernel).permute(2, 3, 0, 1)


@pytest.mark.parametrize(("inputs", "outputs"), [(12, 20), (1, 5), (5, 1)])
@pytest.mark.parametrize(("rows", "columns"), [(6, 7), (1, 1), (8, 9)])  # sides above 7 are cut into tiles
def test_winograd_convolution_and_gradients_agree_with_float64(
    rows: int, columns: int, inputs: int, outputs: int
) -> None:
    """The root mean square error is below 5e-5 standard deviations, with either memory format of the kernel."""
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    x = torch.randn(5, inputs, rows, columns, generator=generator, requires_grad=True)
    for format_ in (torch.contiguous_format, torch.channels_last):
        kernel = torch.randn(outputs, inputs, 3, 3, generator=generator).contiguous(memory_format=format_)
        kernel.requires_grad_()
        expected = F.conv2d(x.double(), kernel.double(), padding=1)
        actual = convolved(x, kernel)
        gradient = torch.randn(expected.shape, generator=generator)
        ours = [actual, *torch.autograd.grad(actual, (x, kernel), gradient)]
        theirs = [expected, *torch.autograd.grad(expected, (x, kernel), gradient.double())]
        for computed, exact in zip(ours, theirs, strict=True):
            errors, unit = (computed - exact).detach(), exact.detach().std(correction=0).clamp(min=1.0)
            assert errors.abs().max() < 5e-4 * unit
            assert errors.square().mean().sqrt() < 5e-5 * unit


def test_winograd_maps_computed_in_inference_mode_work_in_learning() -> None:
    """The maps are cached when inference computes them first."""
    winograd.line_transforms.cache_clear()
    x, kernel = torch.ones(3, 4, 2, 5), torch.ones(5, 5, 3, 3, requires_grad=True)
    with torch.inference_mode():
        winograd.convolve(x, kernel)
    winograd.convolve(x.requires_grad_(), kernel).sum().backward()
    assert kernel.grad is not None
    torch.testing.assert_close(kernel.grad[0, 0, 1, 1], torch.tensor(24.0))  # cells times positions


def test_winograd_tower_has_the_features_statistics_and_gradients_of_pytorch() -> None:
    """Compare in training mode and float64, because rounding would change the sign of some inputs of ReLUs."""
    generator = torch.Generator().manual_seed(0)
    plain = PolicyValueNetwork(NetworkConfig(channels=16, blocks=3)).double()
    for parameter in plain.tower.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    filtered = copy.deepcopy(plain)
    winograd.use_winograd(filtered)
    x = torch.randn(9, 16, 6, 7, dtype=torch.float64, generator=generator)
    x = x.contiguous(memory_format=torch.channels_last)
    weights = torch.randn(x.shape, dtype=torch.float64, generator=generator)
    results = []
    for tower in (plain.tower, filtered.tower):
        planes = x.clone().requires_grad_()
        features = tower(planes)
        assert features.is_contiguous(memory_format=torch.channels_last)
        (features * weights).sum().backward()
        statistics = [value for name, value in tower.state_dict().items() if "running" in name]
        results.append([features, planes.grad, *statistics, *(p.grad for p in tower.parameters())])
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-8)


def wide_learner(channels: int = winograd.MIN_CHANNELS) -> Learner:
    """Return a learner with random norms, because in a new network the last norm of each block is zero."""
    config = LearningConfig(batch_size=2 * PART_SIZE, optimizer="muon", learning_rate=1e-3)
    network = NetworkConfig(channels=channels, blocks=2, ownership=True)
    made = Learner(network, config, STANDARD, 3, precision=FP32)
    generator = torch.Generator().manual_seed(5)
    for module in made.network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
    made.initialize_from(made.network)  # copies the weights to the average
    return made


def test_learning_by_winograd_has_the_gradients_of_plain_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def counted(x: Tensor, kernel: Tensor, convolve: Callable[[Tensor, Tensor], Tensor] = winograd.convolve) -> Tensor:
        used.append(1)
        return convolve(x, kernel)

    monkeypatch.setattr(winograd, "convolve", counted)
    gradients: list[dict[str, Tensor]] = []
    for min_channels in (winograd.MIN_CHANNELS, 1000):
        monkeypatch.setattr(winograd, "MIN_CHANNELS", min_channels)
        one = wide_learner()
        one.learn_from([random_batch(2 * PART_SIZE, NetworkConfig())], SCHEDULE, window=2 * PART_SIZE)
        gradients.append({n: p.grad.clone() for n, p in one.network.named_parameters() if p.grad is not None})
        assert len(used) == 2 * 4  # parts times convolutions, of the first learner only
    assert len(gradients[0]) == len(list(one.network.parameters()))
    for name, theirs in gradients[1].items():
        assert (gradients[0][name] - theirs).norm() < 0.01 * theirs.norm() + 1e-6, name


def test_winograd_backend_agrees_with_the_network_without_cached_kernels(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "MAX_WEIGHTS", 10)
    backend = make_backend("winograd-fp32", network, 48, 1)
    for size in (1, winograd.MIN_POSITIONS, 3 * winograd.MIN_POSITIONS):
        planes = random_batch(size, NetworkConfig()).planes
        with torch.inference_mode():
            expected = network(planes)[0].numpy()
        np.testing.assert_allclose(backend(planes.numpy())[0], expected, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 8, 72), (2, 9, 9), (2, 40, 12)])
def test_orthogonalised_matrices_have_singular_values_near_1_and_the_same_directions(
    shape: tuple[int, int, int],
) -> None:
    """Compare singular value decompositions, for singular values of very different sizes."""
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    matrices *= torch.tensor([1e-4, 1.0, 1e4])[: shape[0], None, None]
    left, before, right = torch.linalg.svd(matrices, full_matrices=False)
    actual = orthogonalised(matrices)
    assert actual.shape == matrices.shape
    inner = left.mT @ actual @ right.mT
    values = torch.diagonal(inner, dim1=1, dim2=2)
    large = before > 0.05 * before.amax(dim=1, keepdim=True)
    assert large.float().mean() > 0.8
    assert ((values[large] > 0.6) & (values[large] < 1.3)).all()
    assert (inner - torch.diag_embed(values)).abs().max() < 1e-3


def test_muon_steps_match_values_by_hand() -> None:
    """Steps are Nesterov momentum, orthogonalised and scaled to AdamW's size, after weight decay."""
    generator = torch.Generator().manual_seed(1)
    kernels = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((4, 2, 3), (5, 2, 2), (4, 2, 3))]
    expected = [kernel.detach().numpy().astype(np.float64) for kernel in kernels]
    momenta = [np.zeros(kernel.shape) for kernel in kernels]
    optimizer = Muon(kernels, lr=0.01, momentum=0.9, weight_decay=0.5)
    for _ in range(3):
        for index, kernel in enumerate(kernels):
            kernel.grad = torch.randn(kernel.shape, generator=generator)
            gradient = kernel.grad.numpy().astype(np.float64)
            momenta[index] = 0.9 * momenta[index] + 0.1 * gradient
            matrix = (0.1 * gradient + 0.9 * momenta[index]).reshape(len(gradient), -1)
            step = orthogonalised(torch.from_numpy(matrix)[None])[0].numpy().reshape(gradient.shape)
            expected[index] = expected[index] * (1 - 0.01 * 0.5) - 0.01 * 0.2 * max(matrix.shape) ** 0.5 * step
        optimizer.step()
    for kernel, values in zip(kernels, expected, strict=True):
        np.testing.assert_allclose(kernel.detach().numpy(), values, atol=1e-5)


def test_muon_updates_the_towers_kernels_and_adamw_the_rest() -> None:
    """Each parameter has one of the two optimisers; Muon's learning rate is a multiple of AdamW's."""
    config = LearningConfig(optimizer="muon")
    made = Learner(NetworkConfig(channels=4, blocks=2), config, STANDARD, seed=0, precision=FP32)
    adamw, muon = ([id(p) for group in each.param_groups for p in group["params"]] for each in made.optimizers)
    assert muon == [id(p) for p in made.network.tower.parameters() if p.ndim == 4]
    assert len(muon) == 4
    assert sorted(muon + adamw) == sorted(map(id, made.network.parameters()))
    before = {name: value.clone() for name, value in made.network.named_parameters()}
    report = made.learn_from([random_batch(8, NetworkConfig())] * 3, CosineSchedule.of_run(config, 100), 24)
    assert report.skipped_steps == 0
    assert made.optimizers[1].param_groups[0]["lr"] == pytest.approx(MUON_RATE * report.learning_rate)
    assert all(not torch.equal(value, before[name]) for name, value in made.network.named_parameters())


@pytest.mark.parametrize(
    ("capabilities", "processor", "expected"),
    [
        ({"avx2": True}, "AMD EPYC", FP32),  # bf16 would be emulated
        ({"avx512_f": True, "avx512_bf16": True}, "AMD EPYC", BF16),
        ({"avx512_f": True, "avx512_bf16": True}, "Intel(R) Xeon(R)", FP32),  # bf16 was slower
        ({"avx512_bf16": True, "amx_bf16": True}, "Intel(R) Xeon(R)", BF16),
        ({"neon": True, "bf16": True}, "aarch64", BF16),
    ],
)
def test_learning_precision_depends_on_the_processor(
    capabilities: dict[str, bool], processor: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    monkeypatch.setattr("alphac4.nn.backends.processor_name", lambda: processor)
    assert learning_precision(torch.device("cpu")) == expected

"""Winograd's convolutions against PyTorch's, and learning by them against learning without."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from campaigns.tiny_run import tiny_run
from torch import Tensor, nn
from torch.nn import functional as F

from alphac4.benchmarks.learning import random_batch
from alphac4.nn import winograd
from alphac4.nn.backends import WINOGRAD, WinogradBackend, available_backends, is_candidate
from alphac4.nn.network import ConvNorm, NetworkConfig, PolicyValueNetwork, ResidualBlock
from alphac4.nn.precision import BF16, FP32
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import Learner
from alphac4.training.schedule import Schedule

BOARDS = [(6, 7), (1, 1), (4, 5), (7, 7), (8, 9), (2, 21)]  # a side of more than seven is cut into tiles


def _convolved(x: Tensor, kernel: Tensor) -> Tensor:
    """`winograd.convolve` in PyTorch's layout [B, channels, R, C]."""
    return winograd.convolve(x.permute(2, 3, 0, 1).contiguous(), kernel).permute(2, 3, 0, 1)


@pytest.mark.parametrize(("rows", "columns"), BOARDS)
def test_a_convolution_and_its_gradients_are_those_of_float64(rows: int, columns: int) -> None:
    """To some 1e-5 of the standard deviation."""
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    x = torch.randn(5, 12, rows, columns, generator=generator, requires_grad=True)
    kernel = torch.randn(20, 12, 3, 3, generator=generator, requires_grad=True)
    wanted = F.conv2d(x.double(), kernel.double(), padding=1)
    found = _convolved(x, kernel)
    gradient = torch.randn(wanted.shape, generator=generator)
    pairs = [(found, wanted)]
    pairs += zip(
        torch.autograd.grad(found, (x, kernel), gradient),
        torch.autograd.grad(wanted, (x, kernel), gradient.double()),
        strict=True,
    )
    for ours, theirs in pairs:
        with torch.no_grad():
            errors, unit = ours - theirs, theirs.std(correction=0).clamp(min=1.0)
            assert errors.abs().max() < 5e-4 * unit
            assert errors.square().mean().sqrt() < 5e-5 * unit


@pytest.mark.parametrize(("n", "points"), [(1, 3), (6, 8), (7, 9), (8, 12), (21, 27)])
def test_a_side_takes_two_points_more_than_each_of_its_tiles_has_cells(n: int, points: int) -> None:
    """Tiles are of seven cells at most."""
    maps = winograd.line_maps(n, torch.float32)
    assert [list(matrix.shape) for matrix in maps] == [[points, n], [points, 3], [n, points]]


def test_a_tower_gives_the_same_features_statistics_and_gradients() -> None:
    """In learning, where norms are of the batch. In float64: rounding would move some inputs of ReLUs past zero."""
    torch.manual_seed(0)
    results = []
    blocks = nn.Sequential(*(ResidualBlock(16) for _ in range(3))).double()
    for block in blocks:
        assert isinstance(block, ResidualBlock)
        assert isinstance(block.second, ConvNorm)
        nn.init.normal_(block.second[1].weight)  # type: ignore[arg-type]
    before = {name: value.clone() for name, value in blocks.state_dict().items()}
    x = torch.randn(9, 16, 6, 7, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    weights = torch.randn_like(x)
    for run in (blocks, lambda planes: winograd.run_tower(blocks, planes)):
        blocks.load_state_dict(before)
        blocks.zero_grad()
        planes = x.clone().requires_grad_()
        features = run(planes)
        assert features.is_contiguous(memory_format=torch.channels_last)
        (features * weights).sum().backward()
        statistics = {name: value.clone() for name, value in blocks.state_dict().items() if "running" in name}
        results.append([features, planes.grad, *statistics.values(), *(p.grad for p in blocks.parameters())])
    for theirs, ours in zip(*results, strict=True):
        assert theirs is not None
        assert ours is not None
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)


def _learner(
    channels: int = winograd.LEAST_CHANNELS, batch: int = 32, replicas: int = 2, precision: str = FP32
) -> HostLearner:
    config = tiny_run()
    learning = dataclasses.replace(config.learning, batch_size=batch, warmup_steps=0, optimizer="muon")
    network = NetworkConfig(channels=channels, blocks=2, ownership=True)
    return HostLearner(network, learning, config.board.geometry(), 3, replicas=replicas, precision=precision)


def _with_norms(learner: HostLearner) -> HostLearner:
    """Norms that let the tower do something: in a new network the last of each block is zero."""
    generator = torch.Generator().manual_seed(5)
    for module in learner.network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
    learner.take_over(learner.network)  # the other replicas have the same weights, and the average
    return learner


def test_learning_by_winograd_learns_what_learning_without_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of a batch, and after a few steps every weight, measured by how far it has moved."""
    learners = [_with_norms(_learner()), _with_norms(_learner())]
    before = {name: value.clone() for name, value in learners[0].network.state_dict().items()}
    used: list[int] = []

    def counted(x: Tensor, kernel: Tensor, convolve: Callable[[Tensor, Tensor], Tensor] = winograd.convolve) -> Tensor:
        used.append(1)
        return convolve(x, kernel)

    monkeypatch.setattr(winograd, "convolve", counted)
    gradients: list[dict[str, Tensor]] = []
    for learner in learners:
        learner.learn_from([random_batch(32)], Schedule(start_rate=1e-3, end_step=100), window=32)
        gradients.append({n: p.grad.clone() for n, p in learner.network.named_parameters() if p.grad is not None})
        learner.learn_from([random_batch(32)] * 2, Schedule(start_rate=1e-3, end_step=100), window=32)
        assert len(used) == 3 * 2 * 4  # steps, replicas, convolutions: all of the first learner
        monkeypatch.setattr(HostLearner, "tower_of", Learner.tower_of)
    assert len(gradients[0]) == len(list(learners[0].network.parameters()))
    for name, theirs in gradients[1].items():
        assert (gradients[0][name] - theirs).norm() < 0.01 * theirs.norm() + 1e-6, name
    ours, theirs_all = (learner.network.state_dict() for learner in learners)
    for name, start in before.items():
        difference = (ours[name].double() - theirs_all[name].double()).norm()
        assert difference <= 0.05 * (theirs_all[name].double() - start.double()).norm() + 1e-6, name


@pytest.mark.parametrize(
    ("channels", "batch", "replicas", "precision", "expected"),
    [
        (64, 128, 2, FP32, True),
        (winograd.LEAST_CHANNELS - 1, 128, 2, FP32, False),
        (64, 128, 2, BF16, False),
        (64, 128, 8, FP32, True),
        (64, 128, 16, FP32, False),  # eight positions each
    ],
)
def test_where_pytorchs_convolutions_are_faster_learning_uses_them(
    channels: int, batch: int, replicas: int, precision: str, expected: bool
) -> None:
    """With few channels or positions, and in bf16."""
    learner = _learner(channels, batch, replicas, precision)
    assert (learner.tower_of(learner.network) is not learner.network.tower) == expected == learner.by_winograd


def test_a_batch_smaller_than_the_number_of_cores_is_learned_from() -> None:
    """By as many as there are positions."""
    learner = _learner(channels=8, batch=3, replicas=4)
    before = learner.network.policy.weight.clone()
    report = learner.learn_from([random_batch(3)], Schedule(start_rate=1e-3, end_step=100), window=3)
    assert (report.steps, report.skipped_steps) == (1, 0)
    assert not torch.equal(learner.network.policy.weight, before)


def test_a_network_answers_the_same_by_either_tower(network: PolicyValueNetwork) -> None:
    """Logits of moves, results and cells."""
    planes = torch.from_numpy(random_batch(4).planes)
    with torch.inference_mode():
        theirs = network.forward_all(planes)
        ours = network.forward_all(planes, lambda x: winograd.run_tower(network.tower, x))
        without = network.forward_all(planes, lambda x: x)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert (without[0] - theirs[0]).abs().max() > 0.1  # the tower matters


def test_learning_may_follow_inference() -> None:
    """What inference has computed first is kept for both."""
    winograd.line_maps.cache_clear()
    x, kernel = torch.ones(3, 4, 2, 5), torch.ones(5, 5, 3, 3, requires_grad=True)
    with torch.inference_mode():
        winograd.convolve(x, kernel)
    winograd.convolve(x.requires_grad_(), kernel).sum().backward()
    assert kernel.grad is not None
    torch.testing.assert_close(kernel.grad[0, 0, 1, 1], torch.tensor(24.0))  # cells times positions


def test_one_channel_becomes_several_and_the_other_way_round() -> None:
    """Whatever the order in memory."""
    for inputs, outputs in ((1, 5), (5, 1)):
        x, kernel = torch.randn(2, inputs, 6, 7), torch.randn(outputs, inputs, 3, 3)
        for format_ in (torch.contiguous_format, torch.channels_last):
            found = _convolved(x, kernel.contiguous(memory_format=format_))
            torch.testing.assert_close(found, F.conv2d(x, kernel, padding=1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("most", [winograd.MOST_WEIGHTS, 10])
def test_the_backend_answers_batches_of_every_size(
    most: int, network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Winograd's minimal filtering where there are enough positions, and memory enough for the kernels."""
    monkeypatch.setattr(winograd, "MOST_WEIGHTS", most)
    used: list[int] = []

    def counted(
        tower: winograd.FoldedTower, x: Tensor, run: Callable[..., Tensor] = winograd.FoldedTower.__call__
    ) -> Tensor:
        used.append(len(x))
        return run(tower, x)

    monkeypatch.setattr(winograd.FoldedTower, "__call__", counted)
    backend = WinogradBackend(network, 1)
    least = winograd.LEAST_POSITIONS
    for size in (1, least - 1, least, 3 * least):
        planes = random_batch(size).planes
        policy, _ = backend(planes)
        with torch.inference_mode():
            expected = network(torch.from_numpy(planes))[0].numpy()
        np.testing.assert_allclose(policy, expected, atol=1e-4)
    assert used == ([least, 3 * least] if most > 10 else [])


def test_for_small_batches_it_is_not_measured() -> None:
    """It would be PyTorch under another name."""
    assert WINOGRAD in available_backends("cpu", 1, 1, 1)
    assert is_candidate(WINOGRAD, winograd.LEAST_POSITIONS, int8=False)
    assert not is_candidate(WINOGRAD, winograd.LEAST_POSITIONS - 1, int8=True)

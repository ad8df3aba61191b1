"""Winograd's convolutions against PyTorch's, and learning by them against learning without."""

import numpy as np
import pytest
import torch
from campaigns.tiny_run import tiny_run
from torch import Tensor, nn
from torch.nn import functional as F

from alphac4.nn import winograd
from alphac4.nn.backends import Array, WinogradBackend
from alphac4.nn.network import ConvNorm, NetworkConfig, PolicyValueNetwork, ResidualBlock
from alphac4.nn.precision import BF16, FP32
from alphac4.selfplay.replay import Batch
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import Learner
from alphac4.training.schedule import Schedule

BOARDS = [(6, 7), (1, 1), (4, 5), (7, 7), (8, 9), (2, 21)]  # a side of more than seven is cut into tiles


def _convolved(x: Tensor, kernel: Tensor) -> Tensor:
    """`winograd.convolve` in PyTorch's layout [B, channels, R, C]."""
    return winograd.convolve(x.permute(2, 3, 0, 1).contiguous(), kernel).permute(2, 3, 0, 1)


@pytest.mark.parametrize(("rows", "columns"), BOARDS)
def test_a_convolution_and_its_gradients_are_those_of_float64(rows: int, columns: int) -> None:
    """Within a few times 1e-5 of the standard deviation."""
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
    side = winograd.side(n, torch.float32)
    assert [list(matrix.shape) for matrix in side] == [[points, n], [points, 3], [n, points]]


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


def _batch(size: int) -> Batch:
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 3, (size, 6, 7))
    planes = np.stack([cells == 1, cells == 2], axis=1).astype(np.float32)
    policy = rng.random((size, 7)).astype(np.float32)
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, size)]
    return Batch(planes, policy / policy.sum(axis=1, keepdims=True), np.ones(size, np.float32), wdl, planes)


def _learner(channels: int, precision: str = FP32) -> HostLearner:
    config = tiny_run()
    network = NetworkConfig(channels=channels, blocks=2, ownership=True)
    return HostLearner(network, config.learning, config.board.geometry(), seed=3, replicas=2, precision=precision)


def test_learning_by_winograd_learns_what_learning_without_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few steps, in every weight."""
    schedule = Schedule(start_rate=1e-3, end_step=100)
    learners = [_learner(winograd.LEAST_CHANNELS), _learner(winograd.LEAST_CHANNELS)]
    used = []
    monkeypatch.setattr(
        winograd, "convolve", lambda *arguments, of=winograd.convolve: (used.append(1), of(*arguments))[1]
    )
    learners[0].learn_from([_batch(32)] * 3, schedule, window=32)
    assert len(used) == 3 * 2 * 4  # steps, replicas, convolutions
    monkeypatch.setattr(HostLearner, "tower_of", Learner.tower_of)
    learners[1].learn_from([_batch(32)] * 3, schedule, window=32)
    assert len(used) == 3 * 2 * 4
    ours, theirs = (learner.network.state_dict() for learner in learners)
    for name, value in theirs.items():
        difference = (ours[name].double() - value.double()).abs().mean()
        assert difference <= 1e-3 * value.double().abs().mean() + 1e-5, name


@pytest.mark.parametrize(("channels", "precision"), [(winograd.LEAST_CHANNELS - 1, FP32), (64, BF16)])
def test_small_networks_and_bf16_learn_by_pytorchs_convolutions(channels: int, precision: str) -> None:
    """Which are faster there."""
    learner = _learner(channels, precision)
    assert learner.tower_of(learner.network) is learner.network.tower


def test_the_network_is_that_of_its_own_tower_in_either_way() -> None:
    """Logits of moves, results and cells."""
    torch.manual_seed(0)
    network = PolicyValueNetwork(NetworkConfig(channels=8, blocks=2, ownership=True)).eval()
    planes = torch.from_numpy(_batch(4).planes)
    own = network.forward_all(planes)
    for ours, theirs in zip(
        own, network.forward_all(planes, lambda x: winograd.run_tower(network.tower, x)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_learning_may_follow_inference() -> None:
    """What inference has computed first is kept for both."""
    winograd.side.cache_clear()
    x, kernel = torch.ones(3, 4, 2, 5), torch.ones(5, 5, 3, 3, requires_grad=True)
    with torch.inference_mode():
        winograd.convolve(x, kernel)
    winograd.convolve(x.requires_grad_(), kernel).sum().backward()
    assert kernel.grad is not None
    torch.testing.assert_close(kernel.grad[0, 0, 1, 1], torch.tensor(24.0))  # cells times positions


def test_few_positions_are_left_to_another_backend() -> None:
    """Which is asked for fewer than pay for all those weights."""
    network = PolicyValueNetwork(NetworkConfig(channels=8, blocks=2)).eval()
    asked: list[int] = []

    def small(planes: Array) -> tuple[Array, Array]:
        asked.append(len(planes))
        return np.zeros((len(planes), 7), np.float32), np.zeros((len(planes), 3), np.float32)

    backend = WinogradBackend(network, 1, small)
    least = WinogradBackend.LEAST_BATCH
    for size in (1, least - 1, least, 3 * least):
        planes = _batch(size).planes
        policy, _ = backend(planes)
        with torch.inference_mode():
            expected = network(torch.from_numpy(planes))[0].numpy()
        if size >= least:
            np.testing.assert_allclose(policy, expected, atol=1e-5)
    assert asked == [1, least - 1]

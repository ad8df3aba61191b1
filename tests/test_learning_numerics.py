"""Numerics of learning on the CPU: Winograd convolutions, Muon's steps, and the choice of precision."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphac4.game import STANDARD
from alphac4.nn import winograd
from alphac4.nn.backends import BF16, FP32, learning_precision, make_backend, random_inputs
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork, ResidualBlock
from alphac4.training.config import LearningConfig
from alphac4.training.learner import PART_SIZE, Learner
from alphac4.training.losses import LearningBatch, with_weights
from alphac4.training.optimizer import MUON_RATE, CosineSchedule, Muon, orthogonalised

CPU = torch.device("cpu")
SCHEDULE = CosineSchedule(end_step=100)


def random_batch(size: int, network: NetworkConfig) -> LearningBatch:
    """Return a batch of random boards and targets."""
    rng = np.random.default_rng(1)
    planes = random_inputs(network, size, rng)
    policy = rng.random((size, 7)).astype(np.float32)
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, size)]
    policy /= policy.sum(axis=1, keepdims=True)
    return with_weights(*map(torch.from_numpy, (planes, policy, np.ones(size, np.float32), wdl, planes[:, :2])))


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
    blocks = nn.Sequential(*(ResidualBlock(16) for _ in range(3))).double()
    for parameter in blocks.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    before = {name: value.clone() for name, value in blocks.state_dict().items()}
    x = torch.randn(9, 16, 6, 7, dtype=torch.float64, generator=generator)
    x = x.contiguous(memory_format=torch.channels_last)
    weights = torch.randn(x.shape, dtype=torch.float64, generator=generator)
    results = []
    for run in (blocks, lambda planes: winograd.run_tower(blocks, planes)):
        blocks.load_state_dict(before)
        blocks.zero_grad()
        planes = x.clone().requires_grad_()
        features = run(planes)
        assert features.is_contiguous(memory_format=torch.channels_last)
        (features * weights).sum().backward()
        statistics = [value.clone() for name, value in blocks.state_dict().items() if "running" in name]
        results.append([features, planes.grad, *statistics, *(p.grad for p in blocks.parameters())])
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-8)


def learner_of(channels: int = winograd.MIN_CHANNELS, batch: int = 2 * PART_SIZE) -> Learner:
    """Return a learner with random norms, because in a new network the last norm of each block is zero."""
    config = LearningConfig(batch_size=batch, optimizer="muon", learning_rate=1e-3)
    network = NetworkConfig(channels=channels, blocks=2, ownership=True)
    made = Learner(network, config, STANDARD, 3, precision=FP32)
    generator = torch.Generator().manual_seed(5)
    for module in made.network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
    made.initialize_from(made.network)  # copies the weights to the average
    return made


def test_learning_by_winograd_has_the_gradients_of_plain_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = learner_of(), learner_of()
    used: list[int] = []

    def counted(x: Tensor, kernel: Tensor, convolve: Callable[[Tensor, Tensor], Tensor] = winograd.convolve) -> Tensor:
        used.append(1)
        return convolve(x, kernel)

    monkeypatch.setattr(winograd, "convolve", counted)
    gradients: list[dict[str, Tensor]] = []
    for one in pair:
        one.learn_from([random_batch(2 * PART_SIZE, NetworkConfig())], SCHEDULE, window=2 * PART_SIZE)
        gradients.append({n: p.grad.clone() for n, p in one.network.named_parameters() if p.grad is not None})
        assert len(used) == 2 * 4  # parts times convolutions, of the first learner only
        pair[1].by_winograd = False
    assert len(gradients[0]) == len(list(pair[0].network.parameters()))
    for name, theirs in gradients[1].items():
        assert (gradients[0][name] - theirs).norm() < 0.01 * theirs.norm() + 1e-6, name


def test_learner_accepts_a_batch_smaller_than_a_part() -> None:
    made = learner_of(channels=8)
    before = made.network.policy.weight.clone()
    report = made.learn_from([random_batch(3, NetworkConfig())], SCHEDULE, window=3)
    assert (report.steps, report.skipped_steps) == (1, 0)
    assert not torch.equal(made.network.policy.weight, before)


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
    assert learning_precision(CPU) == expected

import numpy as np
import pytest
import torch
from test_run_folder import some_batches

from alphac4.game import STANDARD
from alphac4.nn.network import NetworkConfig
from alphac4.training.config import LearningConfig
from alphac4.training.host_learner import HostLearner
from alphac4.training.muon import Muon, orthogonalised
from alphac4.training.schedule import Schedule


@pytest.mark.parametrize("shape", [(3, 8, 72), (2, 9, 9), (2, 40, 12)])
def test_singular_values_come_near_one_and_the_directions_stay(shape: tuple[int, int, int]) -> None:
    """By a singular value decomposition, however far apart they were."""
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    matrices *= torch.tensor([1e-4, 1.0, 1e4])[: shape[0], None, None]
    left, before, right = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalised(matrices)
    assert found.shape == matrices.shape
    inner = left.mT @ found @ right.mT
    values = torch.diagonal(inner, dim1=1, dim2=2)
    large = before > 0.05 * before.amax(dim=1, keepdim=True)
    assert large.float().mean() > 0.8
    assert ((values[large] > 0.6) & (values[large] < 1.3)).all()
    assert (inner - torch.diag_embed(values)).abs().max() < 1e-3


def test_steps_are_those_worked_out_by_hand() -> None:
    """Nesterov momentum, orthogonalised, as long as a step of AdamW, after the decay; kernels of a shape together."""
    generator = torch.Generator().manual_seed(1)
    kernels = [
        torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((4, 2, 3), (5, 2, 2), (4, 2, 3))
    ]
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


def test_muon_takes_the_towers_kernels_and_adamw_the_rest() -> None:
    """Every parameter is learned by one of them; a multiple of the rate is Muon's."""
    config = LearningConfig(optimizer="muon", warmup_steps=1, muon_rate=2.5)
    learner = HostLearner(NetworkConfig(channels=4, blocks=2), config, STANDARD, seed=0, replicas=2)
    assert learner.muon is not None
    groups = {kind: optimizer.param_groups for kind, optimizer in learner.optimizers().items()}
    taken = {kind: [id(p) for group in found for p in group["params"]] for kind, found in groups.items()}
    assert taken["muon"] == [id(p) for p in learner.network.tower.parameters() if p.ndim == 4]
    assert len(taken["muon"]) == 4
    assert sorted(taken["muon"] + taken["optimizer"]) == sorted(map(id, learner.network.parameters()))
    before = {name: value.clone() for name, value in learner.network.named_parameters()}
    report = learner.learn_from(some_batches(bad=99), Schedule.of_run(config, 100), 24)
    assert report.skipped_steps == 0
    assert learner.muon.param_groups[0]["lr"] == pytest.approx(2.5 * report.learning_rate)
    assert all(not torch.equal(value, before[name]) for name, value in learner.network.named_parameters())

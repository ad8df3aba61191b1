"""Fixtures shared by the tests."""

import numpy as np
import pytest
import torch

from alphac4.nn import NetworkConfig, PolicyValueNetwork


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(7)


@pytest.fixture
def network() -> PolicyValueNetwork:
    """A small network whose batch norms and heads have lived a little, so that folding them matters."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = PolicyValueNetwork(NetworkConfig(channels=16, blocks=2))
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.uniform_(module.weight, 0.5, 1.5)
                torch.nn.init.normal_(module.bias, std=0.3)
                torch.nn.init.normal_(module.running_mean, std=0.3)
                torch.nn.init.uniform_(module.running_var, 0.5, 2.0)
        for head in (network.policy, network.value):
            torch.nn.init.normal_(head.weight, std=0.3)
    return network.eval()

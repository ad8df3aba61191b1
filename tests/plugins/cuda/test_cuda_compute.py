"""The choice of the GPU, and networks on it."""

import copy
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from alphac4.compute import choose_compute
from alphac4.game import Position
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork
from alphac4.plugins.cuda import CUDA_TREES

POSITIONS = [Position.from_moves(moves) for moves in ("", "44")]


@pytest.mark.gpu
def test_gpu_searches_use_the_updated_weights(network: PolicyValueNetwork) -> None:
    evaluator = choose_compute("cuda", "auto").evaluator(network)
    searches = [NetworkSearch(evaluator, rng=np.random.default_rng(0)) for _ in range(2)]
    before = [search.search(POSITIONS, Budget(simulations=4)).priors for search in searches]
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.policy.bias.copy_(torch.linspace(-9, 9, network.config.columns))
    evaluator.update(other)
    for search, priors in zip(searches, before, strict=True):
        after = search.search(POSITIONS, Budget(simulations=4)).priors
        assert after.argmax(axis=1).tolist() == [6, 6] != priors.argmax(axis=1).tolist()


def test_a_missing_compiler_for_the_gpu_is_an_error_only_for_its_own_backend(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("alphac4.compute.devices.self_test_error", lambda: "")
    missing = Mock(side_effect=RuntimeError("numba-cuda is missing"))
    monkeypatch.setattr("alphac4.plugins.cuda.compute.cuda_device", missing)
    assert choose_compute("cuda", "auto").learning_device.type == "cuda"
    assert caplog.messages == ["the trees stay on the cores, which is slower: numba-cuda is missing"]
    with pytest.raises(RuntimeError, match="numba-cuda is missing"):
        choose_compute("cuda", CUDA_TREES)

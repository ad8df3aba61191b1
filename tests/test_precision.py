from pathlib import Path

import pytest
import torch
from campaigns.tiny_run import tiny_run

from alphac4.nn import precision
from alphac4.nn.network import NetworkConfig
from alphac4.nn.precision import BF16, FP32, learning_precision
from alphac4.training import learners
from alphac4.training.learners import remembered_precision
from alphac4.training.loop import TrainingLoop
from alphac4.training.run_state import RunState

CPU = torch.device("cpu")
NETWORK = NetworkConfig(channels=48, blocks=1)
POSITIONS = 16


@pytest.fixture(autouse=True)
def forget() -> None:
    """Measure anew in each test."""
    learning_precision.cache_clear()


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, BF16), (1.05, BF16), (1.6, FP32)])
def test_bf16_learns_unless_it_is_slower(ratio: float, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By far enough that noise does not decide."""
    monkeypatch.setattr(precision, "has_bf16", lambda _device: True)
    monkeypatch.setattr(precision, "time_both", lambda _network, _positions: ratio)
    assert learning_precision(CPU, NETWORK, POSITIONS) == expected


def test_without_bf16_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated, it would be slower in any case."""
    monkeypatch.setattr(precision, "has_bf16", lambda _device: False)
    monkeypatch.setattr(precision, "time_both", pytest.fail)
    assert learning_precision(CPU, NETWORK, POSITIONS) == FP32


def test_the_measurement_gives_a_ratio_and_keeps_the_number_of_threads() -> None:
    """Of two times that are both above nothing."""
    threads = torch.get_num_threads()
    assert learning_precision(CPU, NETWORK, POSITIONS) in (BF16, FP32)
    assert torch.get_num_threads() == threads
    for positions in (1, POSITIONS):  # few enough for PyTorch's convolutions, and enough for Winograd's
        assert 0.05 < precision.time_both(NETWORK, positions) < 20


@pytest.mark.parametrize("first", [BF16, FP32])
def test_a_run_goes_on_in_the_precision_that_it_began_with(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is faster then; so it comes to the same end."""
    monkeypatch.setattr(learners, "has_bf16", lambda _device: True)
    other = {BF16: FP32, FP32: BF16}[first]
    for iterations, fastest in ((1, first), (2, other)):
        monkeypatch.setattr("alphac4.training.learner.learning_precision", lambda *_arguments, found=fastest: found)
        with TrainingLoop.open(tmp_path, tiny_run(iterations=iterations)) as loop:
            assert loop.learner.precision == first
            loop.run()
    assert loop.state.learning_precision == first


def test_a_run_of_an_earlier_version_goes_on_in_bf16_where_there_is_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it began; a new one has nothing to remember."""
    for available, expected in ((True, BF16), (False, FP32)):
        monkeypatch.setattr(learners, "has_bf16", lambda _device, found=available: found)
        assert remembered_precision(RunState(iteration=3), CPU) == expected
        assert remembered_precision(RunState(), CPU) is None

"""Which learner a run has."""

import torch

from alphac4.compute import LearningPlace
from alphac4.nn.backends import has_bf16
from alphac4.nn.precision import BF16, FP32
from alphac4.training.config import TrainConfig
from alphac4.training.device_learner import DeviceLearner
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import Learner
from alphac4.training.run_state import RunState


def make_learner(config: TrainConfig, place: LearningPlace, precision: str | None = None) -> Learner:
    """An untrained network and what trains it, in the place that compute has for that; see `Learner`."""
    network, geometry = config.network_config(), config.board.geometry()
    if place.resident:
        return DeviceLearner(network, config.learning, geometry, place.device, config.seed, precision)
    return HostLearner(network, config.learning, geometry, config.seed, precision=precision)


def remembered_precision(state: RunState, device: torch.device) -> str | None:
    """The precision with which a run goes on as it began, where this device has it; None for a new run."""
    if not state.iteration:
        return None
    # Before it was measured, all runs learned in bf16 where there was any.
    return FP32 if state.learning_precision == FP32 or not has_bf16(device) else BF16

"""Which learner a run has."""

from alphac4.compute import LearningPlace
from alphac4.training.config import TrainConfig
from alphac4.training.device_learner import DeviceLearner
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import Learner


def make_learner(config: TrainConfig, place: LearningPlace, precision: str | None = None) -> Learner:
    """An untrained network and what trains it, in the place that compute has for that; see `Learner`."""
    network, geometry = config.network_config(), config.board.geometry()
    if place.resident:
        return DeviceLearner(network, config.learning, geometry, place.device, config.seed, precision)
    return HostLearner(network, config.learning, geometry, config.seed, precision=precision)

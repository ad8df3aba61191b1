"""Learning on the cores."""

from collections.abc import Iterator

import numpy as np

from alphac4.benchmarks.figures import BenchmarkSettings, Figure, median_rate
from alphac4.game.rules import STANDARD
from alphac4.nn.backends import boards_for
from alphac4.nn.network import NetworkConfig
from alphac4.selfplay.replay import Batch
from alphac4.training.config import LearningConfig
from alphac4.training.learner import Learner
from alphac4.training.schedule import Schedule

BATCH = 128  # positions, as in the quick and standard presets
STEPS = 2  # at a time


def measure_learning(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Gradient steps as the presets take them; where those are by Winograd's filtering, by PyTorch alone too."""
    network = NetworkConfig(channels=settings.channels, blocks=settings.blocks, ownership=True)
    config = LearningConfig(batch_size=BATCH, optimizer="muon")
    schedule = Schedule.of_run(config, 1_000_000)
    batch = random_batch(BATCH, network)

    def figure(name: str, learner: Learner) -> Figure:
        rate = median_rate(lambda: BATCH * learner.learn_from([batch] * STEPS, schedule, BATCH).steps, settings)
        return Figure(name, rate, f"positions/s ({learner.precision}, batch {BATCH}, Muon)")

    learner = Learner(network, config, STANDARD, seed=0)
    yield figure("learning", learner)
    if learner.by_winograd:
        alike = Learner(network, config, STANDARD, seed=0, precision=learner.precision)
        alike.by_winograd = False
        yield figure("learning by PyTorch's convolutions", alike)


def random_batch(size: int, network: NetworkConfig) -> Batch:
    """Random boards and targets: they take no less time than a game's."""
    rng = np.random.default_rng(1)
    planes = boards_for(network, size, rng)
    policy = rng.random((size, 7)).astype(np.float32)
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, size)]
    return Batch(planes, policy / policy.sum(axis=1, keepdims=True), np.ones(size, np.float32), wdl, planes[:, :2])

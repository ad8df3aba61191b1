"""Learning on the cores."""

from collections.abc import Iterator

import numpy as np

from alphac4.benchmarks.figures import BenchmarkSettings, Figure, median_rate
from alphac4.game.rules import STANDARD
from alphac4.nn.network import NetworkConfig
from alphac4.nn.precision import FP32
from alphac4.selfplay.replay import Batch
from alphac4.training.config import LearningConfig
from alphac4.training.host_learner import HostLearner
from alphac4.training.learner import Learner
from alphac4.training.schedule import Schedule

BATCH = 128  # positions, as in the quick and standard presets
STEPS = 2  # at a time


class _PyTorchLearner(HostLearner):
    tower_of = Learner.tower_of


def measure_learning(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Gradient steps in the fastest precision; and in fp32 by Winograd's minimal filtering, where learning may use it.

    The latter against PyTorch's convolutions.
    """
    network = NetworkConfig(channels=settings.channels, blocks=settings.blocks, ownership=True)
    config = LearningConfig(batch_size=BATCH, optimizer="muon")
    schedule = Schedule.of_run(config, 1_000_000)
    batch = _batch()

    def rate(learner: HostLearner) -> float:
        return median_rate(lambda: BATCH * learner.learn_from([batch] * STEPS, schedule, BATCH).steps, settings)

    learner = HostLearner(network, config, STANDARD, seed=0)
    yield Figure("learning", rate(learner), f"positions/s ({learner.precision}, batch {BATCH}, Muon)")
    in_fp32 = HostLearner(network, config, STANDARD, seed=0, precision=FP32)
    if not in_fp32.by_winograd:
        return
    for name, alike in (
        ("learning, fp32 by Winograd", in_fp32),
        ("learning, fp32 by PyTorch", _PyTorchLearner(network, config, STANDARD, seed=0, precision=FP32)),
    ):
        yield Figure(name, rate(alike), "positions/s")


def _batch() -> Batch:
    """Random boards: what is on them takes no less time."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 3, (BATCH, 6, 7))
    planes = np.stack([cells == 1, cells == 2], axis=1).astype(np.float32)
    policy = np.full((BATCH, 7), 1 / 7, np.float32)
    wdl = np.full((BATCH, 3), 1 / 3, np.float32)
    return Batch(planes, policy, np.ones(BATCH, np.float32), wdl, planes)

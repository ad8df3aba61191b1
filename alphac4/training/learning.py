"""What an iteration learns: how many steps, from which window, and what becomes of weights that are not finite."""

import dataclasses
from collections.abc import Callable

import numpy as np

from alphac4.selfplay.replay import Replay, window_size
from alphac4.training.config import TrainConfig
from alphac4.training.learner import Learner, LearningPlan
from alphac4.training.reports import LearningReport
from alphac4.training.schedule import Schedule


def steps_of_iteration(config: TrainConfig) -> int:
    """How many gradient steps an iteration takes."""
    return max(1, round(config.samples * config.learning.passes / config.learning.batch_size))


def learn_iteration(
    learner: Learner,
    replay: Replay,
    config: TrainConfig,
    schedule: Schedule,
    rng: np.random.Generator,
    on_step: Callable[[], None],
) -> LearningReport:
    """Learn from the replay window, then let go of what has left it for good; ``on_step`` is called before each step.

    If the weights are not finite afterwards, the learner goes back to those before.
    """
    steps, learning = steps_of_iteration(config), config.learning
    before, steps_before = learner.state(), learner.steps
    window = window_size(replay.total, learning.min_window)
    plan = LearningPlan(steps=steps, schedule=schedule, window=window, rng=rng, on_step=on_step)
    report = learner.learn(replay, plan)
    replay.drop_old(2 * window)
    if not learner.is_finite():
        learner.restore(before)
        learner.steps = steps_before + steps
        report = dataclasses.replace(report, went_back=True)
    return report

"""How long each preset would take to train on this machine, from some seconds of self-play and learning."""

import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alphac4.compute import Actors, Backends, choose_for_run
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.replay import Replay
from alphac4.training.config import TrainConfig
from alphac4.training.learner import LearningPlan
from alphac4.training.learners import make_learner
from alphac4.training.learning import steps_of_iteration
from alphac4.training.schedule import Schedule

OTHER_WORK = 0.25  # of a run's time: the gate, matches and reports; 0.26 in the recorded quick run
# The work of a position in self-play over a whole run, as a share of an untrained network's. Proofs end more and more
# searches, and the cache answers more: the recorded quick run takes 9.7 evaluations and 14.7 simulations a position
# where an untrained network takes 19.4 and 23.3, and the standard run 15.5 simulations where it takes 27.8.
LATER_WORK = 0.55
WARM_UP_SAMPLES = 500
WARM_UP_STEPS = 3
TIMED_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class PresetDuration:
    """What a preset would take here."""

    minutes: float  # of a whole run
    samples_a_second: float  # of self-play by an untrained network
    steps_a_second: float  # of learning
    backend: str  # of self-play


def measure_preset(config: TrainConfig, seconds: float = 2.0, device: str = "auto") -> PresetDuration:
    """Let an untrained network play and learn with a preset's settings, for about so many seconds each.

    A trained network's self-play is quicker, by `LATER_WORK`, and how much of the time other work takes depends on the
    preset, so that this is an estimate, good to perhaps a third.
    """
    compute = choose_for_run(device, "auto", Backends())
    learner = make_learner(config, compute.learning)
    actors = compute.actors(
        learner.candidate(), config.board.geometry(), config.selfplay, lambda index: np.random.default_rng(index)
    )
    with tempfile.TemporaryDirectory() as folder:
        replay = Replay(Path(folder))
        _play(actors, replay, WARM_UP_SAMPLES)
        played, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            played += _play(actors, replay, 4 * WARM_UP_SAMPLES)
        samples_a_second = played / elapsed
        rng = np.random.default_rng(0)
        schedule = Schedule.of_run(config.learning, WARM_UP_STEPS + TIMED_STEPS)
        for steps in (WARM_UP_STEPS, TIMED_STEPS):
            report = learner.learn(replay, LearningPlan(steps=steps, schedule=schedule, window=replay.total, rng=rng))
        steps_a_second = TIMED_STEPS / report.seconds
    iteration = LATER_WORK * config.samples / samples_a_second + steps_of_iteration(config) / steps_a_second
    return PresetDuration(
        minutes=config.iterations * iteration / (1 - OTHER_WORK) / 60,
        samples_a_second=samples_a_second,
        steps_a_second=steps_a_second,
        backend=actors.backend,
    )


def _play(actors: Actors, replay: Replay, samples: int) -> int:
    """Record so many samples or a few more; how many."""
    before, number = replay.total, 0

    def on_block(actor: int, block: Block) -> None:
        nonlocal number
        number += 1
        replay.add(block.samples, 1, actor, before + number)

    actors.play(samples, threading.Event(), on_block)
    return replay.total - before

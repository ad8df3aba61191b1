"""Time that each preset would take to train on this machine, from some seconds of self-play and learning."""

import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alphac4.compute import Actors, Backends, choose_for_run
from alphac4.compute.cores import MAX_STREAMS, count_actors
from alphac4.machine import cores
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import Block
from alphac4.training.config import TrainConfig
from alphac4.training.learner import PART, Learner, make_learner
from alphac4.training.optimizer import Schedule

OTHER_WORK = 0.25  # of a run's time: the gate, matches and reports; 0.26 in the recorded quick run
# The work of a position in self-play over a whole run, as a share of an untrained network's. Proofs end more and more
# searches, and the cache answers more: the recorded quick run takes 9.7 evaluations and 14.7 simulations a position
# where an untrained network takes 19.4 and 23.3, and the standard run 15.5 simulations where it takes 27.8.
LATER_WORK = 0.55
# Evaluations of an untrained network, as a share of the visits that its searches are asked for: trees that are kept
# from move to move, proofs and the cache save the rest. The recorded quick run takes 19.4 a position for 35.2 visits.
# With `LATER_WORK` that makes 0.30 over a whole run; the shipped networks' runs took 0.32 (standard) and 0.27 (grown).
EVALUATIONS_A_VISIT = 0.55
ENDLESS = 10**9  # samples or steps, where time is the limit
WARM_UP_STEPS = 2
MIN_STEPS = 2  # that are timed
MACHINES = (1, 2, 4, 8, 16, 64)  # cores
MB, MB_AN_ACTOR = 740, 10  # of a run; quick took 744 on one core and 767 with eight actors, wider networks more


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a preset takes on so many cores like those of this machine."""

    cores: int
    minutes: float
    memory_mb: int


@dataclass(frozen=True, kw_only=True)
class PresetDuration:
    """Time and speed of a preset here."""

    minutes: float  # of a whole run
    estimates: list[Estimate]  # for each of `MACHINES`
    samples_a_second: float  # of self-play by an untrained network, from its evaluations/s
    steps_a_second: float  # of learning
    backend: str  # of self-play


def measure_preset(config: TrainConfig, seconds: float = 3.0, device: str = "auto") -> PresetDuration:
    """Let an untrained network play and learn with a preset's settings, for about so many seconds each.

    A large network takes longer: until the first games are over, and for the first steps. A trained network's self-play
    is quicker, by `LATER_WORK`, and how much of the time other work takes depends on the preset, so that this is an
    estimate, good to perhaps a third.
    """
    compute, selfplay = choose_for_run(device, "auto", Backends()), config.selfplay
    learner = make_learner(config, compute.learning_device)
    actors = compute.actors(
        learner.candidate(), config.board.geometry(), selfplay, lambda index: np.random.default_rng(index)
    )
    with tempfile.TemporaryDirectory() as folder:
        replay = Replay(Path(folder))
        visits = (
            selfplay.full_search_prob * selfplay.full_simulations
            + (1 - selfplay.full_search_prob) * selfplay.fast_simulations
        )
        samples_a_second = _measure_self_play(actors, replay, seconds) / (EVALUATIONS_A_VISIT * visits)
        steps_a_second = _measure_learning(learner, replay, config, seconds)
    here, parts = cores(), -(-config.learning.batch_size // PART)
    play = config.iterations * LATER_WORK * config.samples / samples_a_second
    learn = config.iterations * config.learning_steps / steps_a_second
    minutes = (play + learn) / (1 - OTHER_WORK) / 60
    # The same with one core for everything, and what more of them take over.
    play, learn = play * len(actors), learn * min(here, parts)
    other = (play + learn) * OTHER_WORK / (1 - OTHER_WORK)
    estimates = []
    for count in MACHINES:
        playing = count_actors(selfplay.games, count)
        whole = play / playing + learn / min(count, parts) + other / min(count, MAX_STREAMS)
        estimates.append(Estimate(cores=count, minutes=whole / 60, memory_mb=MB + MB_AN_ACTOR * playing))
    return PresetDuration(
        minutes=minutes,
        estimates=estimates,
        samples_a_second=samples_a_second,
        steps_a_second=steps_a_second,
        backend=actors.backend,
    )


def _measure_self_play(actors: Actors, replay: Replay, seconds: float) -> float:
    """Evaluations/s, trees included; the games that are over by then are added to ``replay``.

    Finished games would not do as a measure: all begin together, so that at first hardly any finish, and later many.
    """
    stop, began, blocks = threading.Event(), time.perf_counter(), 0
    evaluations: Counter[int] = Counter()  # by actor
    first: dict[int, tuple[float, int]] = {}  # by actor: when its first block came, and the evaluations until then
    last: dict[int, tuple[float, int]] = {}

    def on_block(actor: int, block: Block) -> None:
        nonlocal blocks
        blocks += 1
        replay.add(block.samples, 1, blocks)
        evaluations[actor] += block.work.evaluations
        now = time.perf_counter()
        last[actor] = now, evaluations[actor]
        first.setdefault(actor, last[actor])
        if now - min(since for since, _ in first.values()) >= seconds:
            stop.set()

    actors.play(ENDLESS, stop, on_block)
    rate = 0.0
    for actor, (end, after) in last.items():
        start, before = first[actor] if first[actor] != last[actor] else (began, 0)  # its only block
        rate += (after - before) / (end - start)
    return rate * len(actors) / len(last)


def _measure_learning(learner: Learner, replay: Replay, config: TrainConfig, seconds: float) -> float:
    """Steps/s: four times as many steps each time, until they take long enough to be timed."""
    schedule, rng = Schedule.of_run(config.learning, ENDLESS), np.random.default_rng(0)

    def learn(steps: int) -> float:
        return learner.learn(replay.window(replay.total), steps=steps, schedule=schedule, rng=rng).seconds

    learn(WARM_UP_STEPS)
    steps = MIN_STEPS
    while (taken := learn(steps)) < seconds / 2:
        steps *= 4
    return steps / taken

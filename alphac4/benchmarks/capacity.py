"""How many positions/s the driver of a cluster takes in, stores and learns from, with recorded blocks."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from alphac4.benchmarks.cluster import WITHOUT_END, play_turn
from alphac4.benchmarks.figures import BenchmarkSettings, Figure
from alphac4.compute import Backends, choose_for_run
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.runs.folder import RunFolder
from alphac4.selfplay.samples import Block
from alphac4.training.config import PRESETS, TrainConfig
from alphac4.training.learner import LearningPlan, make_learner
from alphac4.training.schedule import Schedule

STEPS = 10  # of learning, before the clock is looked at
AHEAD = 2_000  # positions that may wait, as in a run: more would be taken in than are stored


def measure_capacity(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Each part of the driver's work alone, with the quick preset's settings; a measurement takes ten times as long.

    Processor time is this process's own: by it one sees what a core could do if no other program had a part of it.
    """
    from alphac4.compute.cluster.place import Cluster, local_cluster

    config, seconds = PRESETS["quick"], 10 * settings.seconds
    compute = choose_for_run("cpu", "auto", Backends())
    learner = make_learner(config, compute.learning_device)
    network = learner.candidate()
    actors = compute.actors(network, STANDARD, config.selfplay, np.random.default_rng)
    blocks: list[Block] = []
    actors.play(6_000, threading.Event(), lambda _index, block: blocks.append(block))
    started, processor, played = time.perf_counter(), time.process_time(), 0

    def count(_index: int, block: Block) -> None:
        nonlocal played
        played += len(block.samples)

    actors.play(int(4_000 * settings.seconds) + 1, threading.Event(), count)
    a_core = played / (time.perf_counter() - started) / cores()
    yield Figure("self-play of one core", a_core, f"positions/s ({actors.backend})")
    a_core = played / (time.process_time() - processor)
    yield Figure("self-play: of processor time", a_core, "positions/s")
    mean = sum(len(block.samples) for block in blocks) / len(blocks)
    yield Figure("a block", mean, "positions")
    with tempfile.TemporaryDirectory() as path, local_cluster([0, 1, 1]) as address:
        folder = RunFolder(Path(path) / "run", config)
        folder.load_state()
        cluster = choose_for_run("cpu", actors.backend, Backends(), address)
        assert isinstance(cluster, Cluster)
        replaying = cluster.replaying_actors(
            network, STANDARD, config.selfplay, np.random.default_rng, settings.replay_rate
        )
        try:
            play_turn(replaying, 0.0)
            yield from _rate("taken in", seconds, lambda stop, note: replaying.play(WITHOUT_END, stop, note))
            replaying.pause()
            yield from _rate("stored", seconds, lambda stop, note: _store(folder, blocks, stop, note))
            replaying.pause()
            number = 0

            def take_and_store(stop: threading.Event, note: Callable[[int, Block], None]) -> None:
                def both(index: int, block: Block) -> None:
                    nonlocal number
                    folder.record(block, 2, index, number)
                    number += 1
                    note(index, block)

                while not stop.is_set():
                    replaying.play(AHEAD, stop, both)

            yield from _rate("taken in and stored", seconds, take_and_store)
        finally:
            replaying.close()
        yield from _learning_rate(config, folder, seconds)
        folder.close()


def _rate(
    name: str, seconds: float, work: Callable[[threading.Event, Callable[[int, Block], None]], None]
) -> Iterator[Figure]:
    """Positions/s that ``work`` notes until it is told to stop, by wall time and by this process's time."""
    stop, positions, count = threading.Event(), 0, 0
    started, processor = time.perf_counter(), time.process_time()

    def note(_index: int, block: Block) -> None:
        nonlocal positions, count
        positions, count = positions + len(block.samples), count + 1
        if time.perf_counter() - started > seconds:
            stop.set()

    work(stop, note)
    wall, used = time.perf_counter() - started, max(time.process_time() - processor, 1e-9)
    yield Figure(name, positions / wall, "positions/s")
    yield Figure(f"{name}: of the driver's processor time", positions / used, "positions/s")
    yield Figure(f"{name}: blocks of the driver's processor time", count / used, "blocks/s")


def _store(folder: RunFolder, blocks: list[Block], stop: threading.Event, note: Callable[[int, Block], None]) -> None:
    """Record the same blocks again and again."""
    number = 0
    while not stop.is_set():
        folder.record(blocks[number % len(blocks)], 1, 0, number)
        note(0, blocks[number % len(blocks)])
        number += 1


def _learning_rate(config: TrainConfig, folder: RunFolder, seconds: float) -> Iterator[Figure]:
    """New positions/s that the learner can keep up with, each learned from as often as the settings say."""
    learner = make_learner(config, choose_for_run("cpu", "auto", Backends()).learning_device)
    schedule, rng = Schedule.of_run(config.learning, 100_000), np.random.default_rng(0)
    window = min(folder.replay.total, config.learning.min_window)
    steps = 0
    learner.learn(folder.replay, LearningPlan(steps=STEPS, schedule=schedule, window=window, rng=rng))
    started, processor = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        learner.learn(folder.replay, LearningPlan(steps=STEPS, schedule=schedule, window=window, rng=rng))
        steps += STEPS
    learned = steps * config.learning.batch_size / config.learning.passes
    words = f"new positions/s, {config.learning.passes:g} times each"
    yield Figure("learned from", learned / (time.perf_counter() - started), words)
    yield Figure("learned from: of processor time", learned / (time.process_time() - processor), words)

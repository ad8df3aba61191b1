"""A cluster: self-play on its nodes against the same cores without one, and how much its driver can take in."""

import contextlib
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from alphac4.benchmarks import BenchmarkSettings
from alphac4.benchmarks.parts import Figure, untrained_network
from alphac4.compute import Actors, Backends, choose_for_run
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.nn.network import PolicyValueNetwork
from alphac4.runs.folder import RunFolder
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block
from alphac4.training.config import PRESETS

WITHOUT_END = 2**40  # positions
BLOCKS_TO_WARM_UP = 2  # of each actor
AHEAD = 2_000  # positions that may wait, as in a run: more would be taken in than are stored

Note = Callable[[int, Block], None]


def measure_cluster(settings: BenchmarkSettings) -> Iterator[Figure]:
    """As many cores as this machine has, on three nodes of which the head has none, and without a cluster, in turn.

    A turn takes ten times the usual seconds. Processor time is that of all processes, Ray's own included: where other
    programs take turns on the machine it says more than wall time.
    """
    from alphac4.compute.cluster.actors import ClusterActors
    from alphac4.compute.cluster.connection import local_cluster

    config, network, seconds = SelfPlayConfig(), untrained_network(settings), 10 * settings.seconds
    first = cores() // 2
    with local_cluster([0, first, cores() - first]) as address:
        plain = choose_for_run("cpu", "auto", Backends()).actors(network, STANDARD, config, np.random.default_rng)
        with_cluster = choose_for_run("cpu", plain.backend, Backends(), address).actors(
            network, STANDARD, config, np.random.default_rng
        )
        assert isinstance(with_cluster, ClusterActors)
        turns = []
        try:
            for actors in (plain, with_cluster):
                play_turn(actors, 0.0)
            with_cluster.pause()
            for _ in range(settings.repeats):
                turns.append((play_turn(plain, seconds), play_turn(with_cluster, seconds)))
                with_cluster.pause()
        finally:
            with_cluster.close()
    for index, words in enumerate(("without a cluster", "on three nodes")):
        by_wall, by_processor = np.median([turn[index] for turn in turns], axis=0)
        yield Figure(f"self-play {words}", float(by_wall), f"simulations/s ({plain.backend}, {cores()} cores)")
        yield Figure(f"self-play {words}: of processor time", float(by_processor), "simulations/s")
    ratios = np.median([np.divide(ours, theirs) for theirs, ours in turns], axis=0)
    for ratio, words in zip(ratios, ("wall time", "processor time"), strict=True):
        yield Figure(f"self-play on three nodes against without, by {words}", 100 * ratio, "%, median of the turns")


@dataclass(kw_only=True)
class _Arrivals:
    """When an actor's blocks came, and the simulations of each."""

    times: list[float] = field(default_factory=list)
    simulations: list[int] = field(default_factory=list)

    def rate(self) -> float:
        """Simulations/s between the first block and the last, so that the ends of a turn do not count."""
        return sum(self.simulations[1:]) / (self.times[-1] - self.times[0]) if len(self.times) > 1 else 0.0


def play_turn(actors: Actors, seconds: float) -> tuple[float, float]:
    """Let actors play for so long, and at least two blocks each; simulations/s of wall and of processor time."""
    stop, arrivals = threading.Event(), defaultdict[int, _Arrivals](_Arrivals)
    started, processor = time.perf_counter(), processor_seconds()

    def on_block(index: int, block: Block) -> None:
        now = time.perf_counter()
        arrivals[index].times.append(now)
        arrivals[index].simulations.append(block.work.simulations)
        warm = all(len(found.times) >= BLOCKS_TO_WARM_UP for found in arrivals.values())
        if len(arrivals) == len(actors) and warm and now - started >= seconds:
            stop.set()

    actors.play(WITHOUT_END, stop, on_block)
    used = max(processor_seconds() - processor, 1e-9)
    simulations = sum(sum(found.simulations) for found in arrivals.values())
    return sum(found.rate() for found in arrivals.values()), simulations / used


def processor_seconds() -> float:
    """Processor time of this process and of its descendants that run now."""
    used = 0.0
    for process in (own := psutil.Process(), *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            times = process.cpu_times()
            used += times.user + times.system
    return float(used)


def measure_capacity(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Positions/s that the driver of a cluster takes in and stores, with recorded blocks of the quick preset.

    A measurement takes ten times as long. Processor time is this process's own: by it one sees what a core could do if
    no other program had a part of it.
    """
    from alphac4.compute.cluster.actors import Cluster
    from alphac4.compute.cluster.connection import local_cluster

    config, seconds = PRESETS["quick"], 10 * settings.seconds
    network = PolicyValueNetwork(config.network_config()).eval()
    actors = choose_for_run("cpu", "auto", Backends()).actors(network, STANDARD, config.selfplay, np.random.default_rng)
    blocks: list[Block] = []
    actors.play(6_000, threading.Event(), lambda _index, block: blocks.append(block))
    mean = sum(len(block.samples) for block in blocks) / len(blocks)
    yield Figure("a block", mean, f"positions ({actors.backend})")
    with tempfile.TemporaryDirectory() as path, local_cluster([0, 1, 1]) as address:
        folder = RunFolder(Path(path) / "run", config)
        folder.load_state()
        cluster = choose_for_run("cpu", actors.backend, Backends(), address)
        assert isinstance(cluster, Cluster)
        replaying = cluster.actors(network, STANDARD, config.selfplay, np.random.default_rng, settings.replay_rate)

        def store(stop: threading.Event, note: Note) -> None:
            """Record the same blocks again and again."""
            number = 0
            while not stop.is_set():
                block = blocks[number % len(blocks)]
                folder.record(block, 1, 0, number)
                note(0, block)
                number += 1

        def take_and_store(stop: threading.Event, note: Note) -> None:
            number = 0

            def both(index: int, block: Block) -> None:
                nonlocal number
                folder.record(block, 2, index, number)
                number += 1
                note(index, block)

            while not stop.is_set():
                replaying.play(AHEAD, stop, both)

        try:
            play_turn(replaying, 0.0)
            yield from _taken("taken in", seconds, lambda stop, note: replaying.play(WITHOUT_END, stop, note))
            replaying.pause()
            yield from _taken("stored", seconds, store)
            replaying.pause()
            yield from _taken("taken in and stored", seconds, take_and_store)
        finally:
            replaying.close()
        folder.close()


def _taken(name: str, seconds: float, work: Callable[[threading.Event, Note], None]) -> Iterator[Figure]:
    """Positions/s that ``work`` notes until it is told to stop, by wall time and by this process's time."""
    stop, sizes = threading.Event(), []
    started, processor = time.perf_counter(), time.process_time()

    def note(_index: int, block: Block) -> None:
        sizes.append(len(block.samples))
        if time.perf_counter() - started > seconds:
            stop.set()

    work(stop, note)
    wall, used = time.perf_counter() - started, max(time.process_time() - processor, 1e-9)
    yield Figure(name, sum(sizes) / wall, "positions/s")
    yield Figure(f"{name}: of the driver's processor time", sum(sizes) / used, "positions/s")
    yield Figure(f"{name}: blocks of the driver's processor time", len(sizes) / used, "blocks/s")

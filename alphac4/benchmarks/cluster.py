"""Self-play on the nodes of a cluster against the same cores without one, in turn."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from alphac4.benchmarks.figures import BenchmarkSettings, Figure
from alphac4.compute import Actors, Backends, choose_for_run
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block

WITHOUT_END = 2**40  # positions
BLOCKS_TO_WARM_UP = 2  # of each actor


@dataclass(kw_only=True)
class Played:
    """What was played in one turn, from each actor's first block to its last: so the ends of a turn do not count."""

    simulations_per_second: float = 0.0  # of wall time
    simulations_per_processor_second: float = 0.0


@dataclass(kw_only=True)
class _Arrivals:
    """When an actor's blocks came, and the simulations since the first of them."""

    times: list[float] = field(default_factory=list)
    simulations: list[int] = field(default_factory=list)

    def rate(self) -> float:
        """Simulations/s between the first block and the last; 0 with fewer than two."""
        return sum(self.simulations[1:]) / (self.times[-1] - self.times[0]) if len(self.times) > 1 else 0.0


def measure_cluster(settings: BenchmarkSettings) -> Iterator[Figure]:
    """As many cores as this machine has, on three nodes of which the head has none, and without a cluster.

    A turn takes ten times the usual seconds. Processor time is that of all processes, Ray's own included: where other
    programs take turns on the machine it says more than wall time.
    """
    from alphac4.compute.cluster.place import ClusterActors, local_cluster

    config, network, seconds = SelfPlayConfig(), settings.network(), 10 * settings.seconds
    first = cores() // 2
    with local_cluster([0, first, cores() - first]) as address:
        plain = choose_for_run("cpu", "auto", Backends()).actors(network, STANDARD, config, np.random.default_rng)
        with_cluster = choose_for_run("cpu", plain.backend, Backends(), address).actors(
            network, STANDARD, config, np.random.default_rng
        )
        assert isinstance(with_cluster, ClusterActors)
        turns: dict[str, list[Played]] = {"plain": [], "cluster": []}
        try:
            for actors in (plain, with_cluster):
                play_turn(actors, 0.0)
            with_cluster.pause()
            for _ in range(settings.repeats):
                turns["plain"].append(play_turn(plain, seconds))
                turns["cluster"].append(play_turn(with_cluster, seconds))
                with_cluster.pause()
        finally:
            with_cluster.close()
    rates = {
        (name, kind): np.array([getattr(turn, kind) for turn in turns[name]])
        for name in turns
        for kind in ("simulations_per_second", "simulations_per_processor_second")
    }
    for name, words in (("plain", "without a cluster"), ("cluster", "on three nodes")):
        rate = float(np.median(rates[name, "simulations_per_second"]))
        yield Figure(f"self-play {words}", rate, f"simulations/s ({plain.backend}, {cores()} cores)")
        rate = float(np.median(rates[name, "simulations_per_processor_second"]))
        yield Figure(f"self-play {words}: of processor time", rate, "simulations/s")
    for kind, words in (
        ("simulations_per_second", "wall time"),
        ("simulations_per_processor_second", "processor time"),
    ):
        ratio = float(np.median(rates["cluster", kind] / rates["plain", kind]))
        yield Figure(f"self-play on three nodes against without, by {words}", 100 * ratio, "%, median of the turns")


def play_turn(actors: Actors, seconds: float) -> Played:
    """Let actors play for so long, and at least two blocks each."""
    stop, arrivals, simulations = threading.Event(), defaultdict[int, _Arrivals](_Arrivals), 0
    started, processor = time.perf_counter(), processor_seconds()

    def on_block(index: int, block: Block) -> None:
        nonlocal simulations
        now = time.perf_counter()
        arrivals[index].times.append(now)
        arrivals[index].simulations.append(block.work.simulations)
        simulations += block.work.simulations
        everybody = len(arrivals) == len(actors) and all(
            len(found.times) >= BLOCKS_TO_WARM_UP for found in arrivals.values()
        )
        if everybody and now - started >= seconds:
            stop.set()

    actors.play(WITHOUT_END, stop, on_block)
    return Played(
        simulations_per_second=sum(found.rate() for found in arrivals.values()),
        simulations_per_processor_second=simulations / max(processor_seconds() - processor, 1e-9),
    )


def processor_seconds() -> float:
    """Of this process and of all that it has started, and they, as far as they run now (Linux)."""
    used, parents = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                words = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            used[int(path.name)] = int(words[11]) + int(words[12])
            parents[int(path.name)] = int(words[1])
    ours = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return sum(used.get(process, 0) for process in ours) / os.sysconf("SC_CLK_TCK")

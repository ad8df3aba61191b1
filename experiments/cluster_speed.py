"""Speed of self-play on all cores, with and without a local cluster of three nodes.

    python experiments/cluster_speed.py --seconds 10 --repeats 5

The head of the cluster has no core; the other two nodes share the cores. Processor time is that of all processes,
including Ray's own; on a shared machine it is more reliable than wall time.
"""

import argparse
import contextlib
import time
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import psutil
from local_cluster import local_cluster

from alphac4.commands.doctor import Measured
from alphac4.compute import choose_compute
from alphac4.compute.cores import Actors
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block

UNLIMITED_POSITIONS = 2**40
WARM_UP_BLOCKS = 2  # per actor


def main() -> None:
    """Measure alternately with and without the cluster, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="per measurement")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each kind")
    options = parser.parse_args()
    config, network, seconds = (
        SelfPlayConfig(),
        PolicyValueNetwork(NetworkConfig(channels=64, blocks=4)).eval(),
        options.seconds,
    )
    first = cores() // 2
    with local_cluster([0, first, cores() - first]) as address:
        plain = choose_compute("cpu", for_run=True).actors(network, STANDARD, config, np.random.default_rng)
        play_turn(plain, 0.0)
        turns = []
        for _ in range(options.repeats):
            without = play_turn(plain, seconds)
            with contextlib.ExitStack() as opened:
                compute = choose_compute(f"ray:{address}", plain.backend, for_run=True)
                opened.callback(compute.close)
                actors = compute.actors(network, STANDARD, config, np.random.default_rng)
                opened.callback(actors.close)
                play_turn(actors, 0.0)
                turns.append((without, play_turn(actors, seconds)))
    figures = []
    for index, name in enumerate(("without a cluster", "on three nodes")):
        by_wall, by_cpu = np.median([turn[index] for turn in turns], axis=0)
        figures.append(Measured(name, float(by_wall), f"simulations/s ({plain.backend}, {cores()} cores)"))
        figures.append(Measured(f"{name}: by CPU time", float(by_cpu), "simulations/s"))
    ratios = np.median([np.divide(ours, theirs) for theirs, ours in turns], axis=0)
    for ratio, name in zip(ratios, ("wall time", "CPU time"), strict=True):
        figures.append(Measured(f"three nodes relative to none, by {name}", 100 * ratio, "%, median"))
    print(*figures, sep="\n")


@dataclass(kw_only=True)
class _Arrivals:
    """Arrival times and simulations of an actor's blocks."""

    times: list[float] = field(default_factory=list)
    simulations: list[int] = field(default_factory=list)

    def rate(self) -> float:
        """Return simulations/s between the first block and the last, without the ends of a measurement."""
        return sum(self.simulations[1:]) / (self.times[-1] - self.times[0]) if len(self.times) > 1 else 0.0


class _TurnOver(Exception):  # noqa: N818 - not an error
    """Exception that ends a measurement."""


def play_turn(actors: Actors, seconds: float) -> tuple[float, float]:
    """Play for ``seconds``, and at least two blocks per actor; return simulations/s of wall time and of CPU time."""
    arrivals = defaultdict[int, _Arrivals](_Arrivals)
    started, cpu = time.perf_counter(), cpu_seconds()

    def on_block(index: int, block: Block) -> None:
        now = time.perf_counter()
        arrivals[index].times.append(now)
        arrivals[index].simulations.append(block.stats.simulations)
        warm = all(len(arrival.times) >= WARM_UP_BLOCKS for arrival in arrivals.values())
        if len(arrivals) == len(actors) and warm and now - started >= seconds:
            raise _TurnOver

    with contextlib.suppress(_TurnOver):
        actors.play(UNLIMITED_POSITIONS, on_block)
    used = max(cpu_seconds() - cpu, 1e-9)
    simulations = sum(sum(arrival.simulations) for arrival in arrivals.values())
    return sum(arrival.rate() for arrival in arrivals.values()), simulations / used


def cpu_seconds() -> float:
    """Return the CPU time of this process and its running descendants."""
    used = 0.0
    for process in (own := psutil.Process(), *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            times = process.cpu_times()
            used += times.user + times.system
    return float(used)


if __name__ == "__main__":
    main()

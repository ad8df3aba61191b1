"""Figures of a benchmark: how they are taken, and how they are shown."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alphac4.machine import worker_threads
from alphac4.nn.backends import Array
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.storage.records import check_ranges


@dataclass(frozen=True, kw_only=True)
class BenchmarkSettings:
    """What all measurements have in common."""

    seconds: float = 1.0
    """Rough length of each measurement."""
    repeats: int = 3
    """Runs of each; the median counts."""
    channels: int = 64
    """Channels of the network."""
    blocks: int = 4
    """Residual blocks of the network."""
    batches: tuple[int, ...] = (1, 32, 128, 256)
    """Batch sizes for inference."""
    replay_rate: float = 0.0
    """Positions/s that each replaying actor of the part "capacity" offers; 0 for as many as the driver takes."""

    def __post_init__(self) -> None:
        check_ranges(
            self,
            seconds=(1e-6, 3600),
            repeats=(1, 1000),
            channels=(1, 4096),
            blocks=(0, 256),
            batches=(1, 65_536),
            replay_rate=(0, 1e9),
        )

    def network(self) -> PolicyValueNetwork:
        """An untrained network of that size."""
        return PolicyValueNetwork(NetworkConfig(channels=self.channels, blocks=self.blocks)).eval()


class Figure(NamedTuple):
    """What was measured."""

    name: str
    value: float
    unit: str


def median_rate(work: Callable[[], float], settings: BenchmarkSettings) -> float:
    """Units a second, the median of the repeats; ``work`` returns the units that it did. It runs once to warm up."""
    work()
    rates = []
    for _ in range(settings.repeats):
        started, units = time.perf_counter(), 0.0
        while time.perf_counter() - started < settings.seconds / settings.repeats:
            units += work()
        rates.append(units / (time.perf_counter() - started))
    return float(np.median(rates))


def measure_rate(run: Callable[[Array], object], planes: Array, streams: int, seconds: float) -> float:
    """Evaluations/s when ``streams`` threads call with ``planes`` each; raises what a call raises."""
    done = [0] * streams
    starts, ends = [0.0] * streams, [0.0] * streams
    barrier = threading.Barrier(streams)

    def call_repeatedly(stream: int) -> None:
        try:
            run(planes)
        except BaseException:
            barrier.abort()  # or else the other threads would wait for ever
            raise
        barrier.wait()
        starts[stream] = time.perf_counter()
        while (now := time.perf_counter()) < starts[stream] + seconds:
            run(planes)
            done[stream] += len(planes)
        ends[stream] = now

    with worker_threads(streams) as pool:
        errors = [call.exception() for call in [pool.submit(call_repeatedly, stream) for stream in range(streams)]]
    for error in errors:
        if error is not None and not isinstance(error, threading.BrokenBarrierError):
            raise error
    return sum(done) / (max(ends) - min(starts))


def format_figures(figures: Sequence[Figure]) -> str:
    """A line for each figure; small ones with three digits."""
    width = max(len(figure.name) for figure in figures)
    return "\n".join(
        f"{name:<{width}}  {format(value, ',.3g' if value < 10 else ',.0f'):>14}  {unit}"
        for name, value, unit in figures
    )

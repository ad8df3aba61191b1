"""Self-play on the cores."""

import threading
import time
from collections.abc import Iterator

import numpy as np

from alphac4.benchmarks.figures import BenchmarkSettings, Figure, measure_rate
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.nn.backends import boards_for
from alphac4.nn.evaluator import Evaluator
from alphac4.selfplay.actor import Actor, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block, Work


def measure_selfplay(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Self-play with the default settings, against the evaluator's rate alone in the same run."""
    config = SelfPlayConfig()
    slots = -(-config.games // cores())
    evaluator = Evaluator(settings.network(), batch_size=slots, streams=cores(), int8=True)
    actors = [Actor(STANDARD, config, evaluator, slots, np.random.default_rng(i)) for i in range(cores())]
    planes = boards_for(evaluator.network.config, slots, np.random.default_rng(0))
    works: list[Work] = []
    seconds: list[float] = []
    alone: list[float] = []
    play_together(actors, 500, threading.Event(), lambda _index, _block: None)
    for _ in range(settings.repeats):
        work = Work()

        def on_block(_index: int, block: Block, work: Work = work) -> None:
            work.add(block.work)

        alone.append(measure_rate(evaluator.evaluate, planes, cores(), settings.seconds))
        started = time.perf_counter()
        play_together(actors, max(2_000, int(1_000 * settings.seconds)), threading.Event(), on_block)
        seconds.append(time.perf_counter() - started)
        works.append(work)
    shares = [w.network_seconds / cores() / s for w, s in zip(works, seconds, strict=True)]
    in_network = [w.evaluations / (w.network_seconds / cores()) / rate for w, rate in zip(works, alone, strict=True)]
    simulated = float(np.median([w.simulations / s for w, s in zip(works, seconds, strict=True)]))
    evaluated = float(np.median([w.evaluations / s for w, s in zip(works, seconds, strict=True)]))
    yield Figure("self-play", simulated, f"simulations/s ({evaluator.backend}, {config.games} games, all cores)")
    yield Figure("self-play: through the network", evaluated, "evaluations/s")
    yield Figure("the same evaluator alone", float(np.median(alone)), "evaluations/s")
    yield Figure("self-play: network's share of the time", 100 * float(np.median(shares)), "%")
    yield Figure("self-play: network's rate against alone", 100 * float(np.median(in_network)), "%")

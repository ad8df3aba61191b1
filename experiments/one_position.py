"""Speed of searches of one position, for each size up to which batches are filled in advance.

    python experiments/one_position.py best

Each search begins with an empty cache, and follows a measurement of the network's own speed in large batches, because
the speed of a machine varies. The result is the ratio of the two speeds, as a median over positions.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from alphac4.arena.kinds import CACHE
from alphac4.game import Position
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.nn.backends import random_inputs
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import Network
from alphac4.storage.checkpoints import load_checkpoint

SEARCHED = ("", "4", "44", "4444", "12233", "4453", "443526")
SIZES = (0, 4, 8, 16, 32)
BATCH_SIZE = 64  # batch size for the network's own speed
BATCHED_SECONDS = 0.5


class Counting:
    """Evaluator that counts calls and positions; without a version, so that every search begins with an empty cache."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.input_planes = evaluator.input_planes
        self.calls = self.positions = 0
        self._evaluator = evaluator

    def evaluate(self, planes: Any) -> Any:
        """Evaluate ``planes``."""
        self.calls += 1
        self.positions += len(planes)
        return self._evaluator.evaluate(planes)


def batched_rate(evaluator: Evaluator, boards: Any) -> float:
    """Return the network's evaluations/s in batches, on all cores."""
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < BATCHED_SECONDS:
        evaluator.evaluate(boards)
        count += len(boards)
    return count / (time.perf_counter() - started)


def measure(network: Network, size: int, simulations: int) -> str:
    """Return a row for batches that are filled up to ``size``."""
    counting = Counting(Evaluator(network, batch_size=max(1, size)))
    batched, boards = (
        Evaluator(network, batch_size=BATCH_SIZE),
        random_inputs(network.config, BATCH_SIZE, np.random.default_rng(0)),
    )
    search = NetworkSearch(counting, cache=CACHE, prefetch=size)
    search.search([Position()], Budget(simulations=simulations))  # loads and compiles
    batched_rate(batched, boards)
    counting.calls = counting.positions = 0
    rates, evaluated, ratios = [], [], []
    for moves in SEARCHED:
        reference, before = batched_rate(batched, boards), counting.positions
        started = time.perf_counter()
        done = int(search.search([Position.from_moves(moves)], Budget(simulations=simulations)).simulations[0])
        seconds = time.perf_counter() - started
        rates.append(done / seconds)
        ratios.append(done / seconds / reference)
        evaluated.append((counting.positions - before) / seconds / reference)
    return (
        f"{size:4d} {median(rates):13,.0f} {median(ratios):12.2f} {median(evaluated):18.2f}"
        f" {counting.positions:11,} {counting.calls:7,}"
    )


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--simulations", type=int, default=1600, help="per search")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    network = load_checkpoint(Path(options.network)).network
    print("size simulations/s  of batched  evaluated, of batched  evaluations   calls")
    for size in options.sizes:
        print(measure(network, size, options.simulations), flush=True)


if __name__ == "__main__":
    main()

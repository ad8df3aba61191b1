"""Speed and mistakes of searches of one position with several leaves at a time.

    python experiments/one_position.py best                                    # simulations/s, leaves per call
    python experiments/one_position.py best --positions Test_L1_R3.columns     # also mistakes at equal simulations

The speed is compared with that of the network in batches of 64, measured in the same run. Mistakes are paired with
those of the search with one leaf at a time.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.evaluation.positions import choose_sets
from alphac4.game import Position
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.nn.backends import random_inputs
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import Network
from alphac4.storage.checkpoints import load_checkpoint

SEARCHED = ("", "4444", "12233", "4453")
LEAVES = (1, 2, 4, 8, 16, 32)
BATCH_SIZE = 64  # batch size for the network's own speed
REPEATS = 3  # the best one counts
SEARCH_BATCH_SIZE = 250  # positions searched together to count mistakes


class Counting:
    """Evaluator that counts calls and positions."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.input_planes, self.version = evaluator.input_planes, evaluator.version
        self.calls = self.positions = 0
        self._evaluator = evaluator

    def evaluate(self, planes: Any) -> Any:
        """Evaluate ``planes``."""
        self.calls += 1
        self.positions += len(planes)
        return self._evaluator.evaluate(planes)


def batched_rate(network: Network) -> float:
    """Return the network's evaluations/s in batches, on all cores."""
    evaluator = Evaluator(network, batch_size=BATCH_SIZE)
    boards = random_inputs(network.config, BATCH_SIZE, np.random.default_rng(0))
    rates = []
    for _ in range(REPEATS):
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < 1.0:
            evaluator.evaluate(boards)
            count += BATCH_SIZE
        rates.append(count / (time.perf_counter() - started))
    return max(rates)


def search_rate(network: Network, leaves: int, simulations: int) -> tuple[float, float]:
    """Return simulations/s of searches of one position without a cache, and positions per call of the network."""
    counting = Counting(Evaluator(network, batch_size=leaves))
    search = NetworkSearch(counting, leaves=leaves)
    search.search([Position()], Budget(simulations=simulations))  # loads and compiles
    counting.calls = counting.positions = 0
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        done = sum(
            int(search.search([Position.from_moves(moves)], Budget(simulations=simulations)).simulations[0])
            for moves in SEARCHED
        )
        times.append(done / (time.perf_counter() - started))
    return max(times), counting.positions / counting.calls


def mistakes(network: Network, leaves: int, simulations: int, files: list[Path]) -> np.ndarray[Any, Any]:
    """Return whether the move in each position is a mistake [S]."""
    search, wrong = NetworkSearch(Evaluator(network), leaves=leaves), []
    for part in choose_sets(files=files):
        for first in range(0, len(part), SEARCH_BATCH_SIZE):
            rows = np.arange(first, min(first + SEARCH_BATCH_SIZE, len(part)))
            moves = search.search(part.positions[first : rows[-1] + 1], Budget(simulations=simulations)).moves
            wrong.append(part.outcomes[rows, moves] < part.best_outcome[rows])
    return np.concatenate(wrong)


def main() -> None:
    """Print a row for each number of leaves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--simulations", type=int, default=1600, help="per search")
    parser.add_argument("--positions", type=Path, nargs="*", default=[], help="files of positions with exact scores")
    parser.add_argument("--leaves", type=int, nargs="+", default=LEAVES)
    options = parser.parse_args()
    network = load_checkpoint(Path(options.network)).network
    batched = batched_rate(network)
    print(f"{options.network}: {batched:,.0f} evaluations/s in batches of {BATCH_SIZE}")
    single: np.ndarray[Any, Any] | None = None
    for leaves in options.leaves:
        rate, filled = search_rate(network, leaves, options.simulations)
        line = f"{leaves:2d} leaves: {rate:7,.0f} simulations/s, {rate / batched:4.0%} of that, {filled:4.1f} per call"
        if options.positions:
            wrong = mistakes(network, leaves, options.simulations, options.positions)
            single = wrong if single is None else single
            line += f"; {wrong.sum()} mistakes, {(wrong & ~single).sum()} new, {(single & ~wrong).sum()} gone"
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""Searches of one position with several leaves at a time: how much faster they are, and what that costs.

    python experiments/one_position.py best                                    # simulations/s, leaves per call
    python experiments/one_position.py best --positions Test_L1_R3.columns     # mistakes at equal simulations, too

The rate is compared with the network's own in batches of 64, in the same run. Mistakes are paired: positions in which
only the search with one leaf at a time errs, and those in which only the other does.
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
BATCH = 64
TURNS = 3  # the best of them counts
AT_ONCE = 250  # positions searched together, for mistakes


class Counting:
    """An evaluator that counts its calls and positions."""

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
    """The network's evaluations/s in batches, on all cores."""
    evaluator = Evaluator(network, batch_size=BATCH)
    boards = random_inputs(network.config, BATCH, np.random.default_rng(0))
    rates = []
    for _ in range(TURNS):
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < 1.0:
            evaluator.evaluate(boards)
            count += BATCH
        rates.append(count / (time.perf_counter() - started))
    return max(rates)


def search_rate(network: Network, leaves: int, simulations: int) -> tuple[float, float]:
    """Simulations/s in one position, without a cache, and positions per call of the network."""
    counting = Counting(Evaluator(network, batch_size=leaves))
    search = NetworkSearch(counting, leaves=leaves)
    search.search([Position()], Budget(simulations=simulations))  # loads and compiles
    counting.calls = counting.positions = 0
    times = []
    for _ in range(TURNS):
        started = time.perf_counter()
        done = sum(
            int(search.search([Position.from_moves(moves)], Budget(simulations=simulations)).simulations[0])
            for moves in SEARCHED
        )
        times.append(done / (time.perf_counter() - started))
    return max(times), counting.positions / counting.calls


def mistakes(network: Network, leaves: int, simulations: int, files: list[Path]) -> np.ndarray[Any, Any]:
    """Whether the move of each position throws the outcome away."""
    search, wrong = NetworkSearch(Evaluator(network), leaves=leaves), []
    for part in choose_sets(files=files):
        for first in range(0, len(part), AT_ONCE):
            rows = np.arange(first, min(first + AT_ONCE, len(part)))
            moves = search.search(part.positions[first : rows[-1] + 1], Budget(simulations=simulations)).moves
            wrong.append(part.outcomes[rows, moves] < part.best_outcome[rows])
    return np.concatenate(wrong)


def main() -> None:
    """Print a row for each number of leaves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--simulations", type=int, default=1600, help="of each search")
    parser.add_argument("--positions", type=Path, nargs="*", default=[], help="sets with exact scores")
    parser.add_argument("--leaves", type=int, nargs="+", default=LEAVES)
    options = parser.parse_args()
    network = load_checkpoint(Path(options.network)).network
    batched = batched_rate(network)
    print(f"{options.network}: {batched:,.0f} evaluations/s in batches of {BATCH}")
    single: np.ndarray[Any, Any] | None = None
    for leaves in options.leaves:
        rate, filled = search_rate(network, leaves, options.simulations)
        line = f"{leaves:2d} leaves: {rate:7,.0f} simulations/s, {rate / batched:4.0%} of that, {filled:4.1f} per call"
        if options.positions:
            found = mistakes(network, leaves, options.simulations, options.positions)
            single = found if single is None else single
            line += f"; {found.sum()} mistakes, {(found & ~single).sum()} new, {(single & ~found).sum()} gone"
        print(line, flush=True)


if __name__ == "__main__":
    main()

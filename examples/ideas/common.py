"""Command line of the ideas in this folder: train `quick` with a function.

python examples/ideas/no_gate.py --run runs/no-gate --seed 1 --iterations 8
alphac4 train --preset quick --iterations 8 --seed 1 --run runs/baseline    # to compare with
"""

import argparse
from typing import Any

import alphac4


def train(run: str, **functions: Any) -> None:
    """Train `quick` with ``functions`` for some iterations, and print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", default=f"runs/{run}", help="the run's folder")
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--samples", type=int, default=30_000, help="positions per iteration")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="two tiny iterations, to check that the idea works")
    options = parser.parse_args()
    config = alphac4.TrainConfig.preset("tiny", seed=options.seed)
    if not options.fast:
        numbers = {"iterations": options.iterations, "positions_per_iteration": options.samples}
        config = alphac4.TrainConfig.preset("quick", seed=options.seed, **numbers)
    print(alphac4.train(config, run=options.run, **functions))

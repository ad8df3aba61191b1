"""Trains with an idea from the command line; every file of this folder uses it.

python examples/ideas/no_gate.py --run runs/no-gate --seed 1 --iterations 8
alphac4 train --preset quick --iterations 8 --seed 1 --run runs/baseline    # to compare with
"""

import argparse
from typing import Any

import alphac4

TINY = {  # what `--fast` takes, for a check that everything works
    "samples": 100,
    "machine": {"backend": "torch-fp32"},
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"games": 8, "full_simulations": 8, "fast_simulations": 4},
    "learning": {"batch_size": 64},
    "gate": {"pairs": 1, "simulations": 2, "baseline_interval": 0, "baseline_rollouts": []},
    "evaluation": {"every": 0},
}


def train(run: str, **functions: Any) -> None:
    """Train `quick` with the functions given, for some iterations, and print what has come of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", default=f"runs/{run}", help="the run's folder")
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="two tiny iterations, to see that it works")
    options = parser.parse_args()
    changes: dict[str, Any] = TINY | {"iterations": 2} if options.fast else {"iterations": options.iterations}
    config = alphac4.TrainConfig.preset("quick", seed=options.seed, **changes)
    print(alphac4.train(config, run=options.run, **functions))

"""Compare summaries of a search as values of its position, against exact outcomes.

    python experiments/root_values.py checkpoints/standard.safetensors --sets FOLDER --simulations 24,96

Compares the mean of all visits, the value of the move most visited, the highest value, and means over the moves
weighted by powers of their visits, on the first 500 positions of each public set.
"""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.evaluation.positions import load_positions
from alphac4.mcts.config import PuctConfig
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import UNPROVEN
from alphac4.nn.evaluator import Evaluator
from alphac4.storage.checkpoints import load_checkpoint

Floats = npt.NDArray[np.float64]


def summaries(visits: Floats, values: Floats, root: Floats) -> dict[str, Floats]:
    """Values [B] to the side to move by the name of the summary; visits and values [B, A]."""
    known = np.nan_to_num(values)
    best = np.take_along_axis(known, visits.argmax(axis=1)[:, None], axis=1)[:, 0]

    def weighted(weights: Floats) -> Floats:
        mean: Floats = (weights * known).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9)
        return mean

    result = {"mean of visits": root, "most visited move": best, "highest value": np.nanmax(values, axis=1)}
    for power in (1.5, 2.0, 3.0):
        result[f"visits^{power}"] = weighted(visits**power)
    return result


def main() -> None:
    """Search, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", type=Path)
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--simulations", default="24,96")
    options = parser.parse_args()
    evaluator = Evaluator(load_checkpoint(options.network).network, backend="openvino-bf16")
    for path in sorted(options.sets.glob("Test_*.columns")):
        part = load_positions(path).head(500)
        exact = part.best_outcome.astype(np.float64)
        for simulations in map(int, options.simulations.split(",")):
            found: dict[str, list[Floats]] = {}
            for first in range(0, len(part), 128):
                search = NetworkSearch(evaluator, PuctConfig(prior_temperature=1.0), rng=np.random.default_rng(first))
                result = search.search(part.positions[first : first + 128], Budget(simulations=simulations))
                proofs = np.where(result.proofs == UNPROVEN, np.nan, np.sign(result.proofs))
                values = np.where(np.isnan(proofs) | (result.proofs == -128), result.values, proofs)
                proven = np.abs(result.value) >= 1
                for name, value in summaries(result.visits.astype(np.float64), values, result.value).items():
                    found.setdefault(name, []).append(np.where(proven, result.value, value))
            row = []
            for name, parts in found.items():
                value = np.concatenate(parts)
                row.append(f"{name} {np.abs(value - exact).mean():.3f} / {((value - exact) ** 2).mean():.3f}")
            print(f"{part.name:14s} {simulations:4d} |error| / squared: " + "; ".join(row), flush=True)


if __name__ == "__main__":
    main()

"""Strength of runs on a three-node local cluster and on one machine, with equal numbers of positions.

    python experiments/cluster_strength.py runs/cluster-strength --seeds 3

A run is the quick preset, reduced to about two minutes on two cores. For every seed, one run is trained with both cores
of this machine, and one on a cluster of a head without cores and two nodes with one core each. Then the networks of
each seed play a match, and all are evaluated against exact play. Existing runs are not repeated.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
from local_cluster import local_cluster

from alphac4.evaluation.measurement import MeasurementPlan, measure_strength
from alphac4.evaluation.positions import ALL, choose_sets
from alphac4.runs.reports import read_reports

SETTINGS = {
    "iterations": 10,
    "positions_per_iteration": 6_000,
    "selfplay": {"parallel_games": 128},
    "learning": {"base_window": 20_000},
    "gate": {"pairs": 15},
    "baseline": {"interval": 0, "simulations": [200]},
    "evaluation": {"interval": 0},
}
BUDGETS = (0, 100)  # simulations per position
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}  # Student's t, by number of values


def main() -> None:
    """Train missing runs, compare the networks and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3, choices=range(2, 9))
    parser.add_argument("--games", type=int, default=200, help="per match")
    parser.add_argument("--positions", type=int, default=500, help="per set; there are six sets")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = options.folder / "settings.json"
    settings.write_text(json.dumps(SETTINGS))
    for seed in range(options.seeds):
        train(options.folder / f"one-{seed}", settings, seed)
        if not is_finished(options.folder / f"cluster-{seed}"):
            with local_cluster([0, 1, 1]) as address:
                train(options.folder / f"cluster-{seed}", settings, seed, "--machine.device", f"ray:{address}")
    print("kind      seed  positions    games  " + "".join(f"mistakes@{budget:<3}" for budget in BUDGETS))
    errors = {
        kind: np.array(
            [measure(options.folder / f"{kind}-{seed}", kind, seed, options) for seed in range(options.seeds)]
        )
        for kind in ("one", "cluster")
    }
    for column, budget in enumerate(BUDGETS):
        difference = errors["cluster"][:, column] - errors["one"][:, column]
        print(f"{budget} simulations, mistakes on the cluster minus on one machine: {interval(difference)} points")
    scores = [100 * match(options.folder, seed, options.games) for seed in range(options.seeds)]
    print(f"matches, points of the cluster's networks: {interval(np.array(scores))} %")


def is_finished(run: Path) -> bool:
    """Return whether a run has all iterations."""
    return len(read_reports(run / "reports.jsonl")) == SETTINGS["iterations"] if run.exists() else False


def train(run: Path, settings: Path, seed: int, *more: str) -> None:
    """Train a run unless it is finished."""
    if not is_finished(run):
        arguments = ["--preset", "quick", "--run", str(run), "--settings", str(settings), "--seed", str(seed)]
        subprocess.run([sys.executable, "-m", "alphac4", "train", *arguments, *more], check=True)


def measure(run: Path, kind: str, seed: int, options: argparse.Namespace) -> list[float]:
    """Print a row for the best network, and return its percentages of mistakes by budget."""
    measurement = MeasurementPlan(sets=choose_sets(count=options.positions), budgets=list(BUDGETS))
    subject = measure_strength(str(run / "checkpoints" / "best.safetensors"), measurement, untrained=False).subjects[0]
    mistakes = [100 * budget.sets[ALL].mistakes.value for budget in subject.budgets]
    last = read_reports(run / "reports.jsonl")[-1]
    cells = "".join(f"{share:<12.2f}" for share in mistakes)
    print(f"{kind:8}  {seed:4}  {last.samples_total:9,}  {last.games_total:7,}  {cells}", flush=True)
    return mistakes


def match(folder: Path, seed: int, games: int) -> float:
    """Return the score of the cluster's network against that of one machine."""
    players = [str(folder / f"{kind}-{seed}" / "checkpoints" / "best.safetensors@48") for kind in ("cluster", "one")]
    command = [sys.executable, "-m", "alphac4", "arena", *players, "--games", str(games), "--json"]
    played = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["pairings"][0]
    low, high = played["interval"]
    print(f"match of seed {seed}: {100 * played['score']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]", flush=True)
    return float(played["score"])


def interval(values: np.ndarray) -> str:
    """Return the mean over seeds with its 95 % interval, by Student's t, as text."""
    error = T_95[len(values)] * float(values.std(ddof=1)) / math.sqrt(len(values))
    return f"{values.mean():+.2f} [{values.mean() - error:+.2f}, {values.mean() + error:+.2f}]"


if __name__ == "__main__":
    main()

"""Measure how long training takes to reach a strength, and the time of each phase.

    python scripts/speedrun.py quick --positions begin-hard.columns begin-medium.columns middle-medium.columns
    python scripts/speedrun.py gpu-quick --seeds 0 1 --warm-up

Runs train without evaluations. Afterwards, every best network is evaluated against exact play, in the order of
training. The time to the target is that of the first network that reaches it in every set.
"""

import argparse
import dataclasses
import json
import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from alphac4.compute import choose_compute
from alphac4.evaluation.metrics import judge_sets
from alphac4.evaluation.positions import ALL, PositionSet, load_positions, packaged_positions
from alphac4.game import STANDARD
from alphac4.game.position import count_of
from alphac4.mcts.search import Budget
from alphac4.nn.evaluator import Evaluator
from alphac4.runs.folder import RunFolder
from alphac4.runs.reports import IterationReport
from alphac4.runs.session import TrainingSession
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.training.config import PRESETS, EvaluationConfig, TrainConfig, from_dict

TARGET = {"begin-hard": 0.07, "begin-medium": 0.02, "middle-medium": 0.02}  # shares: AlphaZero.jl's tutorial
BATCH_SIZE = 1024  # positions searched together


class Judge:
    """Evaluator of mistakes of networks with one architecture."""

    def __init__(self, sets: Sequence[PositionSet], simulations: int, config: TrainConfig) -> None:
        self.simulations = simulations
        self._sets = sets
        self._budget = Budget(simulations=simulations)
        self._compute = choose_compute(config.machine.device)
        self._puct = config.search.puct()
        self._evaluator: Evaluator | None = None

    def mistakes(self, path: Path) -> dict[str, float]:
        """Return the share of mistakes of a checkpoint in each set."""
        network = load_checkpoint(path).network
        if self._evaluator is None:
            self._evaluator = self._compute.evaluator(network)
            self._search = self._compute.search(self._evaluator, self._puct, board=STANDARD)
        self._evaluator.update(network)
        positions = [position for part in self._sets for position in part.positions]
        batches = [positions[first : first + BATCH_SIZE] for first in range(0, len(positions), BATCH_SIZE)]
        columns = np.concatenate([self._search.search(batch, self._budget).moves for batch in batches])
        figures = judge_sets(self._sets, columns)
        return {name: figure.mistakes.value for name, figure in figures.items() if name != ALL}


def seconds_by_phase(history: Sequence[IterationReport]) -> str:
    """Return the seconds of each phase in the iterations after the first, as text."""
    totals: dict[str, float] = {}
    before = history[0].seconds_total
    for report in history[1:]:
        for phase, share in report.time_shares.items():
            totals[phase] = totals.get(phase, 0.0) + share * (report.seconds_total - before)
        before = report.seconds_total
    return ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in totals.items() if seconds >= 0.05)


def main() -> int:
    """Train, evaluate and print; return 1 if a run does not reach the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=PRESETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--settings", type=json.loads, default={}, help='changes, as JSON: {"iterations": 10}')
    parser.add_argument(
        "--positions", type=Path, nargs="+", default=[], help="files of scored positions (default: the package's)"
    )
    parser.add_argument("--simulations", type=int, default=600, help="per position of the evaluation")
    parser.add_argument("--folder", type=Path, default=Path("runs/speedrun"))
    parser.add_argument("--warm-up", action="store_true", help="train one iteration first, which compiles everything")
    options = parser.parse_args()
    try:
        sets = [load_positions(path) for path in options.positions] or list(packaged_positions())
        base = from_dict(options.settings, PRESETS[options.preset])
        machine = dataclasses.replace(base.machine, keep_checkpoints=100_000)
        base = dataclasses.replace(base, evaluation=EvaluationConfig(interval=0), machine=machine)
        configs = [dataclasses.replace(base, seed=seed) for seed in options.seeds]
        judge = Judge(sets, options.simulations, base)
        options.folder.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if missing := TARGET.keys() - {part.name for part in sets}:
        parser.error(f"--positions lacks {', '.join(sorted(missing))}: the target needs each of {', '.join(TARGET)}")
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("alphac4").setLevel(logging.INFO)
    if options.warm_up:
        folder = options.folder / "warm-up"
        shutil.rmtree(folder, ignore_errors=True)
        train(folder, dataclasses.replace(base, iterations=1))
    reached = [measure(options.folder / f"{options.preset}-{config.seed}", config, judge) for config in configs]
    return int(None in reached)


def train(folder: Path, config: TrainConfig) -> list[IterationReport]:
    """Train without closing matches; an interrupted run is resumed."""
    try:
        session = TrainingSession(RunFolder(folder, config))
    except ValueError as error:  # the folder has a run with other settings
        sys.exit(f"speedrun.py: {error}")
    with session:
        return session.train()


def measure(folder: Path, config: TrainConfig, judge: Judge) -> float | None:
    """Train with a seed and print each network's mistakes; return the seconds to the target, or None."""
    seed = config.seed
    if folder.exists():
        print(f"seed {seed}: {folder} has a run, which is continued; to train with changed code, delete it", flush=True)
    history = train(folder, config)
    reached, measured = None, 0
    for report in history:
        if report.best_iteration == measured:
            continue
        measured = report.best_iteration
        path = folder / "checkpoints" / f"{measured:06d}.safetensors"
        shares = judge.mistakes(path)
        print(f"seed {seed}, iteration {measured}, {report.seconds_total:.1f} s: {describe(shares)}", flush=True)
        if reached is None and all(shares[name] <= limit for name, limit in TARGET.items()):
            reached = report.seconds_total
    last = history[-1]
    work = f"{count_of(last.samples_total, 'position')}, {count_of(last.evaluations_total, 'evaluation')}"
    print(
        f"seed {seed}: {count_of(last.iteration, 'iteration')} in {last.seconds_total:.1f} s, {work}; "
        f"after the first iteration: {seconds_by_phase(history)}"
    )
    when = "never" if reached is None else f"after {reached:.1f} s"
    budget = count_of(judge.simulations, "simulation")
    print(f"seed {seed}: target ({describe(TARGET)}) at {budget} reached {when}", flush=True)
    return reached


def describe(shares: Mapping[str, float]) -> str:
    """Return shares of mistakes by set, in per cent."""
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())


if __name__ == "__main__":
    sys.exit(main())

"""Kill -9 at file events and at random moments; the run then ends as an uninterrupted one does, bit for bit.

``PYTHONPATH=tests python -m campaigns.kills --count 1000``
"""

import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.files import read_lines
from alphac4.selfplay.shards import load_shard
from alphac4.training.config import TrainConfig
from alphac4.training.costs import Costs
from alphac4.training.reports import IterationReport
from alphac4.training.run_state import STATE_FILE, load_state
from campaigns.command import run_campaign
from campaigns.tiny_run import (
    EXPLORING,
    ITERATIONS,
    cut_blocks_often,
    in_child,
    kill_at_event,
    outcome,
    prepare,
    tiny_run,
    train,
)

CONFIGURATIONS = {"plain": tiny_run(), "exploring": tiny_run(**EXPLORING)}  # killed in turn


@dataclass(kw_only=True)
class Tally:
    """The results of the kills."""

    kills: int = 0
    at_events: int = 0
    runs: int = 0
    equal: int = 0  # runs that ended exactly as the uninterrupted one
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A run that nobody has interrupted."""

    name: str
    config: TrainConfig
    events: int  # changes to its files
    seconds: float
    outcome: dict[str, Any]


def main() -> int:
    """Parse, attack, print one line."""
    return run_campaign(attack, describe, about=__doc__, count=1000)


def describe(tally: Tally) -> str:
    """What was found, in a line."""
    return (
        f"kills: {tally.kills} kills ({tally.at_events} at file events, {tally.kills - tally.at_events} at random "
        f"moments) of {tally.runs} runs: {tally.equal} ended bit for bit as the uninterrupted run"
    )


def attack(folder: Path, count: int, seed: int) -> Tally:
    """Kill runs until there were ``count`` kills, and let each of them come to its end."""
    prepare(folder)
    rng = np.random.default_rng(seed)
    references = [_reference(folder / name, config) for name, config in CONFIGURATIONS.items()]
    tally = Tally()
    while tally.kills < count:
        run = folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        reference = references[tally.runs % len(references)]
        kills, description = 0, []
        often = rng.random() < 0.25  # in pieces, after which it need not end in the same way
        while kills < 12:
            at_event = rng.random() < 0.7
            wanted = int(rng.integers(1, reference.events + 1)) if at_event else -1
            moment = None if at_event else float(rng.uniform(0, reference.seconds))
            status = in_child(partial(_train, run, reference.config, wanted, often), kill_after=moment)
            if status != -signal.SIGKILL:
                break
            kills += 1
            tally.at_events += at_event
            description.append(f"event {wanted}" if at_event else f"{moment:.2f} s")
        tally.kills += kills
        tally.runs += 1
        problem = "" if status == 0 else f"exit status {status}"
        if kills == 12:
            status = in_child(partial(_train, run, reference.config, -1, False))
            problem = "" if status == 0 else f"exit status {status}"
        problem = problem or _damage(run)
        if not problem and not often:
            found = outcome(run)
            if found == reference.outcome:
                tally.equal += 1
            else:
                problem = f"differs in {[name for name in found if found[name] != reference.outcome[name]]}"
        if problem:
            tally.failures.append(f"{reference.name}, killed at {', '.join(description)} (pieces: {often}): {problem}")
        print(f"{tally.kills} kills, {tally.runs} runs, {len(tally.failures)} failures", file=sys.stderr, flush=True)
    return tally


def _reference(run: Path, config: TrainConfig) -> Reference:
    """Train a run without interruption, in a child as the others."""
    counted = run.with_name(f"{run.name}.events")

    def count_events() -> None:
        seen = kill_at_event(run, -1)
        train(run, config)
        counted.write_text(str(seen[0]))

    started = time.monotonic()
    assert in_child(count_events) == 0
    seconds = time.monotonic() - started
    return Reference(
        name=run.name, config=config, events=int(counted.read_text()), seconds=seconds, outcome=outcome(run)
    )


def _train(run: Path, config: TrainConfig, wanted: int, often: bool) -> None:
    if often:
        cut_blocks_often()
    if wanted > 0:
        kill_at_event(run, wanted)
    train(run, config)


def _damage(run: Path) -> str:
    """What is wrong with a run that has come to its end; empty if nothing is."""
    state = load_state(run / STATE_FILE)
    reports = [IterationReport.from_json(line) for line in read_lines(run / "reports.jsonl") if line.startswith('{"it')]
    if sorted({report.iteration for report in reports}) != list(range(1, ITERATIONS + 1)):
        return "a report is missing"
    if state.iteration != ITERATIONS:
        return "it is not at its end"
    costs = [Costs(seconds=r.seconds_total, games=r.games_total, evaluations=r.evaluations_total) for r in reports]
    if any(a.seconds > b.seconds or a.evaluations > b.evaluations for a, b in pairwise(costs)):
        return "costs fell"
    if sum(len(load_shard(path)) for path in (run / "replay").iterdir()) != state.samples:
        return "samples are missing"
    if leftovers := [path.name for path in run.rglob("*.alphac4-tmp")]:
        return f"left behind: {leftovers}"
    return ""


if __name__ == "__main__":
    raise SystemExit(main())

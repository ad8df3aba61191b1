"""Kill -9 at file events and at random moments; the run then ends as an uninterrupted one does, bit for bit."""

import math
import shutil
import signal
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.runs import session
from alphac4.runs.reports import read_reports
from alphac4.runs.state import STATE_FILE, load_state
from alphac4.selfplay import actor
from alphac4.selfplay.replay import load_shard
from alphac4.training.config import TrainConfig
from campaigns.command import Findings
from campaigns.tiny_run import EXPLORING, ITERATIONS, in_child, kill_at_event, outcome, prepare, tiny_run, train

CONFIGURATIONS = {"plain": tiny_run(), "exploring": tiny_run(**EXPLORING)}  # killed in turn
MAX_KILLS = 12  # of a run, which then ends in peace


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A run that nobody has interrupted."""

    config: TrainConfig
    events: int  # changes to its files
    seconds: float
    outcome: dict[str, Any]


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Kill runs until there were ``count`` kills, and let each of them come to its end."""
    prepare()
    rng, found = np.random.default_rng(seed), Findings()
    references = {name: _reference(folder / name, config) for name, config in CONFIGURATIONS.items()}
    run = folder / "run"
    total, runs = 0, 0
    while total < count:
        shutil.rmtree(run, ignore_errors=True)
        name = list(references)[runs % len(references)]
        reference = references[name]
        in_pieces = rng.random() < 0.25  # after which it need not end in the same way
        killed_at: list[str] = []
        status: int = -signal.SIGKILL
        while status == -signal.SIGKILL:
            event, moment = 0, math.inf
            if len(killed_at) < MAX_KILLS:
                if rng.random() < 0.7:
                    event = int(rng.integers(1, reference.events + 1))
                else:
                    moment = float(rng.uniform(0, reference.seconds))

            def work(config: TrainConfig = reference.config, event: int = event, in_pieces: bool = in_pieces) -> None:
                if in_pieces:
                    # Kills come between the shards of an iteration, and its games go on.
                    actor.SECONDS_BETWEEN_BLOCKS = session.SECONDS_BETWEEN_SAVES = 0.0
                if event:
                    kill_at_event(run, event)
                train(run, config)

            status = in_child(work, kill_after=moment)
            if status == -signal.SIGKILL:
                killed_at.append(f"event {event}" if event else f"{moment:.2f} s")
                found.counts["kills at file events" if event else "at random moments"] += 1
        total, runs = total + len(killed_at), runs + 1
        problem = f"exit status {status}" if status else _damage(run)
        if not problem and in_pieces:
            found.counts["runs in pieces"] += 1
        elif not problem and (ended := outcome(run)) != reference.outcome:
            problem = f"differs in {[part for part in ended if ended[part] != reference.outcome[part]]}"
        elif not problem:
            found.counts["runs that ended bit for bit as the uninterrupted one"] += 1
        if problem:
            found.failures.append(f"{name}, killed at {', '.join(killed_at)} (pieces: {in_pieces}): {problem}")
    return found


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
    return Reference(config=config, events=int(counted.read_text()), seconds=seconds, outcome=outcome(run))


def _damage(run: Path) -> str:
    """Name the damage to a run that has come to its end; empty if nothing is."""
    state, reports = load_state(run / STATE_FILE), read_reports(run / "reports.jsonl")
    reported = {report.iteration for report in reports}
    if state.iteration != ITERATIONS or reported != set(range(1, ITERATIONS + 1)):
        return f"it has ended at iteration {state.iteration}, with reports of {reported}"
    costs = [(report.seconds_total, report.evaluations_total) for report in reports]
    if any(before > after for pair in pairwise(costs) for before, after in zip(*pair, strict=True)):
        return "costs fell"
    if sum(len(load_shard(path)) for path in (run / "replay").iterdir()) != state.samples:
        return "samples are missing"
    if leftovers := [path.name for path in run.rglob("*.alphac4-tmp")]:
        return f"left behind: {leftovers}"
    return ""

"""Kills (SIGKILL) of runs at file events, within each part of an iteration and at random moments.

Each run is resumed and must end bit-identical to an uninterrupted run on another number of cores.
"""

import math
import os
import shutil
import signal
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.compute.cores import Actors
from alphac4.runs.costs import CostCounter
from alphac4.runs.reports import read_reports
from alphac4.runs.state import STATE_FILE, load_state
from alphac4.selfplay.replay import load_shard
from alphac4.training.config import TrainConfig
from alphac4.training.learner import Learner
from alphac4.training.loop import Progress
from alphac4.training.matches import Matches
from campaigns.command import Findings
from campaigns.tiny_run import EXPLORING, ITERATIONS, in_child, kill_at_event, outcome, prepare, tiny_run, train

CONFIGURATIONS = {"plain": tiny_run(), "exploring": tiny_run(**EXPLORING)}  # killed in turn
MAX_KILLS = 12  # kills of a run before it may end
PARTS = {"self-play": (Actors, "play"), "learning": (Learner, "learn"), "gate": (Matches, "gate")}
MAX_CORES = 3


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An uninterrupted run on one core."""

    config: TrainConfig
    events: int  # changes to its files
    seconds: float
    outcome: dict[str, Any]


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Kill runs until there are ``count`` kills, and resume each run to its end."""
    prepare()
    rng, findings = np.random.default_rng(seed), Findings()
    references = {name: _reference(folder / name, config) for name, config in CONFIGURATIONS.items()}
    run = folder / "run"
    total, runs = 0, 0
    while total < count:
        shutil.rmtree(run, ignore_errors=True)
        name = list(references)[runs % len(references)]
        reference = references[name]
        killed_at: list[str] = []
        status: int = -signal.SIGKILL
        while status == -signal.SIGKILL:
            kind = str(rng.choice(["file event", "part", "moment"])) if len(killed_at) < MAX_KILLS else "none"
            event = int(rng.integers(1, reference.events + 1)) if kind == "file event" else 0
            part, call = (str(rng.choice(list(PARTS))), int(rng.integers(1, 6))) if kind == "part" else ("", 0)
            moment = float(rng.uniform(0, reference.seconds)) if kind == "moment" else math.inf
            cores = int(rng.integers(1, MAX_CORES + 1))

            def work(
                config: TrainConfig = reference.config,
                event: int = event,
                part: str = part,
                call: int = call,
                cores: int = cores,
            ) -> None:
                os.environ["ALPHAC4_CORES"] = str(cores)
                if event:
                    kill_at_event(run, event)
                if part:
                    kill_within(part, call)
                train(run, config)

            status = in_child(work, kill_after=moment)
            if status == -signal.SIGKILL:
                place = {"file event": f"event {event}", "part": f"{part} {call}"}.get(kind, f"{moment:.2f} s")
                killed_at.append(f"{place} on {cores} cores")
                findings.counts[f"kills at a {kind}"] += 1
        total, runs = total + len(killed_at), runs + 1
        problem = f"exit status {status}" if status else _damage(run)
        if not problem and (ended := outcome(run)) != reference.outcome:
            problem = f"differs in {[part for part in ended if ended[part] != reference.outcome[part]]}"
        elif not problem:
            findings.counts["runs that ended bit for bit as the uninterrupted one"] += 1
        if problem:
            findings.failures.append(f"{name}, killed at {', '.join(killed_at)}: {problem}")
    return findings


def kill_within(part: str, report: int) -> None:
    """Kill this process at report number ``report`` of progress within a part of an iteration."""
    owner, name = PARTS[part]
    run_part, check = getattr(owner, name), CostCounter.on_progress
    is_within, checks = False, 0

    def enter(*arguments: Any, **options: Any) -> object:
        nonlocal is_within
        is_within = True
        try:
            return run_part(*arguments, **options)
        finally:
            is_within = False

    def count(costs: CostCounter, progress: Progress) -> None:
        nonlocal checks
        checks += is_within
        if checks == report:
            os.kill(os.getpid(), signal.SIGKILL)
        check(costs, progress)

    setattr(owner, name, enter)
    CostCounter.on_progress = count  # type: ignore[method-assign]


def _reference(run: Path, config: TrainConfig) -> Reference:
    """Train a run without interruption, in a child process like the others."""
    counted = run.with_name(f"{run.name}.events")

    def count_events() -> None:
        os.environ["ALPHAC4_CORES"] = "1"
        seen = kill_at_event(run, -1)
        train(run, config)
        counted.write_text(str(seen[0]))

    started = time.monotonic()
    assert in_child(count_events) == 0
    seconds = time.monotonic() - started
    return Reference(config=config, events=int(counted.read_text()), seconds=seconds, outcome=outcome(run))


def _damage(run: Path) -> str:
    """Return a description of the damage to a finished run, or ""."""
    state, reports = load_state(run / STATE_FILE), read_reports(run / "reports.jsonl")
    reported = {report.iteration for report in reports}
    if state.iteration != ITERATIONS or reported != set(range(1, ITERATIONS + 1)):
        return f"it ended at iteration {state.iteration}, with reports of {reported}"
    costs = [(report.seconds_total, report.evaluations_total) for report in reports]
    if any(before > after for pair in pairwise(costs) for before, after in zip(*pair, strict=True)):
        return "costs fell"
    if sum(len(load_shard(path)) for path in (run / "replay").iterdir()) != state.samples:
        return "samples are missing"
    if leftovers := [path.name for path in run.rglob("*.alphac4-tmp")]:
        return f"left behind: {leftovers}"
    return ""

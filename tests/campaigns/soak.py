"""Thousands of tiny iterations in one process: memory stays flat, and the folder grows by reports and window only."""

import time
from pathlib import Path

import numpy as np

from alphac4.machine import resident_memory_mb
from alphac4.runs.reports import IterationReport
from alphac4.runs.session import TrainingSession
from campaigns.command import Findings
from campaigns.tiny_run import prepare, tiny_run

MB_A_THOUSAND = 60.0  # resident memory that a thousand iterations may add: their reports, and what allocators keep
KB_AN_ITERATION = 12.0  # of reports, curves and replay
SLOWDOWN = 1.5  # by which later iterations may take longer: the reports before them are looked through


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Train ``count`` iterations, at least five; what grows after the first fifth of them?"""
    prepare()
    learning = {"batch_size": 16, "passes": 1.0, "min_window": 300}
    config = tiny_run(iterations=count, samples=30, seed=seed, learning=learning)
    memory, sizes, seconds = [], [], [time.process_time()]
    with TrainingSession(folder, config) as session:
        commit = session.folder.commit

        def measured(state: object, report: IterationReport) -> None:
            commit(state, report)  # type: ignore[arg-type]
            memory.append(resident_memory_mb())
            seconds.append(time.process_time())
            sizes.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))

        session.folder.commit = measured  # type: ignore[method-assign]
        session.train()
    fifth = count // 5
    numbers, took = np.arange(fifth, count), np.diff(seconds)
    growth_mb = float(np.polyfit(numbers, memory[fifth:], 1)[0]) * 1000
    growth_kb = float(np.polyfit(numbers, sizes[fifth:], 1)[0]) / 1024
    slowdown = float(np.median(took[-fifth:]) / np.median(took[fifth : 2 * fifth]))
    files = sum(path.is_file() and path.parent.name != "replay" for path in folder.rglob("*"))
    found = Findings(
        notes=[
            f"{count:,} iterations",
            f"{memory[-1]:.0f} MB at the end",
            f"{growth_mb:+.1f} MB a thousand iterations",
            f"folder {growth_kb:+.1f} KB an iteration in {files} files beside replay",
            f"the last iterations took {slowdown:.2f} times the time of the first",
        ]
    )
    if growth_mb > MB_A_THOUSAND and growth_mb * count / 1000 > 30:
        found.failures.append("memory grows")
    if growth_kb > KB_AN_ITERATION or files > 20:  # the window of replay grows with the run
        found.failures.append("the folder grows")
    if slowdown > SLOWDOWN and count >= 100:  # fewer iterations are too noisy
        found.failures.append("the iterations take longer and longer")
    return found

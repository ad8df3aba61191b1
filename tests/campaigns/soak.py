"""Soak test: thousands of tiny iterations in one process, with constant memory, disk and time per iteration."""

import time
from pathlib import Path

import numpy as np

from alphac4.machine import resident_memory_mb
from alphac4.runs.folder import RunFolder
from alphac4.runs.session import TrainingSession
from alphac4.training.loop import Callback, Iteration
from campaigns.command import Findings
from campaigns.tiny_run import prepare, tiny_run

MAX_MB_PER_THOUSAND = 60.0  # growth of resident memory per thousand iterations: reports, and allocators' reserves
MAX_KB_PER_ITERATION = 12.0  # growth of reports, curves and replay
MAX_SLOWDOWN = 1.5  # later iterations search the reports of earlier ones


class Measure(Callback):
    """Callback that measures memory, folder and CPU time after each iteration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[float, float, float]] = []

    def on_iteration(self, iteration: Iteration) -> None:  # noqa: ARG002
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        self.rows.append((resident_memory_mb(), size / 1024, time.process_time()))


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Train ``count`` iterations, at least 5, and measure growth after the first fifth."""
    prepare()
    learning = {"batch_size": 16, "replay_ratio": 1.0, "base_window": 300}
    measure = Measure(folder)
    config = tiny_run(iterations=count, positions_per_iteration=30, seed=seed, learning=learning)
    with TrainingSession(RunFolder(folder, config), callbacks=[measure]) as session:
        session.train()
    fifth = count // 5
    memory, sizes, seconds = np.array(measure.rows).T
    growth_mb, growth_kb = (
        float(np.polyfit(np.arange(fifth, count), values[fifth:], 1)[0]) for values in (memory, sizes)
    )
    growth_mb, took = 1000 * growth_mb, np.diff(seconds)
    slowdown = float(np.median(took[-fifth:]) / np.median(took[fifth : 2 * fifth]))
    files = sum(path.is_file() and path.parent.name != "replay" for path in folder.rglob("*"))
    notes = [f"{count:,} iterations", f"{memory[-1]:.0f} MB at the end", f"{growth_mb:+.1f} MB per thousand iterations"]
    notes += [f"folder {growth_kb:+.1f} KB per iteration in {files} files beside replay", f"slowdown {slowdown:.2f}"]
    findings = Findings(notes=notes)
    if growth_mb > MAX_MB_PER_THOUSAND and growth_mb * count / 1000 > 30:
        findings.failures.append("memory grows")
    if growth_kb > MAX_KB_PER_ITERATION or files > 20:  # the window of replay grows with the run
        findings.failures.append("the folder grows")
    if slowdown > MAX_SLOWDOWN and count >= 100:  # fewer iterations are too noisy
        findings.failures.append("the iterations become slower")
    return findings

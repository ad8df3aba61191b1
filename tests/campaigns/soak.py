"""Thousands of tiny iterations in one process: memory stays flat, and the folder grows by its reports only.

``PYTHONPATH=tests python -m campaigns.soak --iterations 3000``
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alphac4.machine import resident_memory_mb
from alphac4.training.loop import TrainingLoop
from alphac4.training.reports import IterationReport
from campaigns.tiny_run import prepare, tiny_run

MB_A_THOUSAND = 60.0  # resident memory that a thousand iterations may add: their reports, and what allocators keep
KB_AN_ITERATION = 12.0  # of reports and curves
SLOWDOWN = 1.5  # by which later iterations may take longer: the reports before them are looked through


@dataclass(frozen=True, kw_only=True)
class Findings:
    """How a long run behaved after its first fifth."""

    iterations: int
    memory_mb: float  # at the end
    growth_mb: float  # of memory, a thousand iterations
    folder_kb: float  # the folder's growth, an iteration
    files: int  # at the end
    slowdown: float  # seconds on the processor of the last fifth's iterations, over those of the second fifth's

    @property
    def problems(self) -> list[str]:
        """What grows that should not."""
        found = []
        if self.growth_mb > MB_A_THOUSAND and self.growth_mb * self.iterations / 1000 > 30:
            found.append(f"memory grows by {self.growth_mb:.0f} MB in a thousand iterations")
        if self.folder_kb > KB_AN_ITERATION:
            found.append(f"the folder grows by {self.folder_kb:.1f} KB an iteration")
        if self.files > 60:
            found.append(f"{self.files} files")
        if self.slowdown > SLOWDOWN:
            found.append(f"the last iterations took {self.slowdown:.2f} times the time of the first")
        return found


def main() -> int:
    """Parse, train, print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=3000)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), options.iterations)
    print(
        f"soak: {found.iterations} iterations: {found.memory_mb:.0f} MB at the end, {found.growth_mb:+.1f} MB a "
        f"thousand iterations, folder {found.folder_kb:+.1f} KB an iteration in {found.files} files, "
        f"the last iterations took {found.slowdown:.2f} times the time of the first, {time.monotonic() - started:.0f} s"
    )
    for problem in found.problems:
        print(problem, file=sys.stderr)
    return int(bool(found.problems))


def soak(folder: Path, iterations: int) -> Findings:
    """Train so many iterations."""
    prepare(folder)
    run = folder / "run"
    config = tiny_run(
        iterations=iterations,
        samples=30,
        learning={"batch_size": 16, "passes": 1.0, "window_minimum": 300, "window_slope": 0.0},
    )
    memory, sizes, ends = [], [], []
    with TrainingLoop.open(run, config) as loop:
        real = loop.folder.commit

        def commit(state: object, report: IterationReport) -> None:
            real(state, report)  # type: ignore[arg-type]
            memory.append(resident_memory_mb())
            ends.append(time.process_time())
            if report.iteration % 10 == 0:
                sizes.append((report.iteration, sum(path.stat().st_size for path in run.rglob("*") if path.is_file())))

        loop.folder.commit = commit  # type: ignore[method-assign]
        loop.run()
    fifth = max(iterations // 5, 1)
    growth = np.polyfit(np.arange(fifth, iterations), memory[fifth:], 1)[0] * 1000
    late = [(iteration, size) for iteration, size in sizes if iteration >= fifth]
    folder_growth = np.polyfit(*zip(*late, strict=True), 1)[0] if len(late) > 2 else 0.0
    seconds = np.diff(ends)
    return Findings(
        iterations=iterations,
        memory_mb=memory[-1],
        growth_mb=float(growth),
        folder_kb=float(folder_growth) / 1024,
        files=sum(path.is_file() for path in run.rglob("*")),
        slowdown=float(np.median(seconds[-fifth:]) / np.median(seconds[fifth : 2 * fifth])),
    )


if __name__ == "__main__":
    raise SystemExit(main())

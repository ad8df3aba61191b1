"""Full disks: training stops with a message of one line, and resumes when there is space again.

Every second trial uses a file system of a few hundred kilobytes, if this process may mount one, which needs root on
Linux. In the other trials, writes fail as they do on a full disk.
"""

import dataclasses
import errno
import json
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np

from campaigns.command import Findings
from campaigns.tiny_run import in_child, outcome, prepare, tiny_run, train, train_by_command

BAD_INPUT = 2  # exit code of the command


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Fill ``count`` disks."""
    prepare()
    rng, findings = np.random.default_rng(seed), Findings()
    reference, settings = folder / "reference", folder / "settings.json"
    run, small = folder / "run", folder / "small"
    small.mkdir()
    settings.write_text(json.dumps(dataclasses.asdict(tiny_run())))
    assert in_child(lambda: train(reference)) == 0
    expected = outcome(reference)
    needed = sum(path.stat().st_size for path in reference.rglob("*"))
    for trial in range(count):
        shutil.rmtree(run, ignore_errors=True)
        size, write = int(rng.integers(needed // 20, needed)), int(rng.integers(1, 120))
        if trial % 2 == 0 and _mount(small, size):
            kind, description = "file systems", f"disk of {size} bytes"
            try:
                problem = _fill(small / "run", settings, 0)
                if (small / "run").exists():
                    shutil.copytree(small / "run", run)
            finally:
                subprocess.run(["umount", str(small)], check=True)
        else:
            kind, description = "failing writes", f"write {write} fails"
            problem = _fill(run, settings, write)
        findings.counts[kind] += 1
        if not problem and (status := in_child(partial(train, run))):
            problem = f"exit status {status} with space again"
        if not problem and outcome(run) != expected:
            problem = "the run ended differently"
        if problem:
            findings.failures.append(f"{description}: {problem}")
        else:
            findings.counts["runs ended as the one that had space"] += 1
    return findings


def _mount(folder: Path, size: int) -> bool:
    """Mount a file system in memory; return False if this process may not."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return bool(shutil.which("mount")) and subprocess.run(command, capture_output=True, check=False).returncode == 0


def _fill(run: Path, settings: Path, write: int) -> str:
    """Train on a disk that becomes full; return the fault in how the run reported it, or ""."""
    status, text = train_by_command(run, settings, lambda: _fail_at_write(write) if write else None)
    if status not in (0, BAD_INPUT) or "Traceback" in text:
        return f"exit status {status}: {text[-300:]}"
    if status == BAD_INPUT:
        lines = [line for line in text.splitlines() if line.startswith("alphac4 train:")]
        if len(lines) != 1 or "No space left on device" not in lines[0]:
            return f"not reported in one line: {text[-300:]}"
    if leftovers := [path.name for path in run.rglob("*.alphac4-tmp")]:
        return f"left behind: {leftovers}"
    return ""


def _fail_at_write(write: int) -> None:
    """Let all flushes from number ``write`` fail."""
    flush, seen = os.fsync, [0]

    def fsync(descriptor: int) -> None:
        seen[0] += 1
        if seen[0] >= write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    os.fsync = fsync

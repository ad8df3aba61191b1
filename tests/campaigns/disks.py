"""Full disks: a run is refused space at some write, says so in one line, and goes on once there is space again.

``PYTHONPATH=tests python -m campaigns.disks --count 50``

Every second disk is a file system of a few megabytes where this process may make one, which takes root on Linux; in the
other trials writes fail as they do on a full disk.
"""

import errno
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from alphac4.cli import main as alphac4
from alphac4.training.config import to_dict
from campaigns.command import run_campaign
from campaigns.tiny_run import in_child, outcome, prepare, tiny_run, train

OUT_OF_SPACE = 2  # the command's exit code


@dataclass(kw_only=True)
class Tally:
    """The results with the full disks."""

    disks: int = 0
    real: int = 0  # file systems that were full
    resumed: int = 0  # runs that then ended as the one that had space
    failures: list[str] = field(default_factory=list)


def main() -> int:
    """Parse, attack, print one line."""
    return run_campaign(attack, describe, about=__doc__, count=50)


def describe(tally: Tally) -> str:
    """What was found, in a line."""
    return (
        f"full disks: {tally.disks} ({tally.real} file systems, {tally.disks - tally.real} failing writes): "
        f"{tally.resumed} runs ended as the one that had space"
    )


def attack(folder: Path, count: int, seed: int) -> Tally:
    """Fill ``count`` disks."""
    prepare(folder)
    rng = np.random.default_rng(seed)
    reference, settings = folder / "reference", folder / "settings.json"
    settings.write_text(json.dumps(to_dict(tiny_run())))
    assert in_child(lambda: train(reference)) == 0
    expected = outcome(reference)
    needed = sum(path.stat().st_size for path in reference.rglob("*"))
    tally = Tally()
    for trial in range(count):
        run = folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        small = folder / "small"
        size = int(rng.integers(needed // 20, needed))
        if trial % 2 == 0 and _mount(small, size):
            try:
                problem = _fill(small / "run", settings, folder / "said", 0)
                if (small / "run").exists():
                    shutil.copytree(small / "run", run)
            finally:
                subprocess.run(["umount", str(small)], check=True)
            tally.real += 1
            description = f"disk of {size} bytes"
        else:
            wanted = int(rng.integers(1, 120))
            problem = _fill(run, settings, folder / "said", wanted)
            description = f"write {wanted} fails"
        tally.disks += 1
        if not problem:
            status = in_child(partial(train, run))
            problem = f"exit status {status} with space again" if status else ""
        if not problem:
            if outcome(run) == expected:
                tally.resumed += 1
            else:
                problem = "the run ended otherwise"
        if problem:
            tally.failures.append(f"{description}: {problem}")
    return tally


def _mount(folder: Path, size: int) -> bool:
    """Make a file system in memory; False where this process may not."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return (
        shutil.which("mount") is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def _fill(run: Path, settings: Path, said: Path, wanted: int) -> str:
    """Train until there is no space; what was wrong with how that was reported, empty if nothing was."""

    def work() -> None:
        with said.open("w") as file:
            os.dup2(file.fileno(), 2)
        if wanted:
            _fail_at_write(wanted)
        os._exit(alphac4(["train", "--run", str(run), "--settings", str(settings)]))

    status = in_child(work)
    text = said.read_text()
    if status not in (0, OUT_OF_SPACE) or "Traceback" in text:
        return f"exit status {status}: {text[-300:]}"
    if status == OUT_OF_SPACE:
        lines = [line for line in text.splitlines() if line.startswith("alphac4 train:")]
        if len(lines) != 1 or "No space left on device" not in lines[0]:
            return f"not reported in one line: {text[-300:]}"
    if leftovers := [path.name for path in run.rglob("*.alphac4-tmp")]:
        return f"left behind: {leftovers}"
    return ""


def _fail_at_write(wanted: int) -> None:
    """From the ``wanted``-th flush on there is no space."""
    real, seen = os.fsync, [0]

    def fsync(descriptor: int) -> None:
        seen[0] += 1
        if seen[0] >= wanted:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    os.fsync = fsync


if __name__ == "__main__":
    raise SystemExit(main())

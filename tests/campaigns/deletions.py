"""Deletions: a copy of the project without one plugin passes the quick tests that remain."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from campaigns.command import Findings

ROOT = Path(__file__).parents[2]


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Delete ``count`` plugins, one per copy, beginning with number ``seed``, and run the quick tests of each copy."""
    names = sorted(path.parent.name for path in (ROOT / "alphac4" / "plugins").glob("*/__init__.py"))
    findings = Findings()
    for number in range(min(count, len(names))):
        name = names[(seed + number) % len(names)]
        copy = folder / name
        copy_project(copy)
        for part in ("alphac4", "tests"):
            shutil.rmtree(copy / part / "plugins" / name, ignore_errors=True)
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        subprocess.run([sys.executable, "scripts/reference.py"], cwd=copy, env=environment, check=True)
        subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)  # tests list the pages with git
        subprocess.run(["git", "add", "--all"], cwd=copy, check=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup", "-m", "not slow"]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        findings.counts["plugins deleted"] += 1
        if done.returncode:
            findings.failures.append(f"without {name}: {done.stdout[-2000:]}")
    return findings


def copy_project(copy: Path) -> None:
    """Copy the files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for file in filter(None, listed.split("\0")):
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, copy / file)

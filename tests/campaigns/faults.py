"""Faults: small plausible edits of the package, which its quick tests must catch.

Each edit is made in a copy of the project. The tests that should catch it run there; the first that fails must pass
without the edit. A fault that no test catches is a note, not a failure: read it, and decide who would meet the fault.
"""

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from alphac4.machine import cores
from campaigns.command import Findings
from campaigns.deletions import ROOT, copy_project

TIMEOUT_S = 900.0  # for the tests of a fault; a fault that makes a test wait forever is caught
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::[^\s\[]+)", re.MULTILINE)

# Blocks of lines: a title, the text before and after the edit, and the modules of the tests that should catch it,
# without slow tests unless the word "slow" follows. The text before must occur exactly once in the package.
TABLE = Path(__file__).with_suffix(".txt")


class Fault(NamedTuple):
    title: str
    before: str
    after: str
    modules: list[str]  # of tests
    slow: bool


def read_table() -> list[Fault]:
    faults = []
    for block in TABLE.read_text().strip().split("\n\n"):
        title, *edit, tests = block.splitlines()
        before, after = ("\n".join(line[2:] for line in edit if line[0] == sign) for sign in "-+")
        modules = tests.removesuffix(" slow").split()
        faults.append(Fault(title, before, after, modules, tests.endswith(" slow")))
    return faults


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Make ``count`` faults of the table, beginning with number ``seed``, and print each."""
    faults, findings, thread = read_table()[seed : seed + count], Findings(), threading.local()
    passing: set[str] = set()  # tests that pass without a fault

    def try_fault(fault: Fault) -> str:
        if not hasattr(thread, "copy"):
            thread.copy = folder / str(threading.get_ident())
            copy_project(thread.copy)
        return find_catcher(thread.copy, fault, passing)

    with ThreadPoolExecutor(cores()) as pool:
        for fault, caught in zip(faults, pool.map(try_fault, faults), strict=True):
            print(f"{fault.title}: {caught}", flush=True)
            kind = caught.partition(":")[0]
            if kind == "cannot be tried":
                findings.failures.append(f"{fault.title}: {caught}")
            else:
                findings.counts[kind] += 1
    findings.notes.append(f"{findings.counts['caught'] / max(1, findings.counts.total()):.1%} caught")
    return findings


def find_catcher(copy: Path, fault: Fault, passing: set[str]) -> str:
    """Return "caught: TEST", "not caught", or "cannot be tried: REASON"."""
    sources = [path for path in (copy / "alphac4").rglob("*") if path.suffix in (".py", ".js")]
    places = [path for path in sources for _ in range(path.read_text().count(fault.before))]
    if len(places) != 1:
        return f"cannot be tried: its lines occur {len(places)} times in the package, so the table is out of date"
    modules = [str(path.relative_to(copy)) for name in fault.modules for path in copy.glob(f"tests/**/{name}.py")]
    if len(modules) != len(fault.modules):
        return f"cannot be tried: not all of {fault.modules} exist, so the table is out of date"
    (path,), text = places, places[0].read_text()
    path.write_text(text.replace(fault.before, fault.after))
    try:
        done = run_tests(copy, ["-x", *modules, *([] if fault.slow else ["-m", "not slow"])])
    except subprocess.TimeoutExpired:
        return "caught: by waiting"
    finally:
        path.write_text(text)
    if done.returncode == 0:
        return "not caught"
    failed = FAILED.search(done.stdout)
    if failed is None:
        return f"cannot be tried: {(done.stdout + done.stderr)[-500:]}"
    if failed[1] not in passing and run_tests(ROOT, [failed[1]]).returncode:
        return f"cannot be tried: {failed[1]} fails without the fault as well"
    passing.add(failed[1])
    return f"caught: {failed[1]}"


def run_tests(project: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )

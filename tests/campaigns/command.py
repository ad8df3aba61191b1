"""The command of a campaign, and its findings."""

import argparse
import importlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef attack(" in path.read_text())
MAX_FAILURES = 20  # failures to print


@dataclass(kw_only=True)
class Findings:
    """Findings of a campaign, printed as one line."""

    counts: Counter[str] = field(default_factory=Counter)  # by description
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = [f"{count:,} {what}" for what, count in self.counts.items()]
        return ", ".join([*counts, *self.notes, f"{len(self.failures)} failures"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign in a temporary folder and print its findings; return 1 if it has failures, else 0."""
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--count", type=int, required=True, help="number of kills, disks or iterations")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    attack = importlib.import_module(f"campaigns.{options.name}").attack
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        findings: Findings = attack(Path(folder), options.count, options.seed)
    for failure in findings.failures[:MAX_FAILURES]:
        print(" ".join(failure.split()), file=sys.stderr)
    print(f"{options.name}: {findings}, {time.monotonic() - started:.0f} s")
    return int(bool(findings.failures))

"""Common parts of the campaigns: findings, cases made by Hypothesis, and the command that tells them in a line."""

import argparse
import importlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeVar

import hypothesis

from alphac4.game import Position

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef attack(" in path.read_text())
MAX_FAILURES = 20  # that are printed
CASE_SECONDS = 120  # after which a case counts as one that never ends

T = TypeVar("T")


@dataclass(kw_only=True)
class Findings:
    """Findings of a campaign."""

    counts: Counter[str] = field(default_factory=Counter)  # in the order of the line
    notes: list[str] = field(default_factory=list)  # what else the line says
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = [f"{count:,} {what}" for what, count in self.counts.items()]
        return ", ".join([*counts, *self.notes, f"{len(self.failures)} failures"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack in a folder of its own, print a line; the exit code, 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--count", type=int, required=True, help="of kills, files, lines, visitors, iterations, ...")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    attack = importlib.import_module(f"campaigns.{options.name}").attack
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found: Findings = attack(Path(folder), options.count, options.seed)
    for failure in found.failures[:MAX_FAILURES]:
        print(" ".join(failure.split()), file=sys.stderr)
    print(f"{options.name}: {found}, {time.monotonic() - started:.0f} s")
    return int(bool(found.failures))


def fuzz(
    cases: hypothesis.strategies.SearchStrategy[T], judge: Callable[[T], str], count: int, seed: int, found: Findings
) -> None:
    """Judge so many cases, and count what is said of them; at an error note the smallest case found that raises it."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases)
    def give(case: T) -> None:
        signal.alarm(CASE_SECONDS)
        try:
            found.counts[judge(case)] += 1
        finally:
            signal.alarm(0)

    before = signal.signal(signal.SIGALRM, _give_up)
    try:
        give()
    except Exception as error:
        smallest = " ".join(getattr(error, "__notes__", []))
        found.failures.append(f"{smallest[:1000]} {type(error).__name__}: {error}"[:2000])
    finally:
        signal.signal(signal.SIGALRM, before)


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise AssertionError(f"still at work after {CASE_SECONDS} s")


def unfinished_game(rng: random.Random, max_plies: int = 41) -> str:
    """The moves of a game that is not over."""
    position = Position()
    for _ in range(rng.randint(0, max_plies)):
        following = position.play(rng.choice(position.legal_columns()))
        if following.outcome() is not None:
            break
        position = following
    return position.moves or ""

"""The command that attacks in a folder of its own and tells in one line what was found."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

MOST_FAILURES = 20  # that are printed


class Tally(Protocol):
    """What a campaign found."""

    failures: list[str]


T = TypeVar("T", bound=Tally)


def run_campaign(
    attack: Callable[[Path, int, int], T], describe: Callable[[T], str], *, about: str | None, count: int
) -> int:
    """Parse ``--count`` and ``--seed``, attack, print one line; the exit code, 1 if anything failed.

    Args:
        attack: takes a folder, the count and the seed.
        describe: the line, without the failures and the seconds.
        about: what ``--help`` says first.
        count: by default.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tally = attack(Path(folder), options.count, options.seed)
    for failure in tally.failures[:MOST_FAILURES]:
        print(failure, file=sys.stderr)
    seconds = time.monotonic() - started
    print(f"{describe(tally)}, {len(tally.failures)} failures, {seconds:.0f} s")
    return int(bool(tally.failures))

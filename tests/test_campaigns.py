"""The short forms of the campaigns; docs/reliability.md has the long ones and their figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("kills", "--count", "12"),
        ("disks", "--count", "4"),
        ("configurations", "--count", "12"),
        ("soak", "--iterations", "60"),
        ("matches", "--count", "2000"),
        ("mutations", "--count", "1200"),
        ("page", "--count", "200", "--parallel", "40"),
        ("engine", "--count", "500"),
        ("arguments", "--count", "150", "--processes", "2"),
    ],
    ids=lambda command: command[0],
)
def test_a_short_campaign_finds_nothing(command: tuple[str, ...]) -> None:
    """In a process of its own: they fork, limit their memory and listen to events."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run(
        [sys.executable, "-m", f"campaigns.{command[0]}", *command[1:]],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1

"""Short runs of the campaigns of docs/reliability.md, which have a command for thousands of cases."""

from pathlib import Path

import pytest
from helpers import run_python

COUNTS = {"kills": 3, "disks": 2, "soak": 10}


@pytest.mark.slow
def test_short_campaigns_find_no_failures() -> None:
    """Run them in a process of their own, because they fork."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); from campaigns.command import main;"
        f"sys.exit(sum(main([name, '--count', str(count)]) for name, count in {COUNTS}.items()))"
    )
    assert len(run_python(code).stdout.splitlines()) == len(COUNTS)

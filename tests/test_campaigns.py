"""The campaigns of docs/reliability.md run; what they find, they find by their own command, in thousands of cases."""

import subprocess
import sys
from pathlib import Path

import pytest
from campaigns.command import Findings, fuzz, main
from hypothesis import strategies as st

FORKING = {"kills": 3, "disks": 2, "configurations": 6, "soak": 10}  # counts


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("engine", 500),
        pytest.param("mutations", 360, marks=pytest.mark.slow),
        pytest.param("page", 12, marks=pytest.mark.slow),
    ],
)
def test_a_tiny_campaign_finds_nothing(name: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--count", str(count), "--seed", "1"]) == 0, capsys.readouterr()
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.slow
def test_tiny_campaigns_that_fork_find_nothing() -> None:
    """In one process that is theirs alone: they make it safe to fork from for good, and are warm then."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from campaigns.command import main;"
        f"sys.exit(sum(main([name, '--count', str(count)]) for name, count in {FORKING}.items()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == len(FORKING)


def test_what_fails_is_told_in_a_line_by_its_smallest_case() -> None:
    def judge(number: int) -> str:
        assert number < 17, f"{number} is too much"
        return "small numbers"

    found = Findings()
    fuzz(st.integers(0, 1000), judge, 200, 0, found)
    (failure,) = found.failures
    assert "case=17" in failure
    assert "AssertionError: 17 is too much" in failure
    assert found.counts["small numbers"] > 0

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import pytest

@pytest.mark.skipif(True, reason="needs a cluster")
def test_skipped_by_a_mark(): pass

def test_skipped_while_it_runs(): pytest.importorskip("no_such_package")

@pytest.mark.gpu
def test_skipped_for_want_of_a_gpu(): pytest.skip("no GPU")

@pytest.mark.xfail
def test_fails_as_expected(): assert False

def test_passes(): pass
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The tests of ``folder`` under this project's conftest and settings."""
    for name in ("conftest.py", "page_browser.py"):  # and what it imports
        shutil.copy(Path(__file__).with_name(name), folder)
    settings = Path(__file__).parents[1] / "pyproject.toml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(settings), "--rootdir", str(folder)]
    environment = os.environ | {"COLUMNS": "200"}  # or the summary's lines would be cut
    return subprocess.run(
        [*command, *options, str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_a_skip_fails_in_continuous_integration(tmp_path: Path) -> None:
    """By a mark, while it runs, or of a whole module; not for want of a GPU, and not without the option."""
    (tmp_path / "test_tests.py").write_text(MODULE)
    (tmp_path / "test_nothing.py").write_text('import pytest\npytest.importorskip("no_such_package")')
    lenient, strict = run_pytest(tmp_path), run_pytest(tmp_path, "--no-skips", "--continue-on-collection-errors")
    assert lenient.returncode == 0, lenient.stdout
    assert "1 passed, 4 skipped, 1 xfailed" in lenient.stdout
    assert strict.returncode != 0
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors" in strict.stdout
    for name in ("_by_a_mark", "_while_it_runs"):
        assert re.search(rf"(ERROR|FAILED) test_tests.py::test_skipped{name} - --no-skips: Skipped: ", strict.stdout)
    assert "ERROR test_nothing.py - --no-skips: Skipped: could not import 'no_such_package'" in strict.stdout

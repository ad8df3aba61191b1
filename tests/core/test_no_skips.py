from pathlib import Path

import pytest

pytest_plugins = "pytester"

TESTS = """
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


def test_a_skip_fails_in_continuous_integration(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips by a mark, in a test and of a module fail with the option, except for lack of a GPU."""
    for name in ("conftest.py", "page_browser.py"):  # this project's, and its import
        (pytester.path / name).write_text((Path(__file__).parents[1] / name).read_text(encoding="utf-8"))
    pytester.makepyfile(test_tests=TESTS, test_nothing='import pytest\npytest.importorskip("no_such_package")')
    for variable, value in {"COLUMNS": "200", "ALPHAC4_CACHE": ""}.items():
        monkeypatch.setenv(variable, value)  # conftest.py changes the folder; a narrow terminal would truncate lines
    settings = Path(__file__).parents[2] / "pyproject.toml"
    common = ["-p", "no:cacheprovider", "-c", str(settings), f"--rootdir={pytester.path}"]
    lenient = pytester.runpytest_inprocess(*common)
    strict = pytester.runpytest_inprocess(*common, "--no-skips", "--continue-on-collection-errors")
    lenient.assert_outcomes(passed=1, skipped=4, xfailed=1)
    strict.assert_outcomes(failed=1, passed=1, skipped=1, xfailed=1, errors=2)
    assert "ERROR test_nothing.py - --no-skips: Skipped: could not import 'no_such_package'" in strict.stdout.str()

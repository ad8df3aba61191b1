import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import alphac4
from alphac4.cli import COMMANDS, main
from alphac4.storage.files import check_folder, check_output


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The one line in which a command line is refused with exit code 2."""
    capsys.readouterr()
    assert main(line) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith(f"alphac4 {line[0]}: ")
    return output.err.removeprefix(f"alphac4 {line[0]}: ").strip()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("solve --rowz 3", "no option --rowz; is it --rows? --help lists them"),
        ("solve --rows x", "--rows takes a whole number, not 'x'"),
        ("arena a b --sprt 1", "--sprt takes two numbers, not '1'"),
        ("arena --games", "--games needs a value: a whole number"),
        ("arena a b --games -4", "--games must be at least 2, not -4"),
        ("evaluate --device gpu", "--device takes one of auto, cpu, cuda, not 'gpu'"),
        ("export", "PATH is missing: the network's file"),
        ("solve 44 55", "unexpected '55'; --help tells what the command takes"),
        ("train --learning.learning-rate nan", "--learning.learning-rate must be a finite number, not nan"),
        ("train --gate.pairs 9999999999", "--gate.pairs must be at most 1,000,000, not 9999999999"),
        ("search 44 --svg .", ".: is a folder, not a file"),
        ("search 44 --player fast@0 --svg tree.svg", "fast@0 searches no tree that --svg could draw"),
        ("export fast --kaggle main.py --license mit", "--license has no effect without --hub"),
        ("train --run FILE", "FILE: is a file, where a run needs a folder"),
        ("engine --player utc:50", "unknown player 'utc:50' (is it uct:50?); players are written"),
        ("certificate", "build or verify is missing: which of the two to do"),
        ("export best --web /proc/page", "/proc/page: No such file or directory"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line_and_nothing_is_begun(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    assert refused(capsys, *line.split()).startswith(told)
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_tells_every_option_with_its_default(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith(f"usage: alphac4 {name}")
    assert output.err == ""
    assert name == "export" or "(default: " in output.out


def test_the_module_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["alphac4", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("alphac4", run_name="__main__")
    assert not end.value.code
    assert capsys.readouterr().out == f"alphac4 {alphac4.__version__}\n"


PROGRAM = """
import io, sys
import alphac4
assert not {"torch", "numba", "numpy"} & set(sys.modules)
assert set(alphac4.__all__) <= set(dir(alphac4))
assert alphac4.solve("4455") == 18
from alphac4.cli import main
for line in ("solve 112233", "play --moves 44", "play --level 8"):
    sys.stdin = io.StringIO("moves\\nquit\\n")
    assert main(line.split()) == 0
assert "torch" not in sys.modules
assert all(getattr(alphac4, name) is not None for name in alphac4.__all__)
"""


@pytest.mark.slow
def test_nothing_is_loaded_before_it_is_needed() -> None:
    # PyTorch takes seconds to import; neither the solver nor the board before a network's first move needs it.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        alphac4.nonsense  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("solve 112233 >/dev/full", 2, "No space left on device"),
        ("play --second human <&-", 0, ""),
        ("solve --rows x >&-", 2, "--rows takes a whole number"),
        ("solve --help | true", 0, ""),
    ],
)
def test_full_and_closed_streams_end_the_command_in_one_line_or_none(line: str, code: int, told: str) -> None:
    command = f"set -o pipefail; {sys.executable} -m alphac4.cli {line}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") == bool(code)  # Python does not complain once more at its end


def test_places_that_cannot_be_written_are_reported_beforehand(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    for path in (tmp_path, file / "below.svg", Path("/proc/none/a.svg")):
        with pytest.raises(OSError, match=str(path)):
            check_output(path)
    with pytest.raises(OSError, match="folder is needed"):
        check_folder(file)
    for path in (file, tmp_path / "new.svg", Path(os.devnull)):
        check_output(path)
    assert file.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [file]

import os
import subprocess
import sys
from pathlib import Path

import pytest

from alphac4.cli import COMMANDS, main
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.uct import UctConfig
from alphac4.outputs import check_folder, check_output
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.training.config import LearningConfig


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The one line in which a command line is refused with exit code 2."""
    capsys.readouterr()
    assert main(line) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    assert output.err.startswith(f"alphac4 {line[0]}: ")
    return output.err.removeprefix(f"alphac4 {line[0]}: ").strip()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("solve --rowz 3", "no option --rowz; is it --rows? --help lists them"),
        ("solve --qqq", "no option --qqq; --help lists them"),
        ("solve --rows x", "--rows takes a whole number, not 'x'"),
        ("solve --rows=1.5", "--rows takes a whole number, not '1.5'"),
        ("play --seed x", "--seed takes a whole number, not 'x'"),
        ("arena a b --sprt 1", "--sprt takes two numbers, not '1'"),
        ("arena --games", "--games needs a value: a whole number"),
        ("arena a b --games -4", "--games must be at least 2, not -4"),
        ("benchmark --batches 1 x", "--batches takes whole numbers, not '1' 'x'"),
        ("evaluate --device gpu", "--device takes one of auto, cpu, cuda, not 'gpu'"),
        (
            "export",
            "PATH is missing: the network's file, such as checkpoints/quick.safetensors; or best, fast, or hf://OWNER/NAME",
        ),
        ("solve 44 55", "unexpected '55'; --help tells what the command takes"),
        ("solve --table-bits 99", "--table-bits must be at most 34, not 99"),
        ("train --preset fast", "no preset 'fast'; there are quick, standard, strong"),
        ("train --seed -1", "--seed must be at least 0, not -1"),
        ("train --learning.learning-rate nan", "--learning.learning-rate must be a finite number, not nan"),
        ("train --gate.pairs 9999999999", "--gate.pairs must be at most 1,000,000, not 9999999999"),
        ("play --port 99999", "--port must be at most 65,535, not 99999"),
        ("search 44 --svg .", ".: is a folder, not a file"),
        ("search 44 --player best@0 --svg tree.svg", "best@0 searches no tree that --svg could draw"),
        ("export fast --kaggle main.py --license mit", "--license has no effect without --hub"),
        ("export fast --kaggle main.py --web-runtime ort.tgz", "--web-runtime has no effect without --web"),
        ("train --run README.md", "README.md: is a file, where a run needs a folder"),
        ("engine --player nobody", "unknown player 'nobody'; players are written"),
        ("engine --player utc:50", "unknown player 'utc:50' (is it uct:50?); players are written"),
        ("search 1212121", "the game is over after 1212121: there is nothing to search"),
        ("certificate", "build or verify is missing: which of the two to do"),
        ("export best --web /proc/page", "/proc/page: No such file or directory"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(line: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The option, what it takes and what was given; or the options whose names are like it."""
    assert refused(capsys, *line.split()).startswith(told)


def test_what_is_given_at_great_length_is_not_repeated_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither as a file's name nor as a value."""
    assert len(refused(capsys, "play", "--moves", "4" * 5000)) < 1300
    assert len(refused(capsys, "solve", "--rows", "x" * 5000)) < 200


def test_nothing_is_begun_by_a_command_line_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No folder is made for a run whose settings make no sense."""
    monkeypatch.chdir(tmp_path)
    refused(capsys, "train", "--learning.learning-rate", "inf")
    refused(capsys, "selfplay", "--samples", "0")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_as_rich_as_ever(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, every option with its meaning and default, nothing on the standard error."""
    assert main([name, "--help"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith(f"usage: alphac4 {name}")
    assert output.err == ""
    if name != "export":
        assert "(default: " in output.out


@pytest.mark.slow
@pytest.mark.parametrize("redirection", ["--help >/dev/full", "solve --help >/dev/full", "solve 112233 >/dev/full"])
def test_a_full_output_is_reported(redirection: str) -> None:
    """One line, exit code 2, and Python does not complain once more at its end."""
    done = subprocess.run(
        f"{sys.executable} -m alphac4.cli {redirection}", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("play --second random --first uct:5 <&-", 0),
        ("play --second human <&-", 0),
        ("engine --player uct:5 <&-", 0),
        ("solve --batch <&-", 0),
        ("solve --rows x >&-", 2),
        ("solve --help | true", 0),
    ],
)
def test_closed_streams_are_the_end_of_the_input_or_the_output(line: str, code: int) -> None:
    """No traceback."""
    command = f"set -o pipefail; {sys.executable} -m alphac4.cli {line}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == (1 if code else 0)


@pytest.mark.parametrize("make", [LearningConfig, SelfPlayConfig, PuctConfig, UctConfig])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_settings_that_are_no_numbers_are_refused(make: type, number: float) -> None:
    """Every field that takes a fraction, by its name."""
    for name, value in make().__dict__.items():
        if isinstance(value, float):
            with pytest.raises(ValueError, match=name):
                make(**{name: number})


def test_places_that_cannot_be_written_are_reported_beforehand(tmp_path: Path) -> None:
    """A folder in a file's place, a file in a folder's, a name too long; a good place is left as it was."""
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path, tmp_path / "file" / "below.svg", tmp_path / ("x" * 300) / "a.svg", Path("/proc/none/a.svg")):
        with pytest.raises(OSError, match=r".") as told:
            check_output(path)
        assert str(path) in str(told.value)
    with pytest.raises(OSError, match="folder is needed"):
        check_folder(tmp_path / "file")
    check_output(tmp_path / "file")
    check_output(tmp_path / "new.svg")
    check_output(Path(os.devnull))
    assert (tmp_path / "file").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

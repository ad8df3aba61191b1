import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import alphac4
from alphac4.cli import COMMANDS, GROUPS, main
from alphac4.commands import judge, play, ship, train
from alphac4.storage.files import check_folder, check_output


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The message on a command line that is refused with exit code 2."""
    capsys.readouterr()
    assert main(line) == 2
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("export", "PATH The network's file"),
        ("solve 44 55", "Unrecognized options: 55"),
        ("certificate", "{build,verify}"),
        ("certificate bild", "Expected one of ('build', 'verify')"),
        ("solve --rowz 3", "Perhaps you meant: --rows INT"),
        ("train --presett quick", "Perhaps you meant: --preset"),
        ("train --preset quik", "invalid choice 'quik' for argument '--preset'"),
        ("selfplay --c-int 3", "Perhaps you meant: --c-init"),
        ("solve --rows x", "Error parsing --rows"),
        ("arena a b --games", "Missing value for argument '--games'"),
        ("arena a b --sprt 1", "Error parsing --sprt"),
        ("play web --no-opn", "Perhaps you meant: --open"),
        ("train --learning.batchsize 64", "Perhaps you meant: --learning.batch-size"),
    ],
)
def test_unreadable_options_are_reported_with_the_nearest(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in re.sub(r"[\s│─]+", " ", refused(capsys, *line.split()))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("slove 44", "no command 'slove' (is it solve?); there are play"),
        ("arena a b --games -4", "alphac4 arena: games must be at least 2, not -4"),
        ("train --learning.learning-rate nan", "learning_rate must be a finite number, not nan"),
        ("train --gate.pairs 9999999999", "pairs must be at most 1,000,000, not 9999999999"),
        ("search 44 --svg .", ".: is a folder, not a file"),
        ("search 44 --depth 0", "depth must be at least 1, not 0"),
        ("search 44 --player fast@0 --svg tree.svg", "fast@0 searches no tree that --svg could draw"),
        ("export fast --kaggle main.py --license mit", "--license has no effect without --hub"),
        ("train --run FILE", "FILE: is a file, but a run needs a folder"),
        ("train --run FILE/run", "FILE"),
        ("solve 1122334", "the game is over after 1122334: x has won"),
        ("play mastr", "unknown player 'mastr' (is it master?)"),
        ("play club human best", "name one opponent or two players, not club human best"),
        ("play 3 --rows 5 --columns 6", "plays on 6 x 7 with runs of 4, not on 5 x 6"),
        ("engine --player utc:50", "unknown player 'utc:50' (is it uct:50?); `alphac4 players` lists them"),
        pytest.param(
            "export best --web /proc/page",
            "/proc/page: No such file or directory",
            marks=pytest.mark.skipif(
                not Path("/proc").is_dir(), reason="needs a folder in which there can be no other"
            ),
        ),
        ("arena random random", "two different players"),
        ("arena random uct:10 --games 3", "--games must be an even number, not 3"),
        ("arena random uct:10 --sprt 30 0", "ELO0 below ELO1"),
        ("arena random uct:10 --processes 2 --cluster 127.0.0.1:1", "--processes are those of this machine"),
        ("arena random missing.safetensors", "missing.safetensors: no such file"),
        ("play --moves 49", "illegal move"),
        ("play --moves nofile.txt", "there is no such file"),
        # No name that a file could have:
        pytest.param("play --moves " + "4" * 5000, "illegal move '4' after '444444'", id="a long name"),
        ("solve 44 --batch", "--batch reads positions from the standard input: leave out the moves"),
        ("search 44 --player master", "'master' is a level of `alphac4 play`, not a player"),
        ("review 44 --player negamax:2", "searches no tree"),
        ("review 44 --html .", "is a folder"),
    ],
)
def test_what_is_wrong_is_reported_and_nothing_is_begun(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    error = refused(capsys, *line.split())
    assert told in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


def test_commands_are_listed_in_groups_with_examples_that_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    page = capsys.readouterr().out
    assert re.findall(r"^(\w+):$", page, re.MULTILINE) == [*GROUPS, "Examples"]
    assert set(re.findall(r"^  alphac4 (\w+)", page, re.MULTILINE)) <= set(COMMANDS)
    assert main(["players"]) == 0
    assert "uct:1000" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_tells_every_option_with_its_default(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    output = capsys.readouterr()
    assert f"\nusage: alphac4 {name}" in output.out
    assert output.err == ""
    assert name in ("export", "players") or "(default: " in output.out
    assert "{None}" not in output.out
    about = output.out.partition("usage: ")[0]
    assert max(map(len, about.splitlines())) <= 80, "broken by the terminal, within words"


def test_json_is_a_flag_in_every_command_that_has_it() -> None:
    kinds = {name: kind for module in (judge, play, ship, train) for name, kind in vars(module).items()}
    hints = {name: get_type_hints(kind).get("json") for name, kind in kinds.items() if name.endswith("Command")}
    expected = {f"{name}Command" for name in ("Arena", "Doctor", "Evaluate", "Review", "Search", "Solve")}
    assert len(hints) == len(COMMANDS)
    assert {name for name, hint in hints.items() if hint is bool} == expected
    assert set(hints.values()) == {bool, None}


@pytest.mark.parametrize(
    ("line", "told", "status"),
    [
        ("play human", "is no column from 1 to 7", 0),
        ("play puzzles", "is no column and no command", 0),
        ("engine --player uct:10", "error unknown command '\\xe9'", 0),
        ("solve --batch", "line 1: illegal move", 2),
        ("review - --player none --seconds 0", "the standard input, line 1: illegal move", 2),
    ],
)
def test_input_that_cannot_be_decoded_is_reported_like_any_other_bad_input(
    line: str, told: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a terminal without Unicode, where the answer cannot be written either."""
    given = io.TextIOWrapper(io.BytesIO(b"\xc3\xa9\nquit\n"), encoding="ascii")
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", given)
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "stderr", written)
    assert main(line.split()) == status
    written.seek(0)
    assert told in written.read()


def test_a_package_that_cannot_be_loaded_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by `doctor`, whose exit code is then that of an installation that is not sound."""
    monkeypatch.setitem(sys.modules, "alphac4.commands.doctor", None)
    assert main(["doctor"]) == 1
    assert re.fullmatch("alphac4 doctor: the installation is not sound, .+\n", capsys.readouterr().err)


HELP = """
import sys
from alphac4.cli import COMMANDS, main
assert all(main([*name.split(), "--help"]) == 0 for name in COMMANDS if name not in ("selfplay", "train"))
for typo in (
    "arena --gamess 2", "arena bestt", "play mastr", "prove utc:5"
):
    assert main(typo.split()) == 2
assert not {"torch", "numba", "numpy"} & set(sys.modules)
assert main(["selfplay", "--help"]) == main(["train", "--help"]) == 0  # with settings of NumPy's types
for typo in ("train --gate.pears 3", "train --learning.optimizer mun", "evaluate missing.safetensors"):
    assert main(typo.split()) == 2
assert "torch" not in sys.modules
"""
PROGRAM = """
import io, sys
import alphac4
assert not {"torch", "numba", "numpy"} & set(sys.modules)
assert set(alphac4.__all__) <= set(dir(alphac4))
assert alphac4.solve("4455") == 18
from alphac4.cli import main
for line in ("solve 112233", "play --moves 44", "play 8"):
    sys.stdin = io.StringIO("moves\\nquit\\n")
    assert main(line.split()) == 0
assert "torch" not in sys.modules
assert all(getattr(alphac4, name) is not None for name in alphac4.__all__)
"""


def test_options_are_explained_before_anything_is_loaded() -> None:
    """PyTorch takes two seconds of processor time, Numba a third of one."""
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr


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
        ("play human <&-", 0, ""),
        ("slove >&-", 2, "no command 'slove'"),
        ("solve --rows x >&-", 2, "--rows"),
        ("solve --help | true", 0, ""),
    ],
)
def test_full_and_closed_streams_end_the_command_without_a_traceback(line: str, code: int, told: str) -> None:
    command = f"set -o pipefail; {sys.executable} -m alphac4 {line}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr  # nor does Python complain once more at its end
    assert "Exception ignored" not in done.stderr


def test_places_that_cannot_be_written_are_reported_beforehand(tmp_path: Path) -> None:
    file, good, bad = (tmp_path / name for name in ("file", "good", "bad"))
    file.write_text("kept")
    good.symlink_to(tmp_path / "new")
    bad.symlink_to(file / "below")
    for path in (tmp_path, bad, file / "below.svg", Path("/proc/none/a.svg"), Path(os.devnull)):
        with pytest.raises(OSError, match=str(path)):
            check_output(path)
    with pytest.raises(OSError, match="folder is needed"):
        check_folder(file)
    for path in (file, good, tmp_path / "new.svg"):
        check_output(path)
    assert file.read_text() == "kept"
    assert set(tmp_path.iterdir()) == {file, good, bad}


@pytest.mark.parametrize("name", ["train", "play", "evaluate", "arena"])
def test_scripts_are_the_commands(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Path(__file__).parents[1] / "scripts" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(script), run_name="__main__")
    assert f"usage: alphac4 {name} " in capsys.readouterr().out

import inspect
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints
from unittest.mock import Mock

import pytest
from helpers import run_python

import alphac4
from alphac4.cli import main
from alphac4.commands import all_commands
from alphac4.commands.arguments import read_arguments
from alphac4.commands.play import SolveCommand
from alphac4.runs.reports import TrainedRun
from alphac4.storage.files import check_output, ensure_folder
from alphac4.training.config import PRESETS, TrainConfig, from_dict

COMMANDS = list(all_commands())
COMMAND_TYPES: dict[str, Any] = {name: command.load() for name, command in all_commands().items()}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("players 44", "Unrecognized options: 44"),
        ("solve --rowz 3", "Perhaps you meant: --rows INT"),
        ("train --presett quick", "Perhaps you meant: --preset"),
        ("train --preset quik", "invalid choice 'quik' for argument '--preset'"),
        ("arena a b --games", "Missing value for argument '--games'"),
        ("train --learning.batchsize 64", "unknown option --learning.batchsize (is it --learning.batch-size?)"),
        ("train --search.cpuct 2", "unknown option --search.cpuct (is it --search.c-init?)"),
        ("train --lr=0.1", "unknown option --lr (is it --learning.learning-rate?)"),
        ("train --gate.num_simulations 9", "unknown option --gate.num_simulations (is it --gate.simulations?)"),
        ("evaluate --num-sims 9", "unknown option --num-sims (is it --simulations?)"),
        ("train --samples 9", "unknown option --samples (is it --positions-per-iteration?)"),
        ("train --selfplay.c-init 2", "unknown option --selfplay.c-init (is it --search.c-init?)"),
        ("play --network quick", "unknown option --network (is it --checkpoint?)"),
        ("arena best@10,c-puct=2", "unknown option 'c-puct=2' (is it c-init?)"),
    ],
)
def test_invalid_options_are_reported_with_the_most_similar_one(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    output = capsys.readouterr()
    assert message in re.sub(r"[\s│─]+", " ", output.err)
    assert not output.out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("slove 44", "unknown command 'slove' (is it solve?); the commands are play"),
        ("arena random uct:9 --games -4", "alphac4 arena: games must be at least 2, not -4"),
        ("arena random uct:9 --sprt 0 9999", "sprt must be at most 2,000, not 9999.0"),
        ("train --learning.learning-rate nan", "learning_rate must be at least 1e-09, not nan"),
        ("train --baseline.simulations 10 20 10", "baseline.simulations has a number twice: 10, 20, 10"),
        ("search 44 --svg .", ".: is a folder, not a file"),
        ("search 44 --player quick@0 --svg tree.svg", "quick@0 has no search tree for --svg"),
        ("train --run FILE", "FILE: is a file, but a run needs a folder"),
        ("train --run LINK", "LINK: is a link to absent, which does not exist"),
        ("solve 444444 4", "write the moves in one word, such as 4444444, or one column per word, such as 4 4 1 2; "),
        ("search 44 5", "'44 5' is neither"),
        ("solve 4 4 4 4 4 4 4", "illegal move '4' after '444444': the column is full"),
        ("play mastr", "unknown player 'mastr' (is it master?)"),
        ("play club human best", "name one opponent or two players, not club human best"),
        ("play 3 --rows 5 --columns 6", "best: plays on 6 x 7 with runs of 4, not on 5 x 6"),
        ("arena random random", "at least two different players"),
        ("arena random uct:10 --games 3", "--games must be an even number, not 3"),
        ("arena random uct:10 --sprt 30 0", "ELO0 below ELO1"),
        ("evaluate uct:9 --simulations 5 --count 1", "simulations apply to a checkpoint without a limit, such as best"),
        ("evaluate random --backend foo --count 1", "unknown backend 'foo' on this machine; available: auto, torch-"),
        ("--version 3", "unknown command '--version'"),
        ("arena random missing.safetensors", "missing.safetensors: no such file"),
        ("play --moves nofile.txt", "nor an existing file"),
        # Longer than any file name:
        pytest.param("play --moves " + "4" * 5000, "illegal move '4' after '444444'", id="a long name"),
        ("solve 44 --batch", "--batch reads positions from the standard input: leave out the moves"),
        ("search 44 --player random", "'random' searches no tree"),
        ("audit random --side second --max-stones 0", "so random has no move to judge: use --max-stones 1 or more"),
        ("doctor --only inferense", "unknown part 'inferense' (is it inference?)"),
        ("evaluate random --simulations 0,many", "--simulations takes numbers such as 0 100 or 0,100, not '0,many'"),
        ("evaluate random --positions absent.columns", "absent.columns: No such file"),
        ("search 44 --player master", "'master' is a level of `alphac4 play`, not a player"),
    ],
)
def test_invalid_input_is_reported_in_one_line_without_side_effects(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("mine")
    Path("LINK").symlink_to("absent")
    assert message in error_line(line)
    assert Path("FILE").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"FILE", "LINK"}


def test_an_error_of_several_lines_is_printed_in_one(
    monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]
) -> None:
    monkeypatch.setattr(SolveCommand, "__call__", Mock(side_effect=ValueError("one\n  two")))
    assert error_line("solve 44") == "alphac4 solve: one two"


def test_overview_lists_commands_in_groups_with_valid_examples(run_command: Callable[..., str]) -> None:
    page = run_command("")
    assert re.findall(r"^(\w+):$", page, re.MULTILINE) == [
        *dict.fromkeys(command.group for command in all_commands().values()),
        "Examples",
    ]
    assert set(re.findall(r"^  alphac4 (\w+)", page, re.MULTILINE)) <= set(COMMANDS)
    assert "uct:1000" in run_command("players")
    assert "usage: alphac4 play web" in run_command("help play web")
    assert run_command("-h --help") == page


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_describes_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    output = capsys.readouterr()
    about, _, options = output.out.partition("usage: ")
    assert options.startswith(f"alphac4 {name}")
    assert output.err == ""
    assert name in ("export", "players") or "(default: " in options
    assert not re.search(r"\{None\}|\bPATH\b|default: (None)?\)", options)
    assert name == "train" or not re.search(r"\bSTR\b", options), "a value without a descriptive name"
    assert max(map(len, about.splitlines())) <= 80, "lines too long for a terminal"
    assert name == "players" or re.search(rf"^    .*alphac4 {name}", about, re.MULTILINE), "no example"


def test_help_without_docstrings_states_why_its_introduction_is_missing() -> None:
    program = "from alphac4.cli import main; main(['play', '--help'])"
    texts = [run_python(program, env=os.environ | {"PYTHONOPTIMIZE": level}).stdout for level in "12"]
    (_, options), (introduction, others) = (text.split("usage: ") for text in texts)
    assert introduction.startswith("Unset PYTHONOPTIMIZE ")
    assert (len(introduction.splitlines()), others) == (3, options)


EXAMPLE = re.compile(r"^    alphac4 (.*?)(?:  .*| <.*)?$", re.MULTILINE)


@pytest.mark.parametrize(
    "line", [line for kind in COMMAND_TYPES.values() for line in EXAMPLE.findall(inspect.getdoc(kind) or "")]
)
def test_examples_of_the_help_are_valid(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their options are parsed and checked; files that they read need not exist."""
    monkeypatch.setattr(Path, "exists", lambda _path: True)
    name, *words = re.fullmatch(f"({'|'.join(sorted(COMMANDS, key=len, reverse=True))})(?: (.*))?", line).groups()
    arguments = shlex.split(words[0] or "")
    kind = COMMAND_TYPES[name]
    default = kind(config=PRESETS["standard"]) if name == "train" else None
    assert read_arguments(kind, arguments, name, default) is not None


def test_json_is_a_flag_in_every_command_that_has_it() -> None:
    hints = {name: get_type_hints(kind).get("json") for name, kind in COMMAND_TYPES.items()}
    expected = {"arena", "doctor", "evaluate", "search", "solve"}
    assert {name for name, hint in hints.items() if hint is bool} >= expected
    assert set(hints.values()) == {bool, None}


@pytest.mark.parametrize(
    ("line", "message", "status"),
    [
        ("play human", "is neither a column from 1 to 7", 0),
        ("solve --batch", "line 1: illegal move", 2),
    ],
)
def test_undecodable_input_is_reported_like_other_invalid_input(
    line: str, message: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal has no Unicode, so that it cannot show the input that the message quotes."""
    given = io.TextIOWrapper(io.BytesIO(b"\xc3\xa9\nquit\n"), encoding="ascii")
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", given)
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "stderr", written)
    assert main(line.split()) == status
    written.seek(0)
    assert message in written.read()


def test_a_missing_required_package_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of a broken installation."""
    monkeypatch.setitem(sys.modules, "alphac4.commands.doctor", None)
    assert main(["doctor"]) == 1
    assert re.fullmatch("alphac4 doctor: the installation is broken; reinstall .+\n", capsys.readouterr().err)


HELP = """
import sys
from alphac4.cli import main
from alphac4.commands import all_commands
assert all(main([*name.split(), "--help"]) == 0 for name in all_commands() if name not in ("selfplay", "train"))
for typo in (
    "arena --gamess 2", "arena bestt", "play mastr", "audit utc:5"
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


def test_help_and_errors_do_not_load_large_packages() -> None:
    """PyTorch takes two seconds of CPU time, Numba a third of a second."""
    run_python(HELP)


@pytest.mark.slow
def test_solver_and_board_do_not_load_pytorch() -> None:
    run_python(PROGRAM)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        alphac4.nonsense  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("solve 112233 >/dev/full", 2, "No space left on device"),
        ("play human <&-", 0, ""),
        ("slove >&-", 2, "unknown command 'slove'"),
        ("solve --help | true", 0, ""),
    ],
)
def test_full_and_closed_streams_end_the_command_without_a_traceback(line: str, code: int, message: str) -> None:
    command = f"set -o pipefail; {sys.executable} -m alphac4 {line}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr  # at the exit of Python


def test_unwritable_outputs_are_reported_in_advance(tmp_path: Path) -> None:
    file, good, bad = (tmp_path / name for name in ("file", "good", "bad"))
    file.write_text("kept")
    good.symlink_to(tmp_path / "new")
    bad.symlink_to(file / "below")
    for path in (tmp_path, bad, file / "below.svg", Path("/proc/none/a.svg"), Path(os.devnull)):
        with pytest.raises(OSError, match=str(path)):
            check_output(path)
    with pytest.raises(OSError, match="folder is needed"):
        ensure_folder(file)
    for path in (file, good, tmp_path / "new.svg"):
        check_output(path)
    assert file.read_text() == "kept"
    assert set(tmp_path.iterdir()) == {file, good, bad}


@pytest.mark.parametrize("name", ["train", "play", "evaluate", "arena"])
def test_scripts_run_the_commands_of_their_names(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(script), run_name="__main__")
    assert f"usage: alphac4 {name} " in capsys.readouterr().out


def test_train_changes_only_the_given_settings_and_prints_commands_for_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    folder = tmp_path / "it's lr=0.1, $bs"
    best, trained = folder / "checkpoints" / "best.safetensors", []

    def train_nothing(_folder: Path, config: TrainConfig, **_options: Any) -> TrainedRun:
        trained.append(config)
        return TrainedRun(
            folder=folder, best_checkpoint=best, config=config, iterations=0, history=(), closing_matches=()
        )

    monkeypatch.setattr("alphac4.runs.session.train", train_nothing)
    (tmp_path / "own.json").write_text('{"iterations": 7, "board": {"diagonals": true}, "gate": {"pairs": 3}}')
    words = (folder, "--settings", tmp_path / "own.json", "--gate.simulations=5", "--board.no-diagonals", "--seed", 4)
    page = run_command("train --preset quick --run", *words)
    expected = {"iterations": 7, "seed": 4, "gate": {"pairs": 3, "simulations": 5}, "board": {"diagonals": False}}
    assert trained == [from_dict(expected, PRESETS["quick"])]
    printed = [shlex.split(line) for line in page.partition("Next:\n")[2].splitlines()]
    assert printed == [
        ["alphac4", "play", f"{best}@600"],
        ["alphac4", "arena", f"{best}@100", "uct:1000"],
        ["tensorboard", "--logdir", str(folder)],
    ]

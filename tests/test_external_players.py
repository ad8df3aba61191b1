import contextlib
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers import run_python

import alphac4
from alphac4.arena import PlayerError, external
from alphac4.arena.external import EnginePlayer
from alphac4.arena.match import play_match
from alphac4.arena.players import RandomPlayer, SearchingPlayer
from alphac4.arena.registry import parse_player
from alphac4.arena.tournament import PAIRS_PER_PART, Tournament, play_round_robin
from alphac4.cli import main
from alphac4.game import STANDARD, IllegalMove, Position, make_geometry

# A program that plays column 1 on an empty board, 2 after one stone, and so on, but fails after some first moves. It
# prints its argument besides its answers.
PROGRAM = """
import sys
import time
sys.stdout.reconfigure(encoding="utf-8")
habit = sys.argv[-1]
for line in sys.stdin:
    word = line.split()[0]
    if word == "c4i" and habit == "byte-order mark":
        print("\ufeffc4iok", flush=True)
    elif word == "c4i":
        print("id name test", "c4iok", sep="\\n", flush=True)
    elif word == "isready":
        print("readyok", flush=True)
    elif word == "position":
        moves = line.split()[3:]
        if habit == "late answer":
            print("bestmove 7", flush=True)
        if moves == ["7"]:
            sys.exit(3)
        if moves == ["6"]:
            print("error no such position", flush=True)
    elif word == "go":
        if habit == "long line":
            print("info " + "x" * 4091 + "bestmove 7", flush=True)
        if moves == ["5"]:
            time.sleep(60)
        while moves == ["3"]:
            print("info nodes 1", flush=True)
        if moves != ["6"]:
            print("info nodes 1", "bestmove x" if moves == ["4"] else f"bestmove {1 + len(moves) % 7}",
                  sep="\\n", flush=True)
    elif word == "quit":
        break
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    path = tmp_path / "engine.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return shlex.join([sys.executable, str(path)])


def test_a_program_that_follows_the_protocol_is_a_player(command: str, rng: np.random.Generator) -> None:
    player = parse_player(f"engine:{command}", rng=rng)
    assert player.name == f"engine:{command}"
    assert player.choose([Position(), Position.from_moves("12"), Position.from_moves("123456")]) == [0, 2, 6]
    assert play_match(player, RandomPlayer(rng), [Position.from_moves("12")]).played == 2


@pytest.mark.parametrize(
    ("moves", "seconds", "message"),
    [
        ("7", 60, "ended with exit code 3"),
        ("6", 60, "answered 'position startpos moves 6' with 'error no such position'"),
        ("5", 0.2, "did not answer 'go' for 0.2 s"),
        ("3", 0.2, "did not answer 'go' for 0.2 s"),
        ("4", 60, "answered 'bestmove x', which is not a column"),
    ],
)
def test_an_engines_failure_raises_an_error_of_one_line(
    command: str, moves: str, seconds: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if moves in "35":  # the engine does not quit
        monkeypatch.setattr(external, "CLOSE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(external, "MOVE_TIMEOUT_S", seconds)
    player = EnginePlayer(command)
    with pytest.raises(PlayerError, match=message) as error:
        player.choose([Position.from_moves(moves)])
    assert "\n" not in str(error.value)
    player.close()


@pytest.mark.parametrize("text", ["bestmove 9\\n", "bestmove 9"], ids=["lines", "an endless line"])
def test_an_engine_that_floods_its_output_is_killed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never stops writing; its output takes little memory until it is killed."""
    monkeypatch.setattr(external, "START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(external, "CLOSE_TIMEOUT_S", 0.1)
    code = f"import sys\nwhile True: sys.stdout.write('{text}')"
    tracemalloc.start()
    try:
        with pytest.raises(PlayerError, match=r"did not answer 'c4i' for 0.5 s"):
            EnginePlayer(shlex.join([sys.executable, "-c", code]))
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("habit", ["byte-order mark", "long line", "late answer"])
def test_an_engines_answer_is_found_among_other_lines(
    habit: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "START_TIMEOUT_S", 10.0)
    player = EnginePlayer(f"{command} '{habit}'")
    assert player.choose([Position(), Position.from_moves("44")]) == [0, 2]
    player.close()


# A program that keeps a lock, and ignores "quit" and the end of its input.
ENDLESS_PROGRAM = """
import fcntl
import sys
import time
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    for answer in ("c4iok", "readyok"):
        sys.stdin.readline()
        print(answer, flush=True)
    time.sleep(600)
"""


def test_closing_an_engine_ends_the_processes_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "CLOSE_TIMEOUT_S", 0.1)
    (tmp_path / "endless.py").write_text(ENDLESS_PROGRAM)
    program = shlex.join([sys.executable, str(tmp_path / "endless.py"), str(tmp_path / "lock")])
    player = EnginePlayer(shlex.join(["sh", "-c", f"{program}; true"]))  # the shell waits for the program
    player.close()
    assert_released(tmp_path / "lock")


def assert_released(path: Path) -> None:
    """Fail unless the endless program that keeps a lock ends within ten seconds."""
    with path.open() as file:
        for _ in range(100):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(0.1)
    pytest.fail("the program still runs")


KILLED = """
import os, signal, sys
from alphac4.arena.external import EnginePlayer
player = EnginePlayer(sys.argv[1])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_engine_ends_when_this_program_is_killed(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS_PROGRAM)
    program = shlex.join([sys.executable, str(tmp_path / "endless.py"), str(tmp_path / "lock")])
    command = [sys.executable, "-c", KILLED, shlex.join(["sh", "-c", f"{program}; true"])]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert_released(tmp_path / "lock")


MODULE = """
class Leftmost:
    def __init__(self, geometry, rng, shift=0, style="plain"):
        self.name = f"leftmost {shift} {style} {geometry.columns}"
        self.shift = shift
        rng.integers(2)

    def choose(self, positions):
        return [position.legal_columns()[self.shift] for position in positions]


def anything(**given):
    player = Leftmost.__new__(Leftmost)
    player.name = ",".join(sorted(given))
    return player


class Unpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} of {second}")


class Illegal:
    name = "illegal"

    def choose(self, positions):
        return [9 for _ in positions]


class Failing(Illegal):
    def choose(self, positions):
        raise Unpicklable("the end", "the world")


def broken():
    raise KeyError("no idea\\nat all")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_players").mkdir()
    (tmp_path / "own_players" / "left.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("own_players")]:
        monkeypatch.delitem(sys.modules, name)
    return "own_players.left"


def test_a_users_class_or_function_creates_a_player(module: str, rng: np.random.Generator) -> None:
    # The class gets the offered arguments that it has parameters for, and those of the specification: literals or text.
    small = make_geometry(5, 6)
    player = parse_player(f"{module}:Leftmost,shift=2,style=wild", rng=rng, geometry=small)
    assert player.name == "leftmost 2 wild 6"
    assert player.choose([Position(geometry=small)]) == [2]
    assert not isinstance(player, SearchingPlayer)
    for written, name in (("", "geometry,rng,threads"), ("@0.5s,depth=3", "budget,depth,geometry,rng,threads")):
        assert parse_player(f"{module}:anything{written}", rng=rng).name == name


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("engine:/no/such/program", "cannot be started"),
        ("engine:true", "ended with exit code 0"),  # prints nothing
        ("MODULE:Missing", "has no attribute 'Missing'"),
        ("MODULEs:Leftmost", "cannot be created: ModuleNotFoundError"),
        ("MODULE:broken", "cannot be created: KeyError: 'no idea"),
        ("MODULE:Leftmost@600", "takes no budget"),
        ("MODULE:Leftmost,speed=3", "takes geometry, rng, shift, style, not speed"),
        # An argument that names a network file does not make it a network.
        ("engine:/nowhere --player net.safetensors@600", "cannot be started"),
        ("no_such_module:Own,path=net.safetensors", "No module named 'no_such_module'"),
    ],
)
def test_a_player_that_cannot_be_created_raises_an_error_of_one_line(
    module: str, written: str, message: str, rng: np.random.Generator
) -> None:
    specification = written.replace("MODULE", module)
    with pytest.raises(PlayerError, match=message) as error:
        parse_player(specification, rng=rng, geometry=STANDARD)
    assert specification in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("player", "error", "message"),
    [("Illegal", IllegalMove, "illegal move 9"), ("Failing", RuntimeError, "Unpicklable: the end of the world")],
)
def test_errors_of_a_player_in_a_process_are_reported(
    player: str, error: type[Exception], message: str, module: str
) -> None:
    tournament = Tournament(players=(f"{module}:{player}", "random"), pairs=2 * PAIRS_PER_PART)
    with pytest.raises(error, match=message):
        play_round_robin(tournament, processes=2)


@pytest.mark.parametrize(
    "command", ["arena odd:Talking random --games 2 --processes 1", "evaluate odd:Talking --count 1"]
)
def test_json_does_not_contain_the_output_of_a_player(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.py").write_text(
        "class Talking:\n"
        "    name = 'talking'\n"
        "    def choose(self, positions):\n"
        "        print('thinking')\n"
        "        return [position.legal_columns()[0] for position in positions]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main([*command.split(), "--json"]) == 0
    output = capsys.readouterr()
    json.loads(output.out)
    assert "thinking" in output.err


def test_the_arena_imports_modules_from_the_current_folder(module: str, tmp_path: Path) -> None:
    """Python does not search that folder by itself for the installed command."""
    code = f"import sys; sys.path.remove(''); sys.argv[1:] = ['arena', '{module}:Leftmost', 'random', '--games', '2']"
    code += "; from alphac4.cli import main; raise SystemExit(main())"
    environment = os.environ | {"PYTHONPATH": str(Path(alphac4.__file__).parents[1])}
    printed = run_python(code, cwd=tmp_path, env=environment).stdout
    assert "leftmost 0 plain 7" in printed or "Leftmost" in printed

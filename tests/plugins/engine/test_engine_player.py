import contextlib
import fcntl
import shlex
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from alphac4.arena import PlayerError
from alphac4.arena.match import play_match
from alphac4.arena.players import RandomPlayer
from alphac4.arena.registry import parse_player, player_digest
from alphac4.game import Position
from alphac4.plugins.engine import player as module
from alphac4.plugins.engine.player import EnginePlayer

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
    assert play_match([player], [RandomPlayer(rng)], [Position.from_moves("12")]).game_count == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "engine: needs a command"),
        ("/no/such/program", "cannot be started"),
        ("true", "ended with exit code 0"),  # prints nothing
        # An argument that names a network file does not make it a network.
    ],
)
def test_a_program_that_cannot_be_started_raises_an_error_of_one_line(
    command: str, message: str, rng: np.random.Generator
) -> None:
    with pytest.raises(PlayerError, match=message) as error:
        parse_player(f"engine:{command}", rng=rng)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("moves", "seconds", "message"),
    [
        ("7", 60, "ended with exit code 3"),
        ("6", 60, "answered 'position startpos moves 6' with 'error no such position'"),
        ("5", 0.2, "did not answer 'go' for 0.2 s"),
        ("4", 60, "answered 'bestmove x', which is not a column"),
    ],
)
def test_an_engines_failure_raises_an_error_of_one_line(
    command: str, moves: str, seconds: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if moves in "35":  # the engine does not quit
        monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(module, "MOVE_TIMEOUT_S", seconds)
    player = EnginePlayer(command)
    with pytest.raises(PlayerError, match=message) as error:
        player.choose([Position.from_moves(moves)])
    assert "\n" not in str(error.value)
    player.close()


@pytest.mark.parametrize("text", ["bestmove 9\\n", "bestmove 9"], ids=["lines", "an endless line"])
def test_an_engine_that_floods_its_output_is_killed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never stops writing; its output takes little memory until it is killed."""
    monkeypatch.setattr(module, "START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", 0.1)
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
    monkeypatch.setattr(module, "START_TIMEOUT_S", 10.0)
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
    monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", 0.1)
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
from alphac4.plugins.engine.player import EnginePlayer
player = EnginePlayer(sys.argv[1])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_engine_ends_when_this_program_is_killed(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS_PROGRAM)
    program = shlex.join([sys.executable, str(tmp_path / "endless.py"), str(tmp_path / "lock")])
    command = [sys.executable, "-c", KILLED, shlex.join(["sh", "-c", f"{program}; true"])]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert_released(tmp_path / "lock")


def test_the_digest_of_an_engine_changes_with_its_program_and_the_files_of_its_command(tmp_path: Path) -> None:
    program, weights = tmp_path / "my engine", tmp_path / "weights.bin"
    specification = f"engine:'{program}' --weights {weights}"
    assert player_digest(specification) is None
    digests = []
    for path in (program, weights, program):
        path.write_text(f"version {len(digests)}")
        digests.append(player_digest(specification))
    assert len({*digests, None}) == 4
    assert player_digest(specification) == digests[-1]

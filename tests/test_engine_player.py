import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from alphac4.arena import engine_player
from alphac4.arena.engine_player import EnginePlayer
from alphac4.arena.match import play_match
from alphac4.arena.players import PlayerError
from alphac4.arena.specifications import parse_player
from alphac4.game import Position

PROGRAM = """
import os
import sys
import time
for line in sys.stdin:
    word = line.split()[0]
    if word == "c4i":
        print("id name test", "c4iok", sep="\\n", flush=True)
    elif word == "isready":
        print("readyok", flush=True)
    elif word == "position":
        moves = line.split()[3:]
        if moves == ["7"]:
            sys.exit(3)
        if moves == ["6"]:
            print("error no such position", flush=True)
    elif word == "go":
        if moves == ["5"]:
            time.sleep(60)
        while moves == ["3"]:
            print("info nodes 1", flush=True)
        if moves == ["2"]:
            os.close(1)
            time.sleep(60)
        if moves != ["6"]:
            print("info nodes 1", "bestmove x" if moves == ["4"] else f"bestmove {1 + len(moves) % 7}",
                  sep="\\n", flush=True)
    elif word == "quit":
        break
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    """A program that plays column 1 on an empty board, 2 after a stone, and so on; and that has its moods."""
    path = tmp_path / "engine.py"
    path.write_text(PROGRAM)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


@pytest.mark.slow
def test_a_program_that_speaks_the_protocol_is_a_player(command: str, rng: np.random.Generator) -> None:
    """It gets the moves so far, and its columns count from 1."""
    player = parse_player(f"engine:{command}", rng=rng)
    assert player.name == f"engine:{command}"
    assert player.choose([Position(), Position.from_moves("12"), Position.from_moves("123456")]) == [0, 2, 6]
    start = Position.from_moves("12")  # the program's moods come with the first stone
    result = play_match(player, parse_player("random", rng=rng), [start], progress=False)
    assert result.played == 2


@pytest.mark.parametrize(
    ("moves", "told"),
    [
        ("7", "ended with exit code 3"),
        ("6", "answered 'go' with 'error no such position'"),
        ("5", "did not answer 'go' for 0.5 s"),
        ("3", "did not answer 'go' for 0.5 s"),
        ("2", "ended with exit code"),
        ("4", "answered 'bestmove x', which names no column"),
    ],
)
def test_what_goes_wrong_with_it_is_reported_in_one_line(
    command: str, moves: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies, refuses, is too slow, only informs, closes its output, or answers nonsense."""
    monkeypatch.setattr(engine_player, "CLOSE_SECONDS", 0.5)
    player = EnginePlayer(command, move_seconds=0.5)
    with pytest.raises(PlayerError, match=told) as error:
        player.choose([Position.from_moves(moves)])
    assert "\n" not in str(error.value)
    player.close()


@pytest.mark.parametrize(
    ("program", "told"),
    [("/no/such/program", "cannot be started"), ("", "cannot be started"), ("true", "ended with exit code 0")],
)
def test_what_is_no_engine_is_reported_in_one_line(program: str, told: str, rng: np.random.Generator) -> None:
    """A missing program, none, and one that says nothing."""
    with pytest.raises(PlayerError, match=told) as error:
        parse_player(f"engine:{program}", rng=rng)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_our_own_engine_is_one() -> None:
    """`alphac4 engine`, which completes an open three."""
    player = EnginePlayer(f"{shlex.quote(sys.executable)} -m alphac4 engine --player uct:200 --nodes 200")
    assert player.choose([Position.from_moves("112233")]) == [3]
    player.close()

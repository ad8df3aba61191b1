import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.arena.players import NetworkPlayer
from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.game.rules import make_geometry
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.nn.evaluator import UniformEvaluator
from alphac4.play.analysis import Analyst
from alphac4.play.engine import Engine, EngineOptions

Planes = npt.NDArray[np.float32]


class Conversation:
    """An engine in this process, and the lines it has written."""

    def __init__(self, player: str = "uct:100") -> None:
        self.lines: list[str] = []
        self.engine = Engine(self.lines.append, EngineOptions(player=player, nodes=100))

    def say(self, *lines: str) -> list[str]:
        """Send lines; what it wrote meanwhile, once its search is over."""
        start = len(self.lines)
        for line in lines:
            self.engine.handle(line)
        if not self.engine._endless:
            self.engine.wait()
        return self.lines[start:]


class EngineProcess(NamedTuple):
    """`alphac4 engine` and its pipes."""

    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


@contextlib.contextmanager
def engine_process(player: str) -> Iterator[EngineProcess]:
    """A process, which does not outlive the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "alphac4.cli", "engine", "--player", player],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield EngineProcess(process, process.stdin, process.stdout, process.stderr)
    finally:
        process.kill()


def test_the_handshake_lists_every_option() -> None:
    """And each can be set."""
    talk = Conversation()
    answer = talk.say("c4i")
    assert answer[0].startswith("id name alphac4")
    assert answer[-1] == "c4iok"
    names = [line.split()[2] for line in answer if line.startswith("option")]
    assert names == ["player", "nodes"]
    assert talk.say("setoption name nodes value 50", "setoption name player value uct:10") == []
    assert talk.say("isready") == ["readyok"]


def test_a_search_informs_and_ends_with_the_best_move() -> None:
    """Column 4 wins at once; shares add up to a thousand; nodes are what was asked for elsewhere."""
    talk = Conversation()
    answer = talk.say("position startpos moves 1 1 2 2 3 3", "go nodes 50")
    assert answer[-1] == "bestmove 4"
    info = answer[-2].split()
    assert info[0] == "info"
    assert sum(int(number) for number in info[info.index("wdl") + 1 :][:3]) == 1000
    answer = talk.say("position 44", "go")
    assert answer[-2].split()[:3] == ["info", "nodes", "100"]
    assert talk.say("go movetime 50")[-1].startswith("bestmove")


def test_an_endless_search_answers_when_stopped() -> None:
    """Also where the outcome is proven at once; until then there is no move."""
    talk = Conversation()
    for position in ("44", "112233"):
        talk.say(f"position {position}", "go infinite")
        time.sleep(0.2)
        assert not any(line.startswith("bestmove") for line in talk.lines)
        assert talk.say("stop")[-1].startswith("bestmove")
        talk.lines.clear()


@pytest.mark.parametrize(
    "line",
    [
        "dance",
        "position 49",
        "position startpos 44",
        "position",
        "position startpos moves 4 x",
        "go nodes many",
        "go nodes 0",
        "go fast",
        "setoption name speed value 3",
        "setoption player uct:10",
        "setoption name player value missing.safetensors",
        "setoption name nodes value -1",
        "_idle",
        "go movetime " + "9" * 400,
        "go nodes " + "9" * 5000,
        "go nodes 10000001",
        "go movetime \u0663",
        "setoption name nodes value " + "1" * 5000,
        "x" * 100_000,
        "\x00\x01",
    ],
)
def test_whatever_is_not_understood_is_one_error_line(line: str) -> None:
    """And the engine goes on, with the position as it was."""
    talk = Conversation()
    talk.say("position 4")
    answer = talk.say(line)
    assert len(answer) == 1
    assert answer[0].startswith("error ")
    assert "Exceeds the limit" not in answer[0]  # Python's words, of numbers with thousands of digits
    assert talk.engine.position == Position.from_moves("4")


def test_a_finished_game_is_not_searched() -> None:
    """Nor is anything started while a search is under way."""
    talk = Conversation()
    assert talk.say("position 1122334", "go")[0].startswith("error")
    talk.say("position 4", "go infinite")
    assert talk.say("position 44")[-1].startswith("error")
    assert talk.say("go")[-1].startswith("error")
    talk.say("stop")


@pytest.mark.parametrize(("command", "answer"), [("go nodes 50", "bestmove"), ("exact", "exact")])
def test_whoever_has_read_the_answer_may_command_at_once(command: str, answer: str) -> None:
    """Though the thread that wrote it has not ended: a busy machine may let it wait after its last line is read."""
    read = threading.Event()
    lines: list[str] = []

    def write(line: str) -> None:
        lines.append(line)
        if line.startswith(answer):
            read.set()
            time.sleep(0.3)

    engine = Engine(write, EngineOptions(player="uct:100"))
    engine.handle("position 112233")
    engine.handle(command)
    assert read.wait(60)
    engine.handle("position 1122334")
    assert engine.position == Position.from_moves("1122334")
    engine.close()
    assert not any(line.startswith("error") for line in lines)


class WatchedEvaluator(UniformEvaluator):
    """Counts its calls, knows in which threads they came, and may take its time."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.threads: set[int] = set()

    def evaluate(self, planes: Planes) -> tuple[Planes, Planes]:
        """See `UniformEvaluator`."""
        self.calls += 1
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        return super().evaluate(planes)


def watched() -> tuple[Conversation, WatchedEvaluator]:
    """An engine whose network is watched, with a cache of evaluations."""
    talk, evaluator = Conversation(), WatchedEvaluator()
    search = NetworkSearch(evaluator, reuse="trees", cache=2**12)
    talk.engine._analyst = Analyst(NetworkPlayer("watched", evaluator, Budget(simulations=100), search=search))
    return talk, evaluator


def test_all_searches_are_in_one_thread() -> None:
    """Backends load a network for the thread that asks; that is not for the time of a move."""
    talk, evaluator = watched()
    talk.say("isready", "position 44", "go nodes 50", "newgame", "isready", "position 45", "go nodes 50")
    assert evaluator.threads.isdisjoint({threading.get_ident()})
    assert len(evaluator.threads) == 1


def test_a_search_keeps_its_time_after_one_that_was_faster() -> None:
    """Its first simulations find their evaluations in the cache; those that follow do not, and the network is slow."""
    talk, evaluator = watched()
    talk.say("position 44152", "go nodes 2000")
    evaluator.calls, evaluator.seconds = 0, 0.02
    talk.say("position 15442", "go movetime 200")  # the same stones
    assert evaluator.calls <= 20  # ten are as many as fit; a slice by the cache's speed has hundreds


def test_the_tree_is_kept_until_a_new_game() -> None:
    """Also when the other side asks whether the engine is ready, as many programs do before each move."""
    talk, evaluator = watched()
    talk.say("position 44", "go nodes 300")
    evaluator.calls = 0
    assert talk.say("isready", "position 44", "go nodes 1")[-2].split()[:3] == ["info", "nodes", "1"]
    assert evaluator.calls <= 1
    root = talk.engine._analyst
    assert root is not None
    assert root.node(Position.from_moves("44"), []).total_visits == 301
    talk.say("newgame", "position 44", "go nodes 1")
    assert root.node(Position.from_moves("44"), []).total_visits == 1


@pytest.mark.slow
def test_an_interrupted_engine_leaves_by_the_usual_way() -> None:
    """Not by the abort of a library whose thread is cut off at the interpreter's end."""
    for player in ("fast", "uct:100"):
        with engine_process(player) as engine:
            engine.stdin.write(b"isready\ngo infinite\n")
            engine.stdin.flush()
            while not engine.stdout.readline().startswith(b"info"):
                assert engine.process.poll() is None
            engine.process.send_signal(signal.SIGINT)
            _, errors = engine.process.communicate(timeout=60)
            assert engine.process.returncode == 130
            assert b"terminate" not in errors
            assert b"Traceback" not in errors


def test_exact_scores_match_the_known_end() -> None:
    """Winning with column 4 at once scores 18; every other move loses less than nothing is worth."""
    scores = Conversation().say("position 112233", "exact")[0].split()
    assert scores[0] == "exact"
    assert scores[4] == "18"
    assert len(scores) == 8


@pytest.mark.slow
def test_the_solver_is_stopped_like_a_search() -> None:
    """A position that takes minutes; the engine hears "stop" meanwhile, and the next question is answered."""
    talk = Conversation()
    talk.engine = Engine(talk.lines.append, EngineOptions(player="uct:100"), make_geometry(7, 8))
    talk.engine.handle("exact")  # the empty board, for which there is no book
    talk.engine.handle("go")
    talk.engine.handle("stop")
    assert talk.lines == ["error a search is under way; stop it first", "error the solver was stopped"]
    assert talk.say("position 112233", "go nodes 50")[-1] == "bestmove 4"


def test_bytes_that_are_no_text_are_an_error_line() -> None:
    """And so is whatever else a pipe may bring; the engine answers on."""
    talk = subprocess.run(
        [sys.executable, "-m", "alphac4.cli", "engine", "--player", "uct:10"],
        input=b"\xff\xfe\x00 \x80\nposition \xc3\x28\nc4i\nquit\n",
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert talk.returncode == 0
    assert talk.stderr == b""
    lines = talk.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["error", "error", "id", "option", "option", "c4iok"]


@pytest.mark.slow
def test_the_engine_ends_quietly_when_nobody_reads() -> None:
    """Its reader has gone while it searches; there is no traceback, and no search goes on for ever."""
    with engine_process("uct:100") as engine:
        engine.stdin.write(b"go infinite\n")
        engine.stdin.flush()
        assert engine.stdout.readline().startswith(b"info")
        engine.stdout.close()
        time.sleep(1)
        engine.stdin.write(b"isready\n")
        engine.stdin.flush()
        assert engine.process.wait(60) == 0
        assert engine.stderr.read() == b""


@pytest.mark.slow
def test_two_engines_play_whole_games_through_pipes() -> None:
    """Real processes, moves passed as text, until the rules end the game; then the end of the input ends them."""
    with engine_process("uct:100") as first, engine_process("uct:100") as second:
        position = Position()
        while position.outcome() is None:
            engine = (first, second)[position.plies % 2]
            moves = " ".join(position.moves or "")
            engine.stdin.write(f"position startpos moves {moves}\nrubbish\ngo nodes 60\n".encode())
            engine.stdin.flush()
            errors = []
            while not (line := engine.stdout.readline()).startswith(b"bestmove"):
                assert line
                errors += [line] if line.startswith(b"error") else []
            assert len(errors) == 1, errors  # of the line that is none of its commands
            position = position.play(COLUMN_NAMES.index(line.decode().split()[1]))
        assert position.plies >= 7
        for engine in (first, second):
            engine.process.communicate(b"", timeout=30)
            assert engine.process.returncode == 0

import contextlib
import io
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphac4.arena.match import play_match
from alphac4.arena.players import RandomPlayer
from alphac4.cli import main
from alphac4.game import Position
from alphac4.game.rules import make_board
from alphac4.play.analysis import Analyst
from alphac4.plugins.engine.player import EnginePlayer
from alphac4.plugins.engine.protocol import COMMANDS, Engine


class Conversation:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.engine = Engine(self.lines.append, Analyst.named("uct:100"))

    def say(self, *lines: str) -> list[str]:
        """Send lines, wait for the search, and return the output."""
        start = len(self.lines)
        for line in lines:
            self.engine.handle(line)
        if not self.engine._endless:
            self.engine.wait()
        return self.lines[start:]


def test_limits_of_a_search_are_those_of_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    talk, budgets = Conversation(), []
    monkeypatch.setattr(talk.engine._analyst, "analyze", lambda _position, budget, **_: budgets.append(budget))
    for command in ("go movetime 250", "go nodes 70", "go nodes 80 movetime 1500"):
        talk.say(command)
    assert [(budget.simulations, budget.seconds) for budget in budgets[1:]] == [(70, None), (80, 1.5)]
    assert budgets[0].seconds == 0.25


def test_a_new_game_starts_from_the_empty_board() -> None:
    talk = Conversation()
    start = talk.say("d")
    assert talk.say("position 44", "d") != start
    assert talk.say("newgame", "d") == start


def test_handshake_lists_options_that_can_be_set() -> None:
    talk = Conversation()
    answer = talk.say("c4i")
    assert answer[0].startswith("id name alphac4")
    assert answer[-1] == "c4iok"
    options = {line.split()[2]: line for line in answer if line.startswith("option")}
    assert list(options) == ["player", "nodes"]
    assert options["player"].endswith(" default uct:100")
    assert options["nodes"].endswith(" default 100 min 1")
    assert talk.say("setoption name nodes value 50", "setoption name player value uct:10") == []
    assert talk.say("isready") == ["readyok"]


def test_search_prints_info_and_ends_with_the_best_move() -> None:
    talk = Conversation()
    answer = talk.say("position startpos moves 1 1 2 2 3 3", "go nodes 50")
    assert answer[-1] == "bestmove 4"
    info = answer[-2].split()
    assert info[0] == "info"
    assert sum(int(number) for number in info[info.index("wdl") + 1 :][:3]) == 1000
    answer = talk.say("position 44", "go")
    assert answer[-2].split()[:3] == ["info", "nodes", "100"]
    assert talk.say("setoption name player value uct:70", "go")[-2].split()[2] == "70"
    assert talk.say("setoption name nodes value 50", "newgame", "position 44", "go")[-2].split()[2] == "50"
    assert talk.say("go movetime 50")[-1].startswith("bestmove")


@pytest.mark.parametrize(
    ("moves", "value", "wdl"),
    [("213243", "1.000", "1000 0 0"), ("7213243", "1.000", "1000 0 0"), ("727364", "-1.000", "0 0 1000")],
    ids=["first player wins", "second player wins", "first player loses"],
)
def test_info_is_for_the_side_to_move(moves: str, value: str, wdl: str) -> None:
    info = Conversation().say(f"position {moves}", "go nodes 2000")[-2]
    assert f" score {value} wdl {wdl} pv " in info


def test_exact_scores_of_all_columns() -> None:
    """With five empty cells, only columns 6 and 7 are open."""
    moves = "2252576253462244111563365343671351441"  # its score is -1 (Pons's Test_L3_R1)
    assert Conversation().say(f"position {moves}", "exact") == ["exact . . . . . -1 -2"]


def test_infinite_search_answers_when_stopped() -> None:
    talk = Conversation()
    for position in ("44", "112233"):  # the second is proven immediately
        talk.say(f"position {position}", "go infinite")
        time.sleep(0.1)
        assert not any(line.startswith("bestmove") for line in talk.lines)
        assert talk.say("stop")[-1].startswith("bestmove")
        talk.lines.clear()


@pytest.mark.parametrize(
    "line",
    [
        "dance",
        "position 49",
        "position startpos moves 4 4 12",
        "go nodes 10 nodes 20",
        "setoption name player value missing.safetensors",
        "d 44",
        "dance " + "x" * 100_000,
        "x" * 100_000,
        "position startpos " + "x" * 100_000,
        "setoption name player value " + "x" * 100_000,
    ],
    ids=lambda line: repr(line[:40]),
)
def test_invalid_line_is_answered_by_one_error_line(line: str) -> None:
    talk = Conversation()
    talk.say("position 4")
    (answer,) = talk.say(line)
    assert answer.startswith("error ")
    assert len(answer) < 1300
    assert talk.engine.position == Position.from_moves("4")


def test_go_after_the_end_of_the_game_and_commands_during_a_search_are_errors() -> None:
    talk = Conversation()
    assert talk.say("position 1122334", "go")[0].startswith("error")
    talk.say("position 4", "go infinite")
    for line in ("position 44", "go"):
        assert talk.say(line)[-1].startswith("error")
    talk.say("stop")


def test_commands_are_accepted_as_soon_as_the_answer_is_written() -> None:
    # The thread that wrote it may still be running, as on a busy machine.
    read = threading.Event()
    lines: list[str] = []

    def write(line: str) -> None:
        lines.append(line)
        if line.startswith("bestmove"):
            read.set()
            time.sleep(0.2)

    engine = Engine(write, Analyst.named("uct:100"))
    for command in ("position 112233", "go nodes 50"):
        engine.handle(command)
    assert read.wait(60)
    engine.handle("position 1122334")
    assert engine.position == Position.from_moves("1122334")
    engine.close()


def test_tree_is_reused_until_a_new_game() -> None:
    talk = Conversation()
    talk.say("position 44", "go nodes 300")
    # Also after isready, which many programs send before each move.
    assert talk.say("isready", "position 44", "go nodes 1")[-2].split()[:3] == ["info", "nodes", "1"]
    analyst = talk.engine._analyst
    assert analyst.node(Position.from_moves("44"), []).visits == 301
    talk.say("newgame", "position 44", "go nodes 1")
    assert analyst.node(Position.from_moves("44"), []).visits == 1


def test_exact_can_be_stopped_like_a_search() -> None:
    talk = Conversation()
    board = make_board(7, 8)
    talk.engine = Engine(talk.lines.append, Analyst.named("uct:100", board=board), board=board)
    for line in ("exact", "go", "stop"):  # this empty board takes minutes without an opening book
        talk.engine.handle(line)
    assert talk.lines == ["error a search is in progress; stop it first", "error the solver was stopped"]
    assert talk.say("position 112233", "go nodes 50")[-1] == "bestmove 4"


ANSWERS = {"id", "option", "c4iok", "readyok", "info", "bestmove", "exact", "error", ".", "x", "o", "1"}
ANSWERS |= {line.split()[0] for line in COMMANDS}  # lines of "help"
VALID = [b"c4i", b"isready", b"newgame", b"d", b"help", b"stop", b"go", b"go infinite", b"position startpos"]
VALID += [b"setoption name nodes value 20", b"setoption name player value uct:10", b"go nodes 10", b"go movetime 5"]
VALID += [b"position 4455", b"position startpos moves 4 4 1", b"position 1212121"]
NUMBERS = [b"-1", b"0", b"1.5", b"1" + b"0" * 400]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a valid line with changed bytes, a doubled or missing word, or another number."""
    line = draw(st.sampled_from(VALID))
    words, start = line.split(b" "), draw(st.integers(0, len(line)))
    changed = line[:start] + draw(st.binary(max_size=2)) + line[start + draw(st.integers(0, 1)) :]
    others = [b" ".join(words[:-1]), line + b" " + words[-1], line.upper(), line]
    return draw(st.sampled_from([changed, *others, *(b" ".join([*words[:-1], number]) for number in NUMBERS)]))


def is_harmless(line: bytes) -> bool:
    """Return whether a line neither ends the engine nor starts the solver, which may take minutes."""
    return not line.strip() or line.split()[0].lower() not in (b"quit", b"exact")


LINES = (mutated() | st.binary(max_size=300)).map(lambda line: line.translate(None, b"\r\n")).filter(is_harmless)


@given(st.lists(LINES, max_size=25))
def test_engine_answers_arbitrary_lines_by_its_protocol(lines: list[bytes]) -> None:
    """Afterwards a search ends with a legal move, and the engine with exit code 0."""
    commands = [
        b"\xef\xbb\xbfisready",
        *lines,
        b"stop",
        b"position 444444",
        b"go nodes 20",
        b"stop",
        b"isready",
        b"the-end",
    ]
    output, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(line + b"\n" for line in commands))))
        code = main(["engine", "--player", "uct:20"])
    answers = output.getvalue().splitlines()
    assert (code, errors.getvalue()) == (0, "")
    assert {answer.split()[0] for answer in answers} <= ANSWERS
    assert answers[0] == "readyok"  # despite the byte-order mark
    best, ready, end = answers[-3:]
    assert best in {f"bestmove {column}" for column in (1, 2, 3, 5, 6, 7)}
    assert (ready, end[:32]) == ("readyok", "error unknown command 'the-end';")
    assert sum(answer.startswith("bestmove") for answer in answers) <= 1 + sum(b"go" in line.lower() for line in lines)


def command(player: str) -> list[str]:
    return [sys.executable, "-m", "alphac4", "engine", "--player", player]


@contextlib.contextmanager
def searching_process(player: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start an engine in an infinite search, and kill it at the end of the block."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(player), bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        process.stdin.write(b"isready\ngo infinite\n")
        while not process.stdout.readline().startswith(b"info"):
            assert process.poll() is None
        yield process
    finally:
        process.kill()


@pytest.mark.slow
def test_interrupted_engine_exits_cleanly() -> None:
    # Libraries abort if their threads are still running at the interpreter's exit.
    with searching_process("quick") as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 130
        assert b"terminate" not in errors
        assert b"Traceback" not in errors


@pytest.mark.slow
def test_engine_exits_without_an_error_when_its_output_is_closed() -> None:
    with searching_process("uct:100") as process:
        process.stdout.close()
        process.stdin.write(b"isready\n")
        assert process.wait(300) == 0
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_engine_plays_games_through_pipes(rng: np.random.Generator) -> None:
    player = EnginePlayer(shlex.join(command("uct:200")))
    result = play_match([player], [RandomPlayer(rng)], [Position()])
    player.close()
    assert (result.wins, player._process.returncode) == (2, 0)


@pytest.mark.slow
def test_command_reports_a_full_output() -> None:
    command = f"{sys.executable} -m alphac4 engine --player uct:9 >/dev/full <<< 'go nodes 5'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stderr
    assert "the output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr

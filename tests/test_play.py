import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from alphac4 import cli
from alphac4.arena.players import RandomPlayer
from alphac4.arena.specifications import parse_player
from alphac4.checkpoint import SHIPPED
from alphac4.cli import main
from alphac4.game import IllegalMove, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.search import Budget
from alphac4.play import screen
from alphac4.play.analysis import Analyst
from alphac4.play.late_player import LatePlayer
from alphac4.play.levels import LEVELS, find_level, level_player
from alphac4.play.screen import Screen
from alphac4.play.session import Session
from alphac4.play.terminal import Side, TerminalGame
from alphac4.solver.verdict import exact


def reader(lines: list[str]) -> Callable[[str], str]:
    """Asks for one line after the other, and then finds the end of the input."""
    answers = iter(lines)

    def read(_prompt: str) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    return read


def run_game(lines: list[str], sides: tuple[Side, Side], moves: str = "") -> tuple[TerminalGame, str]:
    """A terminal game fed with these lines, and what it wrote."""
    output = io.StringIO()
    game = TerminalGame(
        Session(moves),
        sides,
        Screen(output),
        reader(lines),
        lambda level: level_player(level, "fast", STANDARD, np.random.default_rng(0)),
        lambda: Analyst.named("uct:200"),
        lambda moves: f"the review of {moves}",
    )
    game.run()
    return game, output.getvalue()


def people() -> tuple[Side, Side]:
    """Nobody but persons."""
    return Side(None), Side(None)


def test_two_people_play_a_whole_game() -> None:
    """X wins on the bottom row; the run is shown in capitals, and the game as a move string."""
    game, text = run_game(["1", "1", "2", "2", "3", "3", "4"], people())
    assert game.session.moves == "1122334"
    assert "X X X X . . ." in text
    assert "1122334" in text
    assert "You win!" in text


@pytest.mark.parametrize("end", [None, "quit", KeyboardInterrupt])
def test_an_unfinished_game_is_not_lost(end: str | type[BaseException] | None) -> None:
    """Its moves are the last that is said, at "quit", the end of the input, and Ctrl-C."""
    lines = iter(["4", "4", "5", end])

    def read(_prompt: str) -> str:
        line = next(lines)
        if isinstance(line, str):
            return line
        raise line or EOFError

    output = io.StringIO()
    game = TerminalGame(
        Session(),
        people(),
        Screen(output),
        read,
        lambda level: level_player(level, "fast", STANDARD, np.random.default_rng(0)),
        lambda: Analyst.named("uct:200"),
        str,
    )
    with pytest.raises(KeyboardInterrupt) if end is KeyboardInterrupt else nullcontext():
        game.run()
    assert output.getvalue().endswith("The game so far: 445\n")


def test_a_game_is_reviewed_where_it_was_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At any time, once there is a move; the prompt at its end says so."""
    _, text = run_game(["review", "4", "review"], people())
    assert "there is no move to review yet" in text
    assert "the review of 4" in text
    monkeypatch.setattr(sys, "stdin", io.StringIO("4\nreview\n"))
    assert main(["play", "--second", "human", "--rows", "5", "--columns", "6", "--moves", "112233"]) == 0
    output = capsys.readouterr().out
    assert "x: accuracy" in output
    assert output.count("  X X X X . .\n  1 2 3 4 5 6\n") == 2  # the game's board, and the review's


def test_bad_input_is_one_line_and_changes_nothing() -> None:
    """Full columns, other columns, unknown words, missing files, games that are over."""
    game, text = run_game(
        ["8", "dance", "1", "load nowhere.txt", "save", "load", "load 49", "hint x y", "save /proc/none/x"],
        people(),
        "1" * 5,
    )
    assert game.session.moves == "1" * 6
    for told in (
        "'8' is no column",
        "'dance'",
        "'nowhere.txt' is no move string",
        "save needs",
        "load needs",
        "illegal move '9'",
        "No such file",
    ):
        assert told in text, told
    _, text = run_game(["1", "5", "hint"], people(), "1" * 6)
    assert "the column is full" in text
    _, text = run_game(["5", "hint"], people(), "1122334")
    assert text.count("the game is over") == 2


def test_undo_against_a_player_takes_its_answer_too() -> None:
    """And redo plays both again; at the start there is nothing to take back."""
    sides = (Side(None), Side(RandomPlayer(np.random.default_rng(0))))
    game, _ = run_game(["4", "undo"], sides)
    assert game.session.moves == ""
    game, _ = run_game(["4", "undo", "redo"], sides)
    assert len(game.session.moves) == 2
    _, text = run_game(["undo"], sides)
    assert "nothing to take back" in text


def test_a_player_taken_back_to_the_start_waits_for_a_move() -> None:
    """Not for a question: what was undone can still be played again. An empty line lets it move."""
    first = RandomPlayer(np.random.default_rng(1))
    game, text = run_game(["undo", "moves", "level", "redo"], (Side(first), Side(None)))
    assert "(no moves yet)" in text
    assert text.count("random plays") == len(game.session.moves) == 1
    _, text = run_game(["undo", ""], (Side(first), Side(None)))
    assert text.count("random plays") == 2
    _, text = run_game(["undo", "new"], (Side(first), Side(None)))
    assert text.count("random plays") == 2


def test_hint_finds_the_win_and_analysis_shows_it() -> None:
    """Three on the bottom row: column 4 wins."""
    _, text = run_game(["hint", "analysis"], people(), "112233")
    assert "would play 4" in text
    assert "wins in 1" in text


def test_a_hint_is_right_where_the_solver_knows_at_once() -> None:
    """After 4 3, in the opening book, 6 and 7 alone win, which takes the network more than a short search."""
    _, text = run_game(["hint"], people(), "43")
    told = next(line for line in text.splitlines() if "by exact play" in line)
    assert re.search(r"by exact play (6|7|6 or 7|7 or 6): wins in \d+ moves", told)


def test_a_hint_does_not_wait_for_the_solver() -> None:
    """Beyond the book and far from the end the network alone is asked."""
    _, text = run_game(["hint"], people(), "444444")
    assert "would play" in text
    assert "by exact play" not in text


def test_the_solver_is_asked_for_the_truth() -> None:
    """Late positions are quick; the verdict is the solver's."""
    _, text = run_game(["exact"], people(), "112233")
    assert "4  wins in 1 move  *" in text


def test_ctrl_c_stops_the_solver_and_the_game_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who has waited long enough for "exact" plays on."""
    monkeypatch.setattr(screen, "exact", lambda _position, _pause: signal.raise_signal(signal.SIGINT))
    game, text = run_game(["exact", "4"], people(), "71717")
    assert "The solver was stopped" in text
    assert game.session.moves == "717174"


def test_stones_are_called_what_they_look_like() -> None:
    """In colour a side is named by its colour; without, by x and o."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for drawn, first, second in ((Screen(Terminal()), "red", "yellow"), (Screen(io.StringIO()), "x", "o")):
        assert drawn.side(0).endswith(first)
        assert drawn.side(1).endswith(second)


def test_the_analysis_says_whose_chances_it_shows() -> None:
    """They are those of the side to move: x, with three in a row, wins."""
    _, text = run_game(["analysis"], people(), "112233")
    assert "chances of x, to move: win 100 %" in text
    _, text = run_game(["analysis"], people(), "7112233")
    assert "chances of o, to move: win 0 %" not in text
    assert "chances of o, to move" in text


def test_the_list_of_levels_marks_the_one_that_plays() -> None:
    """After a change of level."""
    _, text = run_game(["level 2", "level"], people())
    marked = [line for line in text.splitlines() if "<- now" in line]
    assert [line.split()[1] for line in marked] == ["novice"]


@pytest.mark.slow
def test_the_board_is_shown_before_a_network_is_loaded() -> None:
    """PyTorch takes seconds to import, and neither the board nor the solver needs it."""
    program = (
        "import io, sys; from alphac4.cli import main; sys.stdin = io.StringIO('moves\\nquit\\n'); "
        "code = main(sys.argv[1:]); assert 'torch' not in sys.modules; sys.exit(code)"
    )
    for arguments in (["play", "--moves", "44"], ["play", "--level", "8"], ["solve", "112233"]):
        result = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        assert result.returncode == 0, result.stderr


def test_a_player_is_made_while_the_board_is_shown() -> None:
    """In a thread; what goes wrong there is told when the player is to move."""
    begun = threading.Event()

    def make() -> RandomPlayer:
        begun.set()
        return RandomPlayer(np.random.default_rng(0))

    late = LatePlayer("the network", make, background=True)
    assert begun.wait(10)
    assert late.choose([Position.from_moves("1" * 6)])[0] in range(1, 7)
    assert late.ready
    assert late.name == "random"

    def fail() -> RandomPlayer:
        raise ValueError("a damaged file")

    with pytest.raises(ValueError, match="a damaged file"):
        LatePlayer("the network", fail, background=True).choose([Position()])
    with pytest.raises(ValueError, match="a damaged file"):
        LatePlayer("the network", fail, background=False).choose([Position()])


def test_levels_can_be_changed_in_the_game() -> None:
    """By number and by name; unknown ones are told."""
    game, text = run_game(["level", "level 1", "level nobody"], people())
    assert "8 perfect" in text
    assert "beginner" in text
    assert "no level 'nobody'" in text
    assert [side.name for side in game.sides] == ["you", "fast, beginner"]


def test_levels_are_played_on_the_board_of_their_network() -> None:
    """On another one they are refused in a line and the game goes on; the exact solver plays on any."""
    arguments = ["play", "--rows", "4", "--columns", "5", "--second", "random"]
    for lines, told in (
        (["level 6", "level", "3"], "not on 4 x 5 with runs of 4"),
        (["level 8", "level", "3"], "perfect"),
    ):
        played = subprocess.run(
            [sys.executable, "-m", "alphac4.cli", *arguments],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert played.returncode == 0, played.stderr
        assert told in played.stdout
        assert "plays" in played.stdout.split("\n  8 perfect")[1]
    assert ("<- now" in played.stdout) == (lines[0] == "level 8")


def test_games_are_saved_and_loaded(tmp_path: Path) -> None:
    """Through a file, and as a move string."""
    path = tmp_path / "game.txt"
    run_game([f"save {path}"], people(), "4455")
    assert path.read_text() == "4455\n"
    game, _ = run_game([f"load {path}", "3"], people())
    assert game.session.moves == "44553"
    run_game([f"save {path}"], people(), "44")
    assert path.read_text() == "44\n"


def test_a_file_that_is_no_game_is_not_written_over(tmp_path: Path) -> None:
    """Somebody's notes."""
    path = tmp_path / "notes.txt"
    path.write_text("to be kept\n")
    _, text = run_game([f"save {path}"], people(), "4455")
    assert "holds no game" in text
    assert path.read_text() == "to be kept\n"


def test_a_session_keeps_its_game_when_a_move_is_refused() -> None:
    """And forgets what was undone once another move is played."""
    session = Session("444444")
    with pytest.raises(IllegalMove):
        session.play(3)
    with pytest.raises(IllegalMove):
        session.load("48")
    assert session.moves == "444444"
    assert session.undo(2) == 2
    assert session.redo(1) == 1
    session.play(0)
    assert session.moves == "444441"
    assert session.redo() == 0
    assert session.undo(99) == 6


def test_analysis_adds_up_and_is_json() -> None:
    """Visits are the simulations, shares and win/draw/loss add up to 1, and the best move is a legal one."""
    analyst = Analyst.named("uct:500", seed=1)
    position = Position.from_moves("44444")
    analysis = analyst.analyze(position)
    assert analysis.finished
    assert analysis.simulations == 500 == sum(item.visits for item in analysis.columns)
    assert sum(item.share for item in analysis.columns) == pytest.approx(1)
    assert analysis.win + analysis.draw + analysis.loss == pytest.approx(1)
    assert analysis.best in position.legal_columns()
    assert json.loads(json.dumps(analysis.to_dict()))["moves"] == "44444"


def test_analysis_keeps_its_tree_and_can_be_stopped() -> None:
    """The next position of the game starts with the visits it already has; a stop ends a long search at once."""
    analyst = Analyst.named("uct:3000")
    first = analyst.analyze(Position())
    following = Position().play(first.best)
    second = analyst.analyze(following, Budget(simulations=10))
    assert sum(item.visits for item in second.columns) > 100
    stop = threading.Event()
    reports = []

    def watch(analysis: object) -> None:
        reports.append(analysis)
        stop.set()

    analysis = analyst.analyze(Position.from_moves("3"), Budget(simulations=100_000_000), stop=stop, on_progress=watch)
    assert not analysis.finished
    assert len(reports) == 1


def test_the_exact_verdict_matches_hand_worked_ends() -> None:
    """Winning at once is worth the stones left; x wins with 4."""
    verdict = {item.column: item for item in exact(Position.from_moves("112233"))}
    assert verdict[3].outcome == "wins in 1 move"
    assert verdict[3].best
    assert verdict[3].score == 18
    assert sum(item.best for item in verdict.values()) == 1


@pytest.mark.slow
def test_every_level_plays_and_stronger_ones_take_wins() -> None:
    """The quick network; from 4 on it looks ahead and cannot miss a win in one."""
    rng = np.random.default_rng(0)
    position = Position.from_moves("112233")
    for number, level in enumerate(LEVELS, start=1):
        if level.name == "master":  # the expert with more time
            continue
        player = level_player(find_level(str(number)), "fast", STANDARD, rng)
        column = player.choose([position])[0]
        assert column in position.legal_columns()
        if number >= 4:
            assert column == 3, level.name


@pytest.mark.slow
def test_shipped_networks_are_players() -> None:
    """By name, with a budget."""
    for name in SHIPPED:
        assert parse_player(f"{name}@1", rng=np.random.default_rng(0), threads=1).choose([Position()])[0] in range(7)


@pytest.mark.slow
def test_the_command_plays_in_a_pipe() -> None:
    """Without a terminal: no prompts, no colours; the end of the input ends the game."""
    result = subprocess.run(
        [sys.executable, "-m", "alphac4.cli", "play", "--second", "uct:50", "--seed", "1"],
        input="4\nmoves\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "uct:50 plays" in result.stdout
    assert "\033" not in result.stdout


@pytest.mark.slow
def test_the_command_plays_a_whole_game_on_a_terminal() -> None:
    """On a pseudo-terminal, in colour, two people, until x has won and quits."""
    master, slave = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "alphac4.cli", "play", "--second", "human"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        close_fds=True,
    )
    os.close(slave)
    os.write(master, b"1\n1\n2\n2\n3\n3\n4\nquit\n")
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # how the end of a terminal reads
            break
        if not part:
            break
        shown += part
    assert process.wait(60) == 0
    os.close(master)
    text = shown.decode()
    assert "\033[91m" in text
    assert "to move" in text
    assert "1122334" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--level", "12"], "no level"),
        (["--first", "nobody"], "unknown player"),
        (["--moves", "49"], "illegal move"),
        (["--moves", "nofile.txt"], "there is no such file"),
        (["--network", "missing.safetensors"], "missing.safetensors"),
        (["--level", "8", "--network", "nonsense"], "a network is named"),
        (["--simulations", "0"], "at least 1"),
        (["--difficulty", "3"], "--difficulty needs --puzzle"),
        (["--port", "9000"], "--port needs --web"),
        (["--puzzle", "--moves", "44"], "--moves has no effect with --puzzle"),
        (["--puzzle", "--rows", "5"], "another board has no effect with --puzzle"),
        (["--web", "--first", "best"], "--first has no effect with --web"),
        (["--rows", "5", "--columns", "6", "--level", "2"], "best does not play on 5 x 6 with runs of 4"),
        (["--rows", "5", "--network", "fast"], "--level and --network have no effect: fast does not play on 5 x 7"),
    ],
)
def test_bad_options_end_with_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, no traceback."""
    assert main(["play", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "the file is empty"), (b"\xcd\xcd", "columns are written 1 to 7"), (b"49", "illegal move '9' after '4'")],
)
def test_a_file_that_holds_no_game_is_named(
    content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather than a game begun from the empty board; a file of one line feed is a game saved before its first move."""
    path = tmp_path / "game"
    path.write_bytes(content)
    assert main(["play", "--moves", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}: " in error
    assert told in error


def test_moves_too_long_for_a_files_name_are_moves(capsys: pytest.CaptureFixture[str]) -> None:
    """``--moves`` may name a file as well; what the system refuses as a name is read as moves, and told in one line."""
    assert cli.main(["play", "--moves", "4" * 5000]) == 2
    assert capsys.readouterr().err == "alphac4 play: illegal move column 4 after '444444': the column is full\n"

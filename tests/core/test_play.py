import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pytest
from helpers import Lines, Terminal, reader

from alphac4.arena.players import NetworkPlayer, Player, RandomPlayer
from alphac4.cli import main
from alphac4.compute import choose_compute
from alphac4.game import STANDARD, IllegalMove, Position
from alphac4.machine import wrap_text
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.results import SearchResult, SearchResults
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import UNPROVEN
from alphac4.play import screen
from alphac4.play.analysis import Analyst
from alphac4.play.games import Session
from alphac4.play.levels import LEVELS, Level, find_level
from alphac4.play.opponents import LazyPlayer, level_player
from alphac4.play.proofs import ProvenResult
from alphac4.play.registry import TerminalCommand
from alphac4.play.screen import BOLD, UNDERLINE, Screen
from alphac4.play.terminal import TerminalGame
from alphac4.solver.solver import TimeIsUp, exact


def fast_level(level: Level) -> Player:
    return level_player(level, "quick", STANDARD, np.random.default_rng(0), choose_compute("cpu", "torch-fp32"))


def run_game(
    lines: Lines, moves: str = "", first: RandomPlayer | None = None, second: RandomPlayer | None = None
) -> tuple[TerminalGame, str]:
    """Play a terminal game with these input lines; return it and its output. A side without a player is a person."""
    output = io.StringIO()
    game = TerminalGame(
        Session(moves),
        (first, second),
        Screen(output),
        reader(lines),
        lambda name: fast_level(find_level(name)),
        lambda: Analyst.named("uct:200"),
    )
    with pytest.raises(KeyboardInterrupt) if KeyboardInterrupt in lines else nullcontext():
        game.run()
    return game, output.getvalue()


def random_player() -> RandomPlayer:
    return RandomPlayer(np.random.default_rng(0))


@pytest.mark.parametrize("end", [[], ["quit"], [KeyboardInterrupt]])
def test_terminal_game_prints_the_moves_of_an_unfinished_game(end: Lines) -> None:
    assert run_game(["4", "4", "5", *end])[1].endswith("The game so far: 445\n")


def noted(session: Session, screen: Screen) -> None:
    """A plugin's command."""
    if session.moves == "445":
        raise KeyboardInterrupt
    if not session.moves:
        raise ValueError("nothing to note yet")
    screen.line(f"noted {session.moves}")


def test_commands_of_plugins_are_run_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the command only."""
    commands = {"note": TerminalCommand("write down the moves", f"{__name__}:noted")}
    monkeypatch.setattr("alphac4.play.terminal.find_terminal_commands", lambda: commands)
    output = run_game(["note", "4", "NOTE", "4", "5", "note", "note it", "ntoe", "help"])[1]
    for expected in (
        "nothing to note yet",
        "noted 4\n",
        "The note was stopped.",
        "note takes no argument",
        "'ntoe' is neither a column from 1 to 7 nor a command (is it note?)",
        "  note         write down the moves\n",
    ):
        assert expected in output


def test_a_byte_order_mark_before_the_first_command_is_ignored(run_command: Callable[..., str]) -> None:
    output = run_command("play human human", given="\ufeffquit\nhelp\n")
    assert "neither" not in output
    assert "leave" not in output  # the second command is not read


def test_terminal_game_rejects_invalid_input_without_changing() -> None:
    messages = {
        "8": "'8' is neither a column from 1 to 7",
        "Hnit": "nor a command (is it hint?)",
        "load nowhere.txt": "'nowhere.txt' is neither a game",
        "load 49": "illegal move '9'",
        "level nobody": "unknown level 'nobody'; the levels are beginner, novice,",
        "1": "the column is full",
        "undo 3": "undo takes no argument, but '3' follows",
        "5" * 100_000: "neither a column from 1 to 7",
        "save " + "x" * 100_000: "too long",
    }
    game, text = run_game(list(messages), "1" * 6)
    assert game.session.moves == "1" * 6
    assert all(message in text for message in messages.values()), text
    assert max(map(len, text.splitlines())) < 500
    assert run_game(["5", "hint"], "1122334")[1].count("the game is over") == 2


def test_undo_against_a_player_takes_back_its_answer() -> None:
    assert run_game(["4", "undo"], second=random_player())[0].session.moves == ""
    for moves in (["4"], ["4", "4"], ["1", "7", "1"]):  # both moves are played again
        played = run_game(moves, second=random_player())[0].session.moves
        assert run_game([*moves, "undo", "redo"], second=random_player())[0].session.moves == played
    assert "nothing to take back" in run_game(["undo"], second=random_player())[1]


def test_resigning_ends_the_game_until_undo_or_new() -> None:
    game, text = run_game(["4", "resign", "4", "resign", "solve", "undo", "5"], "112233", second=random_player())
    assert "You win!" in text  # a game that is won cannot be resigned
    assert text.count("the game is over") == 4
    game, text = run_game(["4", "resign", "1", "hint", "undo", "5", "resign", "new", "1"], second=random_player())
    moves = game.session.moves
    assert text.count("\nYou resign: o (random) wins.  Game: 4") == 1
    assert text.count("\nYou resign: o (random) wins.  Game: 5") == 1
    assert "the game is over; new starts another one, undo takes back the last move" in text
    assert (len(moves), moves[0]) == (2, "1")
    assert text.count("random plays") == 3
    _, text = run_game(["4", "resign"])
    assert text.endswith("\no resigns: x wins.  Game: 4\n\n")


def test_first_player_waits_after_undo_to_the_start() -> None:
    # Commands that show something, or a second undo, do not let it move, so that redo works. An empty line does.
    game, text = run_game(["undo", "moves", "level", "undo", "redo"], first=random_player())
    assert "(no moves yet)" in text
    assert text.count("random plays") == len(game.session.moves) == 1
    assert run_game(["undo", ""], first=random_player())[1].count("random plays") == 2


def test_hint_and_analysis_name_the_side_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.play.terminal.SOLVER_TIMEOUT_S", 60.0)  # a busy machine may still compile the solver
    _, text = run_game(["hint", "analysis"], "112233")
    assert "would play 4" in text
    assert "exact: x wins in 1 move with 4" in text
    assert "gives x 100 %: wins 100 %" in text
    assert "4 completes a row.\n" in text
    _, text = run_game(["analysis"], "7112233")
    assert "gives o" in text
    assert ": wins 0 %" not in text


def test_hint_is_exact_only_if_the_solver_is_quick() -> None:
    _, text = run_game(["hint"], "43")  # in the opening book: only 6 and 7 win
    assert re.search(r"exact: x wins in \d+ moves with (6|7|6 or 7)\n", text)
    # With four stones, the book has the position's score but not those of its moves.
    for moves, result in {"4344": "draws", "4341": "wins in 15 moves", "1234": "loses in 19 moves"}.items():
        assert f"exact: x {result}\n" in run_game(["hint"], moves)[1]
    _, text = run_game(["hint"], "444444")
    assert "would play" in text
    assert "exact:" not in text


@pytest.mark.parametrize("command", ["hint", "analysis"])
def test_a_lost_position_shows_only_the_moves_that_hold_out_longest(command: str) -> None:
    moves = "4444452226671"  # o to move loses in 11 moves with 3, and sooner with any other move
    _, text = run_game([command], moves)
    assert "exact: every move loses; 3 holds out longest, for 11 moves\n" in text
    assert "would play" not in text
    assert "simulations" not in text


def test_a_proof_by_the_search_is_not_presented_as_the_fastest_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search may find a slower win first, so that its number of moves is an upper bound."""

    def too_slow(_position: Position, _on_poll: object) -> None:
        raise TimeIsUp

    monkeypatch.setattr("alphac4.play.terminal.exact", too_slow)
    _, text = run_game(["hint"], "445511")
    assert re.search(r"proven by the search: x wins within \d moves with [36]\n", text)
    _, text = run_game(["hint"], "4455116")
    assert "proven by the search: every move loses in 1 move\n" in text
    assert re.search(r"uct:200 would play \d \(0 %\)", text)
    assert "holds out longest" not in text


def test_the_analysis_explains_its_marks_and_appears_once_per_turn() -> None:
    """Against a player, the position after a person's move is answered immediately, and neither drawn nor analysed."""
    _, text = run_game(["analysis", "4", "4"], "44", second=random_player())
    assert text.count("* the search's choice") == 3  # on request, and before two moves of the person
    assert text.count("\n  1 2 3 4 5 6 7\n") == 3  # at the start, and after two answers


def test_solve_shows_exact_results_and_stops_on_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run_game(["solve"], "112233")[1]
    assert "4  wins in 1 move  *" in shown
    assert "  x to move, exact results" in shown
    assert "  o to move, exact results" in run_game(["solve"], "1122337")[1]
    assert [item.score for item in exact(Position.from_moves("112233")) if item.is_best] == [18]
    monkeypatch.setattr(screen, "exact", lambda _position, _pause: signal.raise_signal(signal.SIGINT))
    game, text = run_game(["solve", "4"], "71717")
    assert "The solver was stopped" in text
    assert game.session.moves == "717174"


def test_lazy_player_loads_in_the_background() -> None:
    begun = threading.Event()

    def make() -> RandomPlayer:
        begun.set()
        return random_player()

    late = LazyPlayer("the network", make, background=True)
    assert begun.wait(60)
    assert late.choose([Position.from_moves("1" * 6)])[0] in range(1, 7)
    assert late.name == "random"

    def fail() -> RandomPlayer:
        raise ValueError("a damaged file")

    with pytest.raises(ValueError, match="a damaged file"):
        LazyPlayer("the network", fail, background=True).choose([Position()])


def test_level_command_changes_the_opponent() -> None:
    game, text = run_game(["level 2", "level", "level beginner"])
    assert [line.split()[1] for line in text.splitlines() if "<- now" in line] == ["novice"]
    assert [player and player.name for player in game.players] == [None, "beginner (level 1)"]


def test_level_command_accepts_any_player_and_suggests_one(run_command: Callable[..., str]) -> None:
    output = run_command("play human", given="level bst\nlevel mastr\nlevel negamax:2\n")
    assert "'bst' (is it best?)" in output
    assert "'mastr' (is it master?)" in output
    assert "now playing against negamax:2" in output


def test_only_the_perfect_level_plays_on_boards_without_a_network(run_command: Callable[..., str]) -> None:
    output = run_command("play random --rows 4 --columns 5", given="level 6\n3\nlevel 8\nlevel\n3\n")
    assert "not on 4 x 5 with runs of 4" in output
    assert "random plays" in output  # the game continued
    assert "8 perfect" in next(line for line in output.splitlines() if "<- now" in line)
    assert "perfect (level 8) plays" in output


def test_levels_from_club_up_take_immediate_wins() -> None:
    position = Position.from_moves("112233")
    for number, level in enumerate(LEVELS, start=1):
        column = fast_level(level).choose([position])[0]
        assert column in position.legal_columns()
        assert number < 4 or column == 3, level.name


def test_master_plays_proven_moves_and_otherwise_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = Mock(player=lambda make: Mock(choose=lambda positions: [6, *make().choose(positions[1:])]))
    monkeypatch.setattr("alphac4.play.opponents.load_proofs", lambda _board: proofs)
    proven = fast_level(find_level("master"))
    monkeypatch.setattr("alphac4.play.opponents.load_proofs", lambda _board: None)
    searching = fast_level(find_level("master"))
    wins = Position.from_moves("112233")
    assert proven.choose([Position(), wins]) == [6, 3]
    assert searching.choose([wins, Position()]) == [3, 3]
    assert proven.name == searching.name == "master (level 7)"


def test_a_proven_result_is_shown_if_the_solver_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A win that an earlier position has proven does not come later."""
    results = {
        "4524": ProvenResult(first=True, plies=37, column=3),
        "452441": ProvenResult(first=True, plies=39, column=2),
        "3": ProvenResult(first=False, plies=None, column=2),
    }
    proofs = Mock(proven_result=lambda position: results.get(position.moves))
    monkeypatch.setattr("alphac4.play.terminal.cached_proofs", lambda _board: proofs)
    monkeypatch.setattr("alphac4.play.terminal.exact", Mock(side_effect=TimeIsUp))
    _, text = run_game(["hint", "4", "hint", "1", "hint", "load 3", "hint"], "4524")
    assert re.findall(r"proven: (.*)", text) == [
        "x wins within 19 moves with 4",
        "x wins within 18 moves",
        "x wins within 18 moves; 3 wins too",
        "o does not lose with 3",
    ]


def test_games_are_saved_and_loaded_without_overwriting_other_files(
    tmp_path: Path, error_line: Callable[..., str]
) -> None:
    path = tmp_path / "game.txt"
    for moves in ("4455", "44"):
        run_game([f"save {path}"], moves)
        assert path.read_text() == f"{moves}\n"
    assert run_game([f"load {path}", "3"])[0].session.moves == "443"
    missing = tmp_path / "none" / "game.txt"
    assert f"there is no folder {missing.parent}" in run_game([f"save {missing}"], "44")[1]
    assert not missing.parent.exists()
    for content, message in (
        (b"to be kept\n", "is neither"),
        (b"\xcd", "not UTF-8 text"),
        (b"", "contains no game"),
        (b"# a", "contains no game"),
        (b"4\n5", "2 games"),
    ):
        path.write_bytes(content)
        if content:
            assert "exists and is not a game" in run_game([f"save {path}"], "4455")[1]
        error = error_line("play --moves", path)
        assert str(path) in error
        assert message in error
        assert path.read_bytes() == content
    for text in ("# final\n4455\n", "4455 # brilliant\n", "# final\n4455 # brilliant\n"):
        path.write_text(text)
        assert "contains comments" in run_game([f"save {path}"], "4")[1]
        assert path.read_text() == text


def test_session_keeps_its_game_after_an_illegal_move() -> None:
    session = Session("444444")
    with pytest.raises(IllegalMove):
        session.play(3)
    with pytest.raises(IllegalMove):
        session.load("48")
    assert session.moves == "444444"
    assert (session.undo(2), session.redo(1)) == (2, 1)
    session.play(0)  # discards the undone moves
    assert (session.moves, session.redo(), session.undo(99)) == ("444441", 0, 6)
    session.load("1234")
    assert (session.undo(), session.undo(), session.redo(2)) == (1, 1, 2)
    assert session.moves == "1234"


def test_analysis_reuses_its_tree_keeps_its_time_limit_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    analyst = Analyst.named("uct:3000")
    first = analyst.analyze(Position())
    second = analyst.analyze(Position().play(first.move), Budget(simulations=10))
    assert sum(item.visits for item in second.columns.values()) > 100
    stop = threading.Event()
    reports = []

    def watch(analysis: object) -> None:
        reports.append(analysis)
        stop.set()

    analysis = analyst.analyze(Position.from_moves("3"), Budget(simulations=16_000_000), stop=stop, on_progress=watch)
    assert not analysis.finished
    assert len(reports) == 1
    # No slice takes longer than the remaining time, however fast the last slice was.
    budgets: list[Budget] = []
    search = analyst._player.search
    monkeypatch.setattr(analyst._player, "search", lambda p, budget: budgets.append(budget) or search(p, budget))
    analyst.analyze(Position(), Budget(seconds=0.05))
    assert all(budget.seconds is not None and budget.seconds <= 0.05 for budget in budgets)


def test_analysis_shows_the_findings_of_the_search() -> None:
    findings: dict[str, Any] = {
        "visits": [10, 20, 30, 40, 0, 0, 0],
        "values": [-0.5, 0.0, 0.25, 0.125, np.nan, np.nan, np.nan],
        "priors": [0.07, 0.13, 0.2, 0.6, 0.0, 0.0, 0.0],
        "scores": [0.0] * 7,
        "proofs": [UNPROVEN] * 7,
        "wdl": [0.5, 0.25, 0.25],
        "moves": 2,  # not the most visited one
        "value": 0.25,
        "simulations": 70,
    }
    arrays = {name: np.array([value]) for name, value in findings.items()}
    output = io.StringIO()
    found = SearchResults(**arrays, seconds=2.0, variations=[[2, 3]])
    Screen(output).analysis(SearchResult.of_result(Position(), "someone", found))
    lines = output.getvalue().splitlines()
    assert [line.split() for line in lines if "#" in line] == [
        ["1", "##", "10", "%", "25", "%", "7", "%"],
        ["2", "####", "20", "%", "50", "%", "13", "%"],
        ["3", "*", "######", "30", "%", "63", "%", "20", "%"],
        ["4", "########", "40", "%", "56", "%", "60", "%"],
    ]
    for line in (
        "  someone gives x 63 %: wins 50 %, draws 25 %, loses 25 %",
        "  expected moves 3 4",
        "  70 simulations in 2.0 s",
    ):
        assert line in lines


def test_time_of_an_analysis_is_that_of_all_slices() -> None:
    assert Analyst.named("uct:200").analyze(Position(), Budget(seconds=0.3)).seconds >= 0.3


def test_the_length_of_slices_does_not_change_an_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seconds in (100.0, 0.0001):
        monkeypatch.setattr("alphac4.play.analysis.SLICE_SECONDS", seconds)
        search = NetworkSearch(UniformEvaluator(), reuse="trees")
        player = NetworkPlayer("uniform", search, Budget(simulations=500))
        reports: list[SearchResult] = []
        found.append(Analyst(player).analyze(Position.from_moves("44"), on_progress=reports.append).columns)
        assert bool(reports) == (seconds < 1)
    assert found[0] == found[1]


def test_warm_up_evaluates_batches_of_every_size_and_leaves_no_tree() -> None:
    sizes = list[int]()

    class Recording(UniformEvaluator):
        def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
            sizes.append(len(planes))
            return super().evaluate(planes)

    evaluator = Recording()
    search = NetworkSearch(evaluator, reuse="trees", cache=2**10, prefetch=16)
    analyst = Analyst(NetworkPlayer("uniform", search, Budget(simulations=50)))
    analyst.warm_up()
    assert set(sizes) >= {1, 16}
    assert len(set(sizes)) > 8
    sizes.clear()
    analyst.warm_up()
    assert not sizes
    assert sum(item.visits for item in analyst.analyze(Position()).columns.values()) == 50


@pytest.mark.parametrize(("encoding", "stone"), [("ascii", "\033[91mX"), ("utf-8", "\033[91m●")])
def test_board_shows_letters_on_a_terminal_without_unicode(
    encoding: str, stone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    Screen(terminal).board(Position.from_moves("4"))
    terminal.seek(0)
    assert stone in terminal.read().replace(BOLD, "").replace(UNDERLINE, "")


class ReturnsNan:
    name = "scripted"

    def choose(self, positions: Sequence[Position]) -> list[float]:
        return [np.nan] * len(positions)


def test_an_invalid_move_ends_the_game_with_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("4\n"))
    assert main(["play", "human", f"{__name__}:ReturnsNan"]) == 2
    output = capsys.readouterr()
    assert output.out.endswith("The game so far: 4\n")
    assert output.err == "alphac4 play: player scripted returned NaN for a column\n"


def test_long_lines_break_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "short\nlearning in bf16 and self-play by openvino-int8 restart\n\033[91m" + "x" * 40 + "\033[0m"
    assert wrap_text(text, io.StringIO()) == text
    short, *long, coloured = wrap_text(text, Terminal()).split("\n")
    assert (short, coloured) == ("short", text.split("\n")[2])  # colours take no space
    assert [line.strip() for line in long] == ["learning in bf16 and self-play by", "openvino-int8 restart"]


@pytest.mark.slow
def test_play_command_plays_a_game_on_a_terminal() -> None:
    pty = pytest.importorskip("pty", reason="needs a system with terminals that a program can open")
    master, slave = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "alphac4", "play", "human"]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    os.write(master, b"1\n1\n2\n2\n3\n3\n4\nquit\n")
    shown = b""
    try:
        while part := os.read(master, 4096):
            shown += part
    except OSError:  # the end of a terminal
        pass
    assert process.wait(60) == 0
    os.close(master)
    text = shown.decode()
    assert text.index("loading") < text.index("red: you")
    for expected in ("\033[91m", "red: you", "yellow to move", "red wins.", "1122334"):
        assert expected in re.sub("\033\\[0?m", "", text), expected

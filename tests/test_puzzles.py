import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_play import reader

from alphac4.arena.players import Player, RandomPlayer
from alphac4.cli import main
from alphac4.game import Position
from alphac4.play.puzzle_game import PuzzleGame
from alphac4.play.screen import Screen
from alphac4.puzzles import Puzzle, packaged_puzzles
from alphac4.puzzles.generation import PuzzleConditions, generate_puzzles
from alphac4.puzzles.puzzle import PuzzleError, format_puzzles, load_puzzles, parse_puzzles
from alphac4.solver import moves_to_end
from alphac4.solver.solver import shared_solver
from alphac4.solver.verdict import exact


def test_every_packaged_puzzle_has_exactly_one_winning_move() -> None:
    """By the solver, which also confirms how far the win is."""
    solver = shared_solver()
    for puzzle in packaged_puzzles():
        position = puzzle.position
        outcomes = solver.analyze_outcome(position)
        assert [c for c, outcome in enumerate(outcomes) if outcome == 1] == [puzzle.solution], puzzle
        distance = moves_to_end(position.geometry, position.plies, solver.solve(position))
        assert distance == puzzle.distance >= 2, puzzle


def test_no_two_packaged_puzzles_are_alike() -> None:
    """Mirror images included: compared board by board, not by the key that the generator uses."""
    boards = set()
    for puzzle in packaged_puzzles():
        grid = puzzle.position.grid()
        boards.add(min(grid.tobytes(), grid[:, ::-1].tobytes()))
    assert len(boards) == len(packaged_puzzles())


def test_there_are_puzzles_of_every_difficulty() -> None:
    """Some 500 in all."""
    counts = Counter(puzzle.difficulty for puzzle in packaged_puzzles())
    assert len(packaged_puzzles()) >= 450
    assert min(counts[difficulty] for difficulty in range(1, 6)) >= 20


def test_the_move_is_neither_a_win_at_once_nor_a_block() -> None:
    """Nobody has three in a row with an open end that can be reached."""
    for puzzle in packaged_puzzles()[::7]:
        for column in puzzle.position.legal_columns():
            assert puzzle.position.play(column).outcome() is None, puzzle
        passed = Position(puzzle.position.opponent, puzzle.position.occupied)
        for column in passed.legal_columns():
            assert passed.play(column).outcome() is None, puzzle


def random_player(_name: str, rng: np.random.Generator) -> Player:
    """In place of each network: quick, and it errs."""
    return RandomPlayer(np.random.default_rng(rng.integers(2**31)))


def test_a_seed_fixes_the_puzzles_and_the_solver_confirms_them() -> None:
    """With players that guess, whatever the network would do."""
    conditions = PuzzleConditions(least_plies=22, most_plies=30, most_distance=6)
    first, again = (next(generate_puzzles(5, conditions, make_player=random_player)) for _ in range(2))
    assert first == again
    assert first
    assert first != next(generate_puzzles(6, conditions, make_player=random_player))
    for puzzle in first:
        outcomes = shared_solver().analyze_outcome(puzzle.position)
        assert [c for c, outcome in enumerate(outcomes) if outcome == 1] == [puzzle.solution]
        assert 22 <= len(puzzle.moves) <= 30
        assert 2 <= puzzle.distance <= 6


def test_puzzles_are_written_and_read_again(tmp_path: Path) -> None:
    """As the same puzzles."""
    some = packaged_puzzles()[:5]
    path = tmp_path / "puzzles.txt"
    path.write_text(format_puzzles(some))
    assert load_puzzles(path) == some


@pytest.mark.parametrize(
    "line", ["44", "44 9 3 1", "444444 4 3 1", "49 1 3 1", "44 1 x 1", "44 1 3 6", "44 1 3 1 1", "1122334 1 2 1"]
)
def test_a_line_that_is_no_puzzle_is_refused(line: str) -> None:
    """By its number."""
    with pytest.raises(PuzzleError, match="here, line 2"):
        parse_puzzles(["# comment", line], "here")


PUZZLE = packaged_puzzles()[0]


def solve(lines: list[str], puzzles: list[Puzzle], seed: int = 0) -> tuple[PuzzleGame, str]:
    """A terminal's puzzles fed with these lines, and what was written."""
    output = io.StringIO()
    game = PuzzleGame(puzzles, Screen(output), reader(lines), np.random.default_rng(seed))
    game.run()
    return game, output.getvalue()


def test_a_puzzle_is_solved_in_the_terminal() -> None:
    """Wrong moves are told what they do, and end the streak."""
    right = str(PUZZLE.solution + 1)
    wrong = next(str(c + 1) for c in PUZZLE.position.legal_columns() if c != PUZZLE.solution)
    game, text = solve([right], [PUZZLE])
    assert (game.solved, game.streak) == (1, 1)
    assert f"Right: {right} wins in {PUZZLE.distance} moves" in text
    game, text = solve([wrong, right, right], [PUZZLE, PUZZLE])
    assert (game.solved, game.streak) == (2, 1)
    assert "draws" in text or "loses" in text


@pytest.mark.parametrize("answer", [str(PUZZLE.solution + 1), "solution"])
def test_a_puzzle_ends_with_best_play(answer: str) -> None:
    """The move and what follows it, each keeping the exact score for the side that makes it."""
    _, text = solve([answer], [PUZZLE])
    line = next(line for line in text.splitlines() if line.startswith("For example "))
    names = line.removeprefix("For example ").rstrip(".").split()
    assert names[0] == str(PUZZLE.solution + 1)
    assert len(names) == min(9, 2 * PUZZLE.distance - 1)
    solver = shared_solver(PUZZLE.position.geometry)
    position, score = PUZZLE.position, solver.solve(PUZZLE.position)
    for name in names:
        position, score = position.play(int(name) - 1), -score
        assert position.outcome() is not None or solver.solve(position) == score


def test_a_full_column_is_called_full() -> None:
    """And the attempt does not count."""
    puzzle = next(p for p in packaged_puzzles() if len(p.position.legal_columns()) < 7)
    full = next(str(c + 1) for c in range(7) if c not in puzzle.position.legal_columns())
    game, text = solve([full, str(puzzle.solution + 1)], [puzzle])
    assert f"column {full} is full" in text
    assert game.streak == 1


def test_hints_rule_moves_out_but_never_the_solution() -> None:
    """Until two are left; the puzzle then does not count for the streak."""
    game, text = solve(["hint", "hint", "hint", "hint", str(PUZZLE.solution + 1)], [PUZZLE])
    hints = [
        line.removeprefix("It is one of ").rstrip(".").split(", ") for line in text.splitlines() if "one of" in line
    ]
    assert all(str(PUZZLE.solution + 1) in hint for hint in hints)
    assert len(hints[-1]) == 2
    assert (game.solved, game.streak) == (1, 0)


def test_the_moves_that_hints_leave_do_not_tell_the_solution() -> None:
    """Which wrong move stays to the end is chance: any of them."""
    left = set()
    for seed in range(60):
        _, text = solve(["hint"] * 4, [PUZZLE], seed)
        left |= set(text.split("It is one of ")[-1].split(".")[0].split(", "))
    assert left == {str(c + 1) for c in PUZZLE.position.legal_columns()}


def test_a_hint_names_no_move_that_was_tried() -> None:
    """It was told to be wrong."""
    wrong = max(c for c in PUZZLE.position.legal_columns() if c != PUZZLE.solution)
    for seed in range(9):
        _, text = solve([str(wrong + 1), "hint"], [PUZZLE], seed)
        assert str(wrong + 1) not in text.split("It is one of ")[1].split(".")[0]


def test_there_are_no_hints_without_end() -> None:
    """Once two moves are left, it is told that a hint can say no more."""
    _, text = solve(["hint"] * 5, [PUZZLE])
    assert len(text.split("It is one of ")[-1].split(".")[0].split(", ")) == 2
    assert text.split("It is one of ")[-1].count("There are no more hints") == 5 - text.count("It is one of ")


def test_a_mirror_image_is_the_same_puzzle() -> None:
    """The solver finds its only win in the mirrored column."""
    for puzzle in packaged_puzzles()[::50]:
        assert puzzle.mirrored.key == puzzle.key
        winning = [item.column for item in exact(puzzle.mirrored.position) if item.score > 0]
        assert winning == [puzzle.mirrored.solution] == [6 - puzzle.solution]
        assert puzzle.mirrored.mirrored == puzzle


def test_the_streak_is_told_as_it_grows_and_when_it_ends() -> None:
    """Not only after the last puzzle."""
    right = str(PUZZLE.solution + 1)
    _, text = solve([right, right, right, "hint", right, right], [PUZZLE] * 5)
    told = re.findall(r".*streak.*", text)
    expected = [
        "The streak is 2.",
        "The streak is 3.",
        "That ends the streak of 3.",
        "5 solved this time; the streak is 1.",
    ]
    assert told == expected


def test_solved_puzzles_come_last_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is lost where they cannot be remembered."""
    monkeypatch.setenv("ALPHAC4_STATE", str(tmp_path / "state"))
    command = ["play", "--puzzle", "--difficulty", "1", "--seed", "1"]
    known = [shown for puzzle in packaged_puzzles() for shown in (puzzle, puzzle.mirrored)]

    def first_puzzle(answer: Callable[[Puzzle], str]) -> tuple[str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert main(command) == 0
        moves = re.findall(r"position (\d+)", capsys.readouterr().out)[0]
        puzzle = next(puzzle for puzzle in known if puzzle.moves == moves)
        monkeypatch.setattr("sys.stdin", io.StringIO(answer(puzzle) + "\n"))
        assert main(command) == 0
        return moves, capsys.readouterr().out

    def right(puzzle: Puzzle) -> str:
        return str(puzzle.solution + 1)

    one, told = first_puzzle(right)
    assert "are solved" not in told
    two, told = first_puzzle(lambda _: "solution")
    assert "1 of 150 are solved" in told
    three, told = first_puzzle(right)
    assert one != two == three
    monkeypatch.setattr("sys.stdin", io.StringIO("skip\n" * 150))
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "2 of 150 are solved" in told
    last = {puzzle.key for puzzle in known if puzzle.moves in re.findall(r"position (\d+)", told)[-2:]}
    assert last == {puzzle.key for puzzle in known if puzzle.moves in (one, two)}
    (tmp_path / "file").touch()
    monkeypatch.setenv("ALPHAC4_STATE", str(tmp_path / "file" / "below"))
    _, told = first_puzzle(right)
    assert "Right: " in told


def test_other_words_are_told_and_puzzles_can_be_skipped() -> None:
    """And the end of the input ends them."""
    _, text = solve(["dance", "help", "skip", "solution"], [PUZZLE, PUZZLE])
    assert "'dance' is no column" in text
    assert "another puzzle" in text
    assert f"{PUZZLE.solution + 1} wins in" in text
    assert "0 solved" in text


def test_the_commands_play_and_make_puzzles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`alphac4 play --puzzle` sets those of a difficulty; `alphac4 puzzles` writes a file of as many as asked for."""
    monkeypatch.setattr("sys.stdin", io.StringIO("skip\n"))
    assert main(["play", "--puzzle", "--difficulty", "3", "--seed", "1"]) == 0
    assert "Difficulty ***.." in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("skip\n" * len(packaged_puzzles())))
    assert main(["play", "--puzzle", "--seed", "1"]) == 0
    told = re.findall(r"to move and win in (\d) moves: .* Difficulty (\*+)", capsys.readouterr().out)
    assert len(told) == len(packaged_puzzles())
    assert told == sorted(told, key=lambda item: (len(item[1]), item[0]))

    def make(name: str, *, rng: np.random.Generator, batch_size: int) -> Player:
        assert batch_size > 1
        return random_player(name, rng)

    monkeypatch.setattr("alphac4.puzzles.generation.parse_player", make)
    path = tmp_path / "made.txt"
    assert main(["puzzles", "--output", str(path), "--count", "3", "--least-plies", "24"]) == 0
    assert len(load_puzzles(path)) == 3
    monkeypatch.setattr("sys.stdin", io.StringIO("skip\n" * 3))
    capsys.readouterr()
    assert main(["play", "--puzzle", "--puzzle-file", str(path)]) == 0
    assert len(re.findall(r"to move and win in", capsys.readouterr().out)) == 3


def test_puzzles_that_are_there_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A first round of games would leave a few of them."""
    path = tmp_path / "puzzles.txt"
    path.write_text(format_puzzles([PUZZLE] * 9))
    before = path.read_bytes()
    assert main(["puzzles", "--output", str(path), "--count", "1"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert main(["play", "--puzzle", "--puzzle-file", str(path), "--difficulty", str(PUZZLE.difficulty % 5 + 1)]) == 2
    assert "there is no puzzle of difficulty" in capsys.readouterr().err
    assert main(["play", "--puzzle-file", str(path)]) == 2
    assert "--puzzle-file needs --puzzle" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["play", "--puzzle", "--difficulty", "6"], "--difficulty must be at most 5"),
        (["puzzles", "--count", "0"], "--count must be at least 1"),
        (["puzzles", "--most-distance", "1"], "--most-distance must be at least 2"),
        (["puzzles", "--output", "."], "is a folder"),
        (["puzzles", "--least-plies", "30", "--most-plies", "20"], "at least 30 and at most 20 stones"),
        (["puzzles", "--least-plies", "0", "--most-plies", "0"], "--most-plies must be at least 1"),
    ],
)
def test_bad_options_end_with_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1

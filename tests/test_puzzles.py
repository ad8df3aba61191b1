import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import reader

from alphac4.arena.players import Player, RandomPlayer
from alphac4.arena.registry import parse_player
from alphac4.game import Position
from alphac4.game.position import mirror_moves
from alphac4.play.puzzle_game import PuzzleGame
from alphac4.play.screen import Screen
from alphac4.puzzles import Puzzle, format_puzzles, load_puzzles, packaged_puzzles, parse_puzzles
from alphac4.puzzles.generation import (
    MAX_DISTANCE,
    MAX_PLIES,
    MIN_PLIES,
    generate_puzzles,
    grade_puzzles,
    only_winning_column,
)
from alphac4.solver import moves_to_end
from alphac4.solver.solver import shared_solver
from alphac4.storage.files import FileError

PUZZLES = packaged_puzzles()
PUZZLE = PUZZLES[0]
RIGHT = str(PUZZLE.solution + 1)
WRONG = [str(column + 1) for column in PUZZLE.position.legal_columns() if column != PUZZLE.solution]


def both(puzzle: Puzzle) -> set[str]:
    """Return the moves of a puzzle and of its mirror image."""
    return {puzzle.moves, puzzle.mirrored.moves}


def winning_moves(puzzle: Puzzle) -> list[int]:
    return [c for c, outcome in enumerate(shared_solver().analyze(puzzle.position, weak=True)) if outcome == 1]


def test_every_packaged_puzzle_has_exactly_one_winning_move() -> None:
    for puzzle in PUZZLES:
        assert winning_moves(puzzle) == [puzzle.solution], puzzle
        score = shared_solver().solve(puzzle.position)
        assert moves_to_end(puzzle.position.geometry, puzzle.position.plies, score) == puzzle.distance >= 2, puzzle


def test_packaged_puzzles_cover_every_difficulty_without_duplicates() -> None:
    counts = Counter(puzzle.difficulty for puzzle in PUZZLES)
    assert len(PUZZLES) >= 450
    assert min(counts[difficulty] for difficulty in range(1, 6)) >= 20
    grids = [puzzle.position.grid() for puzzle in PUZZLES]  # independent of the generator's keys
    assert len({min(grid.tobytes(), grid[:, ::-1].tobytes()) for grid in grids}) == len(PUZZLES)


def test_packaged_puzzles_are_graded_by_the_shipped_networks() -> None:
    """Some differ on other processors, which round differently."""
    puzzles = PUZZLES[::5]
    positions, solutions = [puzzle.position for puzzle in puzzles], np.array([puzzle.solution for puzzle in puzzles])

    def misses(name: str) -> np.ndarray:
        player = parse_player(name, rng=np.random.default_rng(0), batch_size=len(puzzles))
        return np.array(player.choose(positions)) != solutions

    graders = ["quick@2", "quick@8", "quick@32", "quick@128"]  # also in docs/review.md
    grades = np.max([np.where(misses(name), grade, 1) for grade, name in enumerate(graders, start=2)], axis=0)
    assert (grades == [puzzle.difficulty for puzzle in puzzles]).mean() > 0.9
    assert (misses("quick@0") | misses("best@0")).mean() > 0.97


def test_solutions_are_neither_immediate_wins_nor_blocks() -> None:
    for puzzle in PUZZLES[::7]:
        for position in (puzzle.position, Position(puzzle.position.opponent, puzzle.position.occupied, moves=None)):
            for column in position.legal_columns():
                assert position.play(column).outcome() is None, puzzle


def test_mirror_image_has_the_mirrored_solution() -> None:
    for puzzle in PUZZLES[::50]:
        assert both(puzzle.mirrored) == both(puzzle)
        assert winning_moves(puzzle.mirrored) == [puzzle.mirrored.solution] == [6 - puzzle.solution]
        assert puzzle.mirrored.mirrored == puzzle


@pytest.fixture
def random_players(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all networks by random players, which are fast and make mistakes."""

    def make(_name: str, *, rng: np.random.Generator, batch_size: int) -> Player:  # noqa: ARG001
        return RandomPlayer(np.random.default_rng(rng.integers(2**31)))

    monkeypatch.setattr("alphac4.puzzles.generation.parse_player", make)


@pytest.mark.usefixtures("random_players")
def test_generated_puzzles_depend_on_the_seed_and_have_one_winning_move() -> None:
    first, again, other = (next(generate_puzzles(np.random.default_rng(seed))) for seed in (5, 5, 6))
    assert first == again != other
    assert first
    for puzzle in first:
        assert winning_moves(puzzle) == [puzzle.solution]
        assert MIN_PLIES <= len(puzzle.moves) <= MAX_PLIES
        assert 2 <= puzzle.distance <= MAX_DISTANCE


class MirroredDraws:
    """Random columns of consecutive games that mirror each other."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.pending: int | None = None

    def choice(self, legal: list[int]) -> int:
        drawn = int(self.rng.choice(legal)) if self.pending is None else 6 - self.pending
        self.pending = drawn if self.pending is None else None
        return drawn


class ByMoves:
    """Player whose column depends on the position's moves; it plays the mirrored column in a mirrored game."""

    def __init__(self, name: str) -> None:
        self.name = name

    def choose(self, positions: Sequence[Position]) -> list[int]:
        return [self.column(position, position.moves or "") for position in positions]

    def column(self, position: Position, moves: str) -> int:
        if (image := mirror_moves(moves, 7)) < moves:
            return 6 - self.column(position.mirror(), image)
        legal = position.legal_columns()
        return legal[zlib.crc32(f"{self.name} {moves}".encode()) % len(legal)]


def test_a_position_and_its_mirror_image_become_one_puzzle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.puzzles.generation.parse_player", lambda name, **_options: ByMoves(name))
    rounds = generate_puzzles(MirroredDraws())  # type: ignore[arg-type]
    puzzles = [*next(rounds), *next(rounds), *next(rounds)]
    assert len(puzzles) > 2
    assert len({min(both(puzzle)) for puzzle in puzzles}) == len(puzzles)


def test_positions_with_an_immediate_threat_are_not_puzzles() -> None:
    """Only column 5 wins, but it also blocks a diagonal from 4 to 7, so that it is found without foresight."""
    position = Position.from_moves("641221414554273643")
    assert [c for c, outcome in enumerate(shared_solver().analyze(position, weak=True)) if outcome == 1] == [4]
    assert only_winning_column(position) is None
    assert only_winning_column(PUZZLE.position) == PUZZLE.solution


def test_difficulty_is_the_number_of_the_last_player_that_misses_the_solution_plus_one() -> None:
    """A position is not a puzzle if all shallow players find the solution."""
    puzzles = PUZZLES[:4]

    def finds(*found: bool) -> Player:
        columns = [p.solution if f else (p.solution + 1) % 7 for p, f in zip(puzzles, found, strict=True)]
        return SimpleNamespace(name="scripted", choose=lambda _positions: columns)

    shallow = [finds(True, True, False, False), finds(True, False, True, False)]
    graders = [
        finds(False, True, False, True),
        finds(False, True, True, True),
        finds(False, True, False, True),
        finds(False, True, True, False),
    ]
    graded = list(grade_puzzles([(puzzle.position, puzzle.solution) for puzzle in puzzles], shallow, graders))
    expected = zip(puzzles[1:], (1, 4, 5), strict=True)
    assert graded == [replace(puzzle, difficulty=difficulty) for puzzle, difficulty in expected]


@pytest.mark.parametrize(
    "line", ["44", "44 9 3 1", "444444 4 3 1", "49 1 3 1", "44 1 x 1", "44 1 3 6", "1122334 1 2 1"]
)
def test_invalid_line_is_rejected(line: str) -> None:
    with pytest.raises(FileError, match="here, line 2"):
        parse_puzzles(["# comment", line], "here")


def solve(lines: list[str], puzzles: list[Puzzle], seed: int = 0) -> tuple[PuzzleGame, str]:
    """Play puzzles in a terminal with these input lines; return the game and its output."""
    output = io.StringIO()
    game = PuzzleGame(puzzles, Screen(output), reader(lines), np.random.default_rng(seed))
    game.run()
    return game, output.getvalue()


def test_terminal_puzzles_count_solved_ones_and_the_streak() -> None:
    lines = ["dance", "x" * 100_000, "3\0", WRONG[0], RIGHT, RIGHT, RIGHT, "hint", RIGHT, RIGHT]
    game, text = solve(lines, [PUZZLE] * 5)
    assert "'dance' is neither a column" in text
    assert "the input is not UTF-8 text" in text
    assert max(map(len, text.splitlines())) < 500
    assert f"Right: {RIGHT} wins in {PUZZLE.distance} moves" in text
    assert "Streak 2." in text
    assert (game.solved, game.streak) == (5, 1)  # the hint ended the streak
    puzzle = next(puzzle for puzzle in PUZZLES if len(puzzle.position.legal_columns()) < 7)
    full = next(str(c + 1) for c in range(7) if c not in puzzle.position.legal_columns())
    assert solve([full, str(puzzle.solution + 1)], [puzzle])[0].streak == 1  # a full column is not an attempt
    assert solve(["next", "solution"], [PUZZLE] * 2)[0].solved == 0


@pytest.mark.parametrize(("lines", "streak"), [([], 2), (["next"], 0), (["solution"], 0), ([WRONG[0], RIGHT], 0)])
def test_a_streak_ends_by_help_or_a_wrong_move(lines: list[str], streak: int) -> None:
    game, text = solve([RIGHT, RIGHT, *lines], [PUZZLE] * 3)
    assert game.streak == streak
    assert ("That ends the streak of 2." in text) == (streak == 0)


def test_terminal_puzzles_show_the_side_to_move_and_the_results_of_wrong_moves() -> None:
    seen = set()
    for puzzle in PUZZLES[::60]:
        side, outcomes = len(puzzle.moves) % 2, shared_solver().analyze(puzzle.position, weak=True)
        wrong = [column for column in puzzle.position.legal_columns() if column != puzzle.solution]
        text = solve([str(column + 1) for column in wrong], [puzzle])[1]
        assert f"\n{'xo'[side]} to move and win in {puzzle.distance} moves" in text
        for column in wrong:
            seen.add((side, outcomes[column]))
            assert (f"{column + 1} only draws." in text) == (outcomes[column] == 0)
            assert (f"No: {column + 1} loses in" in text) == (outcomes[column] == -1)
    assert seen == {(0, 0), (0, -1), (1, 0), (1, -1)}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"moves": "44", "solution": 0}, "its only winning move is said to be 1, but the solver finds 4"),
        (
            {"moves": "62743147561266", "solution": 3},
            "winning move is said to be 4, but the solver finds 2, 4",
        ),
        ({"moves": "4", "solution": 0}, "its only winning move is said to be 1, but the solver finds no move"),
        (
            {"distance": PUZZLE.distance + 1},
            f"won in {PUZZLE.distance + 1} moves, but the solver needs {PUZZLE.distance}",
        ),
    ],
)
def test_a_wrong_puzzle_of_a_file_is_skipped(change: dict[str, Any], fault: str) -> None:
    game, text = solve([RIGHT], [replace(PUZZLE, **change), PUZZLE])
    assert "Puzzle 1 of 2, position " in text
    assert re.search(rf"is skipped: .*{fault}\.", text)
    assert "Puzzle 2 of 2, difficulty" in text
    assert game.solved == 1


def hints(text: str) -> list[list[str]]:
    return [left.split(", ") for left in re.findall(r"It is one of (.*)\.", text)]


@pytest.mark.parametrize("answer", [RIGHT, "solution"])
def test_puzzle_ends_with_a_line_of_best_play(answer: str) -> None:
    _, text = solve([answer], [PUZZLE])
    (line,) = re.findall(r"^For example (.*)\.$", text, re.MULTILINE)
    names = line.split()
    assert names[0] == RIGHT
    assert len(names) == min(9, 2 * PUZZLE.distance - 1)
    solver = shared_solver(PUZZLE.position.geometry)
    position, score = PUZZLE.position, solver.solve(PUZZLE.position)
    for name in names:
        position, score = position.play(int(name) - 1), -score
        assert position.outcome() is not None or solver.solve(position) == score


def test_hints_never_rule_out_the_solution() -> None:
    game, text = solve(["hint"] * 5 + [RIGHT], [PUZZLE])
    assert all(RIGHT in left for left in hints(text))
    assert len(hints(text)[0]) == 1 + len(WRONG) // 2
    assert len(hints(text)[-1]) == 2
    assert text.count("There are no more hints") == 5 - len(hints(text))
    assert (game.solved, game.streak) == (1, 0)


def test_hints_leave_a_random_wrong_move_that_was_not_tried() -> None:
    left = {move for seed in range(60) for move in hints(solve(["hint"] * 4, [PUZZLE], seed)[1])[-1]}
    assert left == {RIGHT, *WRONG}
    for seed in range(9):
        assert WRONG[-1] not in hints(solve([WRONG[-1], "hint"], [PUZZLE], seed)[1])[0]


def test_solved_puzzles_come_last_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    monkeypatch.setenv("ALPHAC4_STATE", str(tmp_path / "state"))
    known = {shown.moves: shown for puzzle in PUZZLES for shown in (puzzle, puzzle.mirrored)}

    def play(lines: str = "") -> str:
        return run_command("play puzzles --seed 1 --difficulty 1", given=lines)

    def shown(lines: str = "") -> list[Puzzle]:
        return [known[moves] for moves in re.findall(r"position (\d+)", play(lines))]

    one = shown()[0]
    two = shown(f"{one.solution + 1}\n")[1]
    shown("solution\n")  # does not count as solved
    assert both(shown()[0]) == both(two) != both(one)
    easy = sum(puzzle.difficulty == 1 for puzzle in PUZZLES)
    assert f"You have solved 1 of {easy};" in play()
    assert both(shown("skip\n" * easy)[-1]) == both(one)
    (tmp_path / "file").touch()
    monkeypatch.setenv("ALPHAC4_STATE", str(tmp_path / "file" / "below"))  # cannot be written
    assert "Right: " in play(f"{one.solution + 1}\n")


@pytest.mark.usefixtures("random_players")
def test_commands_play_and_make_puzzles(tmp_path: Path, run_command: Callable[..., str]) -> None:
    shown = run_command("play puzzles --seed 1", given="skip\n" * len(PUZZLES))
    order = re.findall(r"difficulty (\*+).*\n.* to move and win in (\d) moves: ", shown)
    assert len(order) == len(PUZZLES)
    assert order == sorted(order, key=lambda item: (len(item[0]), item[1]))
    written = {puzzle.moves for puzzle in PUZZLES}
    mirrored = [moves for moves in re.findall(r"position (\d+)", shown) if moves not in written]
    assert 0.4 < len(mirrored) / len(PUZZLES) < 0.6
    path = tmp_path / "made.txt"
    run_command("puzzles --count 3 --output", path)
    made = load_puzzles(path)
    assert len(made) == 3
    assert path.read_text() == format_puzzles(made)
    assert run_command(f"play puzzles --seed 1 {path}", given="skip\n" * 3).count("to move and win in") == 3


def test_a_file_without_puzzles_of_the_difficulty_is_rejected(tmp_path: Path, error_line: Callable[..., str]) -> None:
    path, other = tmp_path / "puzzles.txt", PUZZLE.difficulty % 5 + 1
    path.write_text(format_puzzles([PUZZLE] * 9))
    assert "contains no puzzle of difficulty" in error_line(f"play puzzles {path} --difficulty {other}")

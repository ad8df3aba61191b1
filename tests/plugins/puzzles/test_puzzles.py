import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import load_script

from alphac4.arena.players import Player, RandomPlayer
from alphac4.arena.registry import parse_player
from alphac4.game import STANDARD, Position, make_board
from alphac4.game.position import mirror_moves
from alphac4.play.registry import find_panels
from alphac4.plugins.puzzles.packaged import PACKAGED, Puzzle, packaged_puzzles
from alphac4.solver import moves_to_end
from alphac4.solver.solver import shared_solver

PUZZLES = packaged_puzzles()
PUZZLE = PUZZLES[0]


def winning_moves(puzzle: Puzzle) -> list[int]:
    return [c for c, outcome in enumerate(shared_solver().analyze(puzzle.position, weak=True)) if outcome == 1]


def test_every_packaged_puzzle_has_exactly_one_winning_move() -> None:
    for puzzle in PUZZLES:
        assert winning_moves(puzzle) == [puzzle.solution], puzzle
        score = shared_solver().solve(puzzle.position)
        assert moves_to_end(puzzle.position.board, puzzle.position.plies, score) == puzzle.moves_to_win >= 2, puzzle


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


def test_only_pages_of_the_standard_board_have_puzzles() -> None:
    assert "puzzles" in {panel.name for panel in find_panels(STANDARD)}
    assert "puzzles" not in {panel.name for panel in find_panels(make_board(5, 5, 4))}


def test_solutions_are_neither_immediate_wins_nor_blocks() -> None:
    for puzzle in PUZZLES[::7]:
        for position in (puzzle.position, Position(puzzle.position.opponent, puzzle.position.occupied, moves=None)):
            for column in position.legal_columns():
                assert position.play(column).outcome() is None, puzzle


@pytest.fixture(scope="module")
def maker() -> Any:
    return load_script("puzzles")


@pytest.fixture
def random_players(maker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all networks by random players, which are fast and make mistakes."""

    def make(_name: str, *, rng: np.random.Generator, batch_size: int) -> Player:  # noqa: ARG001
        return RandomPlayer(np.random.default_rng(rng.integers(2**31)))

    monkeypatch.setattr(maker, "parse_player", make)


@pytest.mark.usefixtures("random_players")
def test_generated_puzzles_depend_on_the_seed_and_have_one_winning_move(maker: Any) -> None:
    first, again, other = (next(maker.generate_puzzles(np.random.default_rng(seed))) for seed in (5, 5, 6))
    assert first == again != other
    assert first
    for puzzle in first:
        assert winning_moves(puzzle) == [puzzle.solution]
        assert maker.MIN_PLIES <= len(puzzle.moves) <= maker.MAX_PLIES
        assert 2 <= puzzle.moves_to_win <= maker.MAX_DISTANCE


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


def test_a_position_and_its_mirror_image_become_one_puzzle(maker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "parse_player", lambda name, **_options: ByMoves(name))
    rounds = maker.generate_puzzles(MirroredDraws())  # type: ignore[arg-type]
    puzzles = [*next(rounds), *next(rounds), *next(rounds)]
    assert len(puzzles) > 2
    assert len({min(puzzle.moves, mirror_moves(puzzle.moves, 7)) for puzzle in puzzles}) == len(puzzles)


def test_positions_with_an_immediate_threat_are_not_puzzles(maker: Any) -> None:
    """Only column 5 wins, but it also blocks a diagonal from 4 to 7, so that it is found without foresight."""
    position = Position.from_moves("641221414554273643")
    assert [c for c, outcome in enumerate(shared_solver().analyze(position, weak=True)) if outcome == 1] == [4]
    assert maker.only_winning_column(position) is None
    assert maker.only_winning_column(PUZZLE.position) == PUZZLE.solution


def test_difficulty_is_the_number_of_the_last_player_that_misses_the_solution_plus_one(maker: Any) -> None:
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
    graded = list(maker.grade_puzzles([(puzzle.position, puzzle.solution) for puzzle in puzzles], shallow, graders))
    expected = zip(puzzles[1:], (1, 4, 5), strict=True)
    assert graded == [replace(puzzle, difficulty=difficulty) for puzzle, difficulty in expected]


@pytest.mark.usefixtures("random_players")
def test_script_makes_puzzles(maker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made.txt"
    monkeypatch.setattr("sys.argv", ["puzzles.py", "--count", "3", "--output", str(path)])
    maker.main()
    made = path.read_text()
    assert len(made.splitlines()) == 1 + 3
    assert maker.format_puzzles(PUZZLES) == PACKAGED.read_text()
    with pytest.raises(SystemExit, match="2"):  # the file exists
        maker.main()
    assert path.read_text() == made

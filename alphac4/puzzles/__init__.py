"""Puzzles, positions with a single winning move, and their text files.

A line holds the position as a move string, the winning column, the number of moves that the winner needs for the win,
this move included, and the difficulty. Comments follow "#".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES, column_name
from alphac4.game.rules import STANDARD
from alphac4.storage.files import FileError
from alphac4.storage.records import quote
from alphac4.storage.text import parse_lines, read_text_lines

HEADER = "# alphac4 puzzles 1: position, the only column that wins, moves until the win, difficulty from 1 to 5"
PACKAGED = "puzzles.txt"
DIFFICULTIES = range(1, 6)


@dataclass(frozen=True, kw_only=True)
class Puzzle:
    """A position on the standard board with exactly one winning move."""

    moves: str  # the position, as a move string
    solution: int  # 0-based column
    distance: int  # moves of the winner until the win, including the solution
    difficulty: int  # 1 to 5, by the search needed to find the solution; see `alphac4.puzzles.generation`

    @property
    def position(self) -> Position:
        """The position to solve."""
        return Position.from_moves(self.moves)


def format_puzzles(puzzles: Sequence[Puzzle]) -> str:
    """Return the content of a file of puzzles."""
    lines = [f"{p.moves} {column_name(p.solution)} {p.distance} {p.difficulty}" for p in puzzles]
    return "\n".join([HEADER, *lines]) + "\n"


def parse_puzzles(lines: Iterable[str], source: str) -> tuple[Puzzle, ...]:
    """Parse the lines of a file; solutions are only checked to be legal.

    Raises:
        FileError: for an invalid line, which the message names, or a file without puzzles.
    """
    puzzles = tuple(parse_lines(lines, source, _parse_puzzle))
    if not puzzles:
        raise FileError(f"{source} has no puzzles")
    return puzzles


def load_puzzles(path: Path) -> tuple[Puzzle, ...]:
    """Read a file of puzzles.

    Raises:
        FileError: for an invalid line, or a file without puzzles.
        OSError: if the file cannot be read.
    """
    return parse_puzzles(read_text_lines(path), str(path))


@cache
def packaged_puzzles() -> tuple[Puzzle, ...]:
    """Return the package's puzzles."""
    text = (resources.files("alphac4.puzzles") / PACKAGED).read_text(encoding="utf-8")
    return parse_puzzles(text.splitlines(), PACKAGED)


def _parse_puzzle(words: Sequence[str]) -> Puzzle:
    if len(words) != 4 or not all(word.isdecimal() and word.isascii() for word in words[2:]):
        raise ValueError("a puzzle has four words: position, column, distance, difficulty, such as 4453 4 5 2")
    moves, solution = words[0], COLUMN_NAMES.find(words[1])
    if len(words[1]) != 1 or solution not in Position.from_moves(moves).legal_columns():
        raise ValueError(f"{words[1]:.40} is not a legal move after {moves}")
    distance, difficulty = int(words[2]), int(words[3])
    if not 1 <= distance <= STANDARD.cells:
        raise ValueError(f"a distance must be from 1 to {STANDARD.cells}, not {quote(distance)}")
    if difficulty not in DIFFICULTIES:
        raise ValueError(f"a difficulty must be from 1 to {DIFFICULTIES[-1]}, not {difficulty}")
    return Puzzle(moves=moves, solution=solution, distance=distance, difficulty=difficulty)

"""The package's puzzles, positions with a single winning move, which `scripts/puzzles.py` makes.

A line of the file holds the position as a move string, the winning column, the number of moves that the winner needs
for the win, this move included, and the difficulty.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES

PACKAGED = Path(__file__).parent / "page" / "puzzles.txt"


@dataclass(frozen=True, kw_only=True)
class Puzzle:
    """A position on the standard board with exactly one winning move."""

    moves: str  # the position, as a move string
    solution: int  # 0-based column
    moves_to_win: int  # moves of the winner until the win, including the solution
    difficulty: int  # 1 to 5, by the search needed to find the solution

    @property
    def position(self) -> Position:
        return Position.from_moves(self.moves)


@cache
def packaged_puzzles() -> tuple[Puzzle, ...]:
    lines = PACKAGED.read_text(encoding="utf-8").splitlines()[1:]  # after a comment
    return tuple(
        Puzzle(moves=moves, solution=COLUMN_NAMES.index(column), moves_to_win=int(count), difficulty=int(difficulty))
        for moves, column, count, difficulty in map(str.split, lines)
    )

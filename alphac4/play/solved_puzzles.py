"""Which puzzles a person has solved in the terminal, kept between two starts in a file of move strings, one a line."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from alphac4.puzzles.puzzle import Puzzle
from alphac4.storage.files import append_line, read_lines
from alphac4.storage.folders import state_folder

FILE = "solved-puzzles.txt"


class SolvedPuzzles:
    """Those solved so far. Whatever goes wrong with the file, the puzzles can be played: it is never an error."""

    def __init__(self) -> None:
        self._moves: set[str] = set()
        with contextlib.suppress(OSError, RuntimeError):  # an unreadable folder, or no home
            self._moves.update(read_lines(_path()))

    def among(self, puzzles: Sequence[Puzzle]) -> int:
        """How many of these are solved."""
        return sum(self._has(puzzle) for puzzle in puzzles)

    def last(self, puzzles: Sequence[Puzzle]) -> list[Puzzle]:
        """The puzzles in the order given, but the solved ones after all others."""
        return sorted(puzzles, key=self._has)

    def _has(self, puzzle: Puzzle) -> bool:
        return not self._moves.isdisjoint((puzzle.moves, puzzle.mirrored.moves))

    def add(self, puzzle: Puzzle) -> None:
        """One more is solved, or its mirror image."""
        if not self._has(puzzle):
            self._moves.add(puzzle.moves)
            with contextlib.suppress(OSError, RuntimeError):  # an unwritable folder, or no home
                append_line(_path(), puzzle.moves)


def _path() -> Path:
    return state_folder() / FILE

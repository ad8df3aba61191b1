"""Puzzles in the terminal: positions where only one move wins."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES, column_name, count_of
from alphac4.machine import state_folder
from alphac4.play.screen import Screen
from alphac4.puzzles import DIFFICULTIES, Puzzle
from alphac4.solver.solver import ExactColumn, best_play, exact, shared_solver
from alphac4.storage.files import append_line, read_lines
from alphac4.storage.records import quote
from alphac4.storage.text import encoding_problem

HELP = """\
  1 to 7     play the winning move
  hint       rule out about half of the other moves; ends the streak
  solution   show the move and continue; ends the streak
  next       skip to the next puzzle; ends the streak
  quit       leave"""
SOLVED_FILE = "solved-puzzles.txt"
LINE_PLIES = 9  # plies of best play, shown after a puzzle


class PuzzleGame:
    """Puzzles in a terminal, one after another until the input ends.

    Args:
        puzzles: the puzzles in their order.
        screen: where to draw.
        read: reads a line after a prompt; raises EOFError at the end of the input.
        rng: chooses the moves that a hint rules out.
        on_solved: called with each solved puzzle, also after wrong moves and hints.
    """

    def __init__(
        self,
        puzzles: Iterable[Puzzle],
        screen: Screen,
        read: Callable[[str], str],
        rng: np.random.Generator,
        on_solved: Callable[[Puzzle], object] = lambda _puzzle: None,
    ) -> None:
        self.solved = 0
        self.streak = 0  # puzzles in a row solved without a wrong move or help
        self._puzzles = list(puzzles)
        self._screen = screen
        self._read = read
        self._rng = rng
        self._on_solved = on_solved

    def run(self) -> None:
        """Present puzzles until "quit" or the end of the input or of the puzzles."""
        for number, puzzle in enumerate(self._puzzles, start=1):
            if not self._present(puzzle, number):
                break
        self._screen.line(f"\n{self.solved} solved in this session; streak {self.streak}.")

    def _present(self, puzzle: Puzzle, number: int) -> bool:
        """Present one puzzle; return False to stop."""
        position = puzzle.position
        with self._screen.waiting("The solver judges the moves"):
            verdicts = {item.column: item for item in exact(position)}
        if wrong := _fault(puzzle, verdicts):
            self._screen.line(
                f"\nPuzzle {number} of {len(self._puzzles)}, position {puzzle.moves}, is skipped: {wrong}."
            )
            return True
        helped, ruled_out = False, set[int]()  # by a hint, or by a wrong move
        side = self._screen.side(0 if position.first_to_move else 1)
        self._screen.board(position)
        stars = "*" * puzzle.difficulty + "." * (DIFFICULTIES[-1] - puzzle.difficulty)
        self._screen.line(
            f"\nPuzzle {number} of {len(self._puzzles)}, difficulty {stars}, position {puzzle.moves}\n"
            f"{side} to move and win in {puzzle.distance} moves: only one move wins."
        )
        while True:
            try:
                text = self._read(f"{side} plays (hint, solution, next, quit): ").strip().lower()
            except EOFError:
                self._screen.line()
                return False
            if text in ("quit", "q", "exit"):
                return False
            column = COLUMN_NAMES.find(text) if len(text) == 1 else -1
            if column == puzzle.solution:
                self._end(f"Right: {text} {verdicts[column].text}.", position)
                self.solved += 1
                self.streak += not helped
                if self.streak > 1:
                    self._screen.line(f"Streak {self.streak}.")
                self._on_solved(puzzle)
                return True
            if text in ("next", "skip", "solution"):
                self._end_streak()
                if text == "solution":
                    self._end(f"{column_name(puzzle.solution)} {verdicts[puzzle.solution].text}.", position)
                return True
            if text == "hint" or column in verdicts:
                helped = True
                if text == "hint":
                    self._hint(puzzle, position, ruled_out)
                else:
                    ruled_out.add(column)
                    draws = verdicts[column].score == 0
                    self._screen.line(f"{text} only draws." if draws else f"No: {text} {verdicts[column].text}.")
                self._end_streak()
            elif text == "help":
                self._screen.line(HELP)
            elif 0 <= column < position.geometry.columns:
                self._screen.line(f"column {text} is full")
            elif text:
                unknown = f"{quote(text)} is neither a column nor a command; help lists the commands"
                self._screen.line(encoding_problem(text) or unknown)

    def _end_streak(self) -> None:
        if self.streak > 1:
            self._screen.line(f"That ends the streak of {self.streak}.")
        self.streak = 0

    def _end(self, text: str, position: Position) -> None:
        """Show the board after the win has been played out."""
        solve = shared_solver().solve
        line = list(islice(best_play(position, solve(position), solve), LINE_PLIES))
        for column in line:
            position = position.play(column)
        self._screen.board(position)
        self._screen.line(f"\n{text}")
        if len(line) > 1:
            self._screen.line(f"For example {' '.join(map(column_name, line))}.")

    def _hint(self, puzzle: Puzzle, position: Position, ruled_out: set[int]) -> None:
        """Rule out a random half of the remaining wrong moves, unless there is only one."""
        wrong = [c for c in position.legal_columns() if c != puzzle.solution and c not in ruled_out]
        if len(wrong) <= 1:
            self._screen.line("There are no more hints; solution shows the move.")
            return
        self._rng.shuffle(wrong)
        ruled_out.update(wrong[: (len(wrong) + 1) // 2])
        left = [c for c in position.legal_columns() if c not in ruled_out]
        self._screen.line(f"It is one of {', '.join(map(column_name, left))}.")


def _fault(puzzle: Puzzle, verdicts: Mapping[int, ExactColumn]) -> str:
    """Return what a puzzle, which may come from a file of the user, claims wrongly; "" for a correct one."""
    wins = [column for column, verdict in verdicts.items() if verdict.score > 0]
    if wins != [puzzle.solution]:
        names = ", ".join(map(column_name, wins)) or "no move"
        return f"its only winning move is said to be {column_name(puzzle.solution)}, but the solver finds {names}"
    moves = verdicts[puzzle.solution].moves
    if moves != puzzle.distance:
        return f"it is said to be won in {count_of(puzzle.distance, 'move')}, but the solver needs {moves}"
    return ""


class SolvedPuzzles:
    """Puzzles that the user has solved, stored in a file with one move string per line.

    Errors of the file are ignored, because puzzles work without it.
    """

    def __init__(self) -> None:
        self._moves: set[str] = set()
        with contextlib.suppress(OSError, RuntimeError):  # an unreadable folder, or no home folder
            self._moves.update(read_lines(_file()))

    def __contains__(self, puzzle: Puzzle) -> bool:
        return not self._moves.isdisjoint((puzzle.moves, puzzle.mirrored.moves))

    def add(self, puzzle: Puzzle) -> None:
        """Store a puzzle, which also counts for its mirror image."""
        if puzzle not in self:
            self._moves.add(puzzle.moves)
            with contextlib.suppress(OSError, RuntimeError):  # an unwritable folder, or no home folder
                append_line(_file(), puzzle.moves)


def _file() -> Path:
    return state_folder() / SOLVED_FILE

"""`alphac4 play puzzles`: positions where one move alone wins."""

import sys

import numpy as np

from alphac4.commands.options import PlayPuzzlesOptions
from alphac4.play.puzzle_game import PuzzleGame, SolvedPuzzles
from alphac4.play.screen import Screen
from alphac4.play.terminal import read_line
from alphac4.puzzles import load_puzzles, packaged_puzzles


def run(options: PlayPuzzlesOptions) -> int:
    """Set the package's puzzles, or those of a file.

    The easier ones come first, and of these the nearer wins; otherwise chance decides. Those solved at an earlier start
    come last. Half of them are mirrored: most of those in the file that are won beside the border are won at the left
    one.
    """
    known = packaged_puzzles() if options.file is None else load_puzzles(options.file)
    puzzles = [puzzle for puzzle in known if options.difficulty in (0, puzzle.difficulty)]
    if not puzzles:
        raise ValueError(f"{options.file}: there is no puzzle of difficulty {options.difficulty}")
    rng = np.random.default_rng(options.seed)
    order = rng.permutation(len(puzzles))
    ordered = sorted((puzzles[index] for index in order), key=lambda puzzle: (puzzle.difficulty, puzzle.distance))
    solved, screen = SolvedPuzzles(), Screen(sys.stdout)
    if count := sum(puzzle in solved for puzzle in ordered):
        screen.line(f"{count} of {len(ordered)} are solved; the others come first.\n")
    shown = [puzzle.mirrored if rng.random() < 0.5 else puzzle for puzzle in sorted(ordered, key=solved.__contains__)]
    PuzzleGame(shown, screen, read_line, rng, solved.add).run()
    return 0

"""`alphac4 puzzles`: makes puzzles."""

import sys
from collections import Counter

from tqdm import tqdm

from alphac4.commands.options import PuzzlesOptions
from alphac4.puzzles import Puzzle, format_puzzles
from alphac4.puzzles.generation import generate_puzzles
from alphac4.storage.files import write_atomically
from alphac4.storage.locks import own_file


def run(options: PuzzlesOptions) -> int:
    """Make puzzles until there are enough; in a new file, as each round of games replaces what is there."""
    with own_file(options.output):
        if options.output.is_file() and options.output.stat().st_size:
            raise ValueError(f"{options.output}: is there already; name another file with --output, or remove it")
        puzzles = _make(options)
    counts = Counter(puzzle.difficulty for puzzle in puzzles)
    shown = ", ".join(f"{counts[difficulty]} of difficulty {difficulty}" for difficulty in sorted(counts))
    print(f"{options.output} holds {len(puzzles)} puzzles: {shown}.", file=sys.stderr)
    return 0


def _make(options: PuzzlesOptions) -> list[Puzzle]:
    puzzles: list[Puzzle] = []
    maximum = options.max_of_a_difficulty or options.count
    with tqdm(total=options.count, desc="puzzles", unit="puzzle", disable=None, leave=False) as bar:
        for found in generate_puzzles(options.seed):
            for puzzle in found:
                same = sum(other.difficulty == puzzle.difficulty for other in puzzles)
                if same < maximum and len(puzzles) < options.count:
                    puzzles.append(puzzle)
            bar.update(len(puzzles) - bar.n)
            write_atomically(options.output, format_puzzles(puzzles).encode())
            if len(puzzles) >= options.count or (options.max_of_a_difficulty and len(puzzles) >= 5 * maximum):
                break
    return puzzles

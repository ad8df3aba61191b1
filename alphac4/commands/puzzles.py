"""`alphac4 puzzles`: makes puzzles, or shows some of those that come with the package."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from alphac4.commands.arguments import read_arguments
from alphac4.puzzles import Puzzle, format_puzzles
from alphac4.puzzles.generation import PuzzleConditions, generate_puzzles
from alphac4.storage.files import write_atomically
from alphac4.storage.locks import own_file
from alphac4.storage.records import MOST_SEED, check_ranges


@dataclass(frozen=True, kw_only=True)
class PuzzlesOptions:
    """Make puzzles: positions where one move alone wins, and where a network is tempted by another.

    Networks play games that are partly left to chance; the exact solver finds the positions with a single winning move;
    how much search it takes to find that move is the difficulty. `alphac4 play --puzzle --puzzle-file FILE` sets them.
    """

    output: Path = Path("puzzles.txt")
    """The file to write, a new one. It is written after every round of games, so that Ctrl-C leaves what has been
    found."""
    count: int = 500
    """How many puzzles to make."""
    max_of_a_difficulty: int = 0
    """How many puzzles may have the same difficulty; 0 for as many as are found."""
    seed: int = 0
    """Fixes the puzzles on one machine."""
    conditions: Annotated[PuzzleConditions, tyro.conf.arg(name="")] = field(default_factory=PuzzleConditions)
    """Which positions make a puzzle."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, 1_000_000), max_of_a_difficulty=(0, 1_000_000), seed=(0, MOST_SEED))


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(PuzzlesOptions, arguments, "puzzles"))


def run(options: PuzzlesOptions) -> int:
    """Make puzzles until there are enough.

    Raises:
        ValueError: if the output holds something already, which the first round of games would replace.
    """
    with own_file(options.output):
        if options.output.is_file() and options.output.stat().st_size:
            raise ValueError(f"{options.output}: is there already; name another file with --output, or remove it")
        puzzles = _make(options)
    counts = Counter(puzzle.difficulty for puzzle in puzzles)
    shown = ", ".join(f"{counts[difficulty]} of difficulty {difficulty}" for difficulty in sorted(counts))
    print(f"{options.output}: {len(puzzles)} puzzles, {shown}", file=sys.stderr)
    return 0


def _make(options: PuzzlesOptions) -> list[Puzzle]:
    puzzles: list[Puzzle] = []
    maximum = options.max_of_a_difficulty or options.count
    with tqdm(total=options.count, desc="puzzles", unit="puzzle", disable=None, leave=False) as bar:
        for found in generate_puzzles(options.seed, options.conditions):
            for puzzle in found:
                same = sum(other.difficulty == puzzle.difficulty for other in puzzles)
                if same < maximum and len(puzzles) < options.count:
                    puzzles.append(puzzle)
            bar.update(len(puzzles) - bar.n)
            write_atomically(options.output, format_puzzles(puzzles).encode())
            if len(puzzles) >= options.count or (options.max_of_a_difficulty and len(puzzles) >= 5 * maximum):
                break
    return puzzles

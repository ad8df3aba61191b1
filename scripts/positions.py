"""Make sets of positions with the exact score of every move: ``python scripts/positions.py mine --count 100``.

The name of a set is its stage and its difficulty. The stage is begin (up to 14 stones on the board), middle (up to 28)
or end. The difficulty is easy (best play adds up to 14 stones), medium (up to 28) or hard. Six combinations exist. A
begin-hard position takes seconds, the others far less. Rerun an interrupted command to resume.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from alphac4.evaluation.positions import PUBLIC_NAMES, SETS, SUFFIX, parse_position, parse_positions
from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.solver import Solver, moves_to_end
from alphac4.storage.files import append_line, write_atomically
from alphac4.storage.locks import lock_folder
from alphac4.storage.text import parse_lines, read_text_lines

# Maximum number of stones on the board by stage, and of stones that best play adds by difficulty.
STAGES = {"begin": 14, "middle": 28, "end": STANDARD.cells - 1}
DIFFICULTIES = {"easy": 14, "medium": 28, "hard": STANDARD.cells}


def stage_of(position: Position) -> str:
    """Return the stage of the game: "begin", "middle" or "end"."""
    return next(stage for stage, plies in STAGES.items() if position.plies <= plies)


def set_of(position: Position, score: int) -> str:
    """Return the name of the set that a position with this exact score belongs to, such as "middle-easy"."""
    plies = position.plies
    # Moves of the winner and those of the loser between them; a draw fills the board.
    stones = 2 * moves_to_end(STANDARD, plies, score) - (score > 0) if score else STANDARD.cells - plies
    return f"{stage_of(position)}-{next(name for name, most in DIFFICULTIES.items() if stones <= most)}"


def random_positions(stage: str, rng: np.random.Generator) -> Iterator[Position]:
    """Yield unfinished positions of a stage, without end, from random games of random length."""
    names = list(STAGES)
    fewest = 1 + STAGES[names[names.index(stage) - 1]] if stage != names[0] else 1
    while True:
        position = Position()
        for _ in range(int(rng.integers(fewest, STAGES[stage] + 1))):
            legal = position.legal_columns()
            if not legal:
                break
            position = position.play(int(rng.choice(legal)))
        if position.outcome() is None:
            yield position


def sampled_positions(path: Path, rng: np.random.Generator) -> Iterator[Position]:
    """Yield the positions of a file's lines in random order."""
    positions = list(parse_lines(read_text_lines(path), str(path), parse_position))
    for index in rng.permutation(len(positions)):
        yield positions[index][0]


def write_set(path: Path, name: str, count: int, candidates: Iterable[Position], solver: Solver) -> int:
    """Fill a file with ``count`` different candidates that belong to the set ``name``; return the number of lines.

    Each line is written as soon as it is scored, and the complete lines of an interrupted call count.
    """
    known = set[Position]()
    if path.exists():
        write_atomically(path, b"".join(path.read_bytes().rpartition(b"\n")[:2]))  # without an incomplete last line
        if lines := read_text_lines(path):
            known.update(parse_positions(lines, str(path), name, solver=solver).positions)
    with tqdm(total=count, initial=len(known), desc=name, unit="position", disable=None) as progress:
        for position in candidates:
            if len(known) >= count:
                break
            # Check the stage first, because the difficulty takes a search.
            if position in known or stage_of(position) != name.partition("-")[0]:
                continue
            if set_of(position, solver.solve(position)) == name:
                scores = ("." if score is None else str(score) for score in solver.analyze(position))
                append_line(path, " ".join([position.moves or "", *scores]))
                known.add(position)
                progress.update()
    return len(known)


def main() -> None:
    """Write the sets, starting with the quickest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for the files, one per set")
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET", help="such as begin-hard; by default all")
    parser.add_argument("--count", type=int, default=200, help="positions per set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--sources",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="draw positions from these files instead of random games; a file has the name of its set, or of a public "
        "set, such as Test_L1_R1",
    )
    options = parser.parse_args()
    sources = {PUBLIC_NAMES.get(path.stem, path.stem): path for path in options.sources}
    names = options.sets or list(sources) or SETS
    if unknown := [name for name in names if name not in SETS or (sources and name not in sources)]:
        parser.error(f"{unknown[0]} is not a set with a source; the sets are {', '.join(SETS)}")
    solver = Solver()
    with lock_folder(options.folder):
        for name in sorted(names, key=SETS.index, reverse=True):
            rng = np.random.default_rng([options.seed, SETS.index(name)])
            stage = name.partition("-")[0]
            candidates = sampled_positions(sources[name], rng) if sources else random_positions(stage, rng)
            path = options.folder / f"{name}{SUFFIX}"
            print(f"{path}: {write_set(path, name, options.count, candidates, solver)} positions with exact scores")


if __name__ == "__main__":
    main()

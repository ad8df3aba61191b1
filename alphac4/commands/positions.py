"""`alphac4 positions`: makes sets of positions with exact scores to evaluate on."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from tqdm import tqdm

from alphac4.commands.arguments import read_arguments
from alphac4.evaluation.positions import PUBLIC_NAMES, SETS, SUFFIX, random_positions, sampled_positions, write_set
from alphac4.solver import Solver
from alphac4.storage.locks import own_folder
from alphac4.storage.records import MOST, MOST_SEED, check_ranges

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PositionsOptions:
    """Make sets of positions with the exact score of every move, for `alphac4 evaluate --positions`.

    There are six, by stage (begin up to 14 stones, middle up to 28, end) and by how many stones are still to come with
    best play (easy up to 14, medium up to 28, hard). If interrupted, the same command goes on. A begin-hard position
    takes seconds, the others far less.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Where the files go, one a set."""
    sets: tuple[str, ...] = SETS
    """Which sets to make."""
    count: int = 200
    """Positions in each set."""
    sample: tuple[Path, ...] = ()
    """Files whose lines begin with move strings, from which to draw instead of random play; each is named after its
    set, or like the public ones (Test_L1_R1)."""
    seed: int = 0
    """Seed of the positions."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MOST), seed=(0, MOST_SEED))


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(PositionsOptions, arguments, "positions"))


def run(options: PositionsOptions) -> int:
    """Write the files, the quickest first."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    unknown = [name for name in options.sets if name not in SETS]
    if unknown:
        raise ValueError(f"no set {unknown[0]!r}; there are {', '.join(SETS)}")
    sources = {PUBLIC_NAMES.get(path.stem, path.stem): path for path in options.sample}
    missing = [name for name in options.sets if sources and name not in sources]
    if missing:
        raise ValueError(f"--sample has no file for {', '.join(missing)}: name those wanted by --sets")
    with own_folder(options.folder):
        _write(options, sources)
    return 0


def _write(options: PositionsOptions, sources: Mapping[str, Path]) -> None:
    solver = Solver()
    for name in sorted(options.sets, key=SETS.index, reverse=True):
        rng = np.random.default_rng([options.seed, SETS.index(name)])
        candidates = sampled_positions(sources[name], rng) if sources else random_positions(name.partition("-")[0], rng)
        with tqdm(total=options.count, desc=name, unit="pos", disable=None) as bar:
            path = options.folder / f"{name}{SUFFIX}"
            found = write_set(path, name, options.count, candidates, solver, on_position=bar.update)
        if found < options.count:
            _log.warning("%s: %d of %d positions; the sample has no more of this set", path, found, options.count)

"""`alphac4 positions`: makes sets of positions with exact scores to evaluate on."""

import logging
import sys

import numpy as np
from tqdm import tqdm

from alphac4.commands.options import PositionsOptions
from alphac4.evaluation.positions import PUBLIC_NAMES, SETS, SUFFIX, random_positions, sampled_positions, write_set
from alphac4.solver import Solver
from alphac4.storage.locks import own_folder

_log = logging.getLogger(__name__)


def run(options: PositionsOptions) -> int:
    """Write the files, the quickest first."""
    sources = {PUBLIC_NAMES.get(path.stem, path.stem): path for path in options.sample}
    wanted = options.sets or tuple(sources) or SETS
    unknown = [name for name in wanted if name not in SETS]
    if unknown:
        source = "" if options.sets else f", the name of {sources[unknown[0]]}"
        raise ValueError(f"unknown set {unknown[0]!r}{source}; there are {', '.join(SETS)}")
    missing = [name for name in wanted if sources and name not in sources]
    if missing:
        raise ValueError(f"--sample has no file for {', '.join(missing)}: leave these out of --sets")
    solver, counts = Solver(), dict[str, int]()
    with own_folder(options.folder):
        for name in sorted(wanted, key=SETS.index, reverse=True):
            rng, stage = np.random.default_rng([options.seed, SETS.index(name)]), name.partition("-")[0]
            candidates = sampled_positions(sources[name], rng) if sources else random_positions(stage, rng)
            path = options.folder / f"{name}{SUFFIX}"
            with tqdm(total=options.count, desc=name, unit="pos", disable=None) as bar:
                counts[name] = write_set(path, name, options.count, candidates, solver, on_position=bar.update)
            if counts[name] < options.count:
                short = "%s: %d of %d positions; the sample has no more of this set"
                _log.warning(short, path, counts[name], options.count)
    shown = ", ".join(f"{count:,} in {name}" for name, count in counts.items())
    print(f"{options.folder} holds {sum(counts.values()):,} positions with exact scores: {shown}.", file=sys.stderr)
    return 0

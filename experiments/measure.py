"""Mistakes of networks on one half of the six public position sets, for choosing between settings.

    python experiments/measure.py runs/a/best.safetensors runs/b/best.safetensors --sets FOLDER

FOLDER has Pascal Pons's sets with a score for each column (``Test_L1_R1.columns`` and so on). By default the first 500
positions of each set are used. The last 500 (``--half last``) are reserved for reporting a final choice once.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from alphac4.evaluation.measurement import Measurement, measure_strength
from alphac4.evaluation.positions import ALL, PositionSet, choose_sets

HALF = 500


def last_half(part: PositionSet) -> PositionSet:
    """Return the last `HALF` positions of a set."""
    return replace(part, positions=part.positions[-HALF:], scores=part.scores[-HALF:])


def main() -> None:
    """Measure each network and print a row per budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=Path, nargs="+")
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--half", choices=("first", "last"), default="first")
    parser.add_argument("--simulations", default="0,100", help="budgets to measure, 0 for the raw network")
    options = parser.parse_args()
    files = sorted(options.sets.glob("Test_*.columns"))
    if not files:  # without files, `choose_sets` returns the package's positions
        parser.error(f"{options.sets}: no Test_*.columns files found")
    sets = choose_sets(files=files)
    sets = [part.head(HALF) if options.half == "first" else last_half(part) for part in sets]
    measurement = Measurement(sets=sets, budgets=[int(word) for word in options.simulations.split(",")])
    names = " ".join(f"{part.name:>13s}" for part in sets)
    print(f"{'network':28s} {'sims':>5s} {names}   all    ±  value decisive")
    for path in options.networks:
        subject = measure_strength(str(path), measurement, untrained=False).subjects[0]
        for budget in subject.budgets:
            every = budget.sets[ALL]
            assert every.value is not None
            cells = " ".join(f"{100 * budget.sets[part.name].mistakes.value:13.1f}" for part in sets)
            print(
                f"{'/'.join(path.parts[-2:])[-28:]:28s} {budget.simulations:5d} {cells}"
                f" {100 * every.mistakes.value:5.2f} {100 * every.mistakes.stderr:4.2f}"
                f" {every.value.absolute_error.value:6.3f} {100 * every.mistakes_if_possible.value:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

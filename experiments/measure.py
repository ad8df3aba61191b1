"""Mistakes of networks on one half of each set of positions, for choosing between settings.

    python experiments/measure.py runs/a/best.safetensors runs/b/best.safetensors --sets FOLDER

FOLDER has the public test sets with a score for each column, as *.columns files. By default the first half of each set
is used. The other half (``--half last``) is reserved for reporting a final choice once.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from alphac4.evaluation.measurement import MeasurementPlan, measure_strength
from alphac4.evaluation.positions import ALL, PositionSet, choose_sets


def last_half(part: PositionSet) -> PositionSet:
    """Return the positions of a set that are not in its first half."""
    half = len(part) // 2
    return replace(part, positions=part.positions[half:], scores=part.scores[half:])


def main() -> None:
    """Measure each network and print a row per budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=Path, nargs="+")
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--half", choices=("first", "last"), default="first")
    parser.add_argument("--simulations", default="0,100", help="budgets to measure, 0 for the raw network")
    options = parser.parse_args()
    files = sorted(options.sets.glob("*.columns"))
    if not files:  # without files, `choose_sets` returns the package's positions
        parser.error(f"{options.sets}: no *.columns files found")
    sets = [
        part.head(len(part) // 2) if options.half == "first" else last_half(part) for part in choose_sets(files=files)
    ]
    measurement = MeasurementPlan(sets=sets, budgets=[int(word) for word in options.simulations.split(",")])
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
                f" {every.value.absolute_error.value:6.3f} {100 * every.mistakes_in_decisive.value:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

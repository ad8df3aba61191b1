"""Mistakes of a network with 600 simulations, and whether longer searches correct them.

    python experiments/lasting_mistakes.py best --positions Test_L1_R3.columns

It prints a row per mistake: stones on the board, the exact score with best play, the root's value, the sum of the
network's policy over all moves that keep the outcome, and which of the longer searches find one of these moves (+).
"""

import argparse
from pathlib import Path

import alphac4
from alphac4.evaluation.positions import choose_sets

SIMULATIONS = 600
LONGER = (2000, 10_000, 50_000)  # simulations


def main() -> None:
    """Find the mistakes in each set, and search these positions for longer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--positions", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    agent = alphac4.load(options.network)
    for part in choose_sets(files=options.positions):
        right = part.outcomes == part.best_outcome[:, None]
        results = agent.search(part.positions, simulations=SIMULATIONS)
        wrong = [index for index, result in enumerate(results) if not right[index, result.move]]
        print(
            f"{part.name}: {len(wrong)} mistakes in {len(part)} positions; stones, score, value, policy, corrected by"
        )
        positions = [part.positions[index] for index in wrong]
        longer = [agent.search(positions, simulations=simulations) for simulations in LONGER]
        for row, index in enumerate(wrong):
            result = results[index]
            policy = sum(move.prior or 0.0 for column, move in result.columns.items() if right[index, column])
            corrected = "".join("+" if right[index, searched[row].move] else "-" for searched in longer)
            stones, score = part.positions[index].plies, part.best_score[index]
            print(f"{stones:3d} {score:+3d} {result.value:+.2f} {policy:.3f} {corrected}")


if __name__ == "__main__":
    main()

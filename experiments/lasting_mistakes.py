"""Mistakes of a network with 600 simulations: how early they come, and whether longer searches mend them.

    python experiments/lasting_mistakes.py best --positions Test_L1_R3.columns

A row a mistake: stones on the board, the exact score with best play, the root's value, the network's policy on all
moves that keep the outcome, and which of the longer searches find one (+).
"""

import argparse
from pathlib import Path

import alphac4
from alphac4.evaluation.positions import choose_sets

SIMULATIONS = 600
LONGER = (2000, 10_000, 50_000)


def main() -> None:
    """Find the mistakes of each set, and search them for longer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--positions", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    agent = alphac4.load(options.network)
    for part in choose_sets(files=options.positions):
        right = part.outcomes == part.best_outcome[:, None]
        found = agent.search(part.positions, simulations=SIMULATIONS)
        wrong = [index for index, seen in enumerate(found) if not right[index, seen.move]]
        print(f"{part.name}: {len(wrong)} mistakes in {len(part)} positions; stones, score, value, policy, mended by")
        positions = [part.positions[index] for index in wrong]
        longer = [agent.search(positions, simulations=simulations) for simulations in LONGER]
        for row, index in enumerate(wrong):
            seen = found[index]
            policy = sum(move.prior for column, move in seen.columns.items() if right[index, column])
            mended = "".join("+" if right[index, searched[row].move] else "-" for searched in longer)
            stones, score = part.positions[index].plies, part.best_score[index]
            print(f"{stones:3d} {score:+3d} {seen.value:+.2f} {policy:.3f} {mended}")


if __name__ == "__main__":
    main()

"""Mistakes of a network with 600 simulations, what they have in common, and whether longer searches correct them.

    python experiments/lasting_mistakes.py best --positions public/*.columns --csv lasting-mistakes.csv

It writes a row per mistake, and prints a summary. The values and the policy are the network's, for the side to move:

- stones, right: stones on the board, and the number of moves that keep the outcome
- result: the exact result before and after the move, 1 win, 0 draw, -1 loss
- moves_to_end: of the winner with best play, before the mistake; 0 for a draw
- raw_value, value: of the position, without search and with 600 simulations
- prior: sum of the policy over the right moves; played_prior: that of the move played
- right_value, played_value: of the best right move (by the search) and of the move played; empty if not visited
- corrected: + for each of the longer searches that finds a right move, - for the others
"""

import argparse
import csv
import statistics
from pathlib import Path
from typing import Any

import alphac4
from alphac4.evaluation.positions import PositionSet, choose_sets
from alphac4.game.rules import STANDARD
from alphac4.solver.solver import moves_to_end

SIMULATIONS = 600
LONGER = (2000, 10_000, 50_000)  # simulations


def find_mistakes(agent: alphac4.Agent, part: PositionSet) -> list[dict[str, Any]]:
    """Return a row per mistake of the search in a set."""
    right = part.move_outcomes == part.best_outcome[:, None]
    results = agent.search(part.positions, simulations=SIMULATIONS)
    wrong = [index for index, result in enumerate(results) if not right[index, result.move]]
    positions = [part.positions[index] for index in wrong]
    raw = agent.search(positions, simulations=0)
    longer = [agent.search(positions, simulations=simulations) for simulations in LONGER]
    rows = []
    for row, index in enumerate(wrong):
        result, position = results[index], part.positions[index]
        keeping = [move for column, move in result.columns.items() if right[index, column]]
        values = [move.value for move in keeping if move.value is not None]
        played = result.columns[result.move]
        rows.append(
            {
                "set": part.name,
                "stones": position.plies,
                "right": len(keeping),
                "result": f"{part.best_outcome[index]} to {part.move_outcomes[index, result.move]}",
                "moves_to_end": moves_to_end(STANDARD, position.plies, int(part.best_score[index])),
                "raw_value": f"{raw[row].value:.2f}",
                "value": f"{result.value:.2f}",
                "prior": f"{sum(move.prior or 0.0 for move in keeping):.3f}",
                "played_prior": f"{played.prior or 0.0:.3f}",
                "right_value": f"{max(values):.2f}" if values else "",
                "played_value": "" if played.value is None else f"{played.value:.2f}",
                "corrected": "".join("+" if right[index, searched[row].move] else "-" for searched in longer),
            }
        )
    return rows


def main() -> None:
    """Find the mistakes in each set, and search these positions for longer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--positions", type=Path, nargs="+", required=True)
    parser.add_argument("--csv", type=Path, default=Path("lasting-mistakes.csv"))
    options = parser.parse_args()
    agent = alphac4.load(options.network)
    rows = [row for part in choose_sets(files=options.positions) for row in find_mistakes(agent, part)]
    if not rows:
        print("no mistakes")
        return
    with options.csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} mistakes, {sum('+' in row['corrected'] for row in rows)} corrected by a longer search")
    for name in ("stones", "right", "moves_to_end", "raw_value", "value", "prior", "played_prior"):
        print(f"median {name}: {statistics.median(float(row[name]) for row in rows):g}")


if __name__ == "__main__":
    main()

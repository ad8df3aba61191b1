"""Share of the exact solver's best defences against which a network keeps the best outcome.

    python experiments/keeping_the_win.py best quick --openings "" 1 2 3
    python experiments/keeping_the_win.py runs/quick --budgets 0 100     # every checkpoint that the run kept

The network has the move after each opening; "" is the empty board, which it should win. It plays its usual moves. Its
opponent plays all moves that the solver ranks best: the longest resistance in a lost position, all that keep the
outcome in a drawn one. Each of them is equally likely. A line ends at the network's first mistake, at the end of the
game, or where the network's search has proven a win that it will play out. Mirror images and transpositions are one
position. Levels with more than ``--width`` positions are sampled in proportion to their probability, which leaves the
share's expectation as it is.

It prints a row per network, budget and opening, and the mistakes. The rows are also written to ``--csv``, the mistakes
to another file beside it. Rows that are in the file already are not measured again. ``--picture`` draws the share, over
the iterations of runs, or by budget for other networks.
"""

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

import alphac4
from alphac4.arena.players import AutoPlayer, SearchingPlayer, drop_trees
from alphac4.game import Position, column_name
from alphac4.game.planes import stones
from alphac4.game.rules import STANDARD, canonical_key
from alphac4.machine import cores
from alphac4.mcts.search import Budget
from alphac4.solver import FULL_COLUMN, Solver
from alphac4.solver.solver import best_columns, moves_to_end
from alphac4.storage.arrays import load_arrays, save_arrays

FORMAT = "alphac4-experiment-scores-1"
TABLE_BITS = 26  # of the solver: positions with few stones take a quarter of the time of 22
SEARCHED_TOGETHER = 128  # positions


class ExactScores:
    """Exact scores of all moves, by position; in a file, so that further networks need no solver."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._solver, self._known = path, Solver(table_bits=TABLE_BITS), dict[int, list[int]]()
        if path is not None and path.exists():
            arrays, _ = load_arrays(path, FORMAT)
            self._known = dict(zip(arrays["keys"].tolist(), arrays["scores"].tolist(), strict=True))

    def find(self, positions: Sequence[Position]) -> list[list[int]]:
        """Return the score of each column's move for the side to move, `FULL_COLUMN` for full columns."""
        keys = [key_of(position) for position in positions]
        unknown = {key: position for key, position in zip(keys, positions, strict=True) if key not in self._known}
        if unknown:
            parts = [list(unknown.items())[index :: cores()] for index in range(cores())]
            with ThreadPoolExecutor(cores()) as pool:
                for part in pool.map(self._solve, parts):
                    self._known |= part
            if self._path is not None:
                known, scores = np.array(list(self._known), np.uint64), np.array(list(self._known.values()), np.int8)
                save_arrays(self._path, {"keys": known, "scores": scores}, {"format": FORMAT})
        found = [self._known[key] for key in keys]
        return [row if is_oriented(p) else row[::-1] for row, p in zip(found, positions, strict=True)]

    def _solve(self, part: Sequence[tuple[int, Position]]) -> dict[int, list[int]]:
        """Return scores in the canonical orientation by key."""
        own, occupied = stones([p if is_oriented(p) else p.mirror() for _, p in part])
        scores = self._solver.analyze_batch(own, occupied)
        return dict(zip((key for key, _ in part), scores.tolist(), strict=True))


def key_of(position: Position) -> int:
    """Return a number that a position shares with its mirror image only."""
    return int(canonical_key(STANDARD, position.own, position.occupied))


def is_oriented(position: Position) -> bool:
    """Return whether a position is the canonical one of its mirror images."""
    return int(position.own + position.occupied) == key_of(position)


class Line(NamedTuple):
    """A position that best defences reach."""

    position: Position  # the network has the move
    share: float  # its probability


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """Move of the network that gives away the outcome; values are for the network."""

    moves: str  # to the position
    stones: int
    share: float  # probability of the position
    played: str  # column
    right: str  # columns that keep the outcome
    right_prior: float  # sum of the policy over these
    raw_value: float  # in [-1, 1], of the network without search
    value: float  # in [-1, 1], of the player's search
    result: str  # with best play after the mistake


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A network's games from one opening against all best defences."""

    outcome: int  # the best for the network: 1 win, 0 draw
    kept: float  # probability that the network keeps it
    positions: int  # distinct ones in which the network moved
    is_sampled: bool
    mistakes: list[Mistake]


def walk(player: SearchingPlayer, scores: ExactScores, opening: str, width: int) -> Tree | None:
    """Play against all best defences; None if the network has lost after the opening."""
    start, rng = Position.from_moves(opening), np.random.default_rng(0)
    outcome = int(np.sign(max(scores.find([start])[0])))
    if outcome < 0:
        return None
    kept, count, is_sampled, mistakes = 0.0, 0, False, list[Mistake]()
    level = [Line(start, 1.0)]
    while level:
        count += len(level)
        answers, following = list(ask(player, level)), dict[int, Line]()
        after = [line.position.play(column) for line, (column, _, _) in zip(level, answers, strict=True)]
        ended = [proven or played.outcome() is not None for played, (_, _, proven) in zip(after, answers, strict=True)]
        kept += sum(line.share for line, has_ended in zip(level, ended, strict=True) if has_ended)
        rows = [row for row, has_ended in enumerate(ended) if not has_ended]
        for row, replies in zip(rows, scores.find([after[row] for row in rows]), strict=True):
            line, (column, value, _) = level[row], answers[row]
            if np.sign(-max(replies)) < outcome:
                mistakes.append(describe(player, scores, line, column, value, outcome, -max(replies)))
                continue
            best = best_columns([None if reply == FULL_COLUMN else reply for reply in replies])
            for answered in map(after[row].play, best):
                if answered.outcome() is not None:  # the board is full
                    kept += line.share / len(best)
                    continue
                before = following.get(key_of(answered), Line(answered, 0.0))
                following[key_of(answered)] = Line(before.position, before.share + line.share / len(best))
        level = [following[key] for key in sorted(following)]
        if len(level) > width:
            level, is_sampled = sample(level, width, rng), True
    return Tree(outcome=outcome, kept=kept, positions=count, is_sampled=is_sampled, mistakes=mistakes)


def ask(player: SearchingPlayer, level: Sequence[Line]) -> Iterator[tuple[int, float, bool]]:
    """Yield the player's column and value in each position, and whether it has proven a win that it will play out."""
    for first in range(0, len(level), SEARCHED_TOGETHER):
        positions = [line.position for line in level[first : first + SEARCHED_TOGETHER]]
        drop_trees(player)  # so that a move does not depend on other positions
        result = player.search(positions, player.budget)  # of `AutoPlayer`, the first search, whose proofs it keeps
        moves, values, proven = result.moves, result.value, result.chosen_moves_win
        unproven = np.flatnonzero(~proven)
        if isinstance(player, AutoPlayer) and len(unproven):
            longer = player.search([positions[row] for row in unproven])
            moves[unproven], values[unproven] = longer.moves, longer.value
        yield from zip(moves.tolist(), values.tolist(), proven.tolist(), strict=True)


def sample(level: Sequence[Line], width: int, rng: np.random.Generator) -> list[Line]:
    """Return at most ``width`` positions by systematic resampling; the expected share of each stays the same."""
    shares = np.array([line.share for line in level])
    points = (rng.random() + np.arange(width)) / width * shares.sum()
    rows = np.minimum(np.searchsorted(shares.cumsum(), points), len(level) - 1)
    counts = Counter(rows.tolist())
    return [Line(level[row].position, counts[row] * shares.sum() / width) for row in sorted(counts)]


def describe(
    player: SearchingPlayer, scores: ExactScores, line: Line, column: int, value: float, outcome: int, score: int
) -> Mistake:
    """Describe a mistake; ``score`` is the exact score after it, for the network."""
    position = line.position
    exact = scores.find([position])[0]
    right = [index for index, each in enumerate(exact) if each != FULL_COLUMN and np.sign(each) >= outcome]
    raw = player.search([position], Budget(simulations=0))
    distance = moves_to_end(STANDARD, position.plies + 1, -score)
    return Mistake(
        moves=position.moves or "",
        stones=position.plies,
        share=line.share,
        played=column_name(column),
        right="".join(map(column_name, right)),
        right_prior=float(raw.priors[0, right].sum()),
        raw_value=float(raw.value[0]),
        value=value,
        result=f"loses in {distance} moves" if score < 0 else "draw",
    )


def networks_of(name: str) -> list[tuple[str, float | None]]:
    """Return the networks of a name as text, each with its minutes of training if the name is a run's folder."""
    if not Path(name).is_dir():
        return [(name, None)]
    minutes = {report.iteration: report.seconds_total / 60 for report in alphac4.read_reports(name)}
    paths = {number: Path(name) / "checkpoints" / f"{number:06d}.safetensors" for number in minutes}
    return [(str(path), minutes[number]) for number, path in paths.items() if path.exists()]


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: Sequence[dict[str, str]]) -> None:
    """Write rows with the same keys."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0] if rows else ["network"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def draw(rows: Sequence[dict[str, str]], path: Path) -> None:
    """Draw the share of the first opening: of runs over their iterations, of other networks by budget."""
    from matplotlib.figure import Figure

    of_runs = bool(rows[0]["minutes"])
    curves: defaultdict[tuple[str, str], list[tuple[float | str, float]]] = defaultdict(list)
    for row in rows:
        if row["opening"] != rows[0]["opening"]:
            continue
        budget, kept = (
            {"0": "raw policy", "100": "100 simulations"}.get(row["budget"], row["budget"]),
            float(row["kept"]),
        )
        if row["minutes"]:
            curves[budget, Path(row["network"]).parts[-3]].append((int(Path(row["network"]).stem), 100 * kept))
        else:
            curves["", Path(row["network"]).stem].append((budget, 100 * kept))
    panels = list(dict.fromkeys(panel for panel, _ in curves))
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
        for (budget, name), points in curves.items():
            if budget == panel:
                axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=name)
        axes.set(xlabel="iterations" if of_runs else "simulations per move", ylim=(0, 103), title=panel)
        axes.legend(fontsize=8)
    figure.supylabel("best defences beaten, %", fontsize="medium")
    figure.savefig(path, dpi=130)


def main() -> None:
    """Measure each network and budget, and print the rows and the mistakes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", help="names, files, or folders of runs")
    parser.add_argument("--budgets", nargs="+", default=["0", "100", "600", "auto"], help="as after @ in a player")
    parser.add_argument("--openings", nargs="+", default=[""], help='moves before the network\'s first; "" for none')
    parser.add_argument("--width", type=int, default=4096, help="positions of a level from which on it is sampled")
    parser.add_argument("--scores", type=Path, help="file that keeps the exact scores for the next call")
    parser.add_argument("--csv", type=Path, default=Path("keeping-the-win.csv"), help="file of the rows")
    parser.add_argument("--picture", type=Path, help="draw the share over the iterations of runs, or by budget")
    options = parser.parse_args()
    mistakes_path = options.csv.with_name(f"{options.csv.stem}-mistakes.csv")
    rows, mistakes, scores = read_csv(options.csv), read_csv(mistakes_path), ExactScores(options.scores)
    done = {(row["network"], row["budget"], row["opening"]) for row in rows}
    print(f"{'network':32s} {'budget':>6s} {'opening':>7s} {'goal':>4s} {'kept %':>7s} {'positions':>9s} mistakes")
    networks = [each for name in options.networks for each in networks_of(name)]
    for (network, minutes), budget in product(networks, options.budgets):
        openings = [opening for opening in options.openings if (network, budget, opening) not in done]
        if not openings:
            continue
        player = alphac4.load(f"{network}@{budget}", batch_size=SEARCHED_TOGETHER).player
        assert isinstance(player, SearchingPlayer)
        for opening in openings:
            tree = walk(player, scores, opening, options.width)
            if tree is None:
                continue
            goal = "win" if tree.outcome else "draw"
            label = {"network": network, "budget": budget, "opening": opening}
            rows.append(
                label
                | {"minutes": "" if minutes is None else f"{minutes:.2f}", "goal": goal, "kept": f"{tree.kept:.6f}"}
                | {"positions": str(tree.positions), "mistakes": str(len(tree.mistakes))}
                | {"sampled": "yes" if tree.is_sampled else "no"}
            )
            print(
                f"{network[-32:]:32s} {budget:>6s} {opening:>7s} {goal:>4s} {100 * tree.kept:7.2f}"
                f" {tree.positions:8d}{'~' if tree.is_sampled else ' '} {len(tree.mistakes)}",
                flush=True,
            )
            for each in sorted(tree.mistakes, key=lambda mistake: -mistake.share):
                mistakes.append(
                    label | {name: f"{x:.6f}" if isinstance(x, float) else str(x) for name, x in vars(each).items()}
                )
                print(
                    f"    {100 * each.share:6.2f} % {each.moves}: {each.played} instead of {each.right}, policy"
                    f" {each.right_prior:.3f}, value {each.raw_value:+.2f} {each.value:+.2f}, {each.result}"
                )
            write_csv(options.csv, rows)
            write_csv(mistakes_path, mistakes)
    if options.picture:
        draw(rows, options.picture)


if __name__ == "__main__":
    main()

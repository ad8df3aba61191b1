"""Share of the exact solver's best defences against which a network keeps the best outcome.

    python experiments/keeping_the_win.py best gpu-best --openings "" 1 2 3
    python experiments/keeping_the_win.py runs/quick --budgets 0 100     # every checkpoint that the run kept

The network has the move after each opening; "" is the empty board, which it should win. It plays its usual moves. Its
opponent plays all moves that the solver ranks best: the longest resistance in a lost position, all that keep the
outcome in a drawn one. Each of them is equally likely. A line ends at the network's first mistake, at the end of the
game, or where the network's search has proven a win that it will play out. Mirror images and transpositions are one
position. Levels with more than ``--width`` positions are sampled in proportion to their probability, which leaves the
share's expectation as it is.

It prints a row per network, budget and opening, and then the mistakes. ``--csv NAME`` also writes them to NAME.csv and
NAME-mistakes.csv, ``--picture`` draws the share over the time of runs.
"""

import argparse
import csv
import dataclasses
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import alphac4
from alphac4.arena.players import SearchingPlayer, drop_trees
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
        parts = [list(unknown)[index :: cores()] for index in range(cores())]

        def solve(part: list[int]) -> list[list[int]]:
            own, occupied = stones([oriented(unknown[key]) for key in part])
            scores: list[list[int]] = self._solver.analyze_batch(own, occupied).tolist()
            return scores

        if unknown:
            with ThreadPoolExecutor(cores()) as pool:
                for part, scores in zip(parts, pool.map(solve, parts), strict=True):
                    self._known |= zip(part, scores, strict=True)
            if self._path is not None:
                arrays = {"keys": np.array(list(self._known), np.uint64)}
                save_arrays(
                    self._path, arrays | {"scores": np.array(list(self._known.values()), np.int8)}, {"format": FORMAT}
                )
        found = [self._known[key] for key in keys]
        return [row if is_oriented(p) else row[::-1] for row, p in zip(found, positions, strict=True)]


def key_of(position: Position) -> int:
    """Return a number that a position shares with its mirror image only."""
    return int(canonical_key(STANDARD, position.own, position.occupied))


def is_oriented(position: Position) -> bool:
    """Return whether a position is the canonical one of its mirror images."""
    return int(position.own + position.occupied) == key_of(position)


def oriented(position: Position) -> Position:
    """Return the canonical one of a position and its mirror image."""
    return position if is_oriented(position) else position.mirror()


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
    level = [(start, 1.0)]
    while level:
        count += len(level)
        following = dict[int, tuple[Position, float]]()
        after, unfinished = list[Position](), list[tuple[Position, float, int, float]]()
        for position, share, column, value, is_proven in ask(player, level):
            played = position.play(column)
            if is_proven or played.outcome() is not None:  # the network's last stone wins or fills the board
                kept += share
            else:
                after.append(played)
                unfinished.append((position, share, column, value))
        for played, replies, (position, share, column, value) in zip(
            after, scores.find(after), unfinished, strict=True
        ):
            score = -max(replies)
            if np.sign(score) < outcome:
                mistakes.append(describe(player, scores, position, share, column, value, outcome, score))
                continue
            best = best_columns([None if reply == FULL_COLUMN else reply for reply in replies])
            for reply in best:
                answered = played.play(reply)
                if answered.outcome() is not None:  # the board is full
                    kept += share / len(best)
                    continue
                key = key_of(answered)
                before = following.get(key, (answered, 0.0))
                following[key] = before[0], before[1] + share / len(best)
        level = [following[key] for key in sorted(following)]
        if len(level) > width:
            level, is_sampled = sample(level, width, rng), True
    return Tree(outcome=outcome, kept=kept, positions=count, is_sampled=is_sampled, mistakes=mistakes)


def ask(
    player: SearchingPlayer, level: Sequence[tuple[Position, float]]
) -> Iterable[tuple[Position, float, int, float, bool]]:
    """Yield positions and shares with the player's column and value, and whether it has proven its win.

    A player that keeps no proofs must win every game on the board.
    """
    for first in range(0, len(level), SEARCHED_TOGETHER):
        part = level[first : first + SEARCHED_TOGETHER]
        drop_trees(player)  # so that a move does not depend on other positions
        result = player.search([position for position, _ in part])
        proven = result.proven_wins & (player.reuse != "nothing")
        for row, (position, share) in enumerate(part):
            yield position, share, int(result.moves[row]), float(result.value[row]), bool(proven[row])


def sample(
    level: Sequence[tuple[Position, float]], width: int, rng: np.random.Generator
) -> list[tuple[Position, float]]:
    """Return at most ``width`` positions by systematic resampling; the expected share of each stays the same."""
    shares = np.array([share for _, share in level])
    points = (rng.random() + np.arange(width)) / width * shares.sum()
    counts = np.bincount(np.minimum(np.searchsorted(shares.cumsum(), points), len(level) - 1), minlength=len(level))
    return [(level[row][0], counts[row] * shares.sum() / width) for row in np.flatnonzero(counts)]


def describe(
    player: SearchingPlayer,
    scores: ExactScores,
    position: Position,
    share: float,
    column: int,
    value: float,
    outcome: int,
    score: int,
) -> Mistake:
    """Describe a mistake; ``score`` is the network's after it."""
    exact = scores.find([position])[0]
    right = [index for index, each in enumerate(exact) if each != FULL_COLUMN and np.sign(each) >= outcome]
    raw = player.search([position], Budget(simulations=0))
    distance = moves_to_end(STANDARD, position.plies + 1, -score)
    return Mistake(
        moves=position.moves or "",
        stones=position.plies,
        share=share,
        played=column_name(column),
        right="".join(column_name(index) for index in right),
        right_prior=float(raw.priors[0, right].sum()),
        raw_value=float(raw.value[0]),
        value=value,
        result=f"loses in {distance} moves" if score < 0 else "draw",
    )


def networks_of(name: str) -> list[tuple[str, float | None]]:
    """Return the networks of a name as text, each with the minutes of its run if it is a run's folder."""
    if not Path(name).is_dir():
        return [(name, None)]
    minutes = {report.iteration: report.seconds_total / 60 for report in alphac4.read_reports(name)}
    paths = {number: Path(name) / "checkpoints" / f"{number:06d}.safetensors" for number in minutes}
    return [(str(path), minutes[number]) for number, path in paths.items() if path.exists()]


def write_csv(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """Write rows with the same keys."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0] if rows else ["network"])
        writer.writeheader()
        writer.writerows(rows)


def draw(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Draw the share of the first opening over the minutes of runs, a line per run and budget."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    shown = [row for row in rows if row["minutes"] != "" and row["opening"] == rows[0]["opening"]]
    runs = list(dict.fromkeys(Path(str(row["network"])).parts[-3] for row in shown))
    for number, budget in enumerate(dict.fromkeys(row["budget"] for row in shown)):
        for index, run in enumerate(runs):
            points = [r for r in shown if r["budget"] == budget and Path(str(r["network"])).parts[-3] == run]
            axes.plot(
                [float(str(row["minutes"])) for row in points],
                [100 * float(str(row["kept"])) for row in points],
                f"C{number}{'-' if index == 0 else ':' if index == 1 else '--'}",
                marker="o",
                markersize=3,
                label=f"{run}, {budget}",
            )
    axes.set(xlabel="minutes of training", ylabel="share of best defences beaten, %", ylim=(-3, 103))
    axes.legend(fontsize=8)
    figure.savefig(path)


def main() -> None:
    """Measure each network and budget, and print the rows and the mistakes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", help="names, files, or folders of runs")
    parser.add_argument("--budgets", nargs="+", default=["0", "100", "600", "auto"], help="as after @ in a player")
    parser.add_argument("--openings", nargs="+", default=[""], help='moves before the network\'s first; "" for none')
    parser.add_argument("--width", type=int, default=4096, help="positions of a level from which on it is sampled")
    parser.add_argument("--scores", type=Path, help="file that keeps the exact scores for the next call")
    parser.add_argument("--csv", type=Path, help="write NAME.csv and NAME-mistakes.csv")
    parser.add_argument("--picture", type=Path, help="draw the share over the minutes of runs")
    options = parser.parse_args()
    scores = ExactScores(options.scores)
    rows, all_mistakes = list[dict[str, object]](), list[dict[str, object]]()
    print(f"{'network':32s} {'budget':>6s} {'opening':>7s} {'goal':>4s} {'kept %':>7s} {'positions':>9s} mistakes")
    for network, minutes in (each for name in options.networks for each in networks_of(name)):
        for budget in options.budgets:
            agent = alphac4.load(f"{network}@{budget}", batch_size=SEARCHED_TOGETHER)
            assert isinstance(agent.player, SearchingPlayer)
            for opening in options.openings:
                tree = walk(agent.player, scores, opening, options.width)
                if tree is None:
                    continue
                goal = "win" if tree.outcome else "draw"
                label = {"network": network, "budget": budget, "opening": opening}
                rows.append(
                    label
                    | {"minutes": "" if minutes is None else round(minutes, 2), "goal": goal, "kept": tree.kept}
                    | {"positions": tree.positions, "sampled": tree.is_sampled, "mistakes": len(tree.mistakes)}
                )
                print(
                    f"{network[-32:]:32s} {budget:>6s} {opening:>7s} {goal:>4s} {100 * tree.kept:7.2f}"
                    f" {tree.positions:8d}{'~' if tree.is_sampled else ' '} {len(tree.mistakes)}",
                    flush=True,
                )
                for each in sorted(tree.mistakes, key=lambda mistake: -mistake.share):
                    all_mistakes.append(label | dataclasses.asdict(each))
                    print(
                        f"    {100 * each.share:6.2f} % {each.moves}: {each.played} instead of {each.right}, policy"
                        f" {each.right_prior:.3f}, value {each.raw_value:+.2f} {each.value:+.2f}, {each.result}"
                    )
    if options.csv:
        write_csv(options.csv.with_suffix(".csv"), rows)
        write_csv(options.csv.with_name(f"{options.csv.stem}-mistakes.csv"), all_mistakes)
    if options.picture:
        draw(rows, options.picture)


if __name__ == "__main__":
    main()

"""Five ideas against mistakes that last: continue `quick` with each of them, and count its mistakes.

    python experiments/lasting_ideas.py --positions public/*.columns --csv lasting-ideas.csv

- start: `quick` itself
- none: the same iterations without an idea
- deeper: 5 % of the positions, those with the most uncertain value targets, get the values of longer searches
- horizon: a further head predicts the search's value six plies later (examples/ideas/nstep.py)
- disagreement: self-play explores more at roots where the network's value and the search's mean differ
- regret: positions whose search and value target disagree are learned more often
- entropy: no training; searches divide the logits by a temperature that rises with the policy's entropy

It prints a row per idea, seed and budget, and writes the mistakes in each set to ``--csv``. Rows that are in the file
already are not measured again.
"""

import argparse
import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import alphac4
from alphac4.evaluation.metrics import judge
from alphac4.evaluation.positions import PositionSet, choose_sets
from alphac4.selfplay.samples import lambda_returns
from alphac4.storage.checkpoints import load_checkpoint

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "ideas"))
from nstep import later_values, with_later_value

START = "quick"
CONFIG = {"iterations": 8, "learning": {"learning_rate": 2e-3}}  # half of the first run's rate, falling to the same end
BUDGETS = (0, 100, 600)  # simulations
IDEAS = ["start", "none", "deeper", "horizon", "disagreement", "regret", "entropy"]
LONGER_SHARE, LONGER = 0.05, 400  # share of positions that are searched again, simulations


class Deeper(alphac4.Callback):
    """Value target that searches uncertain positions again, and the callback that updates its network."""

    def __init__(self, config: alphac4.TrainConfig) -> None:
        self._settings, self._agent = config.selfplay, alphac4.load(START)

    def on_iteration(self, iteration: alphac4.Iteration) -> None:
        """Search with the newest network."""
        self._agent = alphac4.load(iteration.best.network)

    def __call__(self, games: alphac4.Games, _rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return win, draw and loss [G, C, 3] for the side to move."""
        wdl = lambda_returns(games, self._settings.td_lambda, self._settings.td_max_regret)
        plies = np.arange(games.moves.shape[1])
        rows = np.argwhere((plies >= games.opening_plies[:, None]) & (plies < games.plies[:, None]))
        entropy = -(wdl * np.log(np.maximum(wdl, 1e-9))).sum(axis=-1)[tuple(rows.T)]  # nats
        chosen = rows[np.argsort(-entropy, kind="stable")[: int(LONGER_SHARE * len(rows))]]
        positions = [alphac4.Position(games.own[g, p], games.occupied[g, p]) for g, p in chosen]
        for (g, p), result in zip(chosen, self._agent.search(positions, simulations=LONGER), strict=True):
            wdl[g, p] = result.wdl
        return wdl


class Disagreement(NamedTuple):
    """PUCT whose root weighs priors more where the network's value and the search's mean differ."""

    c: float = 1.25
    gain: float = 4.0  # growth of that weight per unit of difference
    reduction: float = 0.25
    prior_temperature: float = 1.0

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> float:
        """Return ``Q + c (1 + gain |v - mean|) P sqrt(N + 1) / (1 + n)``; without the gain below the root."""
        visits = trees.visits[t, node, action]
        mean = totals.value_sum / (1.0 + totals.visits)
        weight = self.c
        value = mean
        if node == 0:
            weight *= 1.0 + self.gain * abs(trees.value[t, node] - mean)
        else:
            value -= self.reduction * math.sqrt(totals.visited_prior)
        if trees.proof[t, node, action] == 0:  # a proven draw
            value = 0.0
        elif visits > 0:
            value = trees.value_sum[t, node, action] / visits
        return float(value + weight * trees.priors[t, node, action] * math.sqrt(totals.visits + 1.0) / (1.0 + visits))


class EntropyTemperature(NamedTuple):
    """PUCT that divides a node's logits by a temperature that rises with the entropy of its policy."""

    c: float = 1.25
    reduction: float = 0.25
    prior_temperature: float = 1.4
    lowest: float = 0.8  # factor of the temperature at an entropy of 0
    slope: float = 0.4  # per nat

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> float:
        """Return ``Q + c P' sqrt(N + 1) / (1 + n)``, where P' are the priors at the other temperature."""
        entropy = 0.0
        for a in range(trees.priors.shape[2]):
            if trees.priors[t, node, a] > 0.0:
                entropy -= trees.priors[t, node, a] * math.log(trees.priors[t, node, a])
        power, total = 1.0 / (self.lowest + self.slope * entropy), 0.0
        for a in range(trees.priors.shape[2]):
            if trees.priors[t, node, a] > 0.0:
                total += trees.priors[t, node, a] ** power
        prior = 0.0
        if trees.priors[t, node, action] > 0.0:
            prior = trees.priors[t, node, action] ** power / total
        visits = trees.visits[t, node, action]
        value = totals.value_sum / (1.0 + totals.visits)
        if node != 0:
            value -= self.reduction * math.sqrt(totals.visited_prior)
        if trees.proof[t, node, action] == 0:  # a proven draw
            value = 0.0
        elif visits > 0:
            value = trees.value_sum[t, node, action] / visits
        return float(value + self.c * prior * math.sqrt(totals.visits + 1.0) / (1.0 + visits))


def by_disagreement(window: alphac4.Samples, _rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return weights [S] of samples, which rise from 1 by the distance of the search's value from its target."""
    target = window.value_target.astype(np.float32)
    return np.asarray(1 + 2 * np.abs(window.value - (target[:, 0] - target[:, 2])), np.float32)


def with_head(config: Any) -> alphac4.PolicyValueNetwork:
    """Return the network to start from with a further head."""
    network = alphac4.PolicyValueNetwork(config, heads={"later": 3})
    trained = load_checkpoint(Path(START)).network
    if not network.policy.weight.is_meta:
        network.load_state_dict(trained.state_dict(), strict=False)
    return network


def train(idea: str, seed: int) -> alphac4.Agent:
    """Return the last network of a continued run."""
    config = alphac4.TrainConfig.preset("quick", seed=seed, **CONFIG)
    functions: dict[str, Any] = {"start": load_checkpoint(Path(START)).network}
    if idea == "deeper":
        target = Deeper(config)
        functions |= {"value_target": target, "callbacks": [target]}
    elif idea == "horizon":
        functions = {"network": with_head, "targets": later_values, "loss": with_later_value}
    elif idea == "disagreement":
        functions |= {"selection_rule": Disagreement()}
    elif idea == "regret":
        functions |= {"sample_weights": by_disagreement}
    for iteration in alphac4.iterate(config, gate=lambda _play: True, **functions):
        print(f"{idea}, seed {seed}, iteration {iteration.number}", file=sys.stderr, flush=True)
    return alphac4.load(iteration.best.network)


def agents(ideas: list[str], seeds: list[int], known: set[tuple[str, int]]) -> Iterator[tuple[str, int, alphac4.Agent]]:
    """Yield idea, seed and agent for the pairs of idea and seed that are not known."""
    for seed in seeds:
        for idea in ideas:
            if (idea, seed) in known or (idea in ("start", "entropy") and seed != seeds[0]):
                continue
            if idea == "start":
                yield idea, seed, alphac4.load(START)
            elif idea == "entropy":
                yield idea, seed, alphac4.load(START, selection_rule=EntropyTemperature())
            else:
                yield idea, seed, train(idea, seed)


def mistakes(agent: alphac4.Agent, part: PositionSet, simulations: int) -> float:
    """Return the mistakes in a set, in %."""
    moves = np.array([result.move for result in agent.search(part.positions, simulations=simulations)])
    return 100 * judge(part, moves).mistakes.value


def main() -> None:
    """Try the ideas."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--ideas", nargs="+", choices=IDEAS, default=IDEAS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--csv", type=Path, default=Path("lasting-ideas.csv"))
    options = parser.parse_args()
    sets = choose_sets(files=options.positions)
    names = ["idea", "seed", "simulations", *(part.name for part in sets)]
    known = set[tuple[str, int]]()
    if options.csv.exists():
        with options.csv.open(newline="", encoding="utf-8") as file:
            known = {(row["idea"], int(row["seed"])) for row in csv.DictReader(file)}
    else:
        options.csv.write_text(",".join(names) + "\n", encoding="utf-8")
    for idea, seed, agent in agents(options.ideas, options.seeds, known):
        rows = [
            [idea, str(seed), str(budget), *(f"{mistakes(agent, part, budget):.2f}" for part in sets)]
            for budget in BUDGETS
        ]
        for row in rows:
            print(" ".join(f"{word:>12s}" for word in row), flush=True)
        with options.csv.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()

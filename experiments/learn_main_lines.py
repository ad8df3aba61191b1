"""Continue a network with deep searches of the lines that its own searches consider best.

    python experiments/learn_main_lines.py gpu-best.safetensors runs/main-lines --rounds 2

Each round searches the positions of the main lines, level by level from the openings (by default the empty
board). The moves that the search considers good, of both sides, lead to the next level, and the likeliest positions of
each level are kept. Values are then backed up from the ends of the lines, and give each position its targets of policy
and value. The network also learns positions of other games, so that it stays as strong there; their targets are its
outputs before the first round. Nothing depends on the exact solver.
"""

import argparse
import copy
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from alphac4.game import Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD, canonical_key, column_cells
from alphac4.machine import cores
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import ILLEGAL, UNPROVEN, proof_value
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import Network, Outputs
from alphac4.runs.costs import total_costs
from alphac4.runs.state import Costs
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.samples import Samples, concatenate, make_samples
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.training.config import PRESETS, TrainConfig
from alphac4.training.extensions import Extensions
from alphac4.training.learner import Learner
from alphac4.training.losses import TrainingBatch, batches, default_losses
from alphac4.training.optimizer import CosineSchedule

COLUMNS = np.array([column_cells(STANDARD, column) for column in range(STANDARD.columns)], np.uint64)
EARLY_STONES = 14  # positions with fewer stones are searched longer
EARLY_SIMULATIONS, LATE_SIMULATIONS = 360, 240
MAX_STONES = 22
CHOICE_TEMPERATURE = 0.06  # of values in [-1, 1], when the lines branch
PRIOR_SHARE = 0.3  # of a move's probability in the lines
VALUE_SCALE = 40.0  # policy targets are softmax(log prior + VALUE_SCALE * value)
BACKED_UP = 0.8  # weight of the best reply's value in a value target
SEARCHED_TOGETHER = 128
PARALLEL_GAMES = 48  # per core
QUICK_SIMULATIONS = 6  # per move of the games whose positions the network shall not forget


@dataclass(kw_only=True)
class Node:
    """A position of the lines; values are for its side to move."""

    position: Position
    weight: float
    values: npt.NDArray[np.float64]  # [A] of the moves, NaN where unvisited
    proven: npt.NDArray[np.bool_]  # [A]
    priors: npt.NDArray[np.float64]  # [A]
    wdl: npt.NDArray[np.float64]  # [3] win/draw/loss: the search's, then the target
    children: dict[int, int] = field(default_factory=dict)  # keys of the following positions by column


def key_of(position: Position) -> int:
    """Return a number that a position shares with its mirror image only."""
    return int(canonical_key(STANDARD, position.own, position.occupied))


def explore(network: Network, width: int, openings: Sequence[str]) -> dict[int, Node]:
    """Search the main lines after each opening, and back up their values."""
    search = NetworkSearch(Evaluator(network, backend="openvino-int8"), cache=2**20)
    nodes = dict[int, Node]()
    levels = defaultdict[int, dict[int, tuple[Position, float]]](dict)  # by stones
    for opening in openings:
        position = Position.from_moves(opening)
        key = key_of(position)
        _, weight = levels[position.plies].get(key, (position, 0.0))
        levels[position.plies][key] = position, weight + 1.0
    while levels:
        level = levels.pop(min(levels))
        kept = sorted(level.values(), key=lambda entry: -entry[1])[:width]
        plies = kept[0][0].plies
        budget = Budget(simulations=EARLY_SIMULATIONS if plies < EARLY_STONES else LATE_SIMULATIONS)
        for first in range(0, len(kept), SEARCHED_TOGETHER):
            part = kept[first : first + SEARCHED_TOGETHER]
            result = search.search([position for position, _ in part], budget)
            for row, (position, weight) in enumerate(part):
                proofs = result.proofs[row]
                proven = (proofs != UNPROVEN) & (proofs != ILLEGAL)
                values = result.values[row].copy()
                values[proven] = [np.sign(proof_value(int(proof))) for proof in proofs[proven]]
                node = Node(
                    position=position,
                    weight=weight,
                    values=values,
                    proven=proven,
                    priors=result.priors[row],
                    wdl=result.wdl[row],
                )
                nodes[key_of(position)] = node
                if result.root_proof(row) != UNPROVEN or plies >= MAX_STONES:
                    continue
                for column, share in enumerate(branching(node)):
                    if share < 0.01 or proven[column]:
                        continue
                    reply = position.play(column)
                    key = key_of(reply)
                    node.children[column] = key
                    before = levels[reply.plies].get(key, (reply, 0.0))
                    levels[reply.plies][key] = before[0], before[1] + weight * share
    back_up(nodes)
    return nodes


def branching(node: Node) -> npt.NDArray[np.float64]:
    """Return the probability of each move in the lines [A]."""
    weights = np.exp((node.values - np.nanmax(node.values)) / CHOICE_TEMPERATURE)
    weights = np.nan_to_num(weights)
    shares: npt.NDArray[np.float64] = (1 - PRIOR_SHARE) * weights / weights.sum() + PRIOR_SHARE * node.priors
    return shares


def back_up(nodes: Mapping[int, Node]) -> None:
    """Replace the values of moves by those of the positions after them, from the last level to the first."""
    for node in sorted(nodes.values(), key=lambda node: -node.position.plies):
        replies = {column: nodes[key] for column, key in node.children.items() if key in nodes}
        for column, reply in replies.items():
            node.values[column] = reply.wdl[2] - reply.wdl[0]
        if np.nanmax(node.values) == 1 and node.proven.any():  # wins
            continue
        if replies:
            best = max(replies, key=lambda column: node.values[column])
            node.wdl = (1 - BACKED_UP) * node.wdl + BACKED_UP * replies[best].wdl[::-1]


def samples_of(nodes: Mapping[int, Node]) -> tuple[Samples, npt.NDArray[np.float64]]:
    """Return the positions with their targets, and the probabilities with which they are learned [S]."""
    every = [node for node in nodes.values() if not np.isnan(node.values).all()]
    own, occupied = stones([node.position for node in every])
    policies, plies = np.zeros((len(every), STANDARD.columns)), np.array([node.position.plies for node in every])
    for row, node in enumerate(every):
        values = np.nan_to_num(node.values, nan=-1.0)
        logits = np.log(node.priors + 1e-12) + VALUE_SCALE * values
        legal = node.position.legal_columns()
        policies[row, legal] = np.exp(logits[legal] - logits[legal].max())
    policies /= policies.sum(axis=1, keepdims=True)
    wdl = np.array([node.wdl for node in every])
    probabilities = np.sqrt([node.weight for node in every])
    for number in np.unique(plies):  # a game visits each level once
        probabilities[plies == number] /= probabilities[plies == number].sum()
    samples = Samples(
        board=STANDARD,
        own=own,
        occupied=occupied,
        policy_target=policies.astype(np.float16),
        is_full_search=np.ones(len(every), np.bool_),
        outcome=np.zeros(len(every), np.int8),
        value=(wdl[:, 0] - wdl[:, 2]).astype(np.float32),
        draw=wdl[:, 1].astype(np.float32),
        value_target=wdl.astype(np.float16),
        final_own=own,  # unknown: `losses` leaves them out
        final_occupied=occupied,
        iteration=np.zeros(len(every), np.int32),
    )
    return samples, probabilities / probabilities.sum()


def losses(outputs: Outputs, batch: TrainingBatch) -> dict[str, Tensor]:
    """Return the usual losses, without ownership where the end of the game is unknown."""
    terms = default_losses(outputs, batch)
    known = batch.final_stones.sum(dim=(1, 2, 3)) > batch.planes[:, :2].sum(dim=(1, 2, 3)) + 0.5
    if "ownership" in terms:
        terms["ownership"] = terms["ownership"] * known
    return terms


def play(network: Network, config: TrainConfig, count: int, seed: int) -> Samples:
    """Return about ``count`` positions of quick games, with the network's own policy and value as targets.

    They cost a few evaluations each and keep the network's strength in other positions.
    """
    selfplay = replace(config.selfplay, full_visits=QUICK_SIMULATIONS, fast_visits=QUICK_SIMULATIONS)
    evaluator = Evaluator(network, threads=1)
    actors = [
        Actor(STANDARD, selfplay, evaluator, PARALLEL_GAMES, np.random.default_rng([seed, n])) for n in range(cores())
    ]

    def work(actor: Actor) -> list[Samples]:
        blocks = actor.play(-(-count // (cores() * actor.slots)), lambda: False)
        return [make_samples(STANDARD, selfplay, block.games) for block in blocks]

    with ThreadPoolExecutor(cores()) as pool:
        samples = concatenate([samples for part in pool.map(work, actors) for samples in part])
    policies, values = np.empty_like(samples.policy_target), np.empty_like(samples.value_target)
    for first in range(0, len(samples), SEARCHED_TOGETHER):
        rows = slice(first, first + SEARCHED_TOGETHER)
        own, occupied = samples.own[rows], samples.occupied[rows]
        logits, wdl = evaluator.evaluate(make_planes(STANDARD, own, occupied, evaluator.input_planes))
        weights = np.exp(logits - logits.max(axis=1, keepdims=True)) * (occupied[:, None] & COLUMNS != COLUMNS)
        policies[rows], values[rows] = weights / weights.sum(axis=1, keepdims=True), wdl
    return replace(samples, policy_target=policies, value_target=values, is_full_search=np.ones(len(samples), np.bool_))


def learn(
    network: Network,
    samples: Samples,
    probabilities: npt.NDArray[np.float64],  # [S]
    config: TrainConfig,
    *,
    steps: int,
    seed: int,
) -> Network:
    """Return the network after ``steps`` gradient steps on samples drawn with these probabilities."""
    learner = Learner(network.config, config.learning, STANDARD, seed, extensions=Extensions(loss=losses))
    learner.initialize_from(network)
    rng, planes = np.random.default_rng(seed), network.config.input_planes
    stream = batches(
        samples,
        STANDARD,
        config.learning.batch_size,
        steps,
        rng,
        fast_search_weight=config.learning.fast_search_weight,
        planes=planes,
        weights=probabilities,
    )
    report = learner.learn_from(stream, CosineSchedule.of_run(config.learning, steps), len(samples))
    print(f"  {report.losses}, {report.seconds:.0f} s", flush=True)
    return learner.candidate()


def mean(start: Network, network: Network) -> Network:
    """Return a network with the mean of two networks' weights, which forgets less (Wortsman et al. 2022, WiSE-FT)."""
    result, before = copy.deepcopy(network), start.state_dict()
    weights = {name: (value + before[name]) / 2 for name, value in network.state_dict().items()}
    result.load_state_dict({name: value.to(before[name].dtype) for name, value in weights.items()})
    return result


def provenance(start: Checkpoint, options: argparse.Namespace, number: int, seconds: float) -> dict[str, Any]:
    """Return how the network after a round was made."""
    settings = {name: value for name, value in vars(options).items() if name not in ("network", "folder")}
    costs = Costs(seconds=round(seconds))
    return {
        "run": "main-lines",
        "iteration": number,
        **asdict(costs),
        "config": settings,
        "started_from": {"checkpoint": Path(options.network).stem, **start.provenance},
        "with_start": asdict(costs + total_costs(start.provenance)),
    }


def main() -> None:
    """Explore, play and learn in rounds; save the network of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--openings",
        nargs="+",
        default=[""],
        help='where the lines start; "" is the empty board, and repetition gives weight',
    )
    parser.add_argument("--width", type=int, default=48, help="positions of a level")
    parser.add_argument("--games", type=int, default=8000, help="positions of quick games")
    parser.add_argument("--steps", type=int, default=200, help="gradient steps per round")
    parser.add_argument("--learning-rate", type=float, default=4e-4)
    parser.add_argument("--lines-share", type=float, default=0.5, help="of the positions that are learned")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    preset = PRESETS["gpu-best"]
    rates = {"learning_rate": options.learning_rate, "final_learning_rate": options.learning_rate / 10}
    config = replace(preset, learning=replace(preset.learning, batch_size=128, ema_decay=0.99, **rates))
    checkpoint = load_checkpoint(Path(options.network))
    start = network = checkpoint.network
    begun = started = time.perf_counter()
    played = play(network, config, options.games, options.seed)
    print(f"{len(played)} positions of games, {time.perf_counter() - started:.0f} s", flush=True)
    for number in range(1, options.rounds + 1):
        started = time.perf_counter()
        nodes = explore(network, options.width, options.openings)
        print(f"round {number}: {len(nodes)} positions of lines, {time.perf_counter() - started:.0f} s", flush=True)
        for opening in dict.fromkeys(options.openings):
            wdl = nodes[key_of(Position.from_moves(opening))].wdl
            print(f"  value after {opening or 'no move'}: {wdl[0] - wdl[2]:+.3f}", flush=True)
        lines, shares = samples_of(nodes)
        weights = [options.lines_share * shares, np.full(len(played), (1 - options.lines_share) / len(played))]
        network = learn(
            network,
            concatenate([lines, played]),
            np.concatenate(weights),
            config,
            steps=options.steps,
            seed=options.seed * 1000 + number,
        )
        for name, saved in ((f"{number:06d}", network), (f"{number:06d}-mean", mean(start, network))):
            how = provenance(checkpoint, options, number, time.perf_counter() - begun)
            written = replace(checkpoint, network=saved, provenance=how, strength={})
            save_checkpoint(options.folder / f"{name}.safetensors", written)


if __name__ == "__main__":
    main()

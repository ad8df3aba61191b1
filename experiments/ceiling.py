r"""How exactly a small network can value the positions of self-play, were its targets exact: the ceiling of its size.

    python experiments/ceiling.py checkpoints/quick.safetensors --channels 32 --blocks 4
    python experiments/ceiling.py checkpoints/standard.safetensors --run runs/standard --first 25 --stages 10-24 \
        --canonical --go-on --learning '{"optimizer": "muon", "batch_size": 128}'

Plays games from random openings with the given network, or takes those that a run has recorded, scores the positions of
one stage of the game by the solver, and fits a fresh network to those outcomes, or the given one from its own weights.
The fitted weights are thrown away: this measures how much of a network's value error is size and how much is targets,
and nothing that plays ever learns from it. The error is measured on positions of games, and on positions beside them
(one random move played), that were not learned from.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.game.planes import make_planes
from alphac4.game.rules import STANDARD, canonical_keys, has_run, landing_cell, legal_cells, oriented, play
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.replay import Batch, load_shard
from alphac4.solver import Solver
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.training.config import PRESETS, from_dict
from alphac4.training.learner import Learner
from alphac4.training.optimizer import Schedule

Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


def positions_of_games(path: Path, samples: int, seed: int) -> tuple[Words, Words]:
    """Positions [B] of self-play from random openings."""
    changes = {"selfplay": {"opening_plies": 12, "opening_prob": 0.9, "full_simulations": 24, "fast_simulations": 12}}
    config = from_dict(changes, PRESETS["quick"]).selfplay
    evaluator = Evaluator(
        load_checkpoint(path).network, batch_size=128, streams=1, threads=1, backend="openvino-int8", int8=True
    )
    actor = Actor(STANDARD, config, evaluator, 128, np.random.default_rng(seed))
    blocks = [block.samples for block in actor.play(-(-samples // 128), lambda: False)]
    return np.concatenate([block.own for block in blocks]), np.concatenate([block.occupied for block in blocks])


def positions_of_run(run: Path, first: int) -> tuple[Words, Words]:
    """Positions [B] that a run has recorded from iteration ``first`` on."""
    shards = [
        load_shard(path) for path in sorted((run / "replay").glob("*.safetensors")) if int(path.name[:6]) >= first
    ]
    return np.concatenate([shard.own for shard in shards]), np.concatenate([shard.occupied for shard in shards])


def distinct(own: Words, occupied: Words) -> tuple[Words, Words]:
    """Each position once, mirror images being one."""
    keys, _ = canonical_keys(STANDARD, own, occupied)
    first = np.sort(np.unique(keys, return_index=True)[1])
    return own[first], occupied[first]


def beside(own: Words, occupied: Words, rng: np.random.Generator) -> tuple[Words, Words]:
    """Unfinished positions after one random move in each."""
    rows = []
    for mine, stones in zip(own, occupied, strict=True):
        open_columns = [c for c in range(STANDARD.columns) if landing_cell(STANDARD, stones, c)]
        moved = play(STANDARD, mine, stones, int(rng.choice(open_columns)))
        if not has_run(STANDARD, moved[0] ^ moved[1]) and legal_cells(STANDARD, moved[1]):
            rows.append(moved)
    return distinct(*(np.array(column, np.uint64) for column in zip(*rows, strict=True)))


def outcome_errors(
    network: PolicyValueNetwork, own: Words, occupied: Words, outcome: npt.NDArray[np.int8]
) -> tuple[Floats, Floats]:
    """Of each position [B], |value - outcome|, and 1 where another outcome than the exact one is the likeliest."""
    evaluator = Evaluator(network, backend="torch-fp32")
    wdl = np.concatenate(
        [
            evaluator.evaluate(make_planes(STANDARD, own[i : i + 256], occupied[i : i + 256]))[1]
            for i in range(0, len(own), 256)
        ]
    )
    return np.abs(wdl[:, 0] - wdl[:, 2] - outcome).astype(np.float64), (1 - wdl.argmax(axis=1) != outcome) * 1.0


def main() -> None:
    """Play, score, fit, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", type=Path)
    parser.add_argument("--run", type=Path, help="take the positions that this run has recorded")
    parser.add_argument("--first", type=int, default=0, help="the first iteration of those")
    parser.add_argument("--stages", default="18-21", help="stones on the board")
    parser.add_argument("--samples", type=int, default=400_000, help="positions to play without --run")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--positions", type=int, help="learn from so many of them alone")
    parser.add_argument("--go-on", action="store_true", help="fit the given network, from its own weights")
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--canonical", action="store_true", help="learn and measure the canonical orientation alone")
    parser.add_argument("--learning", type=json.loads, default={}, help="settings of learning, as JSON")
    parser.add_argument("--cache", type=Path, help="keep the scored positions in this .npz")
    options = parser.parse_args()
    low, high = (int(word) for word in options.stages.split("-"))
    if options.cache and options.cache.exists():
        own, occupied, outcome, b_own, b_occupied, b_outcome = np.load(options.cache).values()
    else:
        if options.run:
            own, occupied = positions_of_run(options.run, options.first)
        else:
            own, occupied = positions_of_games(options.network, options.samples, 0)
        count = np.bitwise_count(occupied)
        inside = (count >= low) & (count <= high)
        own, occupied = distinct(own[inside], occupied[inside])
        shuffled = np.random.default_rng(2).permutation(len(own))
        own, occupied = own[shuffled], occupied[shuffled]
        print(f"{len(own)} distinct positions", flush=True)
        solver = Solver(table_bits=24)
        outcome = solver.solve_batch(own, occupied, weak=True)
        held = len(own) - len(own) // 10
        b_own, b_occupied = beside(own[held:], occupied[held:], np.random.default_rng(1))
        b_outcome = solver.solve_batch(b_own, b_occupied, weak=True)
        if options.cache:
            np.savez(options.cache, own, occupied, outcome, b_own, b_occupied, b_outcome)
    if options.canonical:
        own, occupied, _ = oriented(STANDARD, own, occupied)
        b_own, b_occupied, _ = oriented(STANDARD, b_own, b_occupied)
    held = len(own) - len(own) // 10
    learned = min(held, options.positions or held)
    print(
        f"{learned} learned from, {len(own) - held} held out, {len(b_own)} beside; drawn {np.mean(outcome == 0):.2f}",
        flush=True,
    )
    before = load_checkpoint(options.network).network
    size = before.config if options.go_on else NetworkConfig(channels=options.channels, blocks=options.blocks)
    learning = from_dict({"learning": {"batch_size": 512, "ownership_weight": 0.0, **options.learning}}).learning
    learner = Learner(size, learning, STANDARD, 0)
    if options.go_on:
        learner.take_over(before)
    batch = learning.batch_size
    rng = np.random.default_rng(0)

    def stream() -> Iterator[Batch]:
        for _ in range(options.steps):
            chosen = rng.integers(0, learned, batch)
            planes = make_planes(STANDARD, own[chosen], occupied[chosen])
            flip = rng.random(batch) < (0.0 if options.canonical else 0.5)
            planes[flip] = planes[flip][..., ::-1]
            wdl = np.stack([outcome[chosen] == o for o in (1, 0, -1)], axis=1).astype(np.float32)
            policy = np.full((batch, STANDARD.columns), 1 / STANDARD.columns, np.float32)
            yield Batch(planes, policy, np.zeros(batch, np.float32), wdl, np.zeros_like(planes))

    report = learner.learn_from(stream(), Schedule.of_run(learning, options.steps), held)
    stones = np.bitwise_count(occupied[held:])
    bands = [(first, min(first + 2, high)) for first in range(low, high + 1, 3)]
    print(f"value loss {report.value_loss:.3f}")
    print("mean |value - outcome| / % of outcomes wrong: held out, beside, learned from; held out with")
    print(", ".join(f"{first} to {last}" for first, last in bands), "stones")
    for name, network in (("as it plays", before), (f"fitted {size.channels} x {size.blocks}", learner.candidate())):
        held_out = outcome_errors(network, own[held:], occupied[held:], outcome[held:])
        groups = [
            held_out,
            outcome_errors(network, b_own, b_occupied, b_outcome),
            outcome_errors(network, own[:5000], occupied[:5000], outcome[:5000]),
            *([errors[(stones >= first) & (stones <= last)] for errors in held_out] for first, last in bands),
        ]
        cells = [f"{value.mean():.3f} / {100 * wrong.mean():.1f}" for value, wrong in groups]
        print(f"{name:16s}", ", ".join(cells), flush=True)


if __name__ == "__main__":
    main()

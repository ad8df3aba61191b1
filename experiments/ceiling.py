"""How exactly a small network can value the positions of self-play, were its targets exact: the ceiling of its size.

    python experiments/ceiling.py checkpoints/quick.safetensors --channels 32 --blocks 4

Plays games from random openings with the given network, scores the positions of one stage of the game by the solver,
and fits a fresh network to those outcomes. Its weights are thrown away: this measures how much of a network's value
error is size and how much is targets, and nothing that plays ever learns from it. The error is measured on positions
of games, and on positions beside them (one random move played), that were not learned from.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.checkpoint import load_checkpoint
from alphac4.game.planes import make_planes
from alphac4.game.rules import STANDARD, has_run, landing_cell, legal_cells, play
from alphac4.game.symmetry import canonical_orientation, oriented
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.replay import Batch
from alphac4.solver import Solver
from alphac4.training.config import PRESETS, LearningConfig, from_dict
from alphac4.training.host_learner import HostLearner
from alphac4.training.schedule import Schedule

BATCH = 512

Words = npt.NDArray[np.uint64]


def positions_of_games(path: Path, samples: int, low: int, high: int, seed: int) -> tuple[Words, Words]:
    """Distinct positions [B] with ``low`` to ``high`` stones from self-play."""
    changes = {"selfplay": {"opening_plies": 12, "opening_share": 0.9, "full_simulations": 24, "fast_simulations": 12}}
    config = from_dict(changes, PRESETS["quick"]).selfplay
    evaluator = Evaluator(
        load_checkpoint(path).network, batch_size=128, streams=1, threads=1, backend="openvino-int8", int8=True
    )
    actor = Actor(STANDARD, config, evaluator, 128, np.random.default_rng(seed))
    blocks = [block.samples for block in actor.play(samples, lambda: False)]
    own, occupied = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("own", "occupied"))
    count = np.bitwise_count(occupied)
    inside = (count >= low) & (count <= high)
    return distinct(own[inside], occupied[inside])


def distinct(own: Words, occupied: Words) -> tuple[Words, Words]:
    """Each position once, mirror images being one."""
    keys = np.empty(len(own), np.uint64)
    canonical_orientation(STANDARD, own, occupied, keys)
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


def value_error(network: PolicyValueNetwork, own: Words, occupied: Words, outcome: npt.NDArray[np.int8]) -> float:
    """Mean |value - outcome|."""
    evaluator = Evaluator(network, backend="torch-fp32")
    wdl = np.concatenate(
        [
            evaluator.evaluate(make_planes(STANDARD, own[i : i + 256], occupied[i : i + 256]))[1]
            for i in range(0, len(own), 256)
        ]
    )
    return float(np.abs(wdl[:, 0] - wdl[:, 2] - outcome).mean())


def main() -> None:
    """Play, score, fit, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", type=Path)
    parser.add_argument("--stages", default="18-21", help="stones on the board")
    parser.add_argument("--samples", type=int, default=400_000)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--canonical", action="store_true", help="learn and measure the canonical orientation alone")
    parser.add_argument("--cache", type=Path, help="keep the scored positions in this .npz")
    options = parser.parse_args()
    low, high = (int(word) for word in options.stages.split("-"))
    if options.cache and options.cache.exists():
        own, occupied, outcome, b_own, b_occupied, b_outcome = np.load(options.cache).values()
    else:
        own, occupied = positions_of_games(options.network, options.samples, low, high, 0)
        print(f"{len(own)} distinct positions", flush=True)
        solver = Solver(table_bits=24)
        outcome = solver.solve_outcome_batch(own, occupied)
        held = len(own) - len(own) // 10
        b_own, b_occupied = beside(own[held:], occupied[held:], np.random.default_rng(1))
        b_outcome = solver.solve_outcome_batch(b_own, b_occupied)
        if options.cache:
            np.savez(options.cache, own, occupied, outcome, b_own, b_occupied, b_outcome)
    if options.canonical:
        own, occupied, _ = oriented(STANDARD, own, occupied)
        b_own, b_occupied, _ = oriented(STANDARD, b_own, b_occupied)
    held = len(own) - len(own) // 10
    print(
        f"{held} learned from, {len(own) - held} held out, {len(b_own)} beside; drawn {np.mean(outcome == 0):.2f}",
        flush=True,
    )
    before = load_checkpoint(options.network).network
    size = NetworkConfig(channels=options.channels, blocks=options.blocks)
    learning = LearningConfig(ownership_weight=0)
    learner = HostLearner(size, learning, STANDARD, 0)
    rng = np.random.default_rng(0)

    def stream() -> Iterator[Batch]:
        for _ in range(options.steps):
            chosen = rng.integers(0, held, BATCH)
            planes = make_planes(STANDARD, own[chosen], occupied[chosen])
            flip = rng.random(BATCH) < (0.0 if options.canonical else 0.5)
            planes[flip] = planes[flip][..., ::-1]
            wdl = np.stack([outcome[chosen] == o for o in (1, 0, -1)], axis=1).astype(np.float32)
            policy = np.full((BATCH, STANDARD.columns), 1 / STANDARD.columns, np.float32)
            yield Batch(planes, policy, np.zeros(BATCH, np.float32), wdl, np.zeros_like(planes))

    report = learner.learn_from(stream(), Schedule.of_run(learning, options.steps), held)
    fitted = learner.candidate()
    print(f"value loss {report.value_loss:.3f}; mean |value - outcome|: held out, beside, learned from")
    for name, network in (("as it plays", before), (f"fitted {options.channels} x {options.blocks}", fitted)):
        errors = [
            value_error(network, *rows)
            for rows in (
                (own[held:], occupied[held:], outcome[held:]),
                (b_own, b_occupied, b_outcome),
                (own[:5000], occupied[:5000], outcome[:5000]),
            )
        ]
        print(f"{name:16s}", " ".join(f"{error:.3f}" for error in errors), flush=True)


if __name__ == "__main__":
    main()

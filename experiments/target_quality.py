"""Quality of self-play's targets compared with exact play, and the moves at which won games are lost.

    python experiments/target_quality.py checkpoints/standard.safetensors --preset standard --samples 60000

It plays games with the preset's settings, then solves positions with up to 3 or at least ``--stones`` stones in a
sample of the games. Nothing learns from the results. All tables are by the number of stones on the board.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import STANDARD
from alphac4.nn.evaluator import Evaluator
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import Games, join_finished
from alphac4.selfplay.samples import lambda_returns
from alphac4.solver import FULL_COLUMN, Solver
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.records import read_literal
from alphac4.training.config import PRESETS, from_dict

BOOK_PLIES = 3  # plies for which the solver's opening book has the scores of all moves
BANDS = ((0, 3), (4, 7), (8, 11), (12, 15), (16, 19), (20, 23), (24, 27), (28, 33), (34, 41))


def play_games(path: Path, config: SelfPlayConfig, samples: int, seed: int) -> Games:
    """Play games of self-play by one actor."""
    network = load_checkpoint(path).network
    evaluator = Evaluator(network, batch_size=128, threads=1, backend="openvino-int8", allow_int8=True)
    actor = Actor(STANDARD, config, evaluator, 128, np.random.default_rng(seed))
    return join_finished([block.games for block in actor.play(-(-samples // 128), lambda: False)])


def outcomes(solver: Solver, games: Games, judged: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """Return the exact outcome of each column [G, C, A] where ``judged`` [G, C]; distinct positions are solved once."""
    result = np.full((*judged.shape, STANDARD.columns), FULL_COLUMN, np.int8)
    keys = np.stack([games.own[judged], games.occupied[judged]], axis=1)
    distinct, index = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort([-int(occupied).bit_count() for occupied in distinct[:, 1]], kind="stable")  # easy ones first
    scores = np.empty((len(distinct), STANDARD.columns), np.int8)
    for first in range(0, len(order), 5000):
        part = order[first : first + 5000]
        scores[part] = solver.analyze_batch(distinct[part, 0].copy(), distinct[part, 1].copy(), weak=True)
    result[judged] = scores[index.reshape(-1)]
    return result


def percent(hits: npt.NDArray[np.bool_]) -> str:
    """Return a share in percent, with the number of positions."""
    return f"{100 * hits.mean():5.1f} ({len(hits):6d})" if len(hits) else "    -         "


def average(values: npt.NDArray[np.floating]) -> str:
    """Return the mean of values as text, or a dash without values."""
    return f"{values.mean():+.3f}" if len(values) else "   -  "


def table(title: str, columns: dict[str, Callable[[npt.NDArray[np.bool_]], str]], ply: npt.NDArray[np.int64]) -> None:
    """Print a row for each band of stones; the function of a column is called with the mask of the band."""
    print(f"\n{title}\nstones   | " + " | ".join(columns))
    for low, high in BANDS:
        band = (ply >= low) & (ply <= high)
        print(f"{f'{low}-{high}':8s} | " + " | ".join(column(band) for column in columns.values()), flush=True)


def main() -> None:
    """Play games, solve positions and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", type=Path)
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--set", nargs="*", default=[], help="self-play settings, such as temperature=0.5")
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--judged", type=int, default=400, help="games to judge")
    parser.add_argument("--stones", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    changes = {key: read_literal(value) for key, value in (text.split("=") for text in options.set)}
    config = from_dict({"selfplay": changes}, PRESETS[options.preset]).selfplay
    games = play_games(options.network, config, options.samples, options.seed)
    count = len(games.plies)
    ply = np.broadcast_to(np.arange(STANDARD.cells), games.own.shape)
    recorded = (ply >= games.opening_plies[:, None]) & (ply < games.plies[:, None])
    print(f"{count} games, {recorded.sum()} positions; drawn {np.mean(games.outcome == 0):.2f}")

    chosen = np.arange(count) < options.judged
    judged = recorded & chosen[:, None] & ((ply >= options.stones) | (ply <= BOOK_PLIES))
    exact = outcomes(Solver(table_bits=24), games, judged)
    legal = exact != FULL_COLUMN
    best = np.where(legal, exact, -2).max(axis=2)
    decisive = judged & (np.where(legal, exact, 2).min(axis=2) < best)
    row, column = np.indices(judged.shape)
    errs = exact[row, column, games.moves] < best  # the move played
    target_errs = exact[row, column, games.policy_target.argmax(axis=2)] < best
    result = games.outcome[:, None] * np.where(ply % 2 == 0, 1, -1)
    returns = lambda_returns(games, config.td_lambda, config.td_max_regret)
    returned = returns[..., 0] - returns[..., 2]
    full, opened = games.is_full_search, games.opening_plies[:, None] > 0

    table(
        "Mistakes in decisive positions, %",
        {
            "target, full search": lambda band: percent(target_errs[decisive & band & full]),
            "target, fast search": lambda band: percent(target_errs[decisive & band & ~full]),
            "played": lambda band: percent(errs[decisive & band]),
            "mistakes by drawing another move than the target's": lambda band: percent(
                ~target_errs[decisive & band & errs]
            ),
            "mistakes in fast searches": lambda band: percent(~full[decisive & band & errs]),
            "mistakes that cut the trace": lambda band: percent(
                (games.regret > config.td_max_regret)[decisive & band & errs]
            ),
        },
        ply,
    )
    table(
        "Mean |value - exact outcome|",
        {
            "root, full search": lambda band: average(np.abs(games.value - best)[judged & band & full]),
            "root, fast search": lambda band: average(np.abs(games.value - best)[judged & band & ~full]),
            "TD target": lambda band: average(np.abs(returned - best)[judged & band]),
            "result": lambda band: average(np.abs(result - best)[judged & band]),
        },
        ply,
    )
    table(
        "Mean TD target where exact play wins, draws, loses",
        {
            name: lambda band, outcome=outcome: average(returned[judged & band & (best == outcome)])  # type: ignore[misc]
            for name, outcome in (("wins", 1), ("draws", 0), ("loses", -1))
        },
        ply,
    )
    table(
        "Correct results, %, and won positions that the side to move wins, %",
        {
            "correct, from random openings": lambda band: percent((result == best)[judged & band & opened]),
            "correct, from the empty board": lambda band: percent((result == best)[judged & band & ~opened]),
            "won, from random openings": lambda band: percent(result[judged & band & opened & (best == 1)] == 1),
            "won, from the empty board": lambda band: percent(result[judged & band & ~opened & (best == 1)] == 1),
            "root proven": lambda band: percent((np.abs(games.value) >= 1)[judged & band]),
        },
        ply,
    )


if __name__ == "__main__":
    main()

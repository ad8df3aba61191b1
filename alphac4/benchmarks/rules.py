"""The rules: move generation and random playouts."""

from collections.abc import Iterator

import numpy as np

from alphac4.benchmarks.figures import BenchmarkSettings, Figure, median_rate
from alphac4.compiled import compiled
from alphac4.game.rules import STANDARD, U64_0, Geometry, has_run, play
from alphac4.mcts.classic.rollouts import run_rollouts

PLAYOUTS = 50_000  # between two looks at the clock


@compiled
def count_positions(geometry: Geometry, own: np.uint64, occupied: np.uint64, depth: int) -> int:
    """Nodes of the full game tree down to ``depth`` more plies, with win tests: the usual move generator's test."""
    if has_run(geometry, own ^ occupied) or depth == 0:
        return 1
    nodes = 1
    for column in range(geometry.columns):
        next_own, next_occupied = play(geometry, own, occupied, column)
        if next_occupied != occupied:
            nodes += count_positions(geometry, next_own, next_occupied, depth - 1)
    return nodes


def measure_rules(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Move generation and random playouts on one core."""
    positions = median_rate(lambda: count_positions(STANDARD, U64_0, U64_0, 7), settings)
    yield Figure("rules", positions, "positions/s, one core")
    states = np.array([1], np.uint64)

    def playouts() -> float:
        run_rollouts(STANDARD, U64_0, U64_0, PLAYOUTS, states)
        return PLAYOUTS

    yield Figure("random playouts, empty board", median_rate(playouts, settings), "playouts/s, one core")

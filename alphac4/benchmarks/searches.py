"""The searches: classic MCTS on one tree and on several, and PUCT with a free evaluator."""

from collections.abc import Iterator

import numpy as np

from alphac4.benchmarks.figures import BenchmarkSettings, Figure, median_rate
from alphac4.game import Position
from alphac4.machine import cores
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget, TreeSearch
from alphac4.nn.evaluator import UniformEvaluator


def search_rate(search: TreeSearch, trees: int, simulations: int, settings: BenchmarkSettings) -> float:
    """Simulations/s from the empty board, over all trees."""
    positions, budget = [Position()] * trees, Budget(simulations=simulations)
    return median_rate(lambda: float(search.search(positions, budget).simulations.sum()), settings)


def measure_uct(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Classic MCTS on a single tree, one core."""
    for simulations in (1_000, 10_000, 100_000):
        rate = search_rate(UctSearch(rng=np.random.default_rng(0)), 1, simulations, settings)
        yield Figure(f"UCT, {simulations:,} a move", rate, "simulations/s, one tree, one core")


def measure_parallel(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Root-parallel classic MCTS on all cores against one tree with the same simulations in all, and where it pays."""
    threads = max(cores(), 2)
    pays: int | None = None
    for simulations in (100, 300, 1_000, 3_000, 10_000, 30_000):
        one, many = (
            search_rate(UctSearch(rng=np.random.default_rng(0), threads=roots, roots=roots), 1, simulations, settings)
            for roots in (1, threads)
        )
        name = f"UCT, {threads} roots on {threads} threads, {simulations:,} a move"
        yield Figure(name, many / one, "times one tree's speed")
        if many <= one:
            pays = None
        elif pays is None:
            pays = simulations
    if pays is not None:
        yield Figure("root parallelisation is faster from", pays, "simulations a move")


def measure_puct(settings: BenchmarkSettings) -> Iterator[Figure]:
    """The network-guided search with a free evaluator: what the tree costs."""
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    for trees in (1, 256):
        rate = search_rate(search, trees, 128, settings)
        yield Figure(f"PUCT, free evaluator, {trees} trees", rate, "simulations/s, one core")

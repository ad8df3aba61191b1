"""`alphac4 benchmark`: how fast each part is on this machine."""

import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from alphac4.commands.options import BenchmarkOptions
from alphac4.compiled import compiled
from alphac4.game import Position
from alphac4.game.rules import STANDARD, U64_0, Geometry, has_run, play
from alphac4.machine import cores, processor_name, worker_threads
from alphac4.mcts.classic.rollouts import Rollout, run_rollouts
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.network_search import NetworkSearch, make_cache
from alphac4.mcts.search import Budget, TreeSearch
from alphac4.nn.backends import Array, backend_names, boards_for, make_backend
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator, UniformEvaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import MAX_CACHED, Actor, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.replay import Batch
from alphac4.selfplay.samples import Block, Work
from alphac4.storage.records import similar
from alphac4.training.config import LearningConfig
from alphac4.training.learner import Learner
from alphac4.training.optimizer import Schedule

PLAYOUTS = 50_000  # between two looks at the clock
LEARNING_BATCH = 128  # positions, as in the quick and standard presets
LEARNING_STEPS = 2  # at a time


def run(options: BenchmarkOptions) -> int:
    """Measure and print."""
    unknown = [name for name in options.only if name not in PARTS]
    if unknown:
        raise ValueError(f"no part {unknown[0]!r} to measure{similar(unknown[0], PARTS)}; there are {', '.join(PARTS)}")
    chosen = [name for name in PARTS if name in (options.only or PARTS)]
    progress = tqdm(chosen, desc="benchmark", unit="part", disable=None, leave=False)
    figures = [figure for name in progress for figure in PARTS[name](options)]
    print(
        f"{processor_name()}, {cores()} cores, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}; network {options.channels} x {options.blocks}"
    )
    print(format_figures(figures))
    return 0


class Figure(NamedTuple):
    """One figure of a benchmark."""

    name: str
    value: float
    unit: str


def format_figures(figures: Sequence[Figure]) -> str:
    """A line for each figure; small ones with three digits."""
    width = max(len(figure.name) for figure in figures)
    return "\n".join(
        f"{name:<{width}}  {format(value, ',.3g' if value < 10 else ',.0f'):>14}  {unit}"
        for name, value, unit in figures
    )


def rate(work: Callable[[], float], seconds: float) -> float:
    """Units a second of ``work``, which returns the units that it did."""
    started, units = time.perf_counter(), 0.0
    while time.perf_counter() - started < seconds:
        units += work()
    return units / (time.perf_counter() - started)


def untrained_network(options: BenchmarkOptions) -> PolicyValueNetwork:
    """A network of the size asked for."""
    return PolicyValueNetwork(NetworkConfig(channels=options.channels, blocks=options.blocks)).eval()


def median_rate(work: Callable[[], float], options: BenchmarkOptions) -> float:
    """The median `rate` of the repeats; ``work`` runs once more before, to warm up."""
    work()
    return float(np.median([rate(work, options.seconds / options.repeats) for _ in range(options.repeats)]))


def rate_of_streams(run: Callable[[Array], object], planes: Array, streams: int, seconds: float) -> float:
    """Evaluations/s when ``streams`` threads call with ``planes`` each; raises what a call raises."""

    def evaluate(_number: int = 0) -> float:
        run(planes)
        return len(planes)

    with worker_threads(streams) as pool:
        list(pool.map(evaluate, range(streams)))  # to warm up
        return sum(pool.map(lambda _: rate(evaluate, seconds), range(streams)))


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


def measure_rules(options: BenchmarkOptions) -> Iterator[Figure]:
    """Move generation and random playouts on one core."""
    positions = median_rate(lambda: count_positions(STANDARD, U64_0, U64_0, 7), options)
    yield Figure("rules", positions, "positions/s, one core")
    states = np.array([1], np.uint64)

    def playouts() -> float:
        run_rollouts(STANDARD, U64_0, U64_0, PLAYOUTS, states, Rollout())
        return PLAYOUTS

    yield Figure("random playouts, empty board", median_rate(playouts, options), "playouts/s, one core")


def search_rate(search: TreeSearch, trees: int, simulations: int, options: BenchmarkOptions) -> float:
    """Simulations/s from the empty board, over all trees."""
    positions, budget = [Position()] * trees, Budget(simulations=simulations)
    return median_rate(lambda: float(search.search(positions, budget).simulations.sum()), options)


def measure_uct(options: BenchmarkOptions) -> Iterator[Figure]:
    """Classic MCTS on a single tree, one core."""
    for simulations in (1_000, 10_000, 100_000):
        found = search_rate(UctSearch(rng=np.random.default_rng(0)), 1, simulations, options)
        yield Figure(f"UCT, {simulations:,} a move", found, "simulations/s, one tree, one core")


def measure_puct(options: BenchmarkOptions) -> Iterator[Figure]:
    """The network-guided search with a free evaluator: what the tree costs."""
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    for trees in (1, 256):
        found = search_rate(search, trees, 128, options)
        yield Figure(f"PUCT, free evaluator, {trees} trees", found, "simulations/s, one core")


def measure_inference(options: BenchmarkOptions) -> Iterator[Figure]:
    """Evaluations/s of every backend of this machine at several batch sizes, with one calling thread a core."""
    network = untrained_network(options)
    rng = np.random.default_rng(0)
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        for batch in options.batches:
            planes = boards_for(network.config, batch, rng)
            for name in backend_names(device):
                found = rate_of_streams(make_backend(name, network, batch, 1), planes, cores(), options.seconds)
                yield Figure(f"inference, {name}, batch {batch}", found, "evaluations/s")


def measure_selfplay(options: BenchmarkOptions) -> Iterator[Figure]:
    """Self-play on the cores with the default settings, against the evaluator's rate alone in the same run."""
    config = SelfPlayConfig()
    slots = -(-config.games // cores())
    evaluator = Evaluator(untrained_network(options), batch_size=slots, streams=cores(), int8=True)
    cache = make_cache(MAX_CACHED, STANDARD)
    actors = [Actor(STANDARD, config, evaluator, slots, np.random.default_rng(i), cache) for i in range(cores())]
    planes = boards_for(evaluator.network.config, slots, np.random.default_rng(0))
    play_together(actors, 2, threading.Event(), lambda _index, _block: None)
    rows = []  # of each repeat
    for _ in range(options.repeats):
        work = Work()

        def on_block(_index: int, block: Block, work: Work = work) -> None:
            work.add(block.work)

        alone = rate_of_streams(evaluator.evaluate, planes, cores(), options.seconds)
        started = time.perf_counter()
        moves = max(1, int(max(2_000, 1_000 * options.seconds) / config.games))
        play_together(actors, moves, threading.Event(), on_block)
        seconds = time.perf_counter() - started
        share = work.network_seconds / cores() / seconds
        simulations, evaluations = work.simulations / seconds, work.evaluations / seconds
        rows.append((simulations, evaluations, alone, 100 * share, 100 * evaluations / share / alone))
    by = f"simulations/s ({evaluator.backend}, {config.games} games, all cores)"
    names = {
        "self-play": by,
        "self-play: through the network": "evaluations/s",
        "the same evaluator alone": "evaluations/s",
        "self-play: network's share of the time": "%",
        "self-play: network's rate against alone": "%",
    }
    for (name, unit), value in zip(names.items(), np.median(rows, axis=0), strict=True):
        yield Figure(name, float(value), unit)


def measure_learning(options: BenchmarkOptions) -> Iterator[Figure]:
    """Gradient steps as the presets take them; where those are by Winograd's filtering, by PyTorch alone too."""
    network = NetworkConfig(channels=options.channels, blocks=options.blocks, ownership=True)
    config = LearningConfig(batch_size=LEARNING_BATCH)
    schedule = Schedule.of_run(config, 1_000_000)
    batches = [random_batch(LEARNING_BATCH, network)] * LEARNING_STEPS

    def figure(name: str, learner: Learner) -> Figure:
        def learn() -> float:
            return LEARNING_BATCH * learner.learn_from(batches, schedule, LEARNING_BATCH).steps

        unit = f"positions/s ({learner.precision}, batch {LEARNING_BATCH}, Muon)"
        return Figure(name, median_rate(learn, options), unit)

    learner = Learner(network, config, STANDARD, seed=0)
    yield figure("learning", learner)
    if learner.by_winograd:
        alike = Learner(network, config, STANDARD, seed=0, precision=learner.precision)
        alike.by_winograd = False
        yield figure("learning by PyTorch's convolutions", alike)


def random_batch(size: int, network: NetworkConfig) -> Batch:
    """Random boards and targets: they take no less time than a game's."""
    rng = np.random.default_rng(1)
    planes = boards_for(network, size, rng)
    policy = rng.random((size, 7)).astype(np.float32)
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, size)]
    return Batch(planes, policy / policy.sum(axis=1, keepdims=True), np.ones(size, np.float32), wdl, planes[:, :2])


PARTS: dict[str, Callable[[BenchmarkOptions], Iterator[Figure]]] = {
    "rules": measure_rules,
    "uct": measure_uct,
    "puct": measure_puct,
    "inference": measure_inference,
    "selfplay": measure_selfplay,
    "learning": measure_learning,
}

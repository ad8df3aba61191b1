"""`alphac4 benchmark`: how fast each part is on this machine."""

import dataclasses
import json
import logging
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from tqdm import tqdm

from alphac4.commands.arguments import read_arguments
from alphac4.compiled import compiled
from alphac4.game import Position
from alphac4.game.rules import STANDARD, U64_0, Geometry, has_run, play
from alphac4.machine import cores
from alphac4.mcts.rollouts import run_rollouts
from alphac4.mcts.search import Budget, NetworkSearch
from alphac4.mcts.uct_search import UctSearch
from alphac4.nn.backends import available_backends
from alphac4.nn.evaluator import Evaluator, UniformEvaluator, measure_rate
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.ranges import check_ranges
from alphac4.selfplay.actor import Actor, play_together
from alphac4.selfplay.blocks import Block, Work
from alphac4.selfplay.config import SelfPlayConfig


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """Measure rules, searches, inference and self-play; each figure is the median of several runs."""

    seconds: float = 1.0
    """Rough length of each measurement."""
    repeats: int = 3
    """Runs of each; the median is shown."""
    channels: int = 64
    """Channels of the network."""
    blocks: int = 4
    """Residual blocks of the network."""
    batches: tuple[int, ...] = (1, 32, 128, 256)
    """Batch sizes for inference."""
    only: tuple[str, ...] = ()
    """Parts to measure: rules, uct, parallel, puct, inference, selfplay; all by default."""
    peers: bool = False
    """Compare with other programs for the same game instead, in one run: OpenSpiel's C++ MCTS, and self-play by pgx
    and mctx in JAX; what is not installed is named (pip install 'alphac4[peers]')."""
    peer_pairs: int = 10
    """With --peers: colour-swapped pairs of games against OpenSpiel at equal time a move."""
    device: Literal["cpu", "cuda"] = "cpu"
    """With cuda: self-play and learning with everything on the GPU instead, and pgx + mctx there if installed."""
    device_games: tuple[int, ...] = (1024, 4096, 16384)
    """With --device cuda: games at once."""
    device_streams: tuple[int, ...] = (1, 2)
    """With --device cuda: parts that the games are split into."""
    json: bool = False
    """Print JSON instead of a table."""

    def __post_init__(self) -> None:
        check_ranges(
            self,
            seconds=(1e-6, 3600),
            repeats=(1, 1000),
            channels=(1, 4096),
            blocks=(0, 256),
            batches=(1, 65_536),
            peer_pairs=(1, 10_000),
            device_games=(1, 1 << 24),
            device_streams=(1, 64),
        )


@dataclass
class Table:
    """Rows of results as they come in."""

    rows: list[tuple[str, float, str]] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        """Add one figure."""
        self.rows.append((name, value, unit))

    def __str__(self) -> str:
        width = max(len(name) for name, _, _ in self.rows)
        return "\n".join(
            f"{name:<{width}}  {value:>14,.3g}  {unit}" if value < 10 else f"{name:<{width}}  {value:>14,.0f}  {unit}"
            for name, value, unit in self.rows
        )


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(BenchmarkOptions, arguments, "benchmark"))


def run(options: BenchmarkOptions) -> int:
    """Measure and print."""
    logging.basicConfig(level=logging.WARNING)
    parts: dict[str, Callable[[BenchmarkOptions, Table], None]] = {
        "rules": measure_rules,
        "uct": measure_uct,
        "parallel": measure_parallel,
        "puct": measure_puct,
        "inference": measure_inference,
        "selfplay": measure_selfplay,
    }
    unknown = [name for name in options.only if name not in parts]
    if unknown:
        raise ValueError(f"no part {unknown[0]!r} to measure; there are {', '.join(parts)}")
    if options.peers:
        return run_peers(options)
    table = Table()
    if options.device == "cuda":
        chosen, parts = ["device"], {"device": measure_on_device}
    else:
        chosen = [name for name in parts if not options.only or name in options.only]
    for name in tqdm(chosen, desc="benchmark", unit="part", disable=None, leave=False):
        parts[name](options, table)
    if options.json:
        print(json.dumps({name: {"value": value, "unit": unit} for name, value, unit in table.rows}, indent=2))
        return 0
    where = f"{platform.processor() or platform.machine()}, {cores()} cores"
    if options.device == "cuda" and torch.cuda.is_available():
        where = torch.cuda.get_device_name()
    print(
        f"{where}, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}; network {options.channels} x {options.blocks}"
    )
    print(table)
    return 0


def measure_on_device(options: BenchmarkOptions, table: Table) -> None:
    """Self-play and learning with everything on the GPU; rough lengths are ten times ``seconds``."""
    from alphac4.commands.device_benchmark import measure_device

    measure_device(
        table.add,
        channels=options.channels,
        blocks=options.blocks,
        games=options.device_games,
        streams=options.device_streams,
        seconds=10 * options.seconds,
    )


def run_peers(options: BenchmarkOptions) -> int:
    """Measure ourselves and each installed peer in turn; print both figures and their ratio."""
    from alphac4.commands import peers

    comparisons: list[peers.Comparison] = []
    match = None
    seconds = 10 * options.seconds
    for peer in peers.PEERS:
        missing = peers.missing_packages(peer)
        if missing:
            print(f"{peer}: not measured, not installed: {', '.join(missing)}", file=sys.stderr)
        elif peer == "openspiel":
            comparisons += [peers.compare_openspiel(count, options.seconds) for count in (1_000, 10_000)]
            match = peers.play_openspiel(options.peer_pairs, 0.1) if options.peer_pairs else None
        else:
            comparisons += peers.compare_pgx(channels=options.channels, blocks=options.blocks, seconds=seconds)
    if options.json:
        print(json.dumps([{**dataclasses.asdict(c), "ratio": c.ratio} for c in comparisons], indent=2))
        return 0
    for comparison in comparisons:
        print(
            f"{comparison.name}: {comparison.ours:,.0f} against {comparison.theirs:,.0f} {comparison.unit}, "
            f"{comparison.ratio:.1f} times"
        )
    if match is not None:
        print(f"{match[0]}, equal time: {match[1]}")
    return 0


def rate(work: Callable[[], float], options: BenchmarkOptions) -> float:
    """Units a second, the median of the repeats; ``work`` returns the units that it did. It runs once to warm up."""
    work()
    rates = []
    for _ in range(options.repeats):
        started, units = time.perf_counter(), 0.0
        while time.perf_counter() - started < options.seconds / options.repeats:
            units += work()
        rates.append(units / (time.perf_counter() - started))
    return float(np.median(rates))


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


def measure_rules(options: BenchmarkOptions, table: Table) -> None:
    """Move generation and random playouts on one core."""
    table.add("rules", rate(lambda: count_positions(STANDARD, U64_0, U64_0, 7), options), "positions/s, one core")
    states = np.array([1], np.uint64)

    def playouts() -> float:
        run_rollouts(STANDARD, U64_0, U64_0, 50_000, states)
        return 50_000

    table.add("random playouts, empty board", rate(playouts, options), "playouts/s, one core")


def measure_uct(options: BenchmarkOptions, table: Table) -> None:
    """Classic MCTS on a single tree from the empty board, one core."""
    for simulations in (1_000, 10_000, 100_000):
        search = UctSearch(rng=np.random.default_rng(0))

        def work(search: UctSearch = search, simulations: int = simulations) -> float:
            return float(search.search([Position()], Budget(simulations=simulations)).simulations.sum())

        table.add(f"UCT, {simulations:,} a move", rate(work, options), "simulations/s, one tree, one core")


def measure_parallel(options: BenchmarkOptions, table: Table) -> None:
    """Root-parallel classic MCTS on all cores against one tree with the same simulations in all, and where it pays."""
    threads = max(cores(), 2)
    pays: int | None = None
    for simulations in (100, 300, 1_000, 3_000, 10_000, 30_000):
        rates = []
        for roots in (1, threads):
            search = UctSearch(rng=np.random.default_rng(0), threads=roots, roots=roots)

            def work(search: UctSearch = search, simulations: int = simulations) -> float:
                return float(search.search([Position()], Budget(simulations=simulations)).simulations.sum())

            rates.append(rate(work, options))
        speedup = rates[1] / rates[0]
        table.add(
            f"UCT, {threads} roots on {threads} threads, {simulations:,} a move", speedup, "times one tree's speed"
        )
        if speedup <= 1:
            pays = None
        elif pays is None:
            pays = simulations
    if pays is not None:
        table.add("root parallelisation is faster from", pays, "simulations a move")


def measure_puct(options: BenchmarkOptions, table: Table) -> None:
    """The network-guided search with a free evaluator: what the tree costs."""
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    for trees in (1, 256):
        positions = [Position()] * trees

        def work(positions: Sequence[Position] = positions) -> float:
            return float(search.search(positions, Budget(simulations=128)).simulations.sum())

        table.add(f"PUCT, free evaluator, {trees} trees", rate(work, options), "simulations/s, one core")


def _network(options: BenchmarkOptions) -> PolicyValueNetwork:
    return PolicyValueNetwork(NetworkConfig(channels=options.channels, blocks=options.blocks)).eval()


def measure_inference(options: BenchmarkOptions, table: Table) -> None:
    """Every inference backend at several batch sizes, with one calling thread a core."""
    network = _network(options)
    rng = np.random.default_rng(0)
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        for batch in options.batches:
            planes = (rng.random((batch, 2, 6, 7)) < 0.3).astype(np.float32)
            for name, make in available_backends(device, batch, cores(), cores()).items():
                evaluations = measure_rate(make(network), planes, cores(), options.seconds)
                table.add(f"inference, {name}, batch {batch}", evaluations, "evaluations/s")


def measure_selfplay(options: BenchmarkOptions, table: Table) -> None:
    """Self-play with the default settings, against the evaluator's rate alone in the same run."""
    config = SelfPlayConfig()
    slots = -(-config.games // cores())
    evaluator = Evaluator(_network(options), batch_size=slots, streams=cores(), int8=True)
    actors = [Actor(STANDARD, config, evaluator, slots, np.random.default_rng(i)) for i in range(cores())]
    planes = (np.random.default_rng(0).random((slots, 2, 6, 7)) < 0.3).astype(np.float32)
    works: list[Work] = []
    seconds: list[float] = []
    alone: list[float] = []
    play_together(actors, 500, threading.Event(), lambda _index, _block: None)
    for _ in range(options.repeats):
        work = Work()

        def on_block(_index: int, block: Block, work: Work = work) -> None:
            work.add(block.work)

        alone.append(measure_rate(evaluator.evaluate, planes, cores(), options.seconds))
        started = time.perf_counter()
        play_together(actors, max(2_000, int(1_000 * options.seconds)), threading.Event(), on_block)
        seconds.append(time.perf_counter() - started)
        works.append(work)
    network_shares = [w.network_seconds / cores() / s for w, s in zip(works, seconds, strict=True)]
    in_network = [w.evaluations / (w.network_seconds / cores()) / rate for w, rate in zip(works, alone, strict=True)]
    table.add(
        "self-play",
        float(np.median([w.simulations / s for w, s in zip(works, seconds, strict=True)])),
        f"simulations/s ({evaluator.backend}, {config.games} games, all cores)",
    )
    table.add(
        "self-play", float(np.median([w.evaluations / s for w, s in zip(works, seconds, strict=True)])), "evaluations/s"
    )
    table.add("the same evaluator alone", float(np.median(alone)), "evaluations/s")
    table.add("self-play: network's share of the time", 100 * float(np.median(network_shares)), "%")
    table.add("self-play: network's rate against alone", 100 * float(np.median(in_network)), "%")

"""`alphac4 benchmark`: how fast each part is on this machine."""

import dataclasses
import json
import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
import tyro
from tqdm import tqdm

from alphac4.benchmarks.cluster import measure_capacity, measure_cluster
from alphac4.benchmarks.parts import PARTS, BenchmarkSettings, Figure, format_figures
from alphac4.commands.arguments import read_arguments
from alphac4.machine import cores
from alphac4.storage.records import check_ranges

ON_REQUEST: dict[str, Callable[[BenchmarkSettings], Iterator[Figure]]] = {
    "cluster": measure_cluster,
    "capacity": measure_capacity,
}


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """Measure rules, searches, inference, self-play and learning; each figure is the median of several runs."""

    settings: Annotated[BenchmarkSettings, tyro.conf.arg(name="")] = field(default_factory=BenchmarkSettings)
    """What all measurements have in common."""
    only: tuple[str, ...] = ()
    """Parts to measure: rules, uct, parallel, puct, inference, selfplay, learning; all of these by default. Where Ray
    is installed also: cluster, self-play on three nodes of this machine against the same without a cluster; capacity,
    how many positions/s the driver of a cluster takes in and stores."""
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
        check_ranges(self, peer_pairs=(1, 10_000), device_games=(1, 1 << 24), device_streams=(1, 64))


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(BenchmarkOptions, arguments, "benchmark"))


def run(options: BenchmarkOptions) -> int:
    """Measure and print."""
    logging.basicConfig(level=logging.WARNING)
    unknown = [name for name in options.only if name not in PARTS | ON_REQUEST]
    if unknown:
        raise ValueError(f"no part {unknown[0]!r} to measure; there are {', '.join(PARTS | ON_REQUEST)}")
    if options.peers:
        return _run_peers(options)
    figures = _measure_device(options) if options.device == "cuda" else _measure_parts(options)
    if options.json:
        print(json.dumps({name: {"value": value, "unit": unit} for name, value, unit in figures}, indent=2))
        return 0
    where = f"{platform.processor() or platform.machine()}, {cores()} cores"
    if options.device == "cuda" and torch.cuda.is_available():
        where = torch.cuda.get_device_name()
    print(
        f"{where}, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}; network {options.settings.channels} x {options.settings.blocks}"
    )
    print(format_figures(figures))
    return 0


def _measure_parts(options: BenchmarkOptions) -> list[Figure]:
    parts = PARTS | ON_REQUEST
    chosen = [name for name in parts if name in (options.only or PARTS)]
    progress = tqdm(chosen, desc="benchmark", unit="part", disable=None, leave=False)
    return [figure for name in progress for figure in parts[name](options.settings)]


def _measure_device(options: BenchmarkOptions) -> list[Figure]:
    from alphac4.benchmarks.device import measure_device

    return list(measure_device(options.settings, options.device_games, options.device_streams))


def _run_peers(options: BenchmarkOptions) -> int:
    """Measure ourselves and each installed peer in turn; print both figures and their ratio."""
    from alphac4.benchmarks.peers import compare_installed

    comparisons, match = compare_installed(options.settings, options.peer_pairs)
    if options.json:
        print(json.dumps([{**dataclasses.asdict(c), "ratio": c.ratio} for c in comparisons], indent=2))
        return 0
    for comparison in comparisons:
        print(
            f"{comparison.name}: {comparison.ours:,.0f} against {comparison.theirs:,.0f} {comparison.unit}, "
            f"{comparison.ratio:.1f} times{comparison.note and f'; {comparison.note}'}"
        )
    if match is not None:
        print(match)
    return 0

"""`alphac4 benchmark`: how fast each part is on this machine."""

import json
import platform
from collections.abc import Callable, Iterator

import torch
from tqdm import tqdm

from alphac4.benchmarks import BenchmarkSettings
from alphac4.benchmarks.cluster import measure_cluster
from alphac4.benchmarks.parts import PARTS, Figure, format_figures
from alphac4.commands.options.judge import BenchmarkOptions
from alphac4.machine import cores

ON_REQUEST: dict[str, Callable[[BenchmarkSettings], Iterator[Figure]]] = {"cluster": measure_cluster}


def run(options: BenchmarkOptions) -> int:
    """Measure and print."""
    unknown = [name for name in options.only if name not in PARTS | ON_REQUEST]
    if unknown:
        raise ValueError(f"no part {unknown[0]!r} to measure; there are {', '.join(PARTS | ON_REQUEST)}")
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

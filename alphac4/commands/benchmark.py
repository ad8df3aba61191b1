"""`alphac4 benchmark`: how fast each part is on this machine."""

import platform

import torch
from tqdm import tqdm

from alphac4.benchmarks import BenchmarkOptions
from alphac4.benchmarks.parts import PARTS, format_figures
from alphac4.machine import cores, processor_name


def run(options: BenchmarkOptions) -> int:
    """Measure and print."""
    unknown = [name for name in options.only if name not in PARTS]
    if unknown:
        raise ValueError(f"no part {unknown[0]!r} to measure; there are {', '.join(PARTS)}")
    chosen = [name for name in PARTS if name in (options.only or PARTS)]
    progress = tqdm(chosen, desc="benchmark", unit="part", disable=None, leave=False)
    figures = [figure for name in progress for figure in PARTS[name](options)]
    print(
        f"{processor_name()}, {cores()} cores, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}; network {options.channels} x {options.blocks}"
    )
    print(format_figures(figures))
    return 0

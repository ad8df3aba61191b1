"""`alphac4 train`: the whole loop."""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import tyro

from alphac4.commands.arguments import read_arguments
from alphac4.storage.files import check_folder
from alphac4.training.config import TrainConfig
from alphac4.training.loop import Stopped
from alphac4.training.session import find_config, train


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Train a network from nothing, or go on with the run in the folder.

    Settings come from the preset, then from the file, then from the options; the defaults shown are the preset's.
    """

    run: Path = Path("runs/latest")
    """The run's folder; if it holds a run already, that run goes on, with its own settings if no others are named."""
    preset: Literal["quick", "standard", "strong"] = "standard"
    """quick: 13 to 18 minutes on two cores of a slow machine; standard: two hours; strong: for a large machine."""
    settings: Path | None = None
    """A JSON file of settings over the preset, such as another run's config.json or a part of it."""
    cluster: str | None = None
    """Let self-play run on the GPUs of a Ray cluster, or else on its cores: HOST:PORT of its head, or auto for the one
    that this machine or job belongs to (docs/cluster.md). A run may change from one machine to a cluster and back."""
    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)
    """The run's settings."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(parse(arguments))


def parse(arguments: Sequence[str]) -> TrainOptions:
    """The options, with the preset's and the file's settings, or the run's own, as defaults of the others."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--run", type=Path, nargs="?", default=TrainOptions.run)
    first.add_argument("--preset", nargs="?")
    first.add_argument("--settings", type=Path, nargs="?")
    chosen, _ = first.parse_known_args(arguments)
    config = find_config(chosen.run or TrainOptions.run, chosen.preset, chosen.settings, TrainOptions.preset)
    default = TrainOptions(preset=chosen.preset or TrainOptions.preset, settings=chosen.settings, config=config)
    return read_arguments(TrainOptions, arguments, "train", default=default)


def run(options: TrainOptions) -> int:
    """Train until done or interrupted; 0 when done, 130 after Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    check_folder(options.run)
    stop = threading.Event()

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C does not wait

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        trained = train(options.run, options.config, stop, cluster=options.cluster)
    except Stopped:
        print(f"\nStopped. Everything recorded is in {options.run}; the same command goes on from there.")
        return 130
    finally:
        signal.signal(signal.SIGINT, before)
    print(f"\n{trained}")
    return 0

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

from alphac4.training.config import PRESETS, TrainConfig, load_config
from alphac4.training.loop import Stopped, TrainingLoop
from alphac4.training.reports import MatchReport


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Train a network from nothing, or go on with the run in the folder.

    Settings come from the preset, then from the file, then from the options; the defaults shown are the preset's.
    """

    run: Path = Path("runs/latest")
    """The run's folder; if it holds a run already, that run goes on, with its own settings if no others are named."""
    preset: Literal["quick", "standard", "strong"] = "standard"
    """quick: about 10 minutes on two cores; standard: about 2 hours; strong: for a large machine."""
    settings: Path | None = None
    """A JSON file of settings over the preset, such as another run's config.json or a part of it."""
    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)
    """The run's settings."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(parse(arguments))


def parse(arguments: Sequence[str]) -> TrainOptions:
    """The options, with the preset's and the file's settings, or the run's own, as defaults of the others."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--run", type=Path, default=TrainOptions.run)
    first.add_argument("--preset", choices=list(PRESETS))
    first.add_argument("--settings", type=Path)
    chosen, _ = first.parse_known_args(arguments)
    preset = chosen.preset or TrainOptions.preset
    config = PRESETS[preset]
    own = chosen.run / "config.json"
    if chosen.settings is not None:
        config = load_config(chosen.settings, config)
    elif chosen.preset is None and own.exists():
        config = load_config(own, config)
    default = TrainOptions(preset=preset, settings=chosen.settings, config=config)
    return tyro.cli(TrainOptions, default=default, args=arguments, prog="alphac4 train")


def run(options: TrainOptions) -> int:
    """Train until done or interrupted; 0 when done, 130 after Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    stop = threading.Event()

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C does not wait

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        loop = TrainingLoop(options.run, options.config, stop)
        history = loop.run()
        closing = loop.close(history)
    except Stopped:
        print(f"\nStopped. Everything recorded is in {options.run}; the same command goes on from there.")
        return 130
    finally:
        signal.signal(signal.SIGINT, before)
    state = loop.state
    print(f"\nTrained {state.iteration} iterations in {state.seconds / 60:.1f} minutes: ", end="")
    print(f"{state.games:,} games, {state.samples:,} positions, {state.evaluations:,} evaluations.")
    if history:
        start = "first" if options.config.start_from else "untrained"
        print(f"Elo {history[-1].elo:+.0f} ± {history[-1].elo_error:.0f} over the {start} network.")
    for match in closing:
        print(describe_match(match, options.config.gate.classic_simulations))
    print(f"The best network: {loop.folder.best_path}")
    return 0


def describe_match(match: MatchReport, simulations: int) -> str:
    """One sentence with the score and its 95 % interval."""
    games = match.wins + match.draws + match.losses
    return (
        f"At {simulations} simulations a move against {match.opponent}: {match.score:.1%} of the points "
        f"[{match.low:.1%}, {match.high:.1%}] in {games} colour-swapped games "
        f"({match.wins} won, {match.draws} drawn, {match.losses} lost)."
    )

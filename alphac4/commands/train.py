"""`alphac4 train`: the whole loop."""

import argparse
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, get_args, get_type_hints

import tyro

from alphac4.commands.arguments import read_arguments
from alphac4.storage.files import check_folder
from alphac4.storage.records import similar

DESCRIPTION = """\
Train a network from nothing, or go on with the run in the folder.

Settings come from the preset, then from the file, then from the options."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Which run, and where it works."""

    run: Path = Path("runs/latest")
    """The run's folder; if it holds a run already, that run goes on, with its own settings if no others are named."""
    preset: Literal["quick", "standard"] = "standard"
    """quick: 7 to 18 minutes on two cores; standard: 75 minutes to two hours. `alphac4 doctor` estimates both for this
    machine."""
    settings: Path | None = None
    """A JSON file of settings over the preset, such as another run's config.json or a part of it."""
    cluster: str | None = None
    """Let self-play run on the GPUs of a Ray cluster, or else on its cores: HOST:PORT of its head, or auto for the one
    that this machine or job belongs to (docs/cluster.md). A run may change from one machine to a cluster and back."""


OUTER_SETTINGS = ("iterations", "samples", "seed", "start-from")  # those that belong to no part


def _setting(name: str, about: str) -> Any:
    """An option that ``--help`` shows of those that ``--help-all`` explains."""
    return tyro.conf.arg(name=name, help=about, help_behavior_hint="(default: the preset's)")


@dataclass(frozen=True, kw_only=True)
class FrequentOptions(RunOptions):
    """Options that people set, for ``--help``: it does without the settings' own class, which takes seconds to load."""

    iterations: Annotated[int, _setting("iterations", "Rounds of self-play, learning and gating.")] = 0
    samples: Annotated[int, _setting("samples", "Positions recorded by self-play in an iteration.")] = 0
    channels: Annotated[int, _setting("network.channels", "Channels of the residual tower.")] = 0
    blocks: Annotated[int, _setting("network.blocks", "Residual blocks of two convolutions.")] = 0
    seed: Annotated[int, _setting("seed", "Fixes the run on one machine.")] = 0
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        _setting("machine.device", "Where the network runs and learns; auto takes CUDA where there is one (not mps)."),
    ] = "auto"


def parse(arguments: Sequence[str]) -> Any:
    """`RunOptions` with the settings as ``config``, by default those of the preset and the file, or the run's own."""
    if {"-h", "--help"} & set(arguments):
        more = f"{DESCRIPTION} These are the usual ones; `alphac4 train --help-all` explains them all."
        read_arguments(FrequentOptions, ["--help"], "train", description=more)
    _check_names(arguments)
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--run", type=Path, nargs="?", default=RunOptions.run)
    first.add_argument("--preset", nargs="?")
    first.add_argument("--settings", type=Path, nargs="?")
    chosen, _ = first.parse_known_args(arguments)
    presets = get_args(get_type_hints(RunOptions)["preset"])
    if chosen.preset not in (None, *presets):
        raise ValueError(
            f"no preset {chosen.preset!r}{similar(chosen.preset, presets)}; there are {', '.join(presets)}"
        )
    from alphac4.runs.session import find_config
    from alphac4.training.config import TrainConfig

    config = find_config(chosen.run or RunOptions.run, chosen.preset, chosen.settings, RunOptions.preset)

    @dataclass(frozen=True, kw_only=True)
    class TrainOptions(RunOptions):
        config: Annotated[TrainConfig, tyro.conf.arg(name="", help="The run's settings.")] = field(
            default_factory=lambda: config
        )

    shown = ["--help" if argument == "--help-all" else argument for argument in arguments]
    return read_arguments(TrainOptions, shown, "train", description=DESCRIPTION)


def _check_names(arguments: Sequence[str]) -> None:
    """Refuse misspelt options before PyTorch is loaded, which takes seconds."""
    given = [argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")]
    known = ["help", "help-all", *OUTER_SETTINGS, *(item.name for item in fields(RunOptions))]
    if any("." in name for name in given):
        from alphac4.training.config import TrainConfig

        known += _setting_names(TrainConfig)
    known = [f"--{name.replace('_', '-')}" for name in known]
    for name in given:
        if name not in known:
            raise ValueError(f"no option {name}{similar(name, known)}; alphac4 train --help-all lists them")


def _setting_names(kind: Any, prefix: str = "") -> Iterator[str]:
    """The options for settings, such as gate.pairs."""
    for item in fields(kind):
        if is_dataclass(item.type):
            yield from _setting_names(item.type, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name
            if item.type is bool:
                yield f"{prefix}no-{item.name}"


def run(options: Any) -> int:
    """Train until done or interrupted; 0 when done, 130 after Ctrl-C."""
    from alphac4.runs.session import RunStopped, train

    check_folder(options.run)
    stop = threading.Event()

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C does not wait

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        trained = train(options.run, options.config, stop, cluster=options.cluster)
    except RunStopped:
        print(f"\nStopped. Everything recorded is in {options.run}; the same command goes on from there.")
        return 130
    finally:
        signal.signal(signal.SIGINT, before)
    print(f"\n{trained}\n\nNext:")
    print(f"  alphac4 play --network {trained.best}")
    print(f"  alphac4 evaluate {trained.best}")
    print(f"  tensorboard --logdir {options.run}")
    return 0

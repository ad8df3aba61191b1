"""`alphac4 train`: the whole loop."""

import contextlib
import re
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import tyro

from alphac4.commands.arguments import Device, read_arguments, unreadable
from alphac4.machine import wrapped
from alphac4.storage.files import check_folder

DESCRIPTION = """\
Train a network from nothing, or go on with the run in the folder.

Settings come from the preset, then from the file, then from the options."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The run, and the place where it works."""

    run: Path = Path("runs/latest")
    """The run's folder; if it holds a run already, that run goes on, with its own settings but for those named."""
    preset: Literal["auto", "quick", "standard", "gpu-quick", "gpu-best"] = "auto"
    """quick: 8 to 24 minutes on two idle cores, by the processor's instructions; standard: 75 minutes to two hours
    with AVX-512 (`alphac4 doctor` estimates both for this machine). On an NVIDIA GPU, gpu-quick: one minute; gpu-best:
    4 minutes, as strong as the shipped networks. auto: the settings of the run in the folder, or else standard."""
    settings: Path | None = None
    """A JSON file of settings over those of the preset, such as another run's config.json or a part of it."""
    cluster: str | None = None
    """Let self-play run on the cores of a Ray cluster, or with --machine.device cuda on its GPUs: HOST:PORT of its
    head, or auto for the one that this machine or job belongs to (docs/cluster.md). A run may change from one machine
    to a cluster and back."""


_OF_PRESET = tyro.conf.arg(help_behavior_hint="(default: the preset's)")


@dataclass(frozen=True, kw_only=True)
class FrequentOptions(RunOptions):
    """Options that people set, and all without a dot: these are told without loading anything."""

    iterations: Annotated[int, _OF_PRESET] = 0
    """Rounds of self-play, learning and gating."""
    samples: Annotated[int, _OF_PRESET] = 0
    """Positions recorded by self-play in an iteration."""
    start_from: Annotated[str, _OF_PRESET] = ""
    """A network to begin with, instead of random weights."""
    channels: Annotated[int, _OF_PRESET, tyro.conf.arg(name="network.channels")] = 0
    """Channels of the residual tower."""
    blocks: Annotated[int, _OF_PRESET, tyro.conf.arg(name="network.blocks")] = 0
    """Residual blocks of two convolutions."""
    seed: Annotated[int, _OF_PRESET] = 0
    """Fixes the run on one machine."""
    device: Annotated[Device, _OF_PRESET, tyro.conf.arg(name="machine.device")] = "auto"
    """Device that runs and trains the network; auto takes CUDA where there is one (not mps)."""


def parse(arguments: Sequence[str]) -> Any:
    """`RunOptions` with the settings as ``config``, by default those of the preset and the file, or the run's own."""
    shown = ["--help" if argument == "--help-all" else argument for argument in arguments]
    if shown == list(arguments) and not any(re.match(r"--[\w-]+\.", word) for word in arguments):
        usual = f"{DESCRIPTION} These are the usual ones; `alphac4 train --help-all` explains them all."
        read_arguments(FrequentOptions, arguments, "train", description=usual)  # tells at once what it cannot read
    from alphac4.training.config import PRESETS, TrainConfig

    config: TrainConfig

    @dataclass(frozen=True, kw_only=True)
    class TrainOptions(RunOptions):
        config: Annotated[TrainConfig, tyro.conf.arg(name="", help="The run's settings.")] = field(
            default_factory=lambda: config
        )

    if line := unreadable(TrainOptions, shown, "train"):  # before PyTorch is loaded
        raise ValueError(line)
    chosen, _ = tyro.cli(RunOptions, args=arguments, add_help=False, return_unknown_args=True)
    preset = None if chosen.preset == "auto" else chosen.preset
    if {"-h", "--help"} & set(shown) and chosen.settings is None and not (preset is None and chosen.run.exists()):
        config = PRESETS[preset or "standard"]
    else:
        from alphac4.runs.session import find_config  # loads PyTorch, for which help need not wait

        config = find_config(chosen.run, preset, chosen.settings)
    return read_arguments(TrainOptions, shown, "train", description=DESCRIPTION)


def run(options: Any) -> int:
    """Train until done or interrupted; 0 when done, 130 after Ctrl-C."""
    from alphac4.runs.session import RunStopped, train

    is_new = not options.run.exists()
    check_folder(options.run)
    stop = threading.Event()

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C does not wait

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        trained = train(options.run, options.config, stop, cluster=options.cluster)
    except RunStopped:
        text = "\nStopped. Rerun the command to resume. It repeats the iteration that was cut short."
        print(wrapped(text, sys.stdout))
        return 130
    except (ValueError, RuntimeError):
        if is_new:
            with contextlib.suppress(OSError):
                options.run.rmdir()  # unless something was recorded
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    print(wrapped(f"\n{trained}\n\nNext:", sys.stdout))
    print(f"  alphac4 play --network {trained.best}")
    print(f"  alphac4 evaluate {trained.best}")
    print(f"  tensorboard --logdir {options.run}")
    return 0

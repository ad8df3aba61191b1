"""`alphac4 train`: the whole loop."""

import contextlib
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import tyro

from alphac4.commands.arguments import read_arguments
from alphac4.machine import wrapped
from alphac4.storage.files import check_folder


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Train a network from nothing, or resume the run in the folder.

    Settings come from the preset, then from the file, then from the options.
    """

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


def parse(arguments: Sequence[str]) -> Any:
    """`RunOptions` with the settings as ``config``, by default those of the preset and the file, or the run's own."""
    from alphac4.training.config import PRESETS, TrainConfig

    chosen, _ = tyro.cli(RunOptions, args=arguments, add_help=False, return_unknown_args=True)
    preset = None if chosen.preset == "auto" else chosen.preset
    config = PRESETS[preset or "standard"]

    @dataclass(frozen=True, kw_only=True)
    class TrainOptions(RunOptions):
        config: Annotated[TrainConfig, tyro.conf.arg(name="", help="The run's settings.")] = field(
            default_factory=lambda: config
        )

    TrainOptions.__doc__ = RunOptions.__doc__
    read_arguments(TrainOptions, arguments, "train")  # help and mistakes need not wait for PyTorch
    from alphac4.runs.session import find_config

    config = find_config(chosen.run, preset, chosen.settings)
    return read_arguments(TrainOptions, arguments, "train")


def run(options: Any) -> int:
    """Train until done or interrupted; 0 when done, 130 after Ctrl-C."""
    from alphac4.runs.session import train
    from alphac4.training.loop import Callback, Progress, StopTraining

    is_new = not options.run.exists()
    check_folder(options.run)
    stop = threading.Event()

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C does not wait

    class StopOnSignal(Callback):
        def on_progress(self, progress: Progress) -> None:  # noqa: ARG002 - the callback's interface
            if stop.is_set():
                raise StopTraining

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        trained = train(options.run, options.config, callbacks=[StopOnSignal()], cluster=options.cluster)
    except StopTraining:
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

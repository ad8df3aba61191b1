"""`alphac4 doctor`: whether the installation is sound, what it would run on, and how fast."""

import json
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from alphac4.commands.arguments import read_arguments
from alphac4.machine import cores, processor_name
from alphac4.play.installation import Check, Extra, check_installation, find_extras
from alphac4.version import __version__

UNSOUND = 1  # exit code
MEASURED_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Check the installation, and measure how fast this machine is and how long training takes here.

    Checks take some ten seconds, measurements about a minute on two idle cores, longer where other programs run; the
    first time on a machine, code is compiled besides. The exit code is 1 if something that every installation needs
    does not work.
    """

    measure: bool = True
    """Whether to measure; the checks alone take some ten seconds."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure; auto takes CUDA where there is one."""
    json: bool = False
    """Print JSON instead."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(DoctorOptions, arguments, "doctor"))


def run(options: DoctorOptions) -> int:
    """Check, measure and print as results come; 1 if a check fails.

    Raises:
        RuntimeError: in one line, for CUDA without a device.
    """
    _check_device(options.device)
    report: dict[str, Any] = {"machine": _machine(), "checks": [], "extras": []}

    def show(line: str) -> None:
        if not options.json:
            print(line, flush=True)

    show(", ".join(f"{name} {value}" if name != "processor" else value for name, value in report["machine"].items()))
    show("")
    for check in check_installation():
        report["checks"].append(asdict(check))
        show(_describe_check(check))
    show("")
    for extra in find_extras():
        report["extras"].append(asdict(extra))
        show(_describe_extra(extra))
    sound = all(check["sound"] for check in report["checks"])
    if options.measure and sound:
        show("")
        for name, figures, line in _measure(options.device):
            report[name] = figures
            show(line)
    report["sound"] = sound
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show("\nThe installation is sound." if sound else "\nThe installation is not sound: see above.")
    return 0 if sound else UNSOUND


def _machine() -> dict[str, Any]:
    import torch

    return {
        "processor": processor_name(),
        "cores": cores(),
        "system": platform.system(),
        "alphac4": __version__,
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "GPU": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
    }


def _describe_check(check: Check) -> str:
    return f"  {'ok ' if check.sound else 'BAD'}  {check.name}: {check.says}"


def _describe_extra(extra: Extra) -> str:
    if not extra.missing:
        return f"  ok   {extra.name}: {extra.purpose}" + (f" (installed, but {extra.note})" if extra.note else "")
    return f"  --   {extra.name}, for {extra.purpose}: pip install 'alphac4[{extra.name}]' ({', '.join(extra.missing)})"


def _check_device(device: str) -> None:
    """Refuse before anything is checked what could not be measured."""
    if device == "cuda":
        from alphac4.compute import choose

        choose(device)


def _measure(device: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The name, figures and line of each measurement."""
    from alphac4.arena.specifications import load_network
    from alphac4.benchmarks.parts import rate_of_streams
    from alphac4.benchmarks.presets import measure_preset
    from alphac4.compute import choose
    from alphac4.nn.backends import boards_for
    from alphac4.training.config import PRESETS

    _, checkpoint = load_network("best")
    for batch, use in ((1, "play"), (128, "matches")):
        compute = choose(device)
        evaluator = compute.evaluator(checkpoint.network, batch_size=batch)
        boards = boards_for(checkpoint.network.config, batch, np.random.default_rng(0))
        rate = rate_of_streams(evaluator.evaluate, boards, 1, MEASURED_SECONDS)
        place = compute.learning_device.type
        figures = {"device": place, "backend": evaluator.backend, "batch": batch, "evaluations_a_second": rate}
        line = f"  {use}: best on {place} by {evaluator.backend}, {rate:,.0f} evaluations/s in batches of {batch}"
        yield f"inference for {use}", figures, line
    for name, config in tqdm(PRESETS.items(), desc="measuring presets", disable=None, leave=False, file=sys.stderr):
        duration = measure_preset(config, device=device)
        time = f"{duration.minutes:.0f} minutes" if duration.minutes < 120 else f"{duration.minutes / 60:.1f} hours"
        line = (
            f"  alphac4 train --preset {name}: about {time} ({_rate(duration.samples_a_second)} positions/s of "
            f"self-play by {duration.backend}, {_rate(duration.steps_a_second)} steps/s of learning)"
        )
        yield f"preset {name}", asdict(duration), line


def _rate(value: float) -> str:
    """A rate for people: with two significant digits where a whole number says little."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"

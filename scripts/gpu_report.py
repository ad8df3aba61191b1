"""Everything to be measured on a GPU, in steps that an interruption does not lose, and a page with what was found.

Each step is a command of its own. What is finished is not run again; training and the walk over every reply go on where
they were. So the same command can be given until the page is complete, on machines that are lent for minutes.
"""

import argparse
import contextlib
import json
import math
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from alphac4.storage.files import write_atomically
from alphac4.version import __version__

GRACE = 60.0  # seconds that a step has to end after Ctrl-C
SHOWN_LINES = 60  # of a step's output, its last ones
SIZES = ((32, 4), (64, 4), (64, 8), (128, 10))  # channels and blocks of the networks measured

TINY_BENCHMARK = "--channels 4 --blocks 1 --games 2 --streams 1 --seconds 0.01"
TINY_RUN = (
    "--iterations 1 --samples 40 --network.channels 8 --network.blocks 1 --selfplay.full-simulations 4"
    " --selfplay.fast-simulations 2 --selfplay.games 8 --learning.batch-size 16 --gate.pairs 1"
    " --gate.simulations 2 --gate.classic-every 0 --gate.classic-rollouts"
    " --evaluation.every 0"
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command, and what is known of it beforehand."""

    name: str
    title: str
    command: str  # alphac4, or another module
    minutes: float = 0.0  # that it takes at most; 0 if it goes on where it was interrupted
    codes: tuple[int, ...] = (0,)  # exit codes of a finished step


def plan(folder: Path, positions: Sequence[Path], *, tiny: bool) -> list[Step]:
    """Steps of the measurement, in order of worth."""
    run, here = shlex.quote(str(folder / "run")), shlex.quote(str(folder))
    judged = f"--positions {shlex.join(map(str, positions))}" if positions else ""
    if tiny:
        judged += " --count 2"
    network = f"{run}/checkpoints/best.safetensors" if tiny else "best"
    cuda = f"--device cuda --backend {'cuda-trees' if tiny else 'auto'}"  # the simulator has nothing but trees
    benchmarks = [
        Step(
            name=f"benchmark-{channels}x{blocks}",
            title=f"Self-play with trees on the GPU, and learning, {channels} x {blocks} network",
            command=f"experiments.gpu_speed --json --channels {channels} --blocks {blocks} --seconds 0.5"
            " --games 1024 4096 16384 65536",
            minutes=4,
        )
        for channels, blocks in SIZES
    ]
    if tiny:
        command = f"experiments.gpu_speed --json {TINY_BENCHMARK}"
        benchmarks = [Step(name="benchmark", title="Self-play and learning", command=command)]
    return [
        Step(
            name="tests",
            title="The tests of what runs on the GPU",
            command="pytest -q tests/test_cuda.py" + (" -k memory" if tiny else ""),
            minutes=0 if tiny else 4,
        ),
        *benchmarks,
        Step(
            name="train",
            title="A standard run from nothing",
            command=f"alphac4 train --preset standard {cuda.replace('--', '--machine.')} --run {run}"
            " --machine.keep-checkpoints 1000" + (f" {TINY_RUN}" if tiny else ""),
        ),
        Step(
            name="curve",
            title="Its learning curve",
            command=f"alphac4 curve {run} --simulations {0 if tiny else '0,600'} {judged} --picture {here}/curve.png"
            f" --output {here}/curve.jsonl",
        ),
        Step(
            name="evaluate",
            title="Errors of a network that is evaluated on the GPU",
            command=f"alphac4 evaluate {network} --no-twin {cuda} --simulations {2 if tiny else '0,100,600'} {judged}",
            minutes=0 if tiny else 4,
        ),
        Step(
            name="prove",
            title="The walk over every reply",
            command=f"alphac4 prove {network}@{2 if tiny else 600} {cuda} --record {here}/walk.txt"
            + (" --start 44444422222266666 --side second --plies 21" if tiny else " --plies 14"),
            codes=(0, 1),
        ),
    ]


def main() -> int:
    """Run what is missing, and write the page; 1 while something is."""
    parser = argparse.ArgumentParser(prog="gpu_report", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/gpu-report"), help="report.md and all else")
    parser.add_argument("--minutes", type=float, default=10, help="time for this call; steps that may not fit wait")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="these steps alone")
    parser.add_argument("--positions", nargs="+", type=Path, default=[], help="files of scored positions to judge on")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes; NUMBA_ENABLE_CUDASIM=1 needs no GPU then")
    options = parser.parse_args()
    steps = plan(options.folder, options.positions, tiny=options.tiny)
    names = [step.name for step in steps]
    for name in options.only or []:
        if name not in names:
            parser.error(f"no step {name!r}; there are {', '.join(names)}")
    (options.folder / "steps").mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * options.minutes
    for step in steps:
        if (options.only and step.name not in options.only) or read_result(options.folder, step).get("finished"):
            continue
        left = deadline - time.monotonic()
        if left < max(1.0, 60 * step.minutes):
            print(f"{step.name}: left for the next call, as {left / 60:.1f} minutes may be too few", flush=True)
            continue
        print(f"{step.name}: {step.command}", flush=True)
        write_result(options.folder, step, run_step(step, options.folder, left))
        write_page(options.folder, steps)
    write_page(options.folder, steps)
    missing = [step.name for step in steps if not read_result(options.folder, step).get("finished")]
    print(f"{options.folder / 'report.md'}: " + (f"not finished: {', '.join(missing)}" if missing else "complete"))
    return int(bool(missing))


def run_step(step: Step, folder: Path, seconds: float) -> dict[str, Any]:
    """Run a step, no longer than so many seconds; what it prints can be watched in a file of its own."""
    started, spent = time.monotonic(), read_result(folder, step).get("seconds", 0.0)
    program, *arguments = shlex.split(step.command)
    path = folder / "steps" / f"{step.name}.txt"
    with path.open("w", encoding="utf-8") as output:
        process = subprocess.Popen([sys.executable, "-m", program, *arguments], stdout=output, stderr=subprocess.STDOUT)
        in_time = True
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            in_time = False
        finally:  # also after Ctrl-C
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
                process.kill()
                process.wait()
    return {
        "command": step.command,
        "seconds": spent + time.monotonic() - started,
        "code": process.returncode,
        "finished": in_time and process.returncode in step.codes,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "alphac4": __version__,
        "output": path.read_text("utf-8", errors="replace"),
    }


def read_result(folder: Path, step: Step) -> dict[str, Any]:
    """Result of an earlier call; empty if the step was another command then."""
    try:
        found = json.loads((folder / "steps" / f"{step.name}.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.get("command") == step.command else {}


def write_result(folder: Path, step: Step, result: dict[str, Any]) -> None:
    """Keep what a step has found."""
    write_atomically(folder / "steps" / f"{step.name}.json", json.dumps(result, indent=2).encode())


def write_page(folder: Path, steps: Sequence[Step]) -> None:
    """All that was found so far, for programs and for people."""
    results = {step.name: read_result(folder, step) for step in steps}
    write_atomically(folder / "report.json", json.dumps(results, indent=2).encode())
    lines = ["# Measured on a GPU", ""]
    for step in steps:
        result = results[step.name]
        lines += [f"## {step.title}", "", f"`{step.command}`", ""]
        if result:
            state = "" if result["finished"] else f" **Not finished** (exit code {result['code']})."
            lines += [f"{result['gpu']}, {result['seconds']:,.0f} s.{state}", "", *described(result["output"]), ""]
        else:
            lines += ["Not run yet.", ""]
    write_atomically(folder / "report.md", "\n".join(lines).encode())


def described(output: str) -> list[str]:
    """Figures as a table, anything else as it was printed."""
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        figures = json.loads(output[output.index("{") :])
        rows = [(name, figure["value"], figure["unit"]) for name, figure in figures.items()]
        cells = [(name, "" if math.isnan(value) else f"{value:,.4g}", unit) for name, value, unit in rows]
        return ["| | | |", "|---|---:|---|", *(f"| {' | '.join(row)} |" for row in cells)]
    return ["```", *output.replace("\r", "\n").splitlines()[-SHOWN_LINES:], "```"]


if __name__ == "__main__":
    sys.exit(main())

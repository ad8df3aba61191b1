"""`alphac4 doctor`: checks of the installation, and the speed of inference, self-play and learning."""

import contextlib
import importlib.metadata
import json
import logging
import platform
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from packaging.requirements import Requirement

from alphac4.arena.registry import parse_searching_player
from alphac4.compiled import cache_problems, machine_code_folder
from alphac4.compute import choose_compute
from alphac4.compute.cores import Actors
from alphac4.compute.registry import device_forms
from alphac4.game import Position
from alphac4.machine import cores, describe_cores, install_advice, processor_name, worker_threads, wrap_text
from alphac4.nn.backends import backend_names, make_backend, random_inputs
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import Block, concatenate, make_samples
from alphac4.solver import shared_solver
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.networks import SHIPPED
from alphac4.storage.records import did_you_mean, first_line, quote
from alphac4.training.config import PRESETS, TrainConfig
from alphac4.training.learner import Learner, make_learner
from alphac4.training.optimizer import CosineSchedule
from alphac4.version import __version__

if TYPE_CHECKING:
    from alphac4.commands.measure import DoctorCommand

logger = logging.getLogger(__name__)

INFERENCE_BATCHES = (1, 128)  # one game against a person, and an evaluation of many positions
INFERENCE_SECONDS = 1.0  # per backend and batch size
SELF_PLAY_SECONDS = 10.0
LEARNING_SECONDS = 3.0
UNLIMITED = 10**9  # samples or steps when time is the limit
WARM_UP_STEPS = 2
MIN_STEPS = 2  # steps of the first timed measurement


class Check(NamedTuple):
    """Result of one check."""

    name: str
    passed: bool
    detail: str

    def __str__(self) -> str:
        return f"  {'ok ' if self.passed else 'BAD'}  {self.name}: {self.detail}"


class Measured(NamedTuple):
    """Result of one measurement."""

    name: str
    value: float
    unit: str

    def __str__(self) -> str:
        """Return a row of text; values below 10 have three significant digits."""
        return f"{self.name:<40}  {format(self.value, ',.3g' if self.value < 10 else ',.0f'):>14}  {self.unit}"


def diagnose(options: "DoctorCommand") -> bool:
    """Run checks and measurements; print each result immediately, or all as JSON. Return whether all checks pass."""
    parts = ["checks", *MEASUREMENTS]
    if unknown := [name for name in options.only if name not in parts]:
        guess = did_you_mean(unknown[0], parts)
        raise ValueError(f"unknown part {quote(unknown[0])}{guess}; the parts are {', '.join(parts)}")
    if options.device != "auto":  # report a missing one before the checks
        choose_compute(options.device)
    machine = {
        "processor": processor_name(),
        "using": describe_cores(),
        "system": platform.system(),
        "alphac4": __version__,
        "Python": platform.python_version(),
        "PyTorch": str(torch.__version__),
        "GPU": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
    }

    def show(*lines: object) -> None:
        if not options.json:
            print(*(wrap_text(str(line), sys.stdout) for line in lines), sep="\n", flush=True)

    show(", ".join(f"{name} {value}" for name, value in machine.items()), "")
    checks: list[Check] = []
    if "checks" in options.only:
        for name, check in CHECKS.items():
            checks.append(_run_check(name, check))
            show(checks[-1])
        show("", *describe_extras(), "", *(f"  {form}: {about}" for form, about in device_forms().items()), "")
    passed, measured = all(check.passed for check in checks), []
    for name, measure in MEASUREMENTS.items():
        for result in measure(options) if passed and name in options.only else ():
            measured.append(result)
            show(result)
    if checks:
        show(*[""] * bool(measured), f"The installation {'works.' if passed else 'is broken: see the lines with BAD.'}")
    if options.json:
        results = {
            "checks": [check._asdict() for check in checks],
            "measurements": [result._asdict() for result in measured],
        }
        print(json.dumps({"machine": machine, **results}, indent=2))
    return passed


def _run_check(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, passed=True, detail=check())
    except Exception as error:  # any error fails the check
        return Check(name, passed=False, detail=" ".join(str(error).split()) or type(error).__name__)


# --- Checks: each returns a detail to show, or raises -----------------------------------------------------------------
def _check_packages() -> str:
    if problems := unmet_requirements():
        raise ImportError(f"missing or unsupported: {', '.join(problems)}; run {install_advice('')}")
    return "versions are supported"


def _check_solver() -> str:
    known = {"112233": 18, "446712672373": 10, "2252576253462244111563365343671351441": -1}  # the last is by Pons
    for moves, score in known.items():
        if (actual := shared_solver().solve(Position.from_moves(moves))) != score:
            raise ValueError(f"the solver scores {moves} as {actual} instead of {score}: the compiled code is wrong")
    return f"{len(known)} known scores"


def _check_networks() -> str:
    for name in SHIPPED:
        load_checkpoint(Path(name))
    return ", ".join(SHIPPED)


def _check_search() -> str:
    # Both positions need the network: without it, 50 simulations prove neither result.
    player = parse_searching_player("best@50", rng=np.random.default_rng(0))
    result = player.search([Position.from_moves("44"), Position.from_moves("4")])
    if result.moves[0] != 3 or not result.value[0] > 0.5 or not result.value[1] < -0.5:
        raise ValueError("best@50 misjudges 44 or 4, which the first player wins: the network or its backend is broken")
    return "best@50 judges 44 correctly"


def _check_page() -> str:
    files = [item.name for item in (resources.files("alphac4.play.web") / "static").iterdir() if item.is_file()]
    if "index.html" not in files:
        raise FileNotFoundError("its files are missing: reinstall the package")
    return f"{len(files)} files"


def _check_compiled() -> str:
    if cache_problems:  # the checks before this one have compiled code, or loaded it
        raise OSError(cache_problems[-1])
    return str(machine_code_folder())


CHECKS: dict[str, Callable[[], str]] = {
    "packages": _check_packages,
    "rules and solver": _check_solver,
    "networks": _check_networks,
    "search": _check_search,
    "web page": _check_page,
    "compiled code": _check_compiled,
}


def requirements() -> dict[str, list[Requirement]]:
    """Return what each extra needs, and as "" what the package itself needs.

    The pyproject.toml of a clone may be newer than the metadata of the installation.
    """
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        needs = {"": table["dependencies"], **table["optional-dependencies"]}
        return {extra: list(map(Requirement, lines)) for extra, lines in needs.items()}
    every = list(map(Requirement, importlib.metadata.requires("alphac4") or ()))
    return {
        extra: [each for each in every if (each.marker.evaluate({"extra": extra}) if each.marker else not extra)]
        for extra in ["", *(importlib.metadata.metadata("alphac4").get_all("Provides-Extra") or ())]
    }


def unmet_requirements(extra: str = "") -> list[str]:
    """Return the packages of an extra ("" for alphac4 itself) that are missing or of an unsupported version."""
    unmet = []
    for requirement in requirements()[extra]:
        if requirement.name == "alphac4":  # an extra that includes others
            unmet += [line for included in requirement.extras for line in unmet_requirements(included)]
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            unmet.append(requirement.name)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            unmet.append(f"{requirement.name} {version} instead of {requirement.specifier}")
    return unmet


def describe_extras() -> Iterator[str]:
    """Yield a line per extra of the package, except the developers': how to install it if it is incomplete."""
    for name in sorted(requirements().keys() - {"", "dev"}):
        if problems := unmet_requirements(name):
            yield f"  --   {name}: {install_advice(name)} ({', '.join(problems)})"
        else:
            yield f"  ok   {name}"


# --- Measurements ----------------------------------------------------------------------------------------------------
def rate(work: Callable[[], float], seconds: float) -> float:
    """Return units per second; ``work`` is called repeatedly and returns the units of each call."""
    started, units = time.perf_counter(), 0.0
    while time.perf_counter() - started < seconds:
        units += work()
    return units / (time.perf_counter() - started)


def measure_inference(options: "DoctorCommand") -> Iterator[Measured]:
    """Measure a network with every backend of this machine, with one calling thread per core."""
    network = load_checkpoint(options.checkpoint).network
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        for batch in INFERENCE_BATCHES:
            planes = random_inputs(network.config, batch, np.random.default_rng(0))
            for name in backend_names(device, network.config):
                try:
                    backend = make_backend(name, network, batch, 1)
                    backend(planes)
                except Exception as error:  # such as bf16 on a processor without it; measure the others
                    logger.warning("backend %s does not work here: %s", name, first_line(error))
                    continue

                def evaluate(backend=backend, planes=planes) -> float:  # type: ignore[no-untyped-def]
                    backend(planes)
                    return float(len(planes))

                with worker_threads(cores()) as pool:
                    total = sum(pool.map(rate, [evaluate] * cores(), [INFERENCE_SECONDS] * cores()))
                yield Measured(f"{options.checkpoint}, {name}, batch {batch}", total, "evaluations/s, all cores")


def measure_training(options: "DoctorCommand") -> Iterator[Measured]:
    """Measure self-play and learning of an untrained network with the settings of a preset."""
    compute = choose_compute(options.device, for_run=True)
    preset = "gpu-quick" if compute.learning_device.type == "cuda" else "quick"
    config = PRESETS[preset]
    board, learner = config.board.make(), make_learner(config, compute)
    actors = compute.actors(learner.candidate(), board, config.selfplay, np.random.default_rng)
    evaluations, blocks = self_play_rate(actors, SELF_PLAY_SECONDS)
    yield Measured(f"self-play, {preset}, {actors.backend}", evaluations, "evaluations/s")
    replay = Replay()
    replay.add(concatenate([make_samples(board, config.selfplay, block.games) for block in blocks]), 1)
    steps = learning_steps_rate(learner, replay, config, LEARNING_SECONDS)
    yield Measured(f"learning, {preset}", steps * config.learning.batch_size, "positions/s")


MEASUREMENTS: dict[str, Callable[["DoctorCommand"], Iterator[Measured]]] = {
    "inference": measure_inference,
    "training": measure_training,
}


class _TimeIsUp(Exception):  # noqa: N818 - not an error
    """End of the timed self-play."""


def self_play_rate(actors: Actors, seconds: float) -> tuple[float, list[Block]]:
    """Return the evaluations/s of self-play, which includes the work on trees, and the blocks of finished games.

    The first block starts the clock and is not counted, because it may include compilation.
    """
    started, blocks = 0.0, list[Block]()

    def on_block(_actor: int, block: Block) -> None:
        nonlocal started
        blocks.append(block)
        started = started or time.perf_counter()
        if time.perf_counter() - started >= seconds:
            raise _TimeIsUp

    with contextlib.suppress(_TimeIsUp):
        actors.play(UNLIMITED, on_block)
    evaluations = sum(block.stats.evaluations for block in blocks[1:])
    return evaluations / (time.perf_counter() - started), blocks


def learning_steps_rate(learner: Learner, replay: Replay, config: TrainConfig, seconds: float) -> float:
    """Return steps/s; the number of steps is quadrupled until they take at least half of ``seconds``."""
    schedule, rng = CosineSchedule.of_run(config.learning, UNLIMITED), np.random.default_rng(0)

    def learn(steps: int) -> float:
        return learner.learn(replay, replay.total, steps=steps, schedule=schedule, rng=rng).seconds

    learn(WARM_UP_STEPS)
    steps = MIN_STEPS
    while (taken := learn(steps)) < seconds / 2:
        steps *= 4
    return steps / taken

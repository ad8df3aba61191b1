"""`alphac4 doctor`: whether the installation is sound, what it would run on, and how fast."""

import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from alphac4.commands.options.ship import DoctorOptions
from alphac4.machine import cores, install_advice, processor_name
from alphac4.version import __version__

UNSOUND = 1  # exit code
MEASURED_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that has to work."""

    name: str
    sound: bool
    says: str  # what was found, or what is wrong and how to mend it

    def __str__(self) -> str:
        return f"  {'ok ' if self.sound else 'BAD'}  {self.name}: {self.says}"


EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {  # by their names in pyproject.toml: modules, and what for
    "openvino": (("openvino",), "the fastest inference on Intel and AMD processors"),
    "cuda": (("numba_cuda",), "self-play's trees on an NVIDIA GPU, an experiment"),
    "cluster": (("ray",), "alphac4 train --cluster"),
    "web": (("starlette", "uvicorn"), "alphac4 play --web"),
    "onnx": (("onnx", "onnxruntime", "onnxscript"), "alphac4 export --onnx and --web, and networks of ONNX files"),
    "hub": (("huggingface_hub",), "networks named hf://OWNER/NAME, and checking the card of alphac4 export --hub"),
    "kaggle": (("flask", "jsonschema", "requests", "termcolor"), "games of Kaggle's ConnectX on this machine"),
    "pettingzoo": (("pettingzoo", "pygame"), "PettingZoo's connect_four_v3"),
    "openspiel": (("pyspiel",), "OpenSpiel's player openspiel:1000"),
    "peers": (("jax", "mctx", "pgx"), "experiments/peers.py"),
    "docs": (("furo", "myst_nb", "sphinx"), "building the documentation by ./scripts/docs.sh"),
}


def run(options: DoctorOptions) -> int:
    """Check, measure and print as results come; 1 if a check fails.

    Raises:
        RuntimeError: in one line, for CUDA without a device.
    """
    if options.device == "cuda":  # refused before anything is checked
        from alphac4.compute import choose

        choose(options.device)
    print(_machine(), end="\n\n", flush=True)
    sound = True
    for check in check_installation():
        sound = sound and check.sound
        print(check, flush=True)
    print("", *find_extras(), sep="\n")
    if options.measure and sound:
        print()
        for line in _measure(options.device):
            print(line, flush=True)
    print("\nThe installation is sound." if sound else "\nThe installation is not sound: see above.")
    return 0 if sound else UNSOUND


def _machine() -> str:
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return (
        f"{processor_name()}, cores {cores()}, system {platform.system()}, alphac4 {__version__}, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}, GPU {gpu}"
    )


def _measure(device: str) -> Iterator[str]:
    """A line on each measurement."""
    from alphac4.arena.specifications import named_checkpoint
    from alphac4.benchmarks.parts import rate_of_streams
    from alphac4.benchmarks.presets import measure_preset
    from alphac4.compute import choose
    from alphac4.compute.cores import MIN_GAMES
    from alphac4.nn.backends import boards_for
    from alphac4.training.config import PRESETS

    checkpoint = named_checkpoint("best").load()
    for batch, use in ((1, "play"), (128, "matches")):
        compute = choose(device)
        evaluator = compute.evaluator(checkpoint.network, batch_size=batch)
        boards = boards_for(checkpoint.network.config, batch, np.random.default_rng(0))
        rate = rate_of_streams(evaluator.evaluate, boards, 1, MEASURED_SECONDS)
        place = compute.learning_device.type
        yield f"  {use}: best on {place} by {evaluator.backend}, {rate:,.0f} evaluations/s in batches of {batch}"
    for name, config in tqdm(PRESETS.items(), desc="measuring presets", disable=None, leave=False, file=sys.stderr):
        duration = measure_preset(config, device=device)
        first, *others = duration.estimates
        machines = ", ".join(f"{_time(e.minutes)} on {e.cores}" for e in others)
        yield (
            f"  alphac4 train --preset {name}: about {_time(duration.minutes)} ({_rate(duration.samples_a_second)} "
            f"positions/s of self-play by {duration.backend}, {_rate(duration.steps_a_second)} steps/s of learning)\n"
            f"    on one core {_time(first.minutes)}, {machines}, in about {others[-1].memory_mb / 1000:.1f} GB; a "
            f"core plays if it gets {MIN_GAMES} games, so --selfplay.games {config.selfplay.games} occupies "
            f"{config.selfplay.games // MIN_GAMES}"
        )


def _time(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def _rate(value: float) -> str:
    """A rate for people: with two significant digits where a whole number says little."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def find_extras() -> Iterator[str]:
    """A line on each optional part: whether it is installed, and how it would be."""
    import torch

    for name, (modules, purpose) in EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if missing:
            yield f"  --   {name}, for {purpose}: {install_advice(name)} ({', '.join(missing)})"
        elif name == "cuda" and not torch.cuda.is_available():
            yield f"  ok   {name}: {purpose} (installed, but PyTorch finds no GPU here)"
        else:
            yield f"  ok   {name}: {purpose}"


def check_installation() -> Iterator[Check]:
    """Each check's result, one after the other, as they take some seconds."""
    yield _checked("rules and solver", _check_solver)
    yield _checked("opening book", _check_book)
    yield _checked("networks", _check_networks)
    yield _checked("a search", _check_search)
    yield _checked("positions to evaluate on", _check_positions)
    yield _checked("the page", _check_page)
    yield _checked("compiled code", _check_compiled)


def _checked(name: str, check: Callable[[], str]) -> Check:
    """The result of a check that says what it found, or raises."""
    try:
        return Check(name=name, sound=True, says=check())
    except Exception as error:  # whatever is wrong is what the check is for
        return Check(name=name, sound=False, says=" ".join(str(error).split()) or type(error).__name__)


def _check_solver() -> str:
    from alphac4.game import Position
    from alphac4.solver import shared_solver

    known = {"112233": 18, "446712672373": 10, "2252576253462244111563365343671351441": -1}  # the last as Pons has it
    for moves, score in known.items():
        if (found := shared_solver().solve(Position.from_moves(moves))) != score:
            raise ValueError(f"the solver gives {moves} the score {found}, which is {score}: the compiled code is bad")
    return f"{len(known)} known scores"


def _check_book() -> str:
    from alphac4.game.rules import STANDARD
    from alphac4.solver import book as books

    book = books.load_book(Path(books.__file__).with_name(books.book_name(STANDARD)), STANDARD)
    return f"{len(book.keys):,} positions with up to {book.plies} stones"


def _check_networks() -> str:
    from alphac4.storage.checkpoints import load_checkpoint
    from alphac4.storage.hub import SHIPPED

    for name in SHIPPED:
        load_checkpoint(Path(name))
    return ", ".join(SHIPPED)


def _check_search() -> str:
    from alphac4.arena.specifications import parse_player
    from alphac4.game import Position

    player = parse_player("best@50", rng=np.random.default_rng(0), batch_size=1)
    if player.choose([Position.from_moves("112233")]) != [3]:
        raise ValueError("best@50 does not see the win in 112233: the network or its backend is bad")
    return "best@50 sees a win"


def _check_positions() -> str:
    from alphac4.evaluation.positions import packaged_positions

    sets = packaged_positions()
    return f"{sum(len(item.positions) for item in sets):,} in {len(sets)} sets"


def _check_page() -> str:
    files = [item for item in (resources.files("alphac4.play.web") / "static").iterdir() if item.is_file()]
    if not any(item.name == "index.html" for item in files):
        raise FileNotFoundError("its files are missing: install the package anew")
    return f"{len(files)} files"


def _check_compiled() -> str:
    from alphac4.game import rules

    function: Any = rules.has_run
    place = Path(function.stats.cache_path)
    if not os.access(place, os.W_OK):
        raise PermissionError(f"{place} cannot be written, so that it is compiled at each start: set NUMBA_CACHE_DIR")
    return str(place.parent)

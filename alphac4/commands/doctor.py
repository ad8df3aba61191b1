"""`alphac4 doctor`: whether the installation is sound, what it would run on, and how fast."""

import importlib.util
import json
import platform
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from alphac4.arena.specifications import parse_player
from alphac4.commands import UNSOUND
from alphac4.commands.options import DoctorOptions
from alphac4.commands.speed import PARTS
from alphac4.compiled import machine_code_folder
from alphac4.compute import choose
from alphac4.evaluation.positions import packaged_positions
from alphac4.game import Position, rules
from alphac4.machine import cores, install_advice, processor_name
from alphac4.solver import book as books
from alphac4.solver import shared_solver
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.hub import SHIPPED
from alphac4.storage.records import similar
from alphac4.version import __version__

EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {  # by their names in pyproject.toml: modules, and what for
    "openvino": (("openvino",), "the fastest inference on Intel and AMD processors"),
    "cuda": (("numba_cuda",), "self-play's trees on an NVIDIA GPU, an experiment"),
    "cluster": (("ray",), "alphac4 train --cluster"),
    "web": (("starlette", "uvicorn"), "alphac4 play web"),
    "onnx": (("onnx", "onnxruntime", "onnxscript"), "alphac4 export --onnx and --web, and networks of ONNX files"),
    "hub": (("huggingface_hub",), "networks named hf://OWNER/NAME, and the card of alphac4 export --hub"),
    "kaggle": (("flask", "jsonschema", "requests", "termcolor"), "games of Kaggle's ConnectX on this machine"),
    "pettingzoo": (("pettingzoo", "pygame"), "PettingZoo's connect_four_v3"),
    "openspiel": (("pyspiel",), "OpenSpiel's player openspiel:1000"),
    "peers": (("jax", "mctx", "pgx"), "experiments/peers.py"),
    "docs": (("furo", "myst_nb", "sphinx"), "building the documentation by ./scripts/docs.sh"),
}

CHECKS_PART = "checks"  # the one part that measures nothing


class Check(NamedTuple):
    """Result of one check; as text, a line."""

    name: str
    sound: bool
    found: str

    def __str__(self) -> str:
        """Return the line."""
        return f"  {'ok ' if self.sound else 'BAD'}  {self.name}: {self.found}"


def run(options: DoctorOptions) -> int:
    """Check and measure, and print each result as it comes, or all of them as JSON; 1 if a check fails."""
    parts = [CHECKS_PART, *PARTS]
    if unknown := [name for name in options.only if name not in parts]:
        raise ValueError(f"unknown part {unknown[0]!r}{similar(unknown[0], parts)}; there are {', '.join(parts)}")
    if options.device == "cuda":  # refused before anything is checked
        choose(options.device)
    machine = {
        "processor": processor_name(),
        "cores": cores(),
        "system": platform.system(),
        "alphac4": __version__,
        "Python": platform.python_version(),
        "PyTorch": str(torch.__version__),
        "GPU": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
    }

    def show(*lines: object) -> None:
        if not options.json:
            print(*lines, sep="\n", flush=True)

    show(", ".join(f"{name} {value}" for name, value in machine.items()), "")
    checks: list[Check] = []
    if CHECKS_PART in options.only:
        for name, check in CHECKS.items():
            checks.append(_result_of(name, check))
            show(checks[-1])
        show("", *find_extras(), "")
    sound, figures = all(check.sound for check in checks), []
    for name in PARTS if sound else ():
        for figure in PARTS[name](options) if name in options.only else ():
            figures.append(figure)
            show(figure)
    if checks:
        show(*[""] * bool(figures), f"The installation is {'sound.' if sound else 'not sound: see above.'}")
    if options.json:
        found = {"checks": [check._asdict() for check in checks], "figures": [figure._asdict() for figure in figures]}
        print(json.dumps({"machine": machine, **found}, indent=2))
    return 0 if sound else UNSOUND


def _result_of(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, sound=True, found=check())
    except Exception as error:  # whatever is wrong is what the check is for
        return Check(name, sound=False, found=" ".join(str(error).split()) or type(error).__name__)


# --- Checks: each tells what it found, or raises --------------------------------------------------------------------
def _check_solver() -> str:
    known = {"112233": 18, "446712672373": 10, "2252576253462244111563365343671351441": -1}  # the last as Pons has it
    for moves, score in known.items():
        if (found := shared_solver().solve(Position.from_moves(moves))) != score:
            raise ValueError(f"the solver scores {moves} as {found} instead of {score}: the compiled code is wrong")
    return f"{len(known)} known scores"


def _check_book() -> str:
    book = books.load_book(Path(books.__file__).with_name(books.book_name(rules.STANDARD)), rules.STANDARD)
    return f"{len(book.keys):,} positions with up to {book.plies} stones"


def _check_networks() -> str:
    for name in SHIPPED:
        load_checkpoint(Path(name))
    return ", ".join(SHIPPED)


def _check_search() -> str:
    player = parse_player("best@50", rng=np.random.default_rng(0), batch_size=1)
    if player.choose([Position.from_moves("112233")]) != [3]:
        raise ValueError("best@50 does not see the win in 112233: the network or its backend is bad")
    return "best@50 sees a win"


def _check_positions() -> str:
    sets = packaged_positions()
    return f"{sum(map(len, sets)):,} in {len(sets)} sets"


def _check_page() -> str:
    files = [item.name for item in (resources.files("alphac4.play.web") / "static").iterdir() if item.is_file()]
    if "index.html" not in files:
        raise FileNotFoundError("its files are missing: install the package anew")
    return f"{len(files)} files"


def _check_compiled() -> str:
    folder = machine_code_folder()
    if folder is None:
        raise PermissionError("no folder can be written, so that it is compiled at each start: set NUMBA_CACHE_DIR")
    return str(folder)


CHECKS: dict[str, Callable[[], str]] = {
    "rules and solver": _check_solver,
    "opening book": _check_book,
    "networks": _check_networks,
    "a search": _check_search,
    "positions to evaluate on": _check_positions,
    "the page": _check_page,
    "compiled code": _check_compiled,
}


def find_extras() -> Iterator[str]:
    """A line on each optional part: whether it is installed, and how it would be."""
    for name, (modules, purpose) in EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if missing:
            yield f"  --   {name}, for {purpose}: {install_advice(name)} ({', '.join(missing)})"
        else:
            unused = name == "cuda" and not torch.cuda.is_available()
            yield f"  ok   {name}: {purpose}" + (" (installed, but PyTorch finds no GPU here)" if unused else "")

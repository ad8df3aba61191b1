"""Where a run stands, as one file: the commit point of its iterations."""

import dataclasses
import math
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphac4.storage.arrays import ArrayFileError, load_arrays, save_arrays
from alphac4.storage.records import read_value
from alphac4.training.schedule import Schedule

STATE_FILE = "state.safetensors"
PREVIOUS_STATE_FILE = "state.previous.safetensors"
STATE_FORMAT = "alphac4-run-state-2"


class RunError(ValueError):
    """A run's folder that cannot be used, and why, in one line."""


def has_state(path: Path) -> bool:
    """Whether a folder holds a run with at least one whole iteration."""
    return (path / STATE_FILE).exists() or (path / PREVIOUS_STATE_FILE).exists()


@dataclass(kw_only=True)
class RunState:
    """Where a run stands after its last whole iteration."""

    iteration: int = 0
    best_iteration: int = 0
    earlier_best_iteration: int = 0  # the best one in the state before, whose network must stay as long as that state
    seconds: float = 0.0
    games: int = 0
    samples: int = 0
    evaluations: int = 0
    backend: str = ""  # of self-play
    evaluating_backend: str = ""  # of everything that measures strength; empty before it was remembered
    learning_precision: str = ""  # see `alphac4.nn.precision`; empty before it was remembered
    last_report: str = ""  # in case its line was not written
    schedule: Schedule | None = None  # of the learning rate
    started_from: dict[str, Any] = field(default_factory=dict)  # facts about the network that the run began with
    changes: list[dict[str, Any]] = field(default_factory=list)  # of settings, while it went on
    config: dict[str, Any] = field(default_factory=dict)  # all settings
    learner: dict[str, Tensor] = field(default_factory=dict)
    actors: dict[str, np.ndarray] = field(default_factory=dict)


_ARRAYS = ("learner", "actors")
_COUNTERS = {name: hint for name, hint in typing.get_type_hints(RunState).items() if name not in _ARRAYS}


def save_state(path: Path, state: RunState) -> None:
    """Write a state atomically."""
    arrays = {f"learner.{name}": value.detach().cpu().numpy() for name, value in state.learner.items()}
    arrays |= {f"actors.{name}": array for name, array in state.actors.items()}
    counters = {name: getattr(state, name) for name in _COUNTERS}
    header = {
        "format": STATE_FORMAT,
        "counters": counters | {"schedule": dataclasses.asdict(state.schedule) if state.schedule else None},
    }
    save_arrays(path, arrays, header)


def load_state(path: Path) -> RunState:
    """Read a state.

    Raises:
        ArrayFileError: if it is missing or damaged, or holds weights that are not finite numbers.
    """
    arrays, header = load_arrays(path, STATE_FORMAT)
    try:
        counters = dict(header["counters"])
        if unknown := [name for name in counters if name not in _COUNTERS]:
            raise ValueError(f"unknown entry {unknown[0]!r}")
        state = RunState(**{name: read_value(_COUNTERS[name], value, name) for name, value in counters.items()})
        for name, array in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == "learner":
                state.learner[rest] = torch.from_numpy(array)
            elif kind == "actors":
                state.actors[rest] = array
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ArrayFileError(f"{path}: no state of a run: {str(error).splitlines()[0]}") from error
    if not 0 <= state.best_iteration <= state.iteration or state.iteration < 1 or not math.isfinite(state.seconds):
        raise ArrayFileError(f"{path}: no state of a run: impossible counters")
    if not all(torch.isfinite(tensor).all() for tensor in state.learner.values() if tensor.is_floating_point()):
        raise ArrayFileError(f"{path}: the weights are not finite numbers")
    return state

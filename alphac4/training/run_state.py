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

from alphac4.storage.checkpoints import CheckpointError, pack_tensors, unpack_tensors
from alphac4.storage.files import write_atomically
from alphac4.storage.records import read_value
from alphac4.training.schedule import Schedule

STATE_FILE = "state.safetensors"
PREVIOUS_STATE_FILE = "state.previous.safetensors"
STATE_FORMAT = "alphac4-run-state"
STATE_VERSION = 1
_EARLIER_NAMES = {"games.deep": "games.full_searches"}  # of the actors' arrays


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
    tensors = {f"learner.{name}": value.contiguous() for name, value in state.learner.items()}
    types: dict[str, str] = {}
    for name, array in state.actors.items():
        types[f"actors.{name}"] = array.dtype.str
        signed = np.dtype(f"i{array.dtype.itemsize}") if array.dtype.kind in "ub" else array.dtype
        tensors[f"actors.{name}"] = torch.from_numpy(np.ascontiguousarray(array).view(signed).copy())
    counters = {name: getattr(state, name) for name in _COUNTERS}
    header = {
        "format": STATE_FORMAT,
        "schema_version": STATE_VERSION,
        "counters": counters | {"schedule": dataclasses.asdict(state.schedule) if state.schedule else None},
        "actor_types": types,
    }
    write_atomically(path, pack_tensors(tensors, header))


def load_state(path: Path) -> RunState:
    """Read a state.

    Raises:
        CheckpointError: if it is missing or damaged, or holds weights that are not finite numbers.
    """
    header, tensors = unpack_tensors(path, STATE_FORMAT, STATE_VERSION)
    try:
        counters, types = dict(header["counters"]), dict(header["actor_types"])
        if unknown := [name for name in counters if name not in _COUNTERS]:
            raise ValueError(f"unknown entry {unknown[0]!r}")
        state = RunState(**{name: read_value(_COUNTERS[name], value, name) for name, value in counters.items()})
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "learner":
                state.learner[rest] = tensor
            elif kind == "actors":  # PyTorch has few unsigned types: the header says what each array was
                for earlier, now in _EARLIER_NAMES.items():
                    rest = rest.replace(earlier, now)
                state.actors[rest] = tensor.numpy().view(np.dtype(types[name]))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: no state of a run: {str(error).splitlines()[0]}") from error
    if not 0 <= state.best_iteration <= state.iteration or state.iteration < 1 or not math.isfinite(state.seconds):
        raise CheckpointError(f"{path}: no state of a run: impossible counters")
    if not all(torch.isfinite(tensor).all() for tensor in state.learner.values() if tensor.is_floating_point()):
        raise CheckpointError(f"{path}: the weights are not finite numbers")
    return state

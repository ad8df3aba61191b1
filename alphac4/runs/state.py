"""State of a run as one file, the commit point of its iterations; and the settings that may change on the way."""

import dataclasses
import logging
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.files import FileError
from alphac4.storage.records import first_line, parse_json, read_value
from alphac4.training.config import TrainConfig, from_dict, to_dict
from alphac4.training.optimizer import CosineSchedule

logger = logging.getLogger(__name__)

STATE_FILE = "state.safetensors"
PREVIOUS_STATE_FILE = "state.previous.safetensors"
STATE_FORMAT = "alphac4-run-state-8"

# Settings, or groups of them, that may differ when a run goes on: they do not change the meaning of its files.
CHANGEABLE = ("iterations", "gate", "evaluation", "machine")


class RunError(ValueError):
    """A run's folder that cannot be used, and why, in one line."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Totals since a run began."""

    seconds: float = 0.0
    games: int = 0  # of self-play
    evaluations: int = 0  # positions given to the network in self-play

    def __add__(self, other: "Costs") -> "Costs":
        return Costs(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(kw_only=True)
class RunState:
    """State of a run after its last whole iteration."""

    iteration: int = 0
    best_iteration: int = 0
    earlier_best_iteration: int = 0  # the best one in the state before, whose network must stay as long as that state
    samples: int = 0
    costs: Costs = field(default_factory=Costs)
    schedule: CosineSchedule | None = None  # of the learning rate; None before the first iteration
    extensions: dict[str, str] = field(default_factory=dict)  # names of the user's functions, by argument
    started_from: dict[str, Any] = field(default_factory=dict)  # facts about the network that the run began with
    changes: list[dict[str, Any]] = field(default_factory=list)  # of settings, while it went on
    config: dict[str, Any] = field(default_factory=dict)  # all settings
    learner: dict[str, Tensor] = field(default_factory=dict)
    actors: dict[str, np.ndarray] = field(default_factory=dict)


_ARRAYS = ("learner", "actors")
_COUNTERS = {name: hint for name, hint in typing.get_type_hints(RunState).items() if name not in _ARRAYS}


def has_state(path: Path) -> bool:
    """Whether a folder holds a run with at least one whole iteration."""
    return (path / STATE_FILE).exists() or (path / PREVIOUS_STATE_FILE).exists()


def save_state(path: Path, state: RunState) -> None:
    """Write a state atomically."""
    arrays = {f"learner.{name}": value.detach().cpu().numpy() for name, value in state.learner.items()}
    arrays |= {f"actors.{name}": array for name, array in state.actors.items()}
    counters = {name: getattr(state, name) for name in _COUNTERS} | {"costs": dataclasses.asdict(state.costs)}
    counters["schedule"] = dataclasses.asdict(state.schedule) if state.schedule else None
    save_arrays(path, arrays, {"format": STATE_FORMAT, "counters": counters})


def load_state(path: Path) -> RunState:
    """Read a state. Raises FileError if it is missing or damaged, or holds weights that are not finite numbers."""
    arrays, header = load_arrays(path, STATE_FORMAT)
    try:
        counters = header["counters"]
        state = RunState(**{name: read_value(hint, counters[name], name) for name, hint in _COUNTERS.items()})
        for name, array in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == "learner":
                state.learner[rest] = torch.from_numpy(array)
            else:
                state.actors[rest] = array
        from_dict(state.config)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileError(f"{path}: no state of a run: {first_line(error)}") from error
    if (
        not 0 <= state.best_iteration <= state.iteration
        or state.iteration < 1
        or not math.isfinite(state.costs.seconds)
    ):
        raise FileError(f"{path}: no state of a run: impossible counters")
    if not all(torch.isfinite(tensor).all() for tensor in state.learner.values() if tensor.is_floating_point()):
        raise FileError(f"{path}: the weights are not finite numbers")
    return state


def stored_settings(path: Path) -> TrainConfig | None:
    """The settings of the run in a folder, None if there is no run; those in its state if ``config.json`` is damaged.

    Raises:
        RunError: if they can be read nowhere.
    """
    config_path = path / "config.json"
    try:
        return from_dict(read_value(dict[str, Any], parse_json(config_path.read_bytes()), "the configuration"))
    except FileNotFoundError:
        reason = "there is no such file"
        if not has_state(path):
            return None
    except (OSError, ValueError) as error:
        reason = str(error)
    for name in (STATE_FILE, PREVIOUS_STATE_FILE):
        try:
            settings = from_dict(load_state(path / name).config)
        except ValueError:
            continue
        logger.warning("%s: %s; the settings are taken from %s", config_path, reason, name)
        return settings
    if not has_state(path):
        logger.warning("%s: %s; no iteration is whole, so it is written anew", config_path, reason)
        return None
    raise RunError(f"{config_path}: cannot be read: {reason}")


def check_changes(path: Path, before: TrainConfig, now: TrainConfig) -> None:
    """Check that the run in a folder, whose settings were ``before``, may go on with those of ``now``.

    Raises:
        RunError: if a setting differs on which the meaning of its files depends.
    """
    changed = [
        f"{name} {old} -> {new}"
        for name, old, new in _differences(to_dict(before), to_dict(now))
        if not any(name == known or name.startswith(f"{known}.") for known in CHANGEABLE)
    ]
    if changed:
        raise RunError(
            f"{path} holds a run with other settings: {', '.join(changed)}; choose another folder with --run, "
            "or name no settings, and the run goes on with its own"
        )


def changes_of(before: TrainConfig, now: TrainConfig, iteration: int) -> list[dict[str, Any]]:
    """The settings that differ, as a run's provenance lists them; ``iteration`` was the last one with ``before``."""
    return [
        {"after_iteration": iteration, "setting": name, "from": old, "to": new}
        for name, old, new in _differences(to_dict(before), to_dict(now))
    ]


def _differences(old: Any, new: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """``(dotted name, old value, new value)`` of every setting that differs."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return [found for key in new for found in _differences(old.get(key), new[key], f"{prefix}.{key}".lstrip("."))]
    return [] if old == new else [(prefix, old, new)]

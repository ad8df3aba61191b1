"""State of a run in one file, and the settings that may change when it resumes."""

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphac4.arena.match import MatchResult
from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.files import FileError
from alphac4.storage.records import first_line, read_record
from alphac4.training.config import TrainConfig, from_dict, load_config
from alphac4.training.optimizer import CosineSchedule

logger = logging.getLogger(__name__)

STATE_FILE = "state.safetensors"
STATE_FORMAT = "alphac4-run-state-14"

# Settings and groups that may change when a run resumes, because the meaning of its files does not depend on them.
CHANGEABLE = ("iterations", "gate", "baseline", "evaluation", "machine")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Total costs of a run."""

    seconds: float = 0.0
    games: int = 0  # games of self-play
    evaluations: int = 0  # positions evaluated by the network in self-play

    def __add__(self, other: "Costs") -> "Costs":
        return Costs(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(kw_only=True)
class RunState:
    """Everything that a run needs to resume after its last committed iteration."""

    iteration: int = 0
    best_iteration: int = 0
    best_digest: str = ""  # `weights_digest` of the best network
    samples: int = 0
    costs: Costs = field(default_factory=Costs)
    schedule: CosineSchedule | None = None  # schedule of the learning rate; None before the first iteration
    extensions: dict[str, str] = field(default_factory=dict)  # `Extensions.names`
    started_from: dict[str, Any] = field(default_factory=dict)  # provenance of the network that the run started from
    changes: list[dict[str, Any]] = field(default_factory=list)  # of settings and functions, when the run was resumed
    config: dict[str, Any] = field(default_factory=dict)  # all settings
    closing_matches: list[MatchResult] | None = None  # the closing matches; None before they are played
    learner: dict[str, Tensor] = field(default_factory=dict)
    actors: dict[str, np.ndarray] = field(default_factory=dict)

    def record_functions(self, functions: dict[str, str]) -> None:
        """Record `Extensions.names`; if a function's code has changed since the last iteration, record that and warn.

        The change may be intended, for example to correct an error, so the run continues.
        """
        for argument, now in functions.items() if self.iteration else ():
            if now != (before := self.extensions[argument]):
                change = {"after_iteration": self.iteration, "setting": argument, "from": before, "to": now}
                self.changes.append(change)
                logger.warning(
                    "`%s`: the code of %s has changed after iteration %d; the run uses the new code and records that; "
                    "to keep the old code, stop before the next iteration ends and restore it",
                    *(argument, now.partition(" #")[0], self.iteration),
                )
        self.extensions = functions

    def is_finished(self, config: TrainConfig) -> bool:
        """Return whether all iterations and closing matches of these settings are done."""
        opponents = [f"uct:{simulations}" for simulations in config.baseline.simulations]
        has_closed = (
            self.closing_matches is not None and [match.opponent for match in self.closing_matches] == opponents
        )
        return self.iteration >= config.iterations and has_closed


def has_state(path: Path) -> bool:
    """Return whether a folder holds a run with at least one committed iteration."""
    return (path / STATE_FILE).exists()


def save_state(path: Path, state: RunState) -> None:
    arrays = {f"learner.{name}": value.detach().cpu().numpy() for name, value in state.learner.items()}
    arrays |= {f"actors.{name}": array for name, array in state.actors.items()}
    counters = dataclasses.asdict(dataclasses.replace(state, learner={}, actors={}))
    save_arrays(path, arrays, {"format": STATE_FORMAT, "counters": counters})


def load_state(path: Path) -> RunState:
    """Read a state; raise FileError if it is missing or damaged."""
    arrays, header = load_arrays(path, STATE_FORMAT)
    try:
        state = read_record(RunState, header["counters"])
        from_dict(state.config)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not a run's state: {first_line(error)}") from error
    for name, array in arrays.items():
        kind, _, rest = name.partition(".")
        if kind == "actors":
            state.actors[rest] = array
        else:
            state.learner[rest] = torch.from_numpy(array)
    return state


def stored_settings(path: Path) -> TrainConfig | None:
    """Return a run's settings, from its state if ``config.json`` is damaged or missing; None without a run."""
    config = path / "config.json"
    if not has_state(path):
        return load_config(config) if config.exists() else None
    try:
        return load_config(config)
    except (ValueError, FileNotFoundError) as error:
        logger.warning("%s; the settings are taken from %s", error, STATE_FILE)
    _, header = load_arrays(path / STATE_FILE, STATE_FORMAT)
    return from_dict(read_record(dict[str, Any], header["counters"]["config"]))


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def changed_settings(before: TrainConfig, now: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Return the old and new values of settings that differ, by dotted name."""
    old, new = flatten(dataclasses.asdict(before)), flatten(dataclasses.asdict(now))
    return {name: (old[name], new[name]) for name in new if old[name] != new[name]}

"""A run's folder: what lies where, and in which order it is written so that a kill never leaves it torn.

::

    config.json                      the configuration
    replay/000012-001-00003.safetensors   samples of iteration 12, actor 1, as its games finish
    checkpoints/000012.safetensors   a network for each of the latest iterations, and the best
    checkpoints/best.safetensors     a copy of the best
    state.safetensors                the commit point: optimiser, counters, random states, games under way
    reports.jsonl                    one line an iteration
    tensorboard/                     curves and pictures

An iteration counts once ``state.safetensors`` is renamed into place. What is written before it is either made
again the same way or, like samples, kept; what is written after it is repaired from it.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphac4.checkpoint import CheckpointError, load_checkpoint, pack_tensors, unpack_tensors
from alphac4.files import append_line, write_atomically
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.replay import Replay
from alphac4.training.config import TrainConfig, load_run_config, to_dict
from alphac4.training.reports import IterationReport

logger = logging.getLogger(__name__)

STATE_FORMAT = "alphac4-run-state"
STATE_VERSION = 1
STATE_FILE = "state.safetensors"
# What may differ when a run goes on.
CHANGEABLE = ("iterations", "device", "backend", "keep_checkpoints", "gate", "evaluation")
CHANGEABLE_AT_FIRST = ("start_from",)  # until the first iteration is whole
CHANGEABLE_TOO = ("selfplay.device_games", "selfplay.device_streams")


class RunError(ValueError):
    """A run's folder that cannot be used, and why, in one line."""


@dataclass(kw_only=True)
class RunState:
    """Where a run stands after its last whole iteration."""

    iteration: int = 0
    best_iteration: int = 0
    seconds: float = 0.0
    games: int = 0
    samples: int = 0
    evaluations: int = 0
    backend: str = ""  # of self-play
    evaluating_backend: str = ""  # of everything that measures strength; empty before it was remembered
    last_report: str = ""  # in case its line was not written
    learner: dict[str, Tensor] = field(default_factory=dict)
    actors: dict[str, np.ndarray] = field(default_factory=dict)


def load_start(path: Path, config: TrainConfig) -> PolicyValueNetwork | None:
    """The network that a new run in a folder is to begin with, if one is named; reads only.

    Raises:
        ValueError: if it cannot be read, or does not fit the run.
    """
    name = config.start_from
    if not name or _has_state(path):
        return None
    checkpoint = load_checkpoint(Path(name))
    if checkpoint.geometry != config.board.geometry():
        raise ValueError(f"{name}: plays on another board than the run")
    try:
        config.network_config().check_grown_from(checkpoint.network.config)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return checkpoint.network


def _has_state(path: Path) -> bool:
    """Whether a folder holds a run with at least one whole iteration."""
    return (path / STATE_FILE).exists()


class RunFolder:
    """The files of one run.

    Raises:
        RunError: if the folder holds a run with other settings, or none that can be read.
        OSError: if it cannot be written.
    """

    def __init__(self, path: Path, config: TrainConfig) -> None:
        self.path = path
        self.config = config
        self.replay = Replay(path / "replay")
        self.tensorboard = path / "tensorboard"
        path.mkdir(parents=True, exist_ok=True)
        config_path = path / "config.json"
        if config_path.exists():
            self._check_same(config_path)
        write_atomically(config_path, json.dumps(to_dict(config), indent=2).encode())

    def _check_same(self, config_path: Path) -> None:
        try:
            old = to_dict(load_run_config(config_path))
        except ValueError as error:
            raise RunError(str(error)) from error
        new = to_dict(self.config)
        late = () if _has_state(self.path) else CHANGEABLE_AT_FIRST
        changed = [
            name
            for name, before, now in _leaves(old, new)
            if before != now and name.split(".")[0] not in (*CHANGEABLE, *late) and name not in CHANGEABLE_TOO
        ]
        if changed:
            raise RunError(f"{self.path} holds a run with other settings ({', '.join(changed)}): choose another folder")

    def checkpoint_path(self, iteration: int) -> Path:
        """Where an iteration's network lies."""
        return self.path / "checkpoints" / f"{iteration:06d}.safetensors"

    @property
    def best_path(self) -> Path:
        """The best network."""
        return self.path / "checkpoints" / "best.safetensors"

    def load_state(self) -> RunState:
        """The last committed state, or a fresh one; also reads the replay window.

        Raises:
            RunError: if the state is damaged.
        """
        path = self.path / STATE_FILE
        state = RunState()
        if path.exists():
            try:
                header, tensors = unpack_tensors(path, STATE_FORMAT, STATE_VERSION)
            except CheckpointError as error:
                raise RunError(str(error)) from error
            state = RunState(**header["counters"])
            state.learner = {k.removeprefix("learner."): v for k, v in tensors.items() if k.startswith("learner.")}
            for name, tensor in tensors.items():
                if name.startswith("actors."):
                    # PyTorch has few unsigned types: the header says what each array was.
                    kind = np.dtype(header["actor_types"][name])
                    array = name.removeprefix("actors.").replace(
                        "games.deep", "games.full_searches"
                    )  # its earlier name
                    state.actors[array] = tensor.numpy().view(kind)
            self._repair_reports(state)
            self.publish_best(state)
        self.replay.load()
        self.replay.total = state.samples + self.replay.recorded(state.iteration + 1)[1]
        return state

    def commit(self, state: RunState, report: IterationReport) -> None:
        """Make an iteration count, then bring the files that follow from it up to date."""
        state.last_report = report.to_json()
        tensors = {f"learner.{name}": value.contiguous() for name, value in state.learner.items()}
        types: dict[str, str] = {}
        for name, array in state.actors.items():
            types[f"actors.{name}"] = array.dtype.str
            signed = np.dtype(f"i{array.dtype.itemsize}") if array.dtype.kind in "ub" else array.dtype
            tensors[f"actors.{name}"] = torch.from_numpy(np.ascontiguousarray(array).view(signed).copy())
        counters = {
            name: getattr(state, name) for name in state.__dataclass_fields__ if name not in ("learner", "actors")
        }
        header: Mapping[str, Any] = {
            "format": STATE_FORMAT,
            "schema_version": STATE_VERSION,
            "counters": counters,
            "actor_types": types,
        }
        write_atomically(self.path / STATE_FILE, pack_tensors(tensors, header))
        append_line(self.path / "reports.jsonl", state.last_report)
        self.publish_best(state)
        self._drop_old_checkpoints(state)

    def publish_best(self, state: RunState) -> None:
        """Copy the best iteration's network to ``best.safetensors``."""
        write_atomically(self.best_path, self.checkpoint_path(state.best_iteration).read_bytes())

    def load_best(self, state: RunState) -> PolicyValueNetwork:
        """The best network so far.

        Raises:
            RunError: if its checkpoint is damaged.
        """
        try:
            return load_checkpoint(self.checkpoint_path(state.best_iteration)).network
        except CheckpointError as error:
            raise RunError(str(error)) from error

    def reports(self, state: RunState) -> list[IterationReport]:
        """The reports of all committed iterations; a damaged line is left out with a warning."""
        path = self.path / "reports.jsonl"
        found: dict[int, IterationReport] = {}
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], start=1):
            try:
                report = IterationReport.from_json(line)
            except (ValueError, TypeError, KeyError):
                logger.warning("%s: line %d is damaged and left out", path, number)
                continue
            if report.iteration <= state.iteration:
                found[report.iteration] = report
        return [found[iteration] for iteration in sorted(found)]

    def _repair_reports(self, state: RunState) -> None:
        """Write the last report's line if a kill came between the commit and the line."""
        if state.last_report and all(r.iteration != state.iteration for r in self.reports(state)):
            append_line(self.path / "reports.jsonl", state.last_report)

    def _drop_old_checkpoints(self, state: RunState) -> None:
        for path in self.path.glob("checkpoints/[0-9]*.safetensors"):
            iteration = int(path.stem)
            if iteration <= state.iteration - self.config.keep_checkpoints and iteration != state.best_iteration:
                path.unlink(missing_ok=True)
        for leftover in self.path.rglob(".*.tmp"):  # of a killed process
            leftover.unlink(missing_ok=True)


def _leaves(old: Any, new: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """``(dotted name, old value, new value)`` of every setting."""
    if isinstance(new, dict) and isinstance(old, dict):
        return [leaf for key in new for leaf in _leaves(old.get(key), new[key], f"{prefix}.{key}".lstrip("."))]
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return [(prefix, list(old), list(new))]
    return [(prefix, old, new)]

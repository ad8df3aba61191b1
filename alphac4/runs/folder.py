"""A run's folder: what lies where, and in which order it is written so that a kill never leaves it torn.

::

    config.json                      the configuration
    lock                             which process the run belongs to
    costs.json                       what the run has cost so far
    replay/000012.safetensors        samples of iteration 12
    checkpoints/000012.safetensors   a network for each of the latest iterations, and the best
    checkpoints/best.safetensors     a copy of the best
    state.safetensors                the commit point: optimiser, counters, random states, games in progress
    state.previous.safetensors       the one before, in case the latest is damaged
    reports.jsonl                    one line an iteration
    closing.json                     the matches that close the run, once they have been played
    tensorboard/                     curves and pictures

An iteration counts once ``state.safetensors`` is renamed into place. Files that are written before it are written again
by the repeated iteration, with the same content, since the state holds the games and random numbers that it came from.
Files that are written after it are repaired from it.
"""

import contextlib
import dataclasses
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphac4.nn.config import NetworkConfig, qualified_name
from alphac4.runs.costs import CostCounter
from alphac4.runs.reports import CLOSING_FILE, REPORTS_FILE, ClosingReport, IterationReport, read_reports
from alphac4.runs.state import (
    PREVIOUS_STATE_FILE,
    STATE_FILE,
    RunError,
    RunState,
    changes_of,
    check_changes,
    has_state,
    load_state,
    save_state,
    stored_settings,
)
from alphac4.selfplay.replay import Replay
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.files import FileError, append_line, remove_leftovers, write_atomically
from alphac4.storage.journal import to_line
from alphac4.storage.locks import FileLock, LockedError
from alphac4.training.config import TrainConfig, from_dict, to_dict
from alphac4.training.extensions import Extensions, check_names

logger = logging.getLogger(__name__)

_CHECKPOINT = re.compile(r"\d{6,}\.safetensors")


class RunFolder:
    """The files of one run, which belong to this process until `close`.

    Args:
        path: the folder.
        config: the run's settings.
        extensions: functions of the user, which must be those that the run had before.

    Raises:
        RunError: if the folder is in use, holds a run with other settings, or none that can be read.
        OSError: if it cannot be written.
    """

    def __init__(self, path: Path, config: TrainConfig, extensions: Extensions | None = None) -> None:
        self.path = path
        self._extensions = extensions or Extensions()
        self._build = self._extensions.network
        self.config = config
        self.replay = Replay(path / "replay")
        self.tensorboard = path / "tensorboard"
        self.best_path = path / "checkpoints" / "best.safetensors"
        self._committed_best = 0  # the best network in the state on disk
        path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = FileLock(path / "lock")
        except LockedError as error:
            raise RunError(f"{error}: end that run first, or choose another folder") from error
        try:
            before = stored_settings(path)
            if before is not None:
                check_changes(path, before, config)
            for folder in (path, path / "checkpoints", path / "replay"):
                remove_leftovers(folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.close()

    def write_config(self) -> None:
        """Keep the settings, once everything that they ask for is there: then the folder holds this run."""
        path, content = self.path / "config.json", json.dumps(to_dict(self.config), indent=2).encode()
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)

    def checkpoint_path(self, iteration: int) -> Path:
        """The file of an iteration's network."""
        return self.path / "checkpoints" / f"{iteration:06d}.safetensors"

    def load_state(self) -> RunState:
        """Return the last committed state, or a fresh one; also reads the replay window.

        A damaged state costs an iteration: the previous state takes its place.

        Raises:
            RunError: if neither can be read, or no network of the run.
        """
        state = self._read_state()
        if state.iteration:
            check_names(state.extensions, self._extensions.names())
            state.changes += changes_of(from_dict(state.config), self.config, state.iteration)
            self._committed_best = state.best_iteration
            self._repair_best(state)
            self._drop_old_files(state)
        self.costs = CostCounter(self.path / "costs.json", state.costs)
        self.replay.total = state.samples
        self.replay.load(state.iteration)
        return state

    def _read_state(self) -> RunState:
        path, previous = self.path / STATE_FILE, self.path / PREVIOUS_STATE_FILE
        if not has_state(self.path):
            return RunState()
        try:
            return load_state(path)
        except FileError as error:
            try:
                state = load_state(previous)
            except FileError as other:
                raise RunError(f"{error}; {other}") from other
            if path.exists():  # or else a kill came between the two renames of `commit`
                logger.warning("%s; the run continues from iteration %d, the previous one", error, state.iteration)
            previous.replace(path)
            return state

    def commit(self, state: RunState, report: IterationReport) -> None:
        """Commit an iteration: write its shard, its report and the state, then the files that follow from them."""
        self.replay.save()
        append_line(self.path / REPORTS_FILE, to_line(dataclasses.asdict(report)))
        state.config = to_dict(self.config)
        state.earlier_best_iteration = self._committed_best
        if (self.path / STATE_FILE).exists():
            (self.path / STATE_FILE).replace(self.path / PREVIOUS_STATE_FILE)
        save_state(self.path / STATE_FILE, state)
        self._committed_best = state.best_iteration
        self.publish_best(state)
        self._drop_old_files(state)

    def publish_best(self, state: RunState) -> None:
        """Copy the best iteration's network to ``best.safetensors``, if it is whole.

        Raises:
            RunError: if it is damaged; ``best.safetensors`` stays as it was.
        """
        self.load_best(state)
        content = self.checkpoint_path(state.best_iteration).read_bytes()
        if not self.best_path.exists() or self.best_path.read_bytes() != content:
            write_atomically(self.best_path, content)

    def add_strength(self, state: RunState, strength: Mapping[str, Any]) -> None:
        """Write what was measured into the best network's file; its provenance stays as it was."""
        path = self.checkpoint_path(state.best_iteration)
        save_checkpoint(path, dataclasses.replace(self.load_best(state), strength=strength))
        self.publish_best(state)

    def add_closing(self, report: ClosingReport) -> None:
        """Write down the matches that close the run, which is finished then."""
        write_atomically(self.path / CLOSING_FILE, (to_line(dataclasses.asdict(report)) + "\n").encode())

    def load_best(self, state: RunState) -> Checkpoint:
        """The best network so far. Raises RunError if it is damaged."""
        try:
            return load_checkpoint(self.checkpoint_path(state.best_iteration), self._build)
        except FileError as error:
            raise RunError(str(error)) from error

    def _repair_best(self, state: RunState) -> None:
        """Replace a damaged best network by an undamaged one of the run, then bring ``best.safetensors`` up to date.

        The copy in ``best.safetensors`` comes first, then the newest earlier checkpoint.
        """
        try:
            self.load_best(state)
        except RunError as error:
            for other in (self.best_path, *sorted(self._checkpoints(), reverse=True)):
                with contextlib.suppress(FileError):
                    found = load_checkpoint(other, self._build)
                    iteration = found.provenance.get("iteration", -1)
                    if found.network.config == self._network_config() and iteration in range(state.iteration + 1):
                        logger.warning("%s; %s takes its place", error, other)
                        write_atomically(self.checkpoint_path(iteration), other.read_bytes())
                        state.best_iteration = iteration
                        break
            else:
                raise RunError(f"{error}; no other network of the run is whole") from error
        self.publish_best(state)

    def reports(self, state: RunState) -> list[IterationReport]:
        """The reports of all committed iterations; a damaged line is left out with a warning."""
        reports = read_reports(self.path / REPORTS_FILE)
        return [report for report in reports if report.iteration <= state.iteration]

    def _network_config(self) -> NetworkConfig:
        config = self.config.network_config()
        return dataclasses.replace(config, architecture=qualified_name(self._build)) if self._build else config

    def _checkpoints(self) -> list[Path]:
        """The networks with a number for a name; a stray copy is none of them."""
        return [path for path in self.path.glob("checkpoints/*.safetensors") if _CHECKPOINT.fullmatch(path.name)]

    def _drop_old_files(self, state: RunState) -> None:
        bests = {self.checkpoint_path(best) for best in (state.best_iteration, state.earlier_best_iteration)}
        for path in self._checkpoints():
            if int(path.stem) <= state.iteration - self.config.machine.keep_checkpoints and path not in bests:
                path.unlink(missing_ok=True)

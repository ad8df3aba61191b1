"""Files of a run, and the order in which they are written so that a kill leaves no torn run.

::

    config.json                      the settings
    lock                             the process that the run belongs to
    costs.json                       the run's costs so far
    replay/000012.safetensors        samples of iteration 12
    checkpoints/000012.safetensors   the networks of the latest iterations, and the best
    checkpoints/best.safetensors     a copy of the best
    state.safetensors                the commit point: optimiser, counters, random states, games in progress
    reports.jsonl                    a line per iteration
    tensorboard/                     curves and pictures

An iteration counts once ``state.safetensors`` is renamed into place. A repeated iteration writes the files before it
again, with the same content, because the state holds the games and random states that produced them. `load_state`
writes the files after it again.
"""

import dataclasses
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphac4.runs.reports import REPORTS_FILE, IterationReport, read_reports
from alphac4.runs.state import (
    CHANGEABLE,
    STATE_FILE,
    RunError,
    RunState,
    changed_settings,
    has_state,
    load_state,
    save_state,
    stored_settings,
)
from alphac4.selfplay.replay import Replay
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.files import FileError, append_line, remove_leftovers, write_atomically
from alphac4.storage.locks import FileLock, LockedError
from alphac4.storage.records import to_json_line
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
        RunError: if the folder is in use, holds a run with other settings, or cannot be read.
        OSError: if it cannot be written.
    """

    def __init__(self, path: Path, config: TrainConfig, extensions: Extensions | None = None) -> None:
        self.path = path
        self._extensions = extensions or Extensions()
        self.config = config
        self.replay = Replay(path / "replay")
        self.best_path = path / "checkpoints" / "best.safetensors"
        path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = FileLock(path / "lock")
        except LockedError as error:
            raise RunError(f"{error}: end that run first, or choose another folder") from error
        try:
            self._check_settings()
            for folder in (path, path / "checkpoints", path / "replay"):
                remove_leftovers(folder)
        except BaseException:
            self.close()
            raise

    def _check_settings(self) -> None:
        before = stored_settings(self.path)
        changed = {} if before is None else changed_settings(before, self.config)
        refused = [
            f"{name} {old} -> {new}" for name, (old, new) in changed.items() if name.split(".")[0] not in CHANGEABLE
        ]
        if refused:
            raise RunError(
                f"{self.path} holds a run with other settings: {', '.join(refused)}; choose another folder with --run, "
                "or name no settings, and the run goes on with its own"
            )

    def close(self) -> None:
        """Release the folder to other processes."""
        self._lock.close()

    def write_config(self) -> None:
        """Store the settings. Call this once the run can start: then the folder holds a run."""
        path, content = self.path / "config.json", json.dumps(to_dict(self.config), indent=2).encode()
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)

    def checkpoint_path(self, iteration: int) -> Path:
        """Return the file of an iteration's network."""
        return self.path / "checkpoints" / f"{iteration:06d}.safetensors"

    def load_state(self) -> RunState:
        """Return the last committed state, or a fresh one.

        Raises:
            ValueError: if it or the best network is damaged, or belongs to a run with other functions.
        """
        if not has_state(self.path):
            return RunState()
        try:
            state = load_state(self.path / STATE_FILE)
            check_names(state.extensions, self._extensions.names())
            self._restore_best(state)
        except FileError as error:
            advice = "restore the file, or choose a new folder and --start-from an undamaged checkpoint"
            raise RunError(f"{error}: {advice}") from error
        state.changes += [
            {"after_iteration": state.iteration, "setting": name, "from": old, "to": new}
            for name, (old, new) in changed_settings(from_dict(state.config), self.config).items()
        ]
        self._finish_commit(state)
        return state

    def commit(self, state: RunState, report: IterationReport) -> None:
        """Commit an iteration: write its shard, its report and the state, then the files that follow from them."""
        self.replay.save()
        append_line(self.path / REPORTS_FILE, to_json_line(dataclasses.asdict(report)))
        self.write_state(state)
        self._finish_commit(state)

    def write_state(self, state: RunState) -> None:
        """Write the state atomically."""
        state.config = to_dict(self.config)
        save_state(self.path / STATE_FILE, state)

    def _restore_best(self, state: RunState) -> None:
        """Copy ``best.safetensors`` back if the best iteration's own file is damaged and the copy is not."""
        best = self.checkpoint_path(state.best_iteration)
        try:
            self.load_best(state)
        except FileError as damage:
            copy = load_checkpoint(self.best_path, self._extensions.network)
            if copy.provenance.get("iteration") != state.best_iteration:
                raise
            logger.warning("%s; its copy %s takes its place", damage, self.best_path)
            write_atomically(best, self.best_path.read_bytes())

    def _finish_commit(self, state: RunState) -> None:
        """Copy the best network to ``best.safetensors``, and remove old ones."""
        best = self.checkpoint_path(state.best_iteration)
        content = best.read_bytes()
        if not self.best_path.exists() or self.best_path.read_bytes() != content:
            write_atomically(self.best_path, content)
        for path in self.path.glob("checkpoints/*.safetensors"):
            is_ours = _CHECKPOINT.fullmatch(path.name) and path != best  # a stray copy is not
            if is_ours and int(path.stem) <= state.iteration - self.config.machine.keep_checkpoints:
                path.unlink(missing_ok=True)

    def load_best(self, state: RunState) -> Checkpoint:
        """Return the best network so far."""
        return load_checkpoint(self.checkpoint_path(state.best_iteration), self._extensions.network)

    def add_strength(self, state: RunState, strength: Mapping[str, Any]) -> None:
        """Add measurements to the best network's file; its provenance stays as it was."""
        measured = dataclasses.replace(self.load_best(state), strength=strength)
        save_checkpoint(self.checkpoint_path(state.best_iteration), measured)
        self._finish_commit(state)

    def reports(self, state: RunState) -> list[IterationReport]:
        """Return the reports of all committed iterations; a damaged line is left out with a warning."""
        reports = read_reports(self.path / REPORTS_FILE)
        return [report for report in reports if report.iteration <= state.iteration]

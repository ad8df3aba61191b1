"""Files of a run, written in an order that leaves the run resumable after a kill at any time.

::

    config.json                      the settings
    .alphac4.lock                    held by the process that owns the run
    costs.json                       the run's costs so far
    replay/000012.safetensors        samples of iteration 12
    checkpoints/000012.safetensors   the networks of the latest iterations, and the best
    checkpoints/best.safetensors     a copy of the best
    state.safetensors                the commit point: optimiser, counters, random states, games in progress
    reports.jsonl                    one line per iteration
    tensorboard/                     curves and images

An iteration is committed when ``state.safetensors`` is renamed into place. If a run is killed before that, the
iteration is repeated and writes its other files again. On cores its samples and weights are the same, because the state
of the iteration before has the games and random states that produce them. If a run is killed after the commit, the next
`RunFolder` writes the files that follow from the state.
"""

import contextlib
import dataclasses
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from alphac4.runs.reports import REPORTS_FILE, IterationReport, TrainedRun, read_reports
from alphac4.runs.state import (
    CHANGEABLE,
    STATE_FILE,
    RunState,
    changed_settings,
    has_state,
    load_state,
    save_state,
    stored_settings,
)
from alphac4.selfplay.replay import Replay, find_shards
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint, weights_digest
from alphac4.storage.files import FileError, append_line, read_bytes, remove_leftovers, write_atomically
from alphac4.storage.locks import LOCK_FILE, FileLock, LockedError
from alphac4.storage.records import to_json_line
from alphac4.training.config import TrainConfig, from_dict
from alphac4.training.extensions import Extensions, check_names

logger = logging.getLogger(__name__)

_CHECKPOINT = re.compile(r"\d{6,}\.safetensors")


class RunFolder:
    """Folder of one run, locked by this process until `close`, and the run's last committed state.

    As a context manager it closes itself.
    """

    def __init__(self, path: Path, config: TrainConfig, extensions: Extensions | None = None) -> None:
        self.path = path
        self.extensions = extensions or Extensions()
        self.config = config
        self._is_new = not path.exists()
        self.replay_path = path / "replay"
        self.replay = Replay(self.replay_path)
        self.best_path = path / "checkpoints" / "best.safetensors"
        path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = FileLock(path / LOCK_FILE)
        except LockedError as error:
            raise ValueError(f"{error}: stop that run first, or choose another folder") from error
        try:
            self.state = self._load_state()
            if self.state.iteration:
                self._finish_commit()
            for folder in (path, path / "checkpoints", self.replay_path):
                remove_leftovers(folder)
        except BaseException:
            self.close()
            raise

    def _load_state(self) -> RunState:
        """Return the last committed state, or a new one, after checking that the run can have these settings."""
        try:
            state = load_state(self.path / STATE_FILE) if has_state(self.path) else RunState()
            before = from_dict(state.config) if state.iteration else stored_settings(self.path)
            last = max(find_shards(self.replay_path), default=0)
            if last > (0 if before is None else state.iteration + 1):  # a kill may leave one that is not committed
                raise ValueError(
                    f"{self.replay_path} holds samples up to iteration {last}, which a run would replace, because "
                    f"{self.path} has no state after iteration {state.iteration}: restore {STATE_FILE}, or "
                    "choose another folder"
                )
            changed = {} if before is None else changed_settings(before, self.config)
            refused = [name for name in changed if name.split(".")[0] not in CHANGEABLE]
            if refused:
                changes = ", ".join(f"{name} {changed[name][0]} -> {changed[name][1]}" for name in refused)
                raise ValueError(
                    f"{self.path} holds a run with other settings: {changes}; choose another folder, "
                    "or leave out the preset and the settings to resume the run with its own"
                )
            if state.iteration:
                check_names(state.extensions, self.extensions.names())
                self._restore_best(state)
                state.changes += [
                    {"after_iteration": state.iteration, "setting": name, "from": old, "to": new}
                    for name, (old, new) in changed.items()
                ]
        except FileError as error:
            advice = "restore the file, or start a run in a new folder from an undamaged checkpoint (start_from)"
            raise ValueError(f"{error}: {advice}") from error
        return state

    def close(self) -> None:
        """Release the folder to other processes; remove a new one in which nothing was recorded."""
        self._lock.close()
        if self._is_new:
            self._is_new = False
            with contextlib.suppress(OSError):
                if [path.name for path in self.path.iterdir()] == [LOCK_FILE]:
                    (self.path / LOCK_FILE).unlink()
                self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def write_config(self) -> None:
        """Store the settings. Call this when the run can start, because the folder counts as a run from then on."""
        path, content = self.path / "config.json", json.dumps(dataclasses.asdict(self.config), indent=2).encode()
        if not path.exists() or read_bytes(path) != content:
            write_atomically(path, content)

    def checkpoint_path(self, iteration: int) -> Path:
        return self.path / "checkpoints" / f"{iteration:06d}.safetensors"

    def commit(self, report: IterationReport) -> None:
        """Commit an iteration: write its shard, report and state, then the files that follow from the state."""
        self.replay.save_latest()
        append_line(self.path / REPORTS_FILE, to_json_line(dataclasses.asdict(report)))
        self.write_state()
        self._finish_commit()

    def write_state(self) -> None:
        self.state.config = dataclasses.asdict(self.config)
        save_state(self.path / STATE_FILE, self.state)

    def _load_best(self, path: Path, state: RunState) -> Checkpoint:
        """Load the best network from a file; raise FileError if the file is damaged or holds another network."""
        checkpoint = load_checkpoint(path, self.extensions.functions.get("network"))
        if weights_digest(checkpoint.network) != state.best_digest:
            raise FileError(f"{path}: not the run's best network, which is that of iteration {state.best_iteration}")
        return checkpoint

    def _restore_best(self, state: RunState) -> None:
        """If the best iteration's file is damaged or holds another network, restore it from ``best.safetensors``."""
        best = self.checkpoint_path(state.best_iteration)
        try:
            self._load_best(best, state)
        except FileError as damage:
            try:
                self._load_best(self.best_path, state)
            except FileError as error:
                raise FileError(f"{damage}; {error}") from error
            logger.warning("%s; restored from its copy %s", damage, self.best_path)
            write_atomically(best, read_bytes(self.best_path))

    def _finish_commit(self) -> None:
        """Copy the best network to ``best.safetensors``, and remove old networks."""
        best = self.checkpoint_path(self.state.best_iteration)
        if not (best.exists() and self.best_path.exists() and read_bytes(self.best_path) == read_bytes(best)):
            self._restore_best(self.state)
            write_atomically(self.best_path, read_bytes(best))
        for path in self.path.glob("checkpoints/*.safetensors"):
            is_removable = _CHECKPOINT.fullmatch(path.name) and path != best  # copies by the user are not
            if is_removable and int(path.stem) <= self.state.iteration - self.config.machine.keep_checkpoints:
                path.unlink(missing_ok=True)

    def load_best(self) -> Checkpoint:
        return self._load_best(self.checkpoint_path(self.state.best_iteration), self.state)

    def set_strength(self, strength: Mapping[str, Any]) -> None:
        """Store measurements in the best network's file, in place of earlier ones; its provenance stays."""
        measured = dataclasses.replace(self.load_best(), strength=strength)
        save_checkpoint(self.checkpoint_path(self.state.best_iteration), measured)
        self._finish_commit()

    def reports(self) -> list[IterationReport]:
        """Return the reports of all committed iterations; damaged lines are skipped with a warning."""
        reports = read_reports(self.path / REPORTS_FILE)
        return [report for report in reports if report.iteration <= self.state.iteration]

    def trained_run(self) -> TrainedRun:
        return TrainedRun(
            folder=self.path,
            best_checkpoint=self.best_path
            if self.best_path.exists()
            else self.checkpoint_path(0),  # before the first commit
            config=self.config,
            iterations=self.state.iteration,
            history=self.reports(),
            closing_matches=self.state.closing_matches or (),
        )

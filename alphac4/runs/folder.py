"""Files of a run, and the order in which they are written so that a kill leaves no torn run.

::

    config.json                      the settings
    lock                             the process that the run belongs to
    costs.json                       the run's costs so far
    replay/000012.safetensors        samples of iteration 12
    checkpoints/000012.safetensors   the networks of the latest iterations, and the best
    checkpoints/best.safetensors     a copy of the best
    state.safetensors                the commit point: optimiser, counters, random states, games in progress
    state.previous.safetensors       the state before, in case the latest is damaged
    reports.jsonl                    a line per iteration
    tensorboard/                     curves and pictures

An iteration counts once ``state.safetensors`` is renamed into place. The repeated iteration writes the files before it
again, with the same content, because the state holds the games and random states that produced them. The files after it
are repaired from it.
"""

import contextlib
import dataclasses
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphac4.nn.config import qualified_name
from alphac4.runs.reports import REPORTS_FILE, IterationReport, read_reports
from alphac4.runs.state import (
    CHANGEABLE,
    PREVIOUS_STATE_FILE,
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
from alphac4.storage.records import to_line
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
        self._build = self._extensions.network
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

        A damaged state costs an iteration: the previous state takes its place.

        Raises:
            RunError: if neither can be read, or no network of the run.
        """
        if not has_state(self.path):
            return RunState()
        path, previous = self.path / STATE_FILE, self.path / PREVIOUS_STATE_FILE
        try:
            state = load_state(path)
        except FileError as error:
            try:
                state = load_state(previous)
            except FileError as other:
                raise RunError(f"{error}; {other}") from other
            if path.exists():  # otherwise a kill came between the two renames of `commit`
                logger.warning("%s; the run continues from iteration %d, the previous one", error, state.iteration)
            previous.replace(path)
        check_names(state.extensions, self._extensions.names())
        state.changes += [
            {"after_iteration": state.iteration, "setting": name, "from": old, "to": new}
            for name, (old, new) in changed_settings(from_dict(state.config), self.config).items()
        ]
        self._repair_best(state)
        self._drop_old_files(state)
        return state

    def commit(self, state: RunState, report: IterationReport) -> None:
        """Commit an iteration: write its shard, its report and the state, then the files that follow from them."""
        self.replay.save()
        append_line(self.path / REPORTS_FILE, to_line(dataclasses.asdict(report)))
        if (self.path / STATE_FILE).exists():
            (self.path / STATE_FILE).replace(self.path / PREVIOUS_STATE_FILE)
        self.write_state(state)
        self.publish_best(state)
        self._drop_old_files(state)

    def write_state(self, state: RunState) -> None:
        """Write the state atomically."""
        state.config = to_dict(self.config)
        save_state(self.path / STATE_FILE, state)

    def publish_best(self, state: RunState) -> None:
        """Copy the best iteration's network to ``best.safetensors``, if it is undamaged.

        Raises:
            RunError: if it is damaged; ``best.safetensors`` stays as it was.
        """
        self.load_best(state)
        content = self.checkpoint_path(state.best_iteration).read_bytes()
        if not self.best_path.exists() or self.best_path.read_bytes() != content:
            write_atomically(self.best_path, content)

    def add_strength(self, state: RunState, strength: Mapping[str, Any]) -> None:
        """Add measurements to the best network's file; its provenance stays as it was."""
        path = self.checkpoint_path(state.best_iteration)
        save_checkpoint(path, dataclasses.replace(self.load_best(state), strength=strength))
        self.publish_best(state)

    def load_best(self, state: RunState) -> Checkpoint:
        """Return the best network so far. Raises RunError if it is damaged."""
        try:
            return load_checkpoint(self.checkpoint_path(state.best_iteration), self._build)
        except FileError as error:
            raise RunError(str(error)) from error

    def _repair_best(self, state: RunState) -> None:
        """Replace a damaged best network by an undamaged one of the run, then update ``best.safetensors``.

        The copy in ``best.safetensors`` comes first, then the newest earlier checkpoint.
        """
        try:
            return self.publish_best(state)
        except RunError as error:
            damage = error
        network = self.config.network_config()
        if self._build:
            network = dataclasses.replace(network, architecture=qualified_name(self._build))
        for other in (self.best_path, *sorted(self._checkpoints(), reverse=True)):
            with contextlib.suppress(FileError):
                found = load_checkpoint(other, self._build)
                iteration = found.provenance.get("iteration", -1)
                if found.network.config == network and iteration in range(state.iteration + 1):
                    logger.warning("%s; %s takes its place", damage, other)
                    write_atomically(self.checkpoint_path(iteration), other.read_bytes())
                    state.best_iteration = iteration
                    return self.publish_best(state)
        raise RunError(f"{damage}; no other network of the run is whole") from damage

    def reports(self, state: RunState) -> list[IterationReport]:
        """Return the reports of all committed iterations; a damaged line is left out with a warning."""
        reports = read_reports(self.path / REPORTS_FILE)
        return [report for report in reports if report.iteration <= state.iteration]

    def _checkpoints(self) -> list[Path]:
        """Return the networks named by a number; other files are not of the run."""
        return [path for path in self.path.glob("checkpoints/*.safetensors") if _CHECKPOINT.fullmatch(path.name)]

    def _drop_old_files(self, state: RunState) -> None:
        bests = {self.checkpoint_path(best) for best in (state.best_iteration, state.earlier_best_iteration)}
        for path in self._checkpoints():
            if int(path.stem) <= state.iteration - self.config.machine.keep_checkpoints and path not in bests:
                path.unlink(missing_ok=True)

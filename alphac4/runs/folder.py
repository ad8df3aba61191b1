"""A run's folder: what lies where, and in which order it is written so that a kill never leaves it torn.

::

    config.json                      the configuration
    lock                             which process the run belongs to
    costs.json                       what the run has cost so far
    replay/000012-00003.safetensors  samples of iteration 12, as its games finish
    checkpoints/000012.safetensors   a network for each of the latest iterations, and the best
    checkpoints/best.safetensors     a copy of the best
    state.safetensors                the commit point: optimiser, counters, random states, games in progress
    state.previous.safetensors       the one before, in case the latest is damaged
    games.safetensors                games in progress after that, and how many shards of their iteration they follow
    reports.jsonl                    one line an iteration
    closing.json                     the matches that close the run, once they have been played
    tensorboard/                     curves and pictures

An iteration counts once ``state.safetensors`` is renamed into place. What is written before it is made again the same
way, as the state holds the games and random numbers from which it came; what is written after it is repaired from it.
Self-play takes long, so the games in progress are kept besides, and go on where they were. What is damaged there costs
an iteration's self-play.
"""

import contextlib
import dataclasses
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.runs.costs import CostJournal
from alphac4.runs.reports import CLOSING_FILE, REPORTS_FILE, ClosingReport, IterationReport, read_reports
from alphac4.runs.state import (
    PREVIOUS_STATE_FILE,
    STATE_FILE,
    RunError,
    RunState,
    changes_of,
    check_changes,
    load_state,
    save_state,
    stored_settings,
)
from alphac4.selfplay.replay import Replay
from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.files import FileError, append_line, remove_leftovers, write_atomically
from alphac4.storage.journal import to_line
from alphac4.storage.locks import FileLock, LockedError
from alphac4.storage.records import read_record
from alphac4.training.config import TrainConfig, from_dict, to_dict

logger = logging.getLogger(__name__)

GAMES_FILE = "games.safetensors"
GAMES_FORMAT = "alphac4-games-in-progress-6"
_CHECKPOINT = re.compile(r"\d{6,}\.safetensors")


@dataclass(frozen=True, kw_only=True)
class KeptGames:
    """An interrupted iteration's self-play, as far as it is on disk."""

    iteration: int
    shards: int  # how many there are
    samples: int  # in them
    start: str  # SHA-256 of the file of the first network, which may change until the first iteration is whole


class RunFolder:
    """The files of one run, which belong to this process until `close`.

    Args:
        path: the folder.
        config: the run's settings.
        start: SHA-256 of the file that the run begins with, if one is named and no iteration is whole.

    Raises:
        RunError: if the folder is in use, holds a run with other settings, or none that can be read.
        OSError: if it cannot be written.
    """

    def __init__(self, path: Path, config: TrainConfig, start: str = "") -> None:
        self.path = path
        self.config = config
        self._start = start
        self.replay = Replay(path / "replay")
        self.tensorboard = path / "tensorboard"
        self.best_path = path / "checkpoints" / "best.safetensors"
        self._state_is_good = False  # whether STATE_FILE has been verified, or was written by this process
        self._committed_best = 0  # the best network in the state on disk
        self.kept: KeptGames | None = None  # set by `load_state`
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
        """The last committed state, or a fresh one; also reads the replay window.

        A state that is damaged costs an iteration: the one before it is taken up.

        Raises:
            RunError: if neither can be read, or no network of the run.
        """
        state = self._read_state()
        if state.iteration:
            state.changes += changes_of(from_dict(state.config), self.config, state.iteration)
            self._repair_best(state)
        if self._state_is_good:
            self._drop_old_files(state)
        self.costs = CostJournal(self.path / "costs.json", state.costs)
        self.replay.total = state.samples
        self.kept = self._take_up_games(state)
        return state

    def _take_up_games(self, state: RunState) -> KeptGames | None:
        """Go on with the games of an interrupted iteration, if they and what they follow are whole."""
        kept = None
        if (self.path / GAMES_FILE).exists():
            try:
                games, header = load_arrays(self.path / GAMES_FILE, GAMES_FORMAT)
                kept = read_record(KeptGames, header["kept"])
            except (KeyError, ValueError) as error:
                logger.warning("%s: %s; the interrupted iteration is played again", self.path / GAMES_FILE, error)
        if kept and kept.iteration == state.iteration + 1 and (state.iteration or kept.start == self._start):
            self.replay.load(state.iteration, kept.shards)
            if self.replay.count(kept.iteration) == kept.samples:
                state.actors = games
                self.replay.total += kept.samples
                return kept
            logger.warning("a shard of the interrupted iteration is lost; it is played again")
        self.replay.load(state.iteration)
        return None

    def keep_games(self, iteration: int, games: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Keep the games in progress, which follow what has been recorded of the iteration."""
        samples, shards = self.replay.count(iteration), self.replay.shards(iteration)
        kept = KeptGames(iteration=iteration, shards=shards, samples=samples, start=self._start)
        save_arrays(self.path / GAMES_FILE, games, {"format": GAMES_FORMAT, "kept": dataclasses.asdict(kept)})

    def _read_state(self) -> RunState:
        reasons = []
        for name in (STATE_FILE, PREVIOUS_STATE_FILE):
            path = self.path / name
            if not path.exists():
                continue
            try:
                state = load_state(path)
            except FileError as error:
                reasons.append(str(error))
                continue
            self._state_is_good = name == STATE_FILE
            self._committed_best = state.best_iteration
            for reason in reasons:
                logger.warning("%s; the run goes on from iteration %d, the one before", reason, state.iteration)
            return state
        if reasons:
            raise RunError("; ".join(reasons))
        return RunState()

    def commit(self, state: RunState, report: IterationReport) -> None:
        """Make an iteration count, once its report is written; then bring the files that follow from it up to date."""
        append_line(self.path / REPORTS_FILE, to_line(dataclasses.asdict(report)))
        state.config = to_dict(self.config)
        state.earlier_best_iteration = self._committed_best
        if self._state_is_good:  # or else the one before it is the better one
            (self.path / STATE_FILE).replace(self.path / PREVIOUS_STATE_FILE)
        save_state(self.path / STATE_FILE, state)
        self._state_is_good, self._committed_best = True, state.best_iteration
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
            return load_checkpoint(self.checkpoint_path(state.best_iteration))
        except FileError as error:
            raise RunError(str(error)) from error

    def _repair_best(self, state: RunState) -> None:
        """Bring ``best.safetensors`` up to date; if the best network is damaged, another one of the run that is whole.

        The copy comes first, then the networks of the latest iterations.
        """
        path = self.checkpoint_path(state.best_iteration)
        try:
            self.load_best(state)
        except RunError as error:
            for other in (self.best_path, *sorted(set(self._checkpoints()) - {path}, reverse=True)):
                iteration = self._iteration_of(other, state)
                if iteration is not None:
                    logger.warning("%s; %s takes its place", error, other)
                    state.best_iteration = iteration
                    if other == self.best_path:
                        write_atomically(self.checkpoint_path(iteration), other.read_bytes())
                    break
            else:
                raise RunError(f"{error}; no other network of the run is whole") from error
        self.publish_best(state)

    def _iteration_of(self, path: Path, state: RunState) -> int | None:
        """The iteration that a file's network is from; None unless it is whole, of this run and no newer than it."""
        with contextlib.suppress(FileError):
            checkpoint = load_checkpoint(path)
            iteration = checkpoint.provenance.get("iteration")
            if checkpoint.network.config == self.config.network_config() and isinstance(iteration, int):
                return iteration if 0 <= iteration <= state.iteration else None
        return None

    def reports(self, state: RunState) -> list[IterationReport]:
        """The reports of all committed iterations; a damaged line is left out with a warning."""
        reports = read_reports(self.path / REPORTS_FILE)
        return [report for report in reports if report.iteration <= state.iteration]

    def _checkpoints(self) -> list[Path]:
        """The networks with a number for a name; a stray copy is none of them."""
        return [path for path in self.path.glob("checkpoints/*.safetensors") if _CHECKPOINT.fullmatch(path.name)]

    def _drop_old_files(self, state: RunState) -> None:
        bests = {self.checkpoint_path(best) for best in (state.best_iteration, state.earlier_best_iteration)}
        for path in self._checkpoints():
            if int(path.stem) <= state.iteration - self.config.machine.keep_checkpoints and path not in bests:
                path.unlink(missing_ok=True)

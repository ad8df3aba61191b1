"""A run from its settings to its closing report, for the command line and for Python."""

import errno
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphac4.selfplay.targets import PolicyTarget
from alphac4.storage.records import similar
from alphac4.training.config import PRESETS, TrainConfig, from_dict, load_config
from alphac4.training.earlier_runs import FORMER_PRESETS, keeping_searches
from alphac4.training.loop import TrainingLoop
from alphac4.training.reports import IterationReport, MatchReport
from alphac4.training.run_settings import changes_of, stored_settings


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A finished run, and what it has cost."""

    folder: Path
    best: Path  # the best network
    config: TrainConfig
    history: Sequence[IterationReport]  # a report for each iteration
    closing: Sequence[MatchReport]  # the best network against classic MCTS
    iterations: int
    seconds: float
    games: int
    samples: int
    evaluations: int

    def __str__(self) -> str:
        spent = f"{self.games:,} games, {self.samples:,} positions, {self.evaluations:,} evaluations"
        lines = [f"Trained {self.iterations} iterations in {self.seconds / 60:.1f} minutes: {spent}."]
        if self.history:
            start = "first" if self.config.start_from else "untrained"
            last = self.history[-1]
            lines.append(f"Elo {last.elo:+.0f} ± {last.elo_error:.0f} over the {start} network.")
        simulations = self.config.gate.classic_simulations
        lines += [
            f"At {simulations} simulations a move against {match.opponent}: {match.in_words}." for match in self.closing
        ]
        return "\n".join([*lines, f"The best network: {self.best}"])

    def __repr__(self) -> str:
        return str(self)


def find_config(
    folder: Path, preset: str | None, settings: Path | Mapping[str, Any] | None, otherwise: str = "standard"
) -> TrainConfig:
    """The settings of a run: the preset's, then those of a file or a mapping over them.

    If neither is named, the run in the folder, if there is one, goes on with its own; else the preset is ``otherwise``.
    A run in the folder keeps the preset as it was when the run began, and the searches by which it measures strength.

    Raises:
        ValueError: in one line, for an unknown preset or setting.
        OSError: if there is a file in the folder's place.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is a file, where a run needs a folder", str(folder))
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"no preset {preset!r}{similar(preset, PRESETS)}; there are {', '.join(PRESETS)}")
    stored = stored_settings(folder)
    before = None if stored is None else from_dict(stored)
    config = _preset(preset or otherwise, before)
    if before is not None:
        config = keeping_searches(config, before)
    if isinstance(settings, Mapping):
        return from_dict(settings, before if preset is None and before is not None else config)
    if settings is not None:
        return load_config(settings, config)
    return before if preset is None and before is not None else config


def _preset(name: str, run: TrainConfig | None) -> TrainConfig:
    """A preset; for a run that has begun, the version of it to which that is most alike."""
    versions = [PRESETS[name], *map(from_dict, FORMER_PRESETS.get(name, ()))]
    return versions[0] if run is None else min(versions, key=lambda version: len(changes_of(version, run, 0)))


def train(
    folder: Path,
    config: TrainConfig,
    stop: threading.Event | None = None,
    policy_target: PolicyTarget | None = None,
    cluster: str | None = None,
) -> TrainedRun:
    """Train until done, and play the matches that close the run; a run in the folder goes on.

    A ``policy_target`` is no setting: whoever goes on with the run gives it again. Nor is the address of a
    ``cluster`` ("auto" or HOST:PORT), on whose cores self-play runs: a run may change from one machine to a cluster and
    back.

    Raises:
        Stopped: when ``stop`` was set; everything recorded is in the folder.
        ValueError: in one line, if the folder holds another run, or something that cannot be read.
    """
    with TrainingLoop.open(folder, config, stop, policy_target, cluster) as loop:
        history = loop.run()
        closing = loop.close(history)
    state = loop.state
    return TrainedRun(
        folder=folder,
        best=loop.folder.best_path,
        config=config,
        history=history,
        closing=closing,
        iterations=state.iteration,
        seconds=state.seconds,
        games=state.games,
        samples=state.samples,
        evaluations=state.evaluations,
    )

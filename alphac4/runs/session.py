"""Train a run in a folder, from its settings to the closing matches."""

import contextlib
import errno
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from alphac4.arena.match import MatchResult
from alphac4.bars import Bar
from alphac4.compute import choose_compute
from alphac4.compute.cores import MIN_GAMES
from alphac4.game.position import count_of
from alphac4.game.rules import STANDARD
from alphac4.machine import cores, describe_cores, resident_memory_mb, wrap_text
from alphac4.nn.network import Network
from alphac4.runs.costs import CostCounter, load_initial_network, make_provenance
from alphac4.runs.folder import RunFolder
from alphac4.runs.judge import measure_network
from alphac4.runs.reports import (
    HEADINGS,
    REPORTS_FILE,
    IterationReport,
    TrainedRun,
    checked_metrics,
    find_warnings,
    time_shares,
)
from alphac4.runs.state import CHANGEABLE, stored_settings
from alphac4.runs.tensorboard import Monitor
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint, weights_digest
from alphac4.training.config import TrainConfig, from_dict, load_config, random_generator
from alphac4.training.extensions import Extensions
from alphac4.training.learner import make_learner
from alphac4.training.loop import (
    Callback,
    Iteration,
    Progress,
    StopTraining,
    TrainingLoop,
    call_all,
)
from alphac4.training.matches import Contender

logger = logging.getLogger(__name__)

UNITS = {"self-play": "pos", "learning": "step", "matches": "game"}  # of progress, by phase
CLOSING_PAIRS = 50  # pairs of games in each closing match: the score's interval is at most +-14 %


def find_config(
    folder: Path, preset: TrainConfig | str | None, settings: Path | Mapping[str, Any] | None
) -> TrainConfig:
    """Return the settings of a run: by default those of the run in the folder, or "standard", with changes.

    A preset by name sets all settings of a new run. In a folder with a run, it leaves the settings in `CHANGEABLE` as
    the run has them, so that a command can be repeated. ``settings`` are the changes: a mapping or a JSON file.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is a file, but a run needs a folder", str(folder))
    if folder.is_symlink() and not folder.exists():
        raise FileNotFoundError(errno.ENOENT, f"is a link to {folder.readlink()}, which does not exist", str(folder))
    if isinstance(preset, TrainConfig):
        base = preset
    else:
        stored = stored_settings(folder)
        base = TrainConfig.preset(preset or "standard")
        if stored is not None:
            base = stored if preset is None else replace(base, **{name: getattr(stored, name) for name in CHANGEABLE})
    if settings is None or isinstance(settings, Mapping):
        return from_dict(settings or {}, base)
    return load_config(settings, base)


def train(
    folder: Path,
    config: TrainConfig,
    *,
    callbacks: Sequence[Callback] = (),
    extensions: Extensions | None = None,  # must have the same names when the run is resumed
    progress: bool = True,  # a row per iteration on standard error, and bars on a terminal
    tensorboard: bool = True,  # curves and images in the folder
) -> TrainedRun:
    """Train all iterations and play the closing matches, unless a callback stops the run before.

    A run in the folder is resumed.
    """
    with RunFolder(folder, config, extensions) as run:
        if run.state.is_finished(config):
            if progress:
                done = run.state.iteration
                advice = f"To train longer, set iterations to {2 * done}"
                write_progress(f"{folder} is finished after {count_of(done, 'iteration')}. {advice}")
            return run.trained_run()
        with TrainingSession(run, callbacks=callbacks, progress=progress, tensorboard=tensorboard) as session:
            try:
                session.train()
                session.play_closing_matches()
            except StopTraining:
                return replace(run.trained_run(), closing_matches=())
            return run.trained_run()


class TrainingSession:
    """Context manager that consumes the training loop and stores its records in a run's folder.

    On exit it releases the folder.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
        tensorboard: bool = True,
    ) -> None:
        path, config, extensions, state = folder.path, folder.config, folder.extensions, folder.state
        self.folder, self.config, self.state = folder, config, state
        self._callbacks = callbacks
        self._progress = progress
        self._first: IterationReport | None = None  # the first iteration of this session
        self._bar = ProgressBar()
        with contextlib.ExitStack() as opened:  # closes what has been opened if a step fails
            opened.enter_context(folder)
            start = None if state.iteration else load_initial_network(config)
            self.costs = CostCounter(path / "costs.json", state.costs)
            self.history = folder.reports()
            if missing := state.iteration - len(self.history):
                logger.warning("%s: reports of %s are missing", path / REPORTS_FILE, count_of(missing, "iteration"))
            folder.replay.total = state.samples
            folder.replay.load(state.iteration)
            state.record_functions(extensions.names())
            compute = choose_compute(config.machine.device, config.machine.backend, for_run=True)
            opened.callback(compute.close)
            learner = make_learner(config, compute, extensions)
            if start is not None:
                learner.initialize_from(start[0])
                state.started_from = start[1]
            if state.iteration:
                learner.restore(state.learner)
            best = folder.load_best().network if state.iteration else learner.candidate()
            self.loop = loop = TrainingLoop(
                config,
                compute,
                learner,
                Contender(network=best, iteration=state.best_iteration),
                replay=folder.replay,
                opened=opened,
                extensions=extensions,
                cosine=state.schedule,
                callbacks=[self.costs, *([self._bar] if progress else []), *callbacks],
            )
            state.schedule = loop.cosine
            folder.write_config()
            if state.iteration:
                seeds = partial(random_generator, config.seed, state.iteration, "new games")
                if not loop.actors.restore(state.actors, seeds):
                    reason = "which fit other settings or were played elsewhere"
                    logger.warning("discarded the games in progress, %s; new games begin", reason)
            if loop.actors.idle_cores:
                advice = f"selfplay.parallel_games = {cores() * MIN_GAMES} would use all, but change the results"
                self._write(f"Playing on {len(loop.actors)} of {cores()} cores; {advice}.")
            if state.iteration:
                is_trained = state.iteration >= config.iterations
                rest = "the closing matches" if is_trained else f"iteration {state.iteration + 1}"
                self._write(f"Resuming with {rest}.")
            backends = f"self-play {loop.actors}, matches by {loop.providers[0].backend}"
            self._write(f"On {describe_cores()}: {backends}, learning in {learner.precision}.")
            if not state.iteration:
                self._save_network(best, 0)
            self._monitor: Monitor | None = None
            if tensorboard:
                has_changed = any(change["after_iteration"] == state.iteration for change in state.changes)
                monitor = Monitor(
                    path / "tensorboard", asdict(config), config.board.make(), self.history, has_changed=has_changed
                )
                self._monitor = opened.enter_context(contextlib.closing(monitor))
            opened.callback(self._write_costs)
            opened.callback(self._bar.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._opened.close()

    def train(self) -> list[IterationReport]:
        """Run the remaining iterations; return the reports of all iterations. `StopTraining` propagates."""
        if self.state.iteration < self.config.iterations:
            self._write(HEADINGS)
        self._iteration_started = time.perf_counter()
        for iteration in self.loop.iterations(self.state.iteration):
            self._bar.close()
            stopped = call_all(self._callbacks, "on_iteration", iteration.for_user())
            report = self.commit(iteration)
            stopped |= call_all(self._callbacks, "on_report", report)
            if self._monitor:
                self._monitor.draw()
            if stopped:
                raise StopTraining
        return self.history

    def play_closing_matches(self) -> list[MatchResult]:
        """Play and store the closing matches of the best network against each budget of classic MCTS."""
        if self._monitor:
            self._monitor.draw(always=True)
        budgets = self.config.baseline.simulations
        matches = self.loop.matches.against_classic(self.loop.best, self.config.iterations + 1, budgets, CLOSING_PAIRS)
        strength: dict[str, object] = {
            match.opponent: {"score": match.score, "games": match.game_count, "backend": match.backend}
            for match in matches
        }
        if self._monitor:
            self._monitor.record_closing(matches, self.state.iteration)
        if strength:
            self.folder.set_strength(strength)
        self.state.closing_matches = matches
        self.folder.write_state()
        return matches

    def commit(self, iteration: Iteration) -> IterationReport:
        """Measure the best network, only for the report; then commit the iteration and return its report."""
        state, number, best = self.state, iteration.number, iteration.best
        metrics = checked_metrics(iteration.metrics)
        state.best_iteration = best.iteration
        self._save_network(iteration.candidate.network, number)
        before = time.perf_counter()
        baseline, is_standard = self.config.baseline, self.config.board.make() == STANDARD
        matches, verdict = list[MatchResult](), None
        if baseline.interval and number % baseline.interval == 0:
            matches = self.loop.matches.against_classic(best, number, baseline.simulations, baseline.pairs)
        between = time.perf_counter()
        if is_standard and (interval := self.config.evaluation.interval) and number % interval == 0:
            verdict = measure_network(best.network, self.loop.providers[1])
        after = time.perf_counter()
        state.iteration, state.samples, state.costs = number, self.folder.replay.total, self.costs.now()
        measuring = {"matches": between - before, "evaluation": after - between}
        report = IterationReport(
            iteration=number,
            seconds_total=state.costs.seconds,
            games_total=state.costs.games,
            samples_total=state.samples,
            evaluations_total=state.costs.evaluations,
            selfplay=iteration.selfplay,
            learning=iteration.learning,
            gate=iteration.gate,
            matches=matches,
            best_iteration=best.iteration,
            memory_mb=resident_memory_mb(),
            time_shares=time_shares(iteration, measuring, after - self._iteration_started),
            warnings=[],
            evaluation=verdict,
            metrics=metrics,
        )
        self._iteration_started = after  # writing and drawing count as "other" of the next iteration
        report = replace(report, warnings=find_warnings(report, self.history))
        state.learner, state.actors, state.closing_matches = self.loop.learner.state(), self.loop.actors.state(), None
        if self._monitor:
            self._monitor.record(report)  # before the commit: a resumed run hides curves of iterations that it repeats
        self.folder.commit(report)
        self.history.append(report)
        self._write(report.row(self.config.iterations, self._first))
        self._first = self._first or report
        for warning in report.warnings:
            logger.warning("iteration %d: %s", number, warning)
        return report

    def _save_network(self, network: Network, iteration: int) -> None:
        run = self.folder.path.name
        provenance = make_provenance(run, iteration, self.costs.now(), self.state, self.config)
        checkpoint = Checkpoint(network=network, board=self.config.board.make(), provenance=provenance)
        save_checkpoint(self.folder.checkpoint_path(iteration), checkpoint)
        if iteration == self.state.best_iteration:
            self.state.best_digest = weights_digest(network)

    def _write(self, text: str) -> None:
        if self._progress:
            write_progress(text)

    def _write_costs(self) -> None:
        """Write the costs of an interrupted iteration, unless the folder cannot be written."""
        with contextlib.suppress(OSError):
            self.costs.write()


def write_progress(text: str) -> None:
    """Write a text above the progress bars; errors are ignored if standard error is closed or full."""
    if sys.stderr:
        with contextlib.suppress(OSError):
            Bar.write(wrap_text(text, sys.stderr), file=sys.stderr)
            sys.stderr.flush()


class ProgressBar(Callback):
    """Progress bar of each phase of an iteration on a terminal."""

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._shown: tuple[str, int] | None = None  # phase and total of the bar

    def on_progress(self, progress: Progress) -> None:
        """Update the bar, or replace it when a new phase begins."""
        shown = progress.phase, progress.total
        if self._bar is None or shown != self._shown:
            self.close()
            self._bar, self._shown = (
                Bar(
                    total=progress.total,
                    desc=f"iteration {progress.iteration}: {progress.phase}",
                    unit=UNITS[progress.phase],
                    unit_scale=True,
                ),
                shown,
            )
        self._bar.update(progress.done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None

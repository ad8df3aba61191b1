"""A run from its settings to its closing report, for the command line and for Python."""

import contextlib
import errno
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tqdm import tqdm

from alphac4.compute import choose_for_run
from alphac4.compute.cores import MIN_GAMES
from alphac4.game.rules import STANDARD
from alphac4.machine import cores, resident_memory_mb, wrapped
from alphac4.nn.network import Network
from alphac4.runs.costs import describe_network, load_start
from alphac4.runs.folder import RunFolder
from alphac4.runs.judge import judge
from alphac4.runs.reports import (
    HEADINGS,
    ClosingReport,
    IterationReport,
    find_warnings,
    read_closing,
    time_shares,
)
from alphac4.runs.state import RunState, has_state, stored_settings
from alphac4.runs.tensorboard import Monitor
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint
from alphac4.training.config import TrainConfig, from_dict, load_config, to_dict
from alphac4.training.device_learner import make_learner
from alphac4.training.extensions import Extensions
from alphac4.training.loop import Callback, Iteration, Progress, StopTraining, make_loop, stopped_after
from alphac4.training.matches import CLASSIC_SIMULATIONS, Contender
from alphac4.training.reports import MatchReport

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A finished run, and what it has cost."""

    folder: Path
    best: Path  # the best network
    config: TrainConfig
    history: Sequence[IterationReport]  # a report for each iteration
    closing: Sequence[MatchReport]  # the best network against classic MCTS

    def __str__(self) -> str:
        if not self.history:  # its file was lost or damaged
            return f"The best network: {self.best}"
        last = self.history[-1]
        spent = f"{last.games_total:,} games, {last.samples_total:,} positions, {last.evaluations_total:,} evaluations"
        lines = [f"Trained {last.iteration} iterations in {last.seconds_total / 60:.1f} minutes: {spent}."]
        report = next((report for report in reversed(self.history) if report.evaluation), None)
        if report is not None and report.evaluation is not None:
            judged, best = report.evaluation, report.best_iteration == last.best_iteration
            lines.append(
                f"Mistakes by the exact solver{'' if best else f' after iteration {report.iteration}'}: "
                f"{judged.raw.error:.1%} raw, {judged.search.error:.1%} with {judged.simulations} simulations, in "
                f"{judged.positions} positions."
            )
        lines += [
            f"At {CLASSIC_SIMULATIONS} simulations a move against {match.opponent}: {match.in_words}."
            for match in self.closing
        ]
        promoted = sum(bool(report.gate.accepted) for report in self.history)
        lines.append(f"{promoted} of {len(self.history)} candidates were promoted.")
        return "\n".join([*lines, f"The best network: {self.best}"])

    def __repr__(self) -> str:
        return str(self)


def find_config(
    folder: Path, preset: TrainConfig | str | None, settings: Path | Mapping[str, Any] | None
) -> TrainConfig:
    """The settings of a run: those given or the preset's, then those of a file or a mapping over them.

    Without a preset they are over the settings of the run in the folder, or where there is none over "standard".

    Raises:
        ValueError: in one line, for an unknown preset or setting.
        OSError: if there is a file in the folder's place.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is a file, where a run needs a folder", str(folder))
    base = preset if isinstance(preset, TrainConfig) else None
    if preset is None:
        base = stored_settings(folder)
    if base is None:
        base = TrainConfig.preset(str(preset or "standard"))
    if settings is None or isinstance(settings, Mapping):
        return from_dict(settings or {}, base)
    return load_config(settings, base)


def train(
    folder: Path,
    config: TrainConfig,
    *,
    callbacks: Sequence[Callback] = (),
    extensions: Extensions | None = None,
    cluster: str | None = None,
    progress: bool = True,
) -> TrainedRun:
    """Train until done, and play the matches that close the run; a run in the folder is resumed.

    Args:
        folder: the run's folder.
        config: the run's settings.
        callbacks: watch the run, and may end it.
        extensions: functions of the user, which must be the same when the run is resumed.
        cluster: "auto" or HOST:PORT of a Ray cluster that plays the games. A run may move to a cluster and back.
        progress: whether to write a row for each iteration to the standard error, and on a terminal progress bars.

    Raises:
        StopTraining: when a callback ended the run; all committed iterations are in the folder.
        ValueError: if the folder holds another run, or something that cannot be read.
    """
    finished = _find_finished(folder, config, extensions, progress)
    if finished is not None:
        return finished
    with TrainingSession(
        folder, config, callbacks=callbacks, extensions=extensions, cluster=cluster, progress=progress
    ) as session:
        session.train()
        closing = session.play_closing_matches()
        return _describe(session.folder, session.state, closing)


def write_progress(text: str) -> None:
    """Write a text above the progress bars. If the standard error is closed or full, the run does not end for that."""
    if sys.stderr:
        with contextlib.suppress(OSError):
            tqdm.write(wrapped(text, sys.stderr), file=sys.stderr)
            sys.stderr.flush()


def _find_finished(path: Path, config: TrainConfig, extensions: Extensions | None, progress: bool) -> TrainedRun | None:
    """The run in a folder, if nothing is left to do for it."""
    closing = read_closing(path)
    if closing is None or not closing.closes(config) or not has_state(path):
        return None
    with contextlib.closing(RunFolder(path, config, extensions)) as folder:
        state, done = folder.load_state(), closing.iteration
        if state.iteration != done:
            return None
        folder.load_best(state)  # a damaged one is put right, or told
        if progress:
            done_text = f"{path} is finished, with all of its {done} iterations."
            write_progress(f"{done_text} To continue, ask for more: --iterations {2 * done}")
        return _describe(folder, state, closing.matches)


def _describe(folder: RunFolder, state: RunState, closing: Sequence[MatchReport]) -> TrainedRun:
    return TrainedRun(
        folder=folder.path,
        best=folder.best_path,
        config=folder.config,
        history=folder.reports(state),
        closing=closing,
    )


class TrainingSession(Callback):
    """A run while this process owns its folder: consumes the loop, and keeps on disk what it yields.

    Only with ``progress`` does it write to the standard error, apart from warnings, which are logged. For the arguments
    see `train`.

    Raises:
        RunError: if the folder holds a run with other settings or functions, or none that can be read.
        ValueError: for a network to start from that does not fit.
        RuntimeError: for a cluster that cannot be used.
        OSError: if the folder cannot be written.
    """

    def __init__(
        self,
        path: Path,
        config: TrainConfig,
        *,
        callbacks: Sequence[Callback] = (),
        extensions: Extensions | None = None,
        cluster: str | None = None,
        progress: bool = False,
    ) -> None:
        start = None if has_state(path) else load_start(config)
        extensions = extensions or Extensions()
        self.config = config
        self._callbacks = callbacks
        self._progress = progress
        self._bar: tqdm[Any] | None = None  # of the current phase
        self._phase = ""
        self._evaluations, self._phase_started = 0, 0.0
        with contextlib.ExitStack() as opened:  # what is open is closed if something fails
            self.folder = opened.enter_context(contextlib.closing(RunFolder(path, config, extensions)))
            self.state = state = self.folder.load_state()
            self.history = self.folder.reports(state)
            state.extensions = extensions.names()
            compute = choose_for_run(config.machine.device, config.machine.backend, cluster)
            learner = make_learner(config, compute, extensions)
            if start is not None:
                learner.take_over(start.network)
                state.started_from = dict(start.facts)
            if state.iteration:
                learner.restore(state.learner)
            best = self.folder.load_best(state).network if state.iteration else learner.candidate()
            self.loop = loop = make_loop(
                config,
                compute,
                learner,
                Contender(network=best, iteration=state.best_iteration),
                replay=self.folder.replay,
                opened=opened,
                extensions=extensions,
                schedule=state.schedule,
                callbacks=[self, *callbacks],
                progress=progress,
            )
            state.schedule = loop.cosine
            self.folder.write_config()
            if state.iteration:
                seeds = partial(loop.random.generator, state.iteration, "new games")
                if not loop.actors.restore(state.actors, seeds):
                    logger.warning("the games in progress fit other settings, or were a cluster's: new ones begin")
            backends = (loop.actors.backend, loop.sides[0].backend, learner.precision)
            places = "1 core" if cores() == 1 else f"{cores()} cores"
            if compute.learning_device.type == "cpu" and cluster is None and len(loop.actors) < cores():
                advice = f"--selfplay.games {cores() * MIN_GAMES} would use all, but change the results"
                self._write(f"{len(loop.actors)} of {cores()} cores play; {advice}.")
            if state.iteration:
                self._write(f"Resuming with iteration {state.iteration + 1}.")
            self._write("On {}: self-play by {}, matches by {}, learning in {}.".format(places, *backends))
            if not state.iteration:
                self._save_network(best, 0)
            opened.callback(self._write_costs)
            opened.callback(self._show, Progress(iteration=0, phase=""))  # removes a bar
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def train(self) -> list[IterationReport]:
        """Train to the configured number of iterations; returns all reports of the run.

        Raises:
            StopTraining: when a callback ended the run.
            OSError: when the folder cannot be written; what was committed before stays.
        """
        self._write(HEADINGS)
        self._iteration_started = time.perf_counter()
        with contextlib.closing(self._monitor()) as monitor:
            for iteration in self.loop.iterations(self.state.iteration):
                self._show(Progress(iteration=iteration.number, phase=""))
                stopped = stopped_after(iteration, self._callbacks)
                monitor.record(self.commit(iteration))
                if stopped:
                    raise StopTraining
                self._iteration_started = time.perf_counter()
        return self.history

    def play_closing_matches(self) -> list[MatchReport]:
        """Play and record the matches that close a run: the best network against every budget of classic MCTS."""
        matches = self.loop.matches.closing(self.loop.best, self.config.iterations + 1)
        strength: dict[str, object] = {
            match.opponent: {
                "score": match.score,
                "games": match.wins + match.draws + match.losses,
                "evaluator": match.evaluator,
            }
            for match in matches
        }
        with contextlib.closing(self._monitor()) as monitor:
            monitor.record_closing(matches, self.state.iteration)
        self.folder.add_strength(self.state, strength)
        self.folder.add_closing(ClosingReport(iteration=self.state.iteration, matches=matches))
        return matches

    def on_progress(self, progress: Progress) -> None:
        """Count the costs, and move the progress bar."""
        self.folder.costs.add(progress.games, progress.evaluations)
        self.folder.costs.tick()
        if self._progress:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        """Show a phase on a terminal by a bar, which the next phase replaces; matches have bars of their own."""
        if progress.phase != self._phase:
            if self._bar is not None:
                self._bar.close()
            self._phase, self._bar = progress.phase, None
            self._evaluations, self._phase_started = 0, time.perf_counter()
            if progress.total and self._progress:
                self._bar = tqdm(
                    total=progress.total,
                    desc=f"iteration {progress.iteration}: {progress.phase}",
                    unit="pos" if progress.phase == "self-play" else "step",
                    unit_scale=progress.phase == "self-play",
                    disable=None if sys.stderr else True,
                    leave=False,
                )
        self._evaluations += progress.evaluations
        if self._bar is not None:
            self._bar.update(progress.done - self._bar.n)
            if progress.evaluations:
                rate = self._evaluations / (time.perf_counter() - self._phase_started)
                self._bar.set_postfix_str(f"{rate:,.0f} evaluations/s")

    def commit(self, iteration: Iteration) -> IterationReport:
        """Make an iteration count, once its best network is measured, for people to see."""
        state, number, best = self.state, iteration.number, iteration.best
        state.best_iteration = best.iteration
        self._save_network(iteration.candidate.network, number)
        before = time.perf_counter()
        matches = self.loop.matches.regular(best, number)
        between = time.perf_counter()
        every, judged = self.config.evaluation.every, self.config.board.geometry() == STANDARD
        verdict = judge(best.network, self.loop.sides[1]) if judged and every and number % every == 0 else None
        after = time.perf_counter()
        state.iteration, state.samples, state.costs = number, self.folder.replay.total, self.folder.costs.now()
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
            figures=iteration.figures,
        )
        report = replace(report, warnings=find_warnings(report, self.history))
        state.learner, state.actors = self.loop.learner.state(), self.loop.actors.state()
        self.folder.commit(state, report)
        first = self.history[0] if self.history else None
        self.history.append(report)
        self._write(report.row(self.config.iterations, first))
        for warning in report.warnings:
            logger.warning("iteration %d: %s", number, warning)
        return report

    def _save_network(self, network: Network, iteration: int) -> None:
        folder = self.folder
        provenance = describe_network(folder.path.name, iteration, folder.costs.now(), self.state, self.config)
        checkpoint = Checkpoint(network=network, geometry=self.config.board.geometry(), provenance=provenance)
        save_checkpoint(folder.checkpoint_path(iteration), checkpoint)

    def _monitor(self) -> Monitor:
        return Monitor(self.folder.tensorboard, to_dict(self.config), self.config.board.geometry(), self.history)

    def _write(self, text: str) -> None:
        if self._progress:
            write_progress(text)

    def _write_costs(self) -> None:
        """Keep the costs of an interrupted iteration, unless the disk is full."""
        with contextlib.suppress(OSError):
            self.folder.costs.write()

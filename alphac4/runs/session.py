"""A run from its settings to its closing report, for the command line and for Python."""

import contextlib
import errno
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from alphac4.selfplay.samples import Block, PolicyTarget
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint
from alphac4.training.config import TrainConfig, from_dict, load_config, to_dict
from alphac4.training.device_learner import make_learner
from alphac4.training.loop import Iteration, Watcher, make_loop
from alphac4.training.matches import CLASSIC_SIMULATIONS, Contender
from alphac4.training.reports import MatchReport

logger = logging.getLogger(__name__)


class RunStopped(Exception):  # noqa: N818 - not an error
    """The user asked the run to stop; all committed iterations are on disk."""


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


def find_config(folder: Path, preset: str | None, settings: Path | Mapping[str, Any] | None) -> TrainConfig:
    """The settings of a run: the preset's, then those of a file or a mapping over them.

    Without a preset they are over the settings of the run in the folder, or where there is none over "standard".

    Raises:
        ValueError: in one line, for an unknown preset or setting.
        OSError: if there is a file in the folder's place.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is a file, where a run needs a folder", str(folder))
    base = (stored_settings(folder) if preset is None else None) or TrainConfig.preset(preset or "standard")
    if settings is None or isinstance(settings, Mapping):
        return from_dict(settings or {}, base)
    return load_config(settings, base)


def train(
    folder: Path,
    config: TrainConfig,
    stop: threading.Event | None = None,
    policy_target: PolicyTarget | None = None,
    cluster: str | None = None,
    *,
    progress: bool = True,
) -> TrainedRun:
    """Train until done, and play the matches that close the run; a run in the folder goes on.

    With ``progress``, a row for each iteration is written to the standard error, and on a terminal progress bars.
    A ``policy_target`` is no setting: whoever goes on with the run gives it again. Nor is the address of a
    ``cluster`` ("auto" or HOST:PORT), on whose cores self-play runs: a run may change from one machine to a cluster and
    back.

    Raises:
        RunStopped: when ``stop`` was set; the interrupted iteration is repeated when the run is resumed.
        ValueError: in one line, if the folder holds another run, or something that cannot be read.
    """
    finished = _find_finished(folder, config, progress)
    if finished is not None:
        return finished
    with TrainingSession(folder, config, stop, policy_target, cluster, progress=progress) as session:
        session.train()
        closing = session.play_closing_matches()
        return _describe(session.folder, session.state, closing)


def write_progress(text: str) -> None:
    """Write a text above the progress bars. If the standard error is closed or full, the run does not end for that."""
    if sys.stderr:
        with contextlib.suppress(OSError):
            tqdm.write(wrapped(text, sys.stderr), file=sys.stderr)
            sys.stderr.flush()


def _find_finished(path: Path, config: TrainConfig, progress: bool) -> TrainedRun | None:
    """The run in a folder, if nothing is left to do for it."""
    closing = read_closing(path)
    if closing is None or not closing.closes(config) or not has_state(path):
        return None
    with contextlib.closing(RunFolder(path, config)) as folder:
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


class TrainingSession(Watcher):
    """A run while this process has its folder: keeps on disk what the loop does; see `Watcher`.

    Setting ``stop`` ends it early and cleanly. Only with ``progress`` does it write to the standard error, apart from
    warnings, which are logged.

    Raises:
        RunError: if the folder holds a run with other settings, or none that can be read.
        ValueError: for a network to start from that does not fit.
        RuntimeError: for a cluster that cannot be used.
        OSError: if the folder cannot be written.
    """

    def __init__(
        self,
        path: Path,
        config: TrainConfig,
        stop: threading.Event | None = None,
        policy_target: PolicyTarget | None = None,
        cluster: str | None = None,
        *,
        progress: bool = False,
    ) -> None:
        start = None if has_state(path) else load_start(config)
        self.config = config
        self.stop = stop or threading.Event()
        self._progress = progress
        with contextlib.ExitStack() as opened:  # what is open is closed if something fails
            self.folder = opened.enter_context(contextlib.closing(RunFolder(path, config)))
            self.state = state = self.folder.load_state()
            self.history = self.folder.reports(state)
            compute = choose_for_run(config.machine.device, config.machine.backend, cluster)
            learner = make_learner(config, compute)
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
                watcher=self,
                opened=opened,
                schedule=state.schedule,
                policy_target=policy_target,
                progress=progress,
            )
            state.schedule = loop.schedule
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
            RunStopped: when `stop` was set.
            OSError: when the folder cannot be written; what was recorded before stays.
        """
        self._write(HEADINGS)
        with contextlib.closing(self._monitor()) as monitor:
            for iteration in self.loop.iterations(self.state.iteration):
                monitor.record(self.commit(iteration))
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

    @contextlib.contextmanager
    def selfplay(self, iteration: int) -> Iterator[None]:
        """See `Watcher`."""
        self._started, self._iteration, self._evaluations = time.perf_counter(), iteration, 0
        with self._bar("self-play", self.config.samples, "pos", unit_scale=True) as self._played:
            yield

    def played(self, block: Block) -> None:
        """See `Watcher`."""
        self.folder.costs.add(len(block.games.plies), block.work.evaluations)
        self._evaluations += block.work.evaluations
        self._played.update(block.positions)
        rate = self._evaluations / (time.perf_counter() - self._started)
        self._played.set_postfix_str(f"{rate:,.0f} evaluations/s")

    @contextlib.contextmanager
    def learning(self, steps: int) -> Iterator[Callable[[], None]]:
        """See `Watcher`."""
        with self._bar("learning", steps, "step") as bar:

            def on_step() -> None:
                self.check()
                bar.update()

            yield on_step

    def check(self) -> None:
        """See `Watcher`: counts the time, and raises `RunStopped` once `stop` is set."""
        self.folder.costs.tick()
        if self.stop.is_set():
            raise RunStopped

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
            time_shares=time_shares(iteration, measuring, after - self._started),
            warnings=[],
            evaluation=verdict,
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

    def _bar(self, what: str, total: int, unit: str, **options: Any) -> "tqdm[Any]":
        """A progress bar on a terminal; elsewhere, and without ``progress``, it shows nothing."""
        description = f"iteration {self._iteration}: {what}"
        disable = None if self._progress and sys.stderr else True
        return tqdm(total=total, desc=description, unit=unit, disable=disable, leave=False, **options)

    def _write_costs(self) -> None:
        """Keep the costs of an interrupted iteration, unless the disk is full."""
        with contextlib.suppress(OSError):
            self.folder.costs.write()

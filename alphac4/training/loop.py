"""The run: play, learn, gate, judge, report, commit, repeat; killed at any moment, it goes on where it was."""

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from alphac4.compute import Actors, Backends, Pool, choose_for_run
from alphac4.game.rules import Geometry
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.targets import PolicyTarget
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint
from alphac4.training.config import TrainConfig, to_dict
from alphac4.training.costs import CostJournal, Costs
from alphac4.training.judging import Judge
from alphac4.training.learner import Learner
from alphac4.training.learners import make_learner, remembered_precision
from alphac4.training.learning import learn_iteration, steps_of_iteration
from alphac4.training.matches import Contender, Matches
from alphac4.training.monitor import Monitor
from alphac4.training.provenance import Start, describe_network, load_start
from alphac4.training.randomness import RunRandom
from alphac4.training.recording import record_games
from alphac4.training.reporting import describe_iteration
from alphac4.training.reports import IterationReport, LearningReport, MatchReport, SelfPlayReport, summarise
from alphac4.training.resuming import resume_games
from alphac4.training.run_folder import RunFolder
from alphac4.training.run_state import RunState, has_state
from alphac4.training.schedule import Schedule
from alphac4.training.sides import Side
from alphac4.training.stopwatch import Stopwatch

logger = logging.getLogger(__name__)


class Stopped(Exception):  # noqa: N818 - not an error
    """The user asked the run to stop; everything recorded is on disk."""


def count_and_check(costs: CostJournal, stop: threading.Event) -> None:
    """Count the time; raise `Stopped` once somebody has asked for it."""
    costs.tick()
    if stop.is_set():
        raise Stopped


@dataclass(kw_only=True)
class TrainingLoop:
    """One run in its folder, which `open` makes. `run` returns when all iterations are done.

    Setting ``stop`` ends it early and cleanly.
    """

    config: TrainConfig
    geometry: Geometry
    folder: RunFolder
    state: RunState
    random: RunRandom
    learner: Learner
    best: PolicyValueNetwork
    actors: Actors
    matches: Matches
    judge: Judge
    pool: Pool | None  # where matches are played and the judge's questions are answered, if not here
    stop: threading.Event
    check: Callable[[], None]  # called at every step of learning and ply of a match; raises `Stopped`
    policy_target: PolicyTarget | None = None  # of one's own, which is no setting of the run

    @classmethod
    def open(
        cls,
        path: Path,
        config: TrainConfig,
        stop: threading.Event | None = None,
        policy_target: PolicyTarget | None = None,
        cluster: str | None = None,
    ) -> Self:
        """Begin a run in a folder, or take up the one that is there; with self-play on a ``cluster``, if it is named.

        Raises:
            RunError: if the folder holds a run with other settings, or none that can be read.
            ValueError: for a network to start from that does not fit.
            RuntimeError: for a cluster that cannot be used.
            OSError: if the folder cannot be written.
        """
        start = None if has_state(path) else load_start(config)
        folder = RunFolder(path, config)
        try:
            return cls._open(folder, config, start, stop or threading.Event(), policy_target, cluster)
        except BaseException:
            folder.close()
            raise

    @classmethod
    def _open(
        cls,
        folder: RunFolder,
        config: TrainConfig,
        start: Start | None,
        stop: threading.Event,
        policy_target: PolicyTarget | None,
        cluster: str | None,
    ) -> Self:
        """Make everything that plays and learns, as the folder left it."""
        state, geometry, random = folder.load_state(), config.board.geometry(), RunRandom(seed=config.seed)
        compute = choose_for_run(
            config.device,
            config.backend,
            Backends(evaluators=state.evaluating_backend, actors=state.backend),
            cluster,
        )
        learner = make_learner(config, compute.learning, remembered_precision(state, compute.learning.device))
        state.learning_precision = learner.precision
        if start is not None:
            learner.take_over(start.network)
            state.started_from = dict(start.facts)
        best = learner.candidate()
        if state.iteration:
            learner.restore(state.learner)
            best = folder.load_best(state)
        actors = compute.actors(best, geometry, config.selfplay, lambda index: random.generator(0, "actor", index))
        resume_games(actors, folder, state, random)
        folder.costs.ahead = lambda: Costs(**actors.spent_ahead())
        sides = [Side(compute, best, geometry, config.gate.puct) for _ in range(2)]
        pool = compute.pool()
        judge = Judge(compute, sides[1], geometry, config.evaluation, pool)
        state.backend, state.evaluating_backend = compute.backends.actors, compute.backends.evaluators
        steps = steps_of_iteration(config)
        if state.schedule is None:  # a new run, or one of a version that knew no changes of its length
            at_first = folder.settings_of(state).iterations
            state.schedule = Schedule.of_run(config.learning, steps * at_first)
        state.schedule = state.schedule.until(config.learning, learner.steps, steps * config.iterations)

        check = partial(count_and_check, folder.costs, stop)
        loop = cls(
            config=config,
            geometry=geometry,
            folder=folder,
            state=state,
            random=random,
            learner=learner,
            best=best,
            actors=actors,
            matches=Matches(sides, config.gate, geometry, random, check, pool),
            judge=judge,
            pool=pool,
            stop=stop,
            check=check,
            policy_target=policy_target,
        )
        if not state.iteration:
            loop._save_network(best, 0)
        return loop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.actors.spent_ahead():  # on blocks that are given up now
            with contextlib.suppress(OSError):
                self.folder.costs.write()
        if self.pool is not None:
            self.pool.close()
        self.actors.close()
        self.folder.close()

    def run(self) -> list[IterationReport]:
        """Train to the configured number of iterations; returns all reports of the run.

        Raises:
            Stopped: when `stop` was set.
            OSError: when the folder cannot be written; what was recorded before stays.
        """
        history = self.folder.reports(self.state)
        self.folder.costs.start_clock()
        with Monitor(self.folder.tensorboard, to_dict(self.config), self.geometry, history) as monitor:
            while self.state.iteration < self.config.iterations:
                report = self._iterate(history)
                history.append(report)
                monitor.record(report)
        return history

    def close(self, history: Sequence[IterationReport]) -> list[MatchReport]:
        """The matches that close a run: the best network against every budget of classic MCTS."""
        reports = self.matches.closing(self._best_contender, self.config.iterations + 1)
        strength: dict[str, object] = {
            report.opponent: {
                "score": report.score,
                "games": report.wins + report.draws + report.losses,
                "evaluator": report.evaluator,
            }
            for report in reports
        }
        if history:
            strength["elo"] = {"value": history[-1].elo, "error": history[-1].elo_error}
        with Monitor(self.folder.tensorboard, to_dict(self.config), self.geometry, history) as monitor:
            monitor.record_closing(reports, self.state.iteration)
        self.folder.add_strength(self.state, strength)
        return reports

    def _iterate(self, history: Sequence[IterationReport]) -> IterationReport:
        """One iteration; it counts once it is committed."""
        iteration = self.state.iteration + 1
        watch = Stopwatch()
        selfplay = self._play(iteration)
        learning = self._learn(iteration)
        candidate = self.learner.candidate()
        gate = self.matches.gate(Contender(network=candidate, iteration=iteration), self._best_contender)
        if gate.accepted:
            self._promote(candidate, iteration)
        self._save_network(candidate, iteration)
        with watch.phase("matches"):
            matches = self.matches.regular(self._best_contender, iteration)
        with watch.phase("evaluation"):
            verdict = self.judge.judge(self.best, iteration)
        self._count(iteration)
        report = describe_iteration(self.state, selfplay, learning, gate, matches, verdict, history, watch)
        self._commit(report)
        return report

    def _play(self, iteration: int) -> SelfPlayReport:
        """Record the iteration's samples."""
        if iteration == self.config.iterations:
            self.actors.end_with_next()
        report = record_games(
            self.actors,
            self.folder,
            self.geometry,
            iteration,
            self.config.samples,
            self.stop,
            self.policy_target,
        )
        self.check()
        return report

    def _learn(self, iteration: int) -> LearningReport:
        """Learn from the replay window."""
        schedule = self.state.schedule
        assert schedule is not None
        rng = self.random.generator(iteration, "learning")
        return learn_iteration(self.learner, self.folder.replay, self.config, schedule, iteration, rng, self.check)

    @property
    def _best_contender(self) -> Contender:
        """The best network so far."""
        return Contender(network=self.best, iteration=self.state.best_iteration)

    def _promote(self, candidate: PolicyValueNetwork, iteration: int) -> None:
        """Let the candidate play from now on."""
        self.best = candidate
        self.actors.update(candidate)
        self.state.best_iteration = iteration

    def _count(self, iteration: int) -> None:
        """Bring the run's counters up to the end of an iteration."""
        costs = self.folder.costs.now()
        self.state.iteration = iteration
        self.state.seconds, self.state.games, self.state.evaluations = costs.seconds, costs.games, costs.evaluations
        self.state.samples = self.folder.replay.total

    def _commit(self, report: IterationReport) -> None:
        """Make the iteration count."""
        self.state.learner = self.learner.state()
        self.state.actors = self.actors.state()
        self.folder.commit(self.state, report)
        logger.info(summarise(report))
        for warning in report.warnings:
            logger.warning("iteration %d: %s", report.iteration, warning)

    def _save_network(self, network: PolicyValueNetwork, iteration: int) -> None:
        costs = self.folder.costs.now()
        provenance = describe_network(self.folder.path.name, iteration, costs, self.state, self.config)
        save_checkpoint(
            self.folder.checkpoint_path(iteration),
            Checkpoint(network=network, geometry=self.geometry, provenance=provenance),
        )

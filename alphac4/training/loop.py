"""The loop of AlphaZero: play, learn, promote the better network. `iterate` yields each round as a record.

`alphac4.runs` consumes the same loop and adds what a run on disk needs: a folder, progress bars, TensorBoard, a judge.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alphac4.compute import Actors, Compute, choose_for_run
from alphac4.game.rules import Geometry
from alphac4.mcts.network_search import NetworkParameters
from alphac4.nn.network import Network, NetworkBuilder
from alphac4.selfplay.games import GamePlan, Games, make_plan
from alphac4.selfplay.replay import Replay, window_size
from alphac4.selfplay.samples import Block, Samples, concatenate, make_samples, recorded_plies
from alphac4.training.config import RunRandom, TrainConfig
from alphac4.training.device_learner import make_learner
from alphac4.training.extensions import (
    Extensions,
    Gate,
    LearningSchedule,
    OptimizerBuilder,
    PolicyTarget,
    Sampler,
    Simulations,
    Starts,
    ValueTarget,
    check_targets,
    checked_schedule,
    simulation_table,
    start_positions,
)
from alphac4.training.learner import Learner, Schedule
from alphac4.training.losses import Losses
from alphac4.training.matches import Contender, Matches, Side, make_providers
from alphac4.training.optimizer import CosineSchedule
from alphac4.training.reports import LearningReport, MatchReport, SelfPlayReport, selfplay_report

if TYPE_CHECKING:
    from alphac4.compute import Pool


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far an iteration has got."""

    iteration: int  # 1 for the first
    phase: str  # "self-play", "learning" or "matches"
    done: int = 0  # positions or gradient steps
    total: int = 0  # the number of them that the iteration needs; 0 in matches
    games: int = 0  # of self-play that have ended since the last call
    evaluations: int = 0  # positions that the network evaluated in self-play since the last call


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """The outcome of one round of self-play, learning and gate."""

    number: int  # 1 for the first
    selfplay: SelfPlayReport
    learning: LearningReport
    candidate: Contender
    gate: MatchReport
    best: Contender  # after the gate: the candidate, if it was promoted
    figures: dict[str, float] = field(default_factory=dict)  # callbacks may add some; a run's reports keep them


class StopTraining(Exception):  # noqa: N818 - not an error
    """Raise this in a callback to end a run. What was committed to its folder stays, and the run can be resumed."""


class Callback:
    """Watches a run. Override what you need; any other exception than `StopTraining` ends the run as an error."""

    def on_progress(self, progress: Progress) -> None:
        """Called at least ten times a second during an iteration; `StopTraining` discards the iteration."""

    def on_iteration(self, iteration: Iteration) -> None:
        """Called after each iteration; `StopTraining` ends the run once the iteration has been committed."""


def stopped_after(iteration: Iteration, callbacks: Sequence[Callback]) -> bool:
    """Call ``on_iteration`` of all callbacks; return whether one of them raised `StopTraining`."""
    stopped = False
    for callback in callbacks:
        try:
            callback.on_iteration(iteration)
        except StopTraining:
            stopped = True
    return stopped


@dataclass(kw_only=True)
class TrainingLoop:
    """Everything that plays, learns and decides in a run; built by `make_loop`."""

    config: TrainConfig
    extensions: Extensions
    geometry: Geometry
    random: RunRandom
    actors: Actors  # play the games
    replay: Replay  # holds what they recorded
    learner: Learner
    schedule: Schedule  # of the learning rates
    sides: Sequence[Side]  # play the networks in matches
    best: Contender  # the network that plays
    cosine: CosineSchedule  # the schedule of the settings
    callbacks: Sequence[Callback] = ()
    pool: "Pool | None" = None  # plays classic MCTS's part of matches, in place of this process
    progress: bool = False  # whether matches show progress bars
    number: int = 0  # of the current iteration
    matches: Matches = field(init=False)

    def __post_init__(self) -> None:
        self.matches = Matches(
            self.sides,
            self.config.gate,
            self.geometry,
            self.random,
            check=self.report_progress,
            pool=self.pool,
            progress=self.progress,
        )

    def iterations(self, done: int = 0) -> Iterator[Iteration]:
        """Train to the configured number of iterations, of which ``done`` are done, and yield each."""
        for number in range(done + 1, self.config.iterations + 1):
            self.number = number
            selfplay = self._play()
            learning = self._learn()
            candidate = Contender(network=self.learner.candidate(), iteration=self.number)
            gate = self.matches.gate(candidate, self.best, self.extensions.gate)
            if gate.accepted:
                self.best = candidate
                self.actors.update(candidate.network)
            yield Iteration(
                number=self.number,
                selfplay=selfplay,
                learning=learning,
                candidate=candidate,
                gate=gate,
                best=self.best,
            )

    def report_progress(self, phase: str = "matches", **numbers: int) -> None:
        """Call the callbacks, which may raise to end the run."""
        progress = Progress(iteration=self.number, phase=phase, **numbers)
        for callback in self.callbacks:
            callback.on_progress(progress)

    def _play(self) -> SelfPlayReport:
        """Let the best network play itself, and record the samples.

        Samples beyond an iteration's number count toward the next iteration.
        """
        requested = max(1, self.number * self.config.samples - self.replay.total)
        started, blocks, parts = time.perf_counter(), list[Block](), list[Samples]()
        report = partial(self.report_progress, "self-play", total=requested)

        def on_block(_actor: int, block: Block) -> None:
            parts.append(self._make_samples(block.games))
            blocks.append(block)
            games, evaluations = len(block.games.plies), block.work.evaluations
            report(done=sum(map(len, parts)), games=games, evaluations=evaluations)

        def check() -> None:
            report(done=sum(map(len, parts)))

        check()
        last = self.number == self.config.iterations
        self.actors.play(requested, on_block, check, last=last, plan=self._plan())
        self.replay.add(concatenate(parts), self.number)
        _, samples = self.replay.iterations[-1]
        return selfplay_report(self.geometry, blocks, samples, started, self.actors)

    def _plan(self) -> GamePlan:
        """The budgets and start positions of the iteration's games."""
        extensions, plan = self.extensions, make_plan(self.geometry, self.config.selfplay)
        if extensions.simulations is not None:
            plan = plan._replace(simulations=simulation_table(extensions.simulations, self.number, self.geometry))
        if extensions.starts is not None:
            size = window_size(self.replay.total, self.config.learning.min_window)
            window = self.replay.window(size) if self.replay.total else None
            rng = self.random.generator(self.number, "starts")
            own, occupied = start_positions(extensions.starts(window, rng), self.geometry)
            plan = plan._replace(starts=np.array([len(own)]), start_own=own, start_occupied=occupied)
        return plan

    def _make_samples(self, games: Games) -> Samples:
        """The samples of finished games, with targets by the functions of the user if there are any."""
        extensions, used = self.extensions, recorded_plies(games)
        policy = returns = None
        if extensions.policy_target is not None:
            shape = games.policy.shape
            policy = check_targets(extensions.policy_target(games), shape, used, "policy_target")
        if extensions.value_target is not None:
            shape = (*games.value.shape, 3)
            returns = check_targets(extensions.value_target(games), shape, used, "value_target")
        return make_samples(self.geometry, self.config.selfplay, games, policy=policy, returns=returns)

    def _learn(self) -> LearningReport:
        """Learn from the latest samples, and remove those that have left the replay window.

        If the weights are not finite afterwards, the earlier ones are restored.
        """
        learner, steps = self.learner, self.config.learning_steps
        before, steps_before = learner.state(), learner.steps
        window = window_size(self.replay.total, self.config.learning.min_window)
        rng = self.random.generator(self.number, "learning")

        def on_step() -> None:
            self.report_progress("learning", done=learner.steps - steps_before, total=steps)

        report = learner.learn_latest(
            self.replay, window, steps=steps, schedule=self.schedule, rng=rng, on_step=on_step
        )
        self.replay.drop_old(2 * window)
        if not learner.is_finite():
            learner.restore(before)
            learner.steps = steps_before + steps
            report = dataclasses.replace(report, rolled_back=True)
        return report


def make_loop(
    config: TrainConfig,
    compute: Compute,
    learner: Learner,
    best: Contender,
    *,
    replay: Replay,
    opened: contextlib.ExitStack,
    extensions: Extensions | None = None,
    schedule: CosineSchedule | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
) -> TrainingLoop:
    """Build the actors and the matches of a run around a learner and the best network.

    Args:
        config: the run's settings.
        compute: the place where it works.
        learner: the network that learns.
        best: the network that plays.
        replay: the samples so far.
        opened: closes what must be closed, such as actors elsewhere.
        extensions: the functions of the user.
        schedule: the learning rate's, where the run has one already; the extensions' own schedule comes first.
        callbacks: watch the run.
        progress: whether matches show progress bars.
    """
    extensions = extensions or Extensions()
    geometry, random = config.board.geometry(), RunRandom(seed=config.seed)
    budgets = [0]
    if extensions.simulations is not None:
        numbers = range(1, config.iterations + 1)
        budgets = [int(simulation_table(extensions.simulations, number, geometry).max()) for number in numbers]
    actors = compute.actors(
        best.network,
        geometry,
        config.selfplay,
        partial(random.generator, 0, "actor"),
        selection=extensions.selection,
        max_simulations=max(budgets),
    )
    opened.callback(actors.close)
    pool = compute.pool()
    if pool is not None:
        opened.callback(pool.close)
    search = extensions.selection or config.selfplay.puct()
    sides = make_providers(compute, best.network, geometry, search, pool)
    end = config.learning_steps * config.iterations
    cosine = (schedule or CosineSchedule.of_run(config.learning, end)).until(learner.steps, end)
    chosen: Schedule = cosine
    if extensions.schedule is not None:
        chosen = checked_schedule(extensions.schedule, end)
    return TrainingLoop(
        config=config,
        extensions=extensions,
        geometry=geometry,
        random=random,
        actors=actors,
        replay=replay,
        learner=learner,
        schedule=chosen,
        sides=sides,
        pool=pool,
        progress=progress,
        best=best,
        cosine=cosine,
        callbacks=callbacks,
    )


def iterate(
    config: TrainConfig,
    *,
    start: Network | None = None,
    network: NetworkBuilder | None = None,
    loss: Losses | None = None,
    optimizer: OptimizerBuilder | None = None,
    schedule: LearningSchedule | None = None,
    policy_target: PolicyTarget | None = None,
    value_target: ValueTarget | None = None,
    selection: NetworkParameters | None = None,
    simulations: Simulations | None = None,
    starts: Starts | None = None,
    sampler: Sampler | None = None,
    gate: Gate | None = None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[Iteration]:
    """Train from nothing in memory: play, learn, promote; yield a record after each iteration.

    Nothing is written to disk and nothing is printed. End it by leaving the ``for`` loop. Each function below replaces
    a part of the algorithm; the package's own is used where none is given. `alphac4.training.extensions` has their
    shapes, units and perspective.

    Args:
        config: the run's settings; `TrainConfig.preset` makes them.
        start: a network to begin with, as wide as the run's, instead of random weights.
        network: builds the module from the board and the sizes of the settings.
        loss: named losses from outputs and batch.
        optimizer: makes PyTorch optimisers of the network's parameters.
        schedule: factor of the learning rates by gradient step.
        policy_target: what the policy learns from finished games.
        value_target: what the value learns from finished games.
        selection: parameters of a compiled rule that picks a move in the tree, in self-play and in matches; see
            `alphac4.register_selection_rule`.
        simulations: budget of a search by iteration, ply and kind.
        starts: start positions of self-play games.
        sampler: weights with which samples of the window are learned.
        gate: decides which candidate is promoted.
        callbacks: watch the run, and may end it.

    Yields:
        The iteration's number, its reports of self-play, learning and gate, its candidate and the best network.

    Raises:
        RuntimeError: for a device that cannot be used.
        ValueError: for a ``start`` of another size, or a function that returned something unsuitable.
    """
    if config.start_from:
        raise ValueError("iterate() loads no file: pass the network as `start`, and leave start_from empty")
    extensions = Extensions(
        network=network,
        loss=loss,
        optimizer=optimizer,
        schedule=schedule,
        policy_target=policy_target,
        value_target=value_target,
        selection=selection,
        simulations=simulations,
        starts=starts,
        sampler=sampler,
        gate=gate,
    )
    compute = choose_for_run(config.machine.device, config.machine.backend)
    learner = make_learner(config, compute, extensions)
    if start is not None:
        learner.initialize_from(start)
    best = Contender(network=learner.candidate(), iteration=0)
    with contextlib.ExitStack() as opened:
        loop = make_loop(
            config,
            compute,
            learner,
            best,
            replay=Replay(),
            opened=opened,
            extensions=extensions,
            callbacks=callbacks,
        )
        for iteration in loop.iterations():
            stopped = stopped_after(iteration, callbacks)
            yield iteration
            if stopped:
                return

"""The loop of AlphaZero: play, learn, promote the better network. `iterate` yields each round as a record.

`alphac4.runs` consumes the same loop and adds what a run on disk needs: a folder, progress, TensorBoard and a judge.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from alphac4.compute import Actors, Compute, choose_for_run
from alphac4.game.rules import Geometry
from alphac4.nn.network import Network
from alphac4.selfplay.replay import Replay, window_size
from alphac4.selfplay.samples import Block, PolicyTarget, Samples, concatenate, make_samples, retarget
from alphac4.training.config import RunRandom, TrainConfig
from alphac4.training.device_learner import make_learner
from alphac4.training.learner import Learner
from alphac4.training.matches import Contender, Matches, Side, make_sides
from alphac4.training.optimizer import CosineSchedule
from alphac4.training.reports import LearningReport, MatchReport, SelfPlayReport, selfplay_report


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """The outcome of one round of self-play, learning and gate."""

    number: int  # 1 for the first
    selfplay: SelfPlayReport
    learning: LearningReport
    candidate: Contender
    gate: MatchReport
    best: Contender  # after the gate: the candidate, if it was promoted


class Watcher:
    """Receives what happens within an iteration; each method may be overridden, and may raise to end the loop."""

    def selfplay(self, iteration: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return the context in which an iteration's games are played."""
        return contextlib.nullcontext()

    def played(self, block: Block) -> None:
        """Receive finished games."""

    def learning(self, steps: int) -> AbstractContextManager[Callable[[], None]]:  # noqa: ARG002
        """Return the context of so many gradient steps; what it gives is called before each."""
        return contextlib.nullcontext(lambda: None)

    def check(self) -> None:
        """Called at every ply of a match, and every 0.1 s or more often in self-play."""


@dataclass(kw_only=True)
class TrainingLoop:
    """Everything that plays, learns and decides in a run; built by `make_loop`."""

    config: TrainConfig
    geometry: Geometry
    random: RunRandom
    actors: Actors  # play the games
    replay: Replay  # holds what they recorded
    learner: Learner
    schedule: CosineSchedule  # of the learning rate
    sides: Sequence[Side]  # play the networks in matches
    matches: Matches
    best: Contender  # the network that plays
    watcher: Watcher
    policy_target: PolicyTarget | None = None  # of one's own, which is no setting of the run

    def iterations(self, done: int = 0) -> Iterator[Iteration]:
        """Train to the configured number of iterations, of which so many are ``done``, and yield each."""
        for number in range(done + 1, self.config.iterations + 1):
            yield self._iterate(number)

    def _iterate(self, number: int) -> Iteration:
        selfplay = self._play(number)
        learning = self._learn(number)
        candidate = Contender(network=self.learner.candidate(), iteration=number)
        gate = self.matches.gate(candidate, self.best)
        if gate.accepted:
            self.best = candidate
            self.actors.update(candidate.network)
        return Iteration(
            number=number, selfplay=selfplay, learning=learning, candidate=candidate, gate=gate, best=self.best
        )

    def _play(self, number: int) -> SelfPlayReport:
        """Let the best network play itself, and record the samples.

        Samples beyond an iteration's number count toward the next iteration.
        """
        requested = max(1, number * self.config.samples - self.replay.total)
        started, blocks, parts = time.perf_counter(), list[Block](), list[Samples]()

        def on_block(_actor: int, block: Block) -> None:
            samples = make_samples(self.geometry, self.config.selfplay, block.games)
            parts.append(retarget(samples, self.policy_target))
            blocks.append(block)
            self.watcher.played(block)

        with self.watcher.selfplay(number):
            last = number == self.config.iterations
            self.actors.play(requested, on_block, self.watcher.check, last=last)
        self.replay.add(concatenate(parts), number)
        _, samples = self.replay.iterations[-1]
        return selfplay_report(self.geometry, blocks, samples, started, self.actors)

    def _learn(self, number: int) -> LearningReport:
        """Learn from the latest samples, and remove those that have left the replay window.

        If the weights are not finite afterwards, the learner goes back to those before.
        """
        learner, steps = self.learner, self.config.learning_steps
        before, steps_before = learner.state(), learner.steps
        window = window_size(self.replay.total, self.config.learning.min_window)
        rng = self.random.generator(number, "learning")
        with self.watcher.learning(steps) as on_step:
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
    watcher: Watcher,
    opened: contextlib.ExitStack,
    schedule: CosineSchedule | None = None,
    policy_target: PolicyTarget | None = None,
    progress: bool = False,
) -> TrainingLoop:
    """Build the actors and the matches of a run around a learner and the best network.

    Args:
        config: the run's settings.
        compute: the place where it works.
        learner: the network that learns.
        best: the network that plays.
        replay: the samples so far.
        watcher: receives what happens.
        opened: closes what must be closed, such as actors elsewhere.
        schedule: the learning rate's, where the run has one already.
        policy_target: see `alphac4.train`.
        progress: whether matches show progress bars.
    """
    geometry, random = config.board.geometry(), RunRandom(seed=config.seed)
    seeds = partial(random.generator, 0, "actor")
    actors = compute.actors(best.network, geometry, config.selfplay, seeds)
    opened.callback(actors.close)
    pool = compute.pool()
    if pool is not None:
        opened.callback(pool.close)
    sides = make_sides(compute, best.network, geometry, config.selfplay.search.puct(), pool)
    end = config.learning_steps * config.iterations
    schedule = schedule or CosineSchedule.of_run(config.learning, end)
    return TrainingLoop(
        config=config,
        geometry=geometry,
        random=random,
        actors=actors,
        replay=replay,
        learner=learner,
        schedule=schedule.until(learner.steps, end),
        sides=sides,
        matches=Matches(sides, config.gate, geometry, random, watcher.check, pool, progress=progress),
        best=best,
        watcher=watcher,
        policy_target=policy_target,
    )


def iterate(
    config: TrainConfig,
    *,
    start: Network | None = None,
    policy_target: PolicyTarget | None = None,
    watcher: Watcher | None = None,
) -> Iterator[Iteration]:
    """Train from nothing in memory: play, learn, promote; yield a record after each iteration.

    Nothing is written to disk and nothing is printed. End it by leaving the ``for`` loop.

    Args:
        config: the run's settings; `TrainConfig.preset` makes them.
        start: a network to begin with, as wide as the run's, instead of random weights.
        policy_target: see `alphac4.train`.
        watcher: receives finished games and gradient steps as they happen.

    Yields:
        The iteration's number, its reports of self-play, learning and gate, its candidate and the best network.

    Raises:
        RuntimeError: for a device that cannot be used.
        ValueError: for a ``start`` of another size.
    """
    if config.start_from:
        raise ValueError("iterate() loads no file: pass the network as `start`, and leave start_from empty")
    compute = choose_for_run(config.machine.device, config.machine.backend)
    learner = make_learner(config, compute)
    if start is not None:
        learner.take_over(start)
    best = Contender(network=learner.candidate(), iteration=0)
    with contextlib.ExitStack() as opened:
        loop = make_loop(
            config,
            compute,
            learner,
            best,
            replay=Replay(),
            watcher=watcher or Watcher(),
            opened=opened,
            policy_target=policy_target,
        )
        yield from loop.iterations()

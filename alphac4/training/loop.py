"""The loop of AlphaZero: play, learn, let the better network in. What becomes of it all is a recorder's affair."""

import dataclasses
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from alphac4.compute import Actors
from alphac4.game.rules import Geometry
from alphac4.selfplay.replay import Replay, window_size
from alphac4.selfplay.samples import Block, PolicyTarget, retarget
from alphac4.training.config import RunRandom, TrainConfig
from alphac4.training.learner import Learner
from alphac4.training.matches import Contender, Matches
from alphac4.training.optimizer import Schedule
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


class Recorder(Protocol):
    """Keeps what a run does, so that it survives; `alphac4.runs.session` does so in a folder."""

    stop: threading.Event  # ends self-play early when it is set

    def selfplay(self, iteration: int) -> AbstractContextManager[None]:
        """Begin an iteration."""

    def record(self, block: Block) -> None:
        """Keep finished games, whose samples are to be learned from."""

    def keep_games(self) -> None:
        """Keep the games in progress, from which an interrupted iteration goes on."""

    def learning(self, steps: int) -> AbstractContextManager[Callable[[], None]]:
        """Begin so many gradient steps; what it gives is called before each, and may raise to end the run."""

    def commit(self, iteration: Iteration) -> None:
        """Keep an iteration: from here on it counts."""


@dataclass(kw_only=True)
class TrainingLoop:
    """Everything that plays, learns and decides in a run."""

    config: TrainConfig
    geometry: Geometry
    random: RunRandom
    actors: Actors  # play the games
    replay: Replay  # holds what they recorded
    learner: Learner
    schedule: Schedule  # of the learning rate
    matches: Matches
    best: Contender  # the network that plays
    recorder: Recorder
    policy_target: PolicyTarget | None = None  # of one's own, which is no setting of the run

    def run(self, done: int = 0) -> None:
        """Train to the configured number of iterations, of which so many are ``done``."""
        for number in range(done + 1, self.config.iterations + 1):
            self.recorder.commit(self._iterate(number))

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
        """Let the best network play itself, and record what is to be learned, or what an interruption has left of it.

        What an iteration records beyond its samples the next one has less.
        """
        wanted = number * self.config.samples - self.replay.total
        if not self.replay.count(number):
            wanted = max(1, wanted)
        started, blocks = time.perf_counter(), list[Block]()

        def on_block(_actor: int, block: Block) -> None:
            block = dataclasses.replace(block, samples=retarget(block.samples, self.policy_target))
            self.recorder.record(block)
            blocks.append(dataclasses.replace(block, in_progress={}))  # what the report is of, and not more

        actors, last = self.actors, number == self.config.iterations
        with self.recorder.selfplay(number):
            if wanted > 0:
                actors.play(wanted, self.recorder.stop, on_block, self.recorder.keep_games, last=last)
        return selfplay_report(self.geometry, blocks, started, actors)

    def _learn(self, number: int) -> LearningReport:
        """Learn from the latest samples, and let go of what the window has left behind for good.

        If the weights are not finite afterwards, the learner goes back to those before.
        """
        learner, steps = self.learner, self.config.learning_steps
        before, steps_before = learner.state(), learner.steps
        window = window_size(self.replay.total, self.config.learning.min_window)
        rng = self.random.generator(number, "learning")
        with self.recorder.learning(steps) as on_step:
            report = learner.learn_latest(
                self.replay, window, steps=steps, schedule=self.schedule, rng=rng, on_step=on_step
            )
        self.replay.drop_old(2 * window)
        if not learner.is_finite():
            learner.restore(before)
            learner.steps = steps_before + steps
            report = dataclasses.replace(report, went_back=True)
        return report

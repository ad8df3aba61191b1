"""The run: self-play, learn, gate, report, repeat; killed at any moment, it goes on where it was."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from tqdm import tqdm

from alphac4.arena.match import MatchResult, play_match
from alphac4.arena.openings import balanced_openings
from alphac4.arena.players import NetworkPlayer, UctPlayer
from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.cuda.device import on_gpu, simulated
from alphac4.evaluation.positions import packaged_positions
from alphac4.game.rules import STANDARD
from alphac4.machine import cores, resident_memory_mb
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import play_together
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.replay import batches, window_size
from alphac4.selfplay.statistics import SelfPlayStatistics
from alphac4.training.config import TrainConfig, to_dict
from alphac4.training.device_learner import DeviceLearner
from alphac4.training.device_window import DeviceWindow
from alphac4.training.engine import make_engine
from alphac4.training.learner import Learner
from alphac4.training.monitor import Monitor
from alphac4.training.reports import (
    EvaluationReport,
    IterationReport,
    LearningReport,
    MatchReport,
    SelfPlayReport,
    match_report,
    selfplay_report,
    summarise,
    time_shares,
)
from alphac4.training.run_folder import RunFolder, load_start
from alphac4.training.strength import elo_over_run, find_warnings

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818 - not an error
    """The user asked the run to stop; everything recorded is on disk."""


class TrainingLoop:
    """One run in its folder. `run` returns when all iterations are done; `stop` ends it early and cleanly."""

    def __init__(self, folder: Path, config: TrainConfig, stop: threading.Event | None = None) -> None:
        self.config = config
        self.stop = stop or threading.Event()
        self.geometry = config.board.geometry()
        start = load_start(folder, config)
        self.folder = RunFolder(folder, config)
        self.state = self.folder.load_state()
        self.learner = self._make_learner()
        if start is not None:
            self.learner.take_over(start)
        self.best: PolicyValueNetwork = self.learner.candidate()
        if self.state.iteration:
            self.learner.restore(self.state.learner)
            self.best = self.folder.load_best(self.state)
        else:
            self._save_network(self.best, 0, {})
        self.engine = make_engine(
            self.best,
            self.geometry,
            config.selfplay,
            lambda index: self._rng(0, "actor", index),
            device=config.device,
            backend=config.backend,
            remembered=self.state.backend,
        )
        self.state.backend = self.engine.backend
        if self.state.iteration:
            self._restore_games()
        self._clock = time.perf_counter()  # when the run began, were it all one session

    def _restore_games(self) -> None:
        """Go on with the games under way, or with new ones where those do not fit another machine."""
        try:
            for index, actor in enumerate(self.engine.actors):
                prefix = f"{index}."
                saved = {k.removeprefix(prefix): v for k, v in self.state.actors.items() if k.startswith(prefix)}
                actor.restore(saved)
        except ValueError:
            logger.warning("the games under way were played in other numbers than this machine does: new ones begin")
            for index, actor in enumerate(self.engine.actors):
                actor.reset(self._rng(self.state.iteration, "new games", index))

    def run(self) -> list[IterationReport]:
        """Train to the configured number of iterations; returns all reports of the run.

        Raises:
            Stopped: when `stop` was set.
            OSError: when the folder cannot be written; what was recorded before stays.
        """
        history = self.folder.reports(self.state)
        self._clock = time.perf_counter() - self.state.seconds
        with Monitor(self.folder.tensorboard, to_dict(self.config), self.geometry, history) as monitor:
            while self.state.iteration < self.config.iterations:
                report = self._iterate(history)
                history.append(report)
                monitor.record(report)
        return history

    def close(self, history: Sequence[IterationReport]) -> list[MatchReport]:
        """The matches that close a run: the best network against every budget of classic MCTS."""
        reports = self._classic_matches(self.config.gate.closing_pairs, self.config.iterations + 1)
        strength = {
            report.opponent: {"score": report.score, "games": report.wins + report.draws + report.losses}
            for report in reports
        }
        if history:
            strength["elo"] = {"value": history[-1].elo, "error": history[-1].elo_error}
        self._save_network(self.best, self.state.best_iteration, strength)
        self.folder.publish_best(self.state)
        return reports

    def _iterate(self, history: Sequence[IterationReport]) -> IterationReport:
        iteration = self.state.iteration + 1
        started = time.perf_counter()
        selfplay = self._self_play(iteration)
        learning = self._learn(iteration)
        candidate = self.learner.candidate()
        gate = self._gate(candidate, iteration)
        if gate.accepted:
            self.best = candidate
            self.engine.update(candidate)
            self.state.best_iteration = iteration
        self._save_network(candidate, iteration, {})
        every = self.config.gate.classic_every
        before_matches = time.perf_counter()
        matches = []
        if every and iteration % every == 0:
            matches = self._classic_matches(self.config.gate.classic_pairs, iteration)
        before_evaluation = time.perf_counter()
        evaluation = self._evaluate(iteration)
        ended = time.perf_counter()
        others = {"matches": before_evaluation - before_matches, "evaluation": ended - before_evaluation}
        self.state.iteration = iteration
        self.state.seconds = time.perf_counter() - self._clock
        self.state.games += selfplay.games
        self.state.evaluations += selfplay.evaluations
        rating = elo_over_run([*(r.gate for r in history if r.gate), gate], self.state.best_iteration)
        report = IterationReport(
            iteration=iteration,
            seconds_total=self.state.seconds,
            games_total=self.state.games,
            samples_total=self.folder.replay.total,
            evaluations_total=self.state.evaluations,
            selfplay=selfplay,
            learning=learning,
            gate=gate,
            matches=matches,
            elo=rating.elo,
            elo_error=rating.error,
            best_iteration=self.state.best_iteration,
            memory_mb=resident_memory_mb(),
            time_shares=time_shares(selfplay, learning, gate, others, ended - started),
            warnings=find_warnings(selfplay, gate, history, evaluation),
            evaluation=evaluation,
        )
        self.state.samples = self.folder.replay.total
        self.state.learner = self.learner.state()
        self.state.actors = {
            f"{index}.{name}": array
            for index, actor in enumerate(self.engine.actors)
            for name, array in actor.state().items()
        }
        self.folder.commit(self.state, report)
        logger.info(summarise(report))
        for warning in report.warnings:
            logger.warning("iteration %d: %s", iteration, warning)
        return report

    def _self_play(self, iteration: int) -> SelfPlayReport:
        """Record the iteration's samples, less what an interrupted attempt has already left on disk."""
        replay = self.folder.replay
        number, recorded = replay.recorded(iteration)
        wanted = self.config.samples - recorded
        statistics = SelfPlayStatistics(self.geometry)
        if number:  # an interrupted attempt: its games under way are lost, and must not be played again
            for index, actor in enumerate(self.engine.actors):
                actor.reset(self._rng(iteration, "resumed actor", index + 1000 * number))
        numbers = [number] * len(self.engine.actors)
        with tqdm(
            total=self.config.samples,
            initial=recorded,
            desc=f"iteration {iteration}: self-play",
            unit="pos",
            unit_scale=True,
            disable=None,
            leave=False,
        ) as bar:

            def on_block(index: int, block: Block) -> None:
                replay.add(block.samples, iteration, index, numbers[index])
                numbers[index] += 1
                statistics.add(block)
                bar.update(len(block.samples))
                bar.set_postfix_str(f"{statistics.evaluations_per_second():,.0f} evaluations/s")

            if wanted > 0:
                play_together(self.engine.actors, wanted, self.stop, on_block)
        self._check_stop()
        return selfplay_report(statistics, len(self.engine.actors), self.engine.backend)

    def _learn(self, iteration: int) -> LearningReport:
        config, replay = self.config.learning, self.folder.replay
        size = window_size(replay.total, config.window_minimum, config.window_exponent, config.window_slope)
        steps = max(1, round(self.config.samples * config.passes / config.batch_size))
        total_steps = steps * self.config.iterations
        window = min(size, sum(len(samples) for _, samples in replay.shards))
        rng = self._rng(iteration, "learning", 0)
        if isinstance(self.learner, DeviceLearner):
            seed = int(rng.integers(2**63))
            made = self._window.batches(replay.shards, size, config.batch_size, steps, seed)
            report = self.learner.learn_from(self._watched(made, iteration, steps), total_steps, window)
        else:
            stream = batches(replay.window(size), self.geometry, config.batch_size, steps, config.return_share, rng)
            report = self.learner.learn(self._watched(stream, iteration, steps), total_steps, window)
        replay.drop_old(2 * size)
        return report

    def _watched(self, stream: Iterable[_T], iteration: int, steps: int) -> Iterator[_T]:
        """The batches, behind a progress bar; ends early when the run is to stop."""
        with tqdm(total=steps, desc=f"iteration {iteration}: learning", unit="step", disable=None, leave=False) as bar:
            for batch in stream:
                self._check_stop()
                yield batch
                bar.update()

    def _gate(self, candidate: PolicyValueNetwork, iteration: int) -> MatchReport:
        config = self.config.gate
        started = time.perf_counter()
        openings = balanced_openings(config.pairs, self._rng(iteration, "openings", 0), self.geometry)
        challenger = self._player(0, candidate, iteration, config.simulations)
        champion = self._player(1, self.best, self.state.best_iteration, config.simulations)
        result: MatchResult | None = None
        accepted, rule = None, ""
        chunk = len(openings) if config.rule.kind == "threshold" else max(10, len(openings) // 5)
        for first in range(0, len(openings), chunk):
            part = play_match(challenger, champion, openings[first : first + chunk], check=self._check_stop)
            result = part if result is None else result + part
            accepted, rule = config.rule.decide(result.pair_scores)
            if config.rule.kind == "sprt" and accepted is not None:
                break
        assert result is not None
        if accepted is None:
            accepted, rule = False, f"{rule}: undecided after all games, so the old one stays"
        return match_report(challenger.name, champion.name, result, started, accepted=accepted, rule=rule)

    def _classic_matches(self, pairs: int, iteration: int) -> list[MatchReport]:
        """The best network against classic MCTS at every configured budget."""
        config = self.config.gate
        reports = []
        for rollouts in config.classic_rollouts:
            started = time.perf_counter()
            openings = balanced_openings(pairs, self._rng(iteration, "classic openings", rollouts), self.geometry)
            ours = self._player(1, self.best, self.state.best_iteration, config.classic_simulations)
            rng = self._rng(iteration, "classic", rollouts)
            classic = UctPlayer(Budget(simulations=rollouts), rng, self.geometry, threads=cores())
            result = play_match(ours, classic, openings, check=self._check_stop)
            reports.append(match_report(ours.name, classic.name, result, started))
        return reports

    def _evaluate(self, iteration: int) -> EvaluationReport | None:
        """The best network against exact play; the solver judges and never teaches: only reports carry the result."""
        config = self.config.evaluation
        if not config.every or iteration % config.every or self.geometry != STANDARD:
            return None
        return self.engine.judge(self.best, packaged_positions(config.positions), config.simulations)

    def _player(self, side: int, network: PolicyValueNetwork, iteration: int, simulations: int) -> NetworkPlayer:
        """The network of an iteration as one side of a match."""
        rng = self._rng(iteration, "player", simulations)
        return self.engine.player(side, f"iteration {iteration}", network, simulations, rng)

    def _save_network(self, network: PolicyValueNetwork, iteration: int, strength: Mapping[str, object]) -> None:
        provenance = {
            "run": self.folder.path.name,
            "iteration": iteration,
            "seconds": round(self.state.seconds),
            "games": self.state.games,
            "evaluations": self.state.evaluations,
            "config": to_dict(self.config),
        }
        save_checkpoint(
            self.folder.checkpoint_path(iteration),
            Checkpoint(network=network, geometry=self.geometry, provenance=provenance, strength=strength),
        )

    def _rng(self, iteration: int, purpose: str, index: int) -> np.random.Generator:
        """Independent random numbers for each purpose, the same whenever the iteration is run."""
        return np.random.default_rng([self.config.seed, iteration, index, *purpose.encode()])

    def _make_learner(self) -> Learner:
        config = self.config
        if not on_gpu(config.device):
            return Learner(config.network_config(), config.learning, "cpu", config.seed)
        device = torch.device("cpu" if simulated() else "cuda")
        self._window = DeviceWindow(self.geometry, device, config.learning.return_share)
        return DeviceLearner(config.network_config(), config.learning, device, config.seed)

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise Stopped

"""The AlphaZero loop: play, learn, promote the better network. `iterate` yields a record of each iteration.

`alphac4.runs` consumes the same loop and adds a folder, progress bars, TensorBoard and evaluations against exact play.
"""

import contextlib
import copy
import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Unpack

import numpy as np
import numpy.typing as npt

from alphac4.arena.match import MatchResult
from alphac4.compute import choose_compute
from alphac4.compute.cores import Compute
from alphac4.machine import check_memory
from alphac4.nn.network import Network, NetworkBuilder
from alphac4.selfplay.config import PRIOR_TEMPERATURE
from alphac4.selfplay.games import GamePlan, Games, make_plan
from alphac4.selfplay.replay import KEPT_WINDOWS, Replay, replay_bytes, window_size
from alphac4.selfplay.samples import (
    Block,
    Samples,
    concatenate,
    join_blocks,
    make_samples,
    recorded_plies,
)
from alphac4.storage.records import MAX_NUMBER, Range, checked, did_you_mean
from alphac4.training.config import TrainConfig, random_generator
from alphac4.training.extensions import (
    MAX_PLANNED_ITERATIONS,
    Extensions,
    Functions,
    LearningSchedule,
    OptimizerBuilder,
    SampleWeights,
    check_columns,
    check_samples,
    make_schedule,
    own_targets,
    start_positions,
)
from alphac4.training.learner import Learner, Schedule, make_learner
from alphac4.training.losses import Losses
from alphac4.training.matches import Contender, Matches, PlayerProvider
from alphac4.training.optimizer import CosineSchedule
from alphac4.training.reports import LearningReport, SelfPlayReport, selfplay_report

if TYPE_CHECKING:
    from alphac4.runs.reports import IterationReport

# A run's matches are played in a pool, such as a cluster, if it has at least this many cores per stream of `Compute`.
MIN_CORE_RATIO = 2


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of an iteration."""

    iteration: int  # 1 for the first
    phase: str  # "self-play", "learning" or "matches"
    done: int = 0  # positions, gradient steps, or games of a match
    total: int = 0  # of the whole phase, or of the match
    games: int = 0  # self-play games finished since the last call
    evaluations: int = 0  # positions evaluated by the network in self-play since the last call


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """Record of one iteration: self-play, learning and gate."""

    number: int  # 1 for the first
    selfplay: SelfPlayReport
    learning: LearningReport
    candidate: Contender
    gate: MatchResult
    best: Contender  # the best network after the gate
    metrics: dict[str, float] = field(default_factory=dict)  # added by callbacks; stored in a run's reports

    def for_user(self) -> "Iteration":
        """Return the record with copies of the networks, which the user may change; the metrics are shared."""
        candidate, best = copy.deepcopy((self.candidate, self.best))
        return dataclasses.replace(self, candidate=candidate, best=best)


class StopTraining(Exception):  # noqa: N818 - not an error
    """Exception by which a callback ends a run. Committed iterations stay in its folder, and the run can be resumed."""


class Callback:
    """Base class of callbacks, with methods to override. Exceptions other than `StopTraining` propagate as errors."""

    def __init_subclass__(cls) -> None:
        """Raise TypeError for a misspelt method, which would never be called."""
        for name in vars(cls):
            if name.startswith("on_") and not hasattr(Callback, name):
                raise TypeError(f"{cls.__name__}.{name} is never called{did_you_mean(name, vars(Callback))}")

    def on_progress(self, progress: Progress) -> None:
        """Handle progress, usually many times per second.

        `StopTraining` ends the run and discards an unfinished iteration.
        """

    def on_iteration(self, iteration: Iteration) -> None:
        """Handle a finished iteration. `StopTraining` ends the run after the iteration has been committed."""

    def on_report(self, report: "IterationReport") -> None:
        """Handle the report of a committed iteration, with mistakes and matches; `iterate` has no such reports."""


Settings = Annotated[TrainConfig, "a TrainConfig, such as TrainConfig.preset('quick')"]
StartNetwork = Annotated[Network, "a network, such as `iteration.best.network`"]
Callbacks = Sequence[Annotated[Callback, "an instance of a class of alphac4.Callback"]]


def call_all(callbacks: Sequence[Callback], method: str, record: object) -> bool:
    """Call a method of all callbacks with a record; return whether one of them raised `StopTraining`."""
    stopped = False
    for callback in callbacks:
        try:
            getattr(callback, method)(record)
        except StopTraining:
            stopped = True
    return stopped


class TrainingLoop:
    """Parts of a run that play, learn and decide."""

    def __init__(
        self,
        config: TrainConfig,
        compute: Compute,
        learner: Learner,
        best: Contender,
        *,
        replay: Replay,
        opened: contextlib.ExitStack,  # gets callbacks that close actors and processes
        extensions: Extensions,
        cosine: CosineSchedule | None = None,  # of a resumed run; a schedule among the extensions takes precedence
        callbacks: Sequence[Callback] = (),
    ) -> None:
        # Constant during a run.
        self.config = config
        self.extensions = extensions
        self.board = board = config.board.make()
        self.callbacks = callbacks
        end = config.steps_per_iteration * config.iterations
        needed = replay_bytes(board, config.iterations * config.positions_per_iteration, config.learning.base_window)
        check_memory(
            "the last replay window needs", needed, "positions_per_iteration or learning.base_window", is_certain=False
        )
        self.cosine = (cosine or CosineSchedule.of_run(config.learning, end)).with_end(learner.steps, end)
        self.schedule: Schedule = make_schedule(extensions, self.cosine, end)
        # State.
        self.replay = replay  # samples of the games
        self.learner = learner
        self.best = best  # the network that plays
        self.number = 0  # number of the current iteration

        budgets = [0]
        if "visits" in extensions:
            if config.iterations > MAX_PLANNED_ITERATIONS:
                limit = f"{MAX_PLANNED_ITERATIONS:,} iterations at most"
                raise ValueError(f"visits as a function allows {limit}, not {config.iterations:,}")
            numbers = range(1, config.iterations + 1)
            budgets = [int(self._budgets(number).max()) for number in numbers]
        self.actors = compute.actors(
            best.network,
            board,
            config.selfplay,
            partial(random_generator, config.seed, 0, "actor"),
            selection=extensions.functions.get("selection_rule") or config.search.puct(PRIOR_TEMPERATURE),
            max_simulations=max(budgets),
        )
        opened.callback(self.actors.close)
        has_gpu = compute.learning_device.type == "cuda"  # faster than a pool
        pool = None if has_gpu else compute.pool(min_cores=MIN_CORE_RATIO * compute.callers)
        if pool is not None:
            opened.callback(pool.close)
        options = best.network, board, extensions.functions.get("selection_rule") or config.search.puct(), pool
        self.providers = [PlayerProvider(compute, *options, number) for number in range(2)]
        self.matches = Matches(
            self.providers,
            config.gate,
            board,
            config.seed,
            report=partial(self.report_progress, "matches"),
            pool=pool,
        )

    def iterations(self, done: int = 0) -> Iterator[Iteration]:
        """Run the iterations after the first ``done``, and yield a record of each."""
        for number in range(done + 1, self.config.iterations + 1):
            self.number = number
            selfplay = self._play()
            learning = self._learn()
            candidate = Contender(network=self.learner.candidate(), iteration=self.number)
            gate = self.matches.gate(
                candidate, self.best, None if "gate" not in self.extensions else partial(self.extensions.call, "gate")
            )
            if gate.promoted:
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

    def report_progress(self, phase: str, **numbers: int) -> None:
        """Call the callbacks, which may raise to end the run."""
        progress = Progress(iteration=self.number, phase=phase, **numbers)
        for callback in self.callbacks:
            callback.on_progress(progress)

    def _play(self) -> SelfPlayReport:
        """Play games of the best network; samples beyond the required number count toward the next iteration."""
        extra = self._extra_samples()
        requested = max(1, self.number * self.config.positions_per_iteration - self.replay.total - sum(map(len, extra)))
        started, blocks, done = time.perf_counter(), list[Block](), 0
        report = partial(self.report_progress, "self-play", total=requested)

        def on_block(_actor: int, block: Block) -> None:
            nonlocal done
            blocks.append(block)
            done += block.sample_count
            report(done=done, games=len(block.games.plies), evaluations=block.stats.evaluations)

        def check() -> None:
            report(done=done)

        check()
        last = self.number == self.config.iterations
        self.actors.play(requested, on_block, check, last=last, plan=self._plan())
        played = join_blocks(blocks)
        samples = self._make_samples(played.games)
        if self.replay.iterations and "targets" in self.extensions:
            check_samples(samples, self.replay.iterations[-1][1], "targets")
        for each in extra:
            check_samples(each, samples, "extra_samples")
        self.replay.add(concatenate([samples, *extra]), self.number)
        return selfplay_report(self.board, played, samples, started, self.actors)

    def _plan(self) -> GamePlan:
        extensions, plan = self.extensions, make_plan(self.board, self.config.selfplay)
        if "visits" in extensions:
            plan = plan._replace(visits=self._budgets(self.number))
        for name in ("temperature", "noise"):
            if name in extensions:
                values = [float(extensions.numbers(name, self.number, ply)) for ply in range(self.board.cells)]
                plan = plan._replace(**{name: np.array(values)})
        if "start_positions" in extensions:
            size = window_size(self.replay.total, self.config.learning.base_window)
            window = self.replay.window(size) if self.replay.total else None
            rng = random_generator(self.config.seed, self.number, "starts")
            own, occupied = start_positions(extensions.call("start_positions", window, rng), self.board)
            plan = plan._replace(starts=np.array([len(own)]), start_own=own, start_occupied=occupied)
        return plan

    def _extra_samples(self) -> list[Samples]:
        """Return the samples of the user's function, if there is one."""
        if "extra_samples" not in self.extensions:
            return []
        rng = random_generator(self.config.seed, self.number, "extra samples")
        samples = self.extensions.call("extra_samples", self.number, copy.deepcopy(self.best.network), rng)
        if not isinstance(samples, Samples):
            raise ValueError(f"extra_samples returned {type(samples).__name__}; expected alphac4.Samples")
        if len(samples) >= self.config.positions_per_iteration:
            raise ValueError(
                f"extra_samples returned {len(samples):,} samples; expected fewer than those of an iteration, "
                f"{self.config.positions_per_iteration:,} by the setting positions_per_iteration: `alphac4.learn` "
                "learns without self-play"
            )
        return [samples]

    def _budgets(self, iteration: int) -> npt.NDArray[np.int64]:
        """Return the user's `visits` [2, C] for an iteration's fast (0) and full (1) searches at each ply."""
        return np.array(
            [
                [int(self.extensions.numbers("visits", iteration, ply, full)) for ply in range(self.board.cells)]
                for full in (False, True)
            ]
        )

    def _make_samples(self, games: Games) -> Samples:
        """Return the samples of an iteration's games; the user's functions get copies, which they may change."""
        extensions, used = self.extensions, recorded_plies(games)
        rng = partial(random_generator, self.config.seed, self.number)
        policy = value = None
        if "policy_target" in extensions:
            arguments, sizes = (copy.deepcopy(games), rng("policy target")), games.policy_target.shape
            policy = extensions.numbers("policy_target", *arguments, sizes=sizes, used=used)
            check_columns(policy, games.occupied, used, self.board)
        if "value_target" in extensions:
            arguments, sizes = (copy.deepcopy(games), rng("value target")), (*used.shape, 3)
            value = extensions.numbers("value_target", *arguments, sizes=sizes, used=used)
        targets = None
        if "targets" in extensions:
            targets = own_targets(extensions.call("targets", copy.deepcopy(games), rng("targets")), used, self.board)
        return make_samples(self.board, self.config.selfplay, games, policy=policy, value_target=value, targets=targets)

    def _learn(self) -> LearningReport:
        """Learn from the replay window; restore the earlier weights if the new ones are not finite."""
        learner, steps = self.learner, self.config.steps_per_iteration
        before, steps_before = learner.state(), learner.steps
        window = window_size(self.replay.total, self.config.learning.base_window)
        rng = random_generator(self.config.seed, self.number, "learning")

        def on_step() -> None:
            self.report_progress("learning", done=learner.steps - steps_before, total=steps)

        report = learner.learn(self.replay, window, steps=steps, schedule=self.schedule, rng=rng, on_step=on_step)
        self.replay.drop_old(KEPT_WINDOWS * window)
        if not learner.is_finite():
            learner.restore(before)
            learner.steps = steps_before + steps
            report = dataclasses.replace(report, rolled_back=True)
        return report


@checked
def learn(
    samples: Annotated[Samples, "Samples, such as of alphac4.read_samples(run)"],
    config: Settings,
    *,
    start: StartNetwork | None = None,
    network: NetworkBuilder | None = None,
    loss: Losses | None = None,
    optimizer: OptimizerBuilder | None = None,
    schedule: LearningSchedule | None = None,
    sample_weights: SampleWeights | None = None,
    steps: Annotated[int, Range(1, MAX_NUMBER)] | None = None,
) -> Network:
    """Train a network on samples, such as those of an earlier run; nothing is played.

    Args:
        samples: from `read_samples`, or parts of them (`Samples.take`).
        config: the seed, and settings of the board, the network, learning and the machine; others are not used.
        start: the network to start from, instead of random weights.
        network: builds the module; this and the following functions are as in `iterate`.
        loss: returns named losses.
        optimizer: returns PyTorch optimisers.
        schedule: returns the factor of the learning rates.
        sample_weights: returns weights with which samples are drawn; by default, each pass has all samples once.
        steps: number of gradient steps; by default a sample is drawn `learning.replay_ratio` times on average.

    Returns:
        The network with the averaged weights, as in a run. `alphac4.load` and `alphac4.evaluate` accept it.

    Raises:
        RuntimeError: as for `iterate`.
        TypeError: for an argument of the wrong type.
        ValueError: for an invalid setting, no samples or those of another board, a ``start`` that does not fit the
            settings, an invalid result of a function, or weights that are not finite.
    """
    _check_has_no_file(config)
    if not len(samples):
        raise ValueError("there are no samples to learn from")
    if samples.board != config.board.make():
        raise ValueError("the samples are of another board than the settings")
    extensions = Extensions(
        network=network, loss=loss, optimizer=optimizer, schedule=schedule, sample_weights=sample_weights
    )
    config = dataclasses.replace(config, iterations=1, positions_per_iteration=len(samples))
    count = config.steps_per_iteration if steps is None else steps
    learner = make_learner(config, choose_compute(config.machine.device, config.machine.backend), extensions)
    if start is not None:
        learner.initialize_from(start)
    replay = Replay()
    replay.iterations.append((1, samples))
    learner.learn(
        replay,
        len(samples),
        steps=count,
        schedule=make_schedule(extensions, CosineSchedule.of_run(config.learning, count), count),
        rng=random_generator(config.seed, 1, "learning"),
    )
    if not learner.is_finite():
        raise ValueError(f"the weights are not finite after {count} steps: lower the learning rate")
    return learner.candidate()


def _check_has_no_file(config: TrainConfig) -> None:
    if config.start_from:
        raise ValueError("files are not loaded here: leave start_from empty, and pass the network as `start`")


@checked
def iterate(
    config: Settings,
    *,
    start: StartNetwork | None = None,
    callbacks: Callbacks = (),
    **functions: "Unpack[Functions]",
) -> Iterator[Iteration]:
    """Train a network in memory: play, learn, promote; yield a record after each iteration.

    No results are written to disk or printed. Leave the ``for`` loop to end training.

    Args:
        config: the run's settings; `TrainConfig.preset` makes them.
        start: the network to start from, with the run's number of channels, instead of random weights.
        callbacks: called with progress and after each iteration; they may end the run.
        functions: your own functions for parts of the algorithm: ``network``, ``loss``, ``optimizer``, ``schedule``,
            ``policy_target``, ``value_target``, ``targets``, ``extra_samples``, ``selection_rule``, ``visits``,
            ``temperature``, ``noise``, ``start_positions``, ``sample_weights``, ``gate``.
            docs/functions.md describes the arguments and the result of each, with shapes, units and perspective.

    Yields:
        The iteration's number, its reports of self-play, learning and gate, its candidate and the best network.

    Raises:
        MemoryError: if the games of self-play do not fit in memory.
        RuntimeError: for a device that cannot be used, another default dtype than float32, or PyTorch's inference mode.
        TypeError: for a ``config``, ``start`` or callback of the wrong type, or an unknown function.
        ValueError: for an invalid setting, a ``start`` that does not fit the settings, or an invalid result of a
            function.
    """
    _check_has_no_file(config)
    extensions = Extensions(**functions)
    with contextlib.ExitStack() as opened, contextlib.suppress(StopTraining):
        compute = choose_compute(config.machine.device, config.machine.backend, for_run=True)
        opened.callback(compute.close)
        learner = make_learner(config, compute, extensions)
        if start is not None:
            learner.initialize_from(start)
        best = Contender(network=learner.candidate(), iteration=0)
        loop = TrainingLoop(
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
            seen = iteration.for_user()
            stopped = call_all(callbacks, "on_iteration", seen)
            yield seen
            if stopped:
                return

"""Measurements of `alphac4 doctor`: how fast each part is on this machine, and how long training takes."""

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from alphac4.arena.specifications import named_checkpoint
from alphac4.commands.options import DoctorOptions
from alphac4.compiled import compiled
from alphac4.compute import Actors, choose, choose_for_run
from alphac4.game import Position
from alphac4.game.rules import STANDARD, U64_0, Geometry, has_run, play
from alphac4.machine import cores, worker_threads
from alphac4.mcts.classic.rollouts import Rollout, run_rollouts
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.network_search import NetworkSearch, make_cache
from alphac4.mcts.search import Budget, TreeSearch
from alphac4.nn.backends import Array, backend_names, boards_for, make_backend
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator, UniformEvaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import MAX_CACHED, Actor, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.replay import Batch, Replay
from alphac4.selfplay.samples import Block, Work, concatenate, make_samples
from alphac4.storage.records import first_line
from alphac4.training.config import PRESETS, LearningConfig, TrainConfig
from alphac4.training.device_learner import make_learner
from alphac4.training.learner import Learner
from alphac4.training.optimizer import CosineSchedule

logger = logging.getLogger(__name__)

REPEATS = 3  # of each measurement; the median counts
NAME_WIDTH = 40  # of a figure's name, in characters
PLAYOUTS = 50_000  # between two looks at the clock
LEARNING_BATCH = 128  # positions, as in the quick and standard presets
LEARNING_STEPS = 2  # at a time
PRESET_SECONDS = 3.0  # of self-play, and about as much of learning, for each preset

# What a preset takes, from some seconds of self-play and learning by an untrained network.
OTHER_WORK = 0.25  # of a run's time: the gate, matches and reports; 0.26 in the recorded quick run
# The work of a position in self-play over a whole run, as a share of an untrained network's. Proofs end more and more
# searches, and the cache answers more: the recorded quick run takes 9.7 evaluations and 14.7 simulations a position
# where an untrained network takes 19.4 and 23.3, and the standard run 15.5 simulations where it takes 27.8.
LATER_WORK = 0.55
# Evaluations of an untrained network, as a share of the visits that its searches are asked for: trees that are kept
# from move to move, proofs and the cache save the rest. The recorded quick run takes 19.4 a position for 35.2 visits.
# With `LATER_WORK` that makes 0.30 over a whole run; the runs that made `standard` and `best` took 0.32 and 0.27.
EVALUATIONS_A_VISIT = 0.55
ENDLESS = 10**9  # samples or steps, where time is the limit
WARM_UP_STEPS = 2
MIN_STEPS = 2  # that are timed


class Figure(NamedTuple):
    """One measured figure; as text, a row of a table."""

    name: str
    value: float
    unit: str

    def __str__(self) -> str:
        """Return a row; a value below 10 has three significant digits."""
        return (
            f"{self.name:<{NAME_WIDTH}}  {format(self.value, ',.3g' if self.value < 10 else ',.0f'):>14}  {self.unit}"
        )


def rate(work: Callable[[], float], seconds: float) -> float:
    """Units a second of ``work``, which returns the units that it did."""
    started, units = time.perf_counter(), 0.0
    while time.perf_counter() - started < seconds:
        units += work()
    return units / (time.perf_counter() - started)


def untrained_network(options: DoctorOptions) -> PolicyValueNetwork:
    """A network of the size asked for."""
    return PolicyValueNetwork(NetworkConfig(channels=options.channels, blocks=options.blocks)).eval()


def median_rate(work: Callable[[], float], options: DoctorOptions) -> float:
    """The median `rate` of the repeats; ``work`` runs once more before, to warm up."""
    work()
    return float(np.median([rate(work, options.seconds / REPEATS) for _ in range(REPEATS)]))


def rate_of_streams(run: Callable[[Array], object], planes: Array, streams: int, seconds: float) -> float:
    """Evaluations/s when ``streams`` threads call with ``planes`` each; raises what a call raises."""

    def evaluate(_number: int = 0) -> float:
        run(planes)
        return len(planes)

    with worker_threads(streams) as pool:
        list(pool.map(evaluate, range(streams)))  # to warm up
        return sum(pool.map(lambda _: rate(evaluate, seconds), range(streams)))


@compiled
def count_positions(geometry: Geometry, own: np.uint64, occupied: np.uint64, depth: int) -> int:
    """Nodes of the full game tree down to ``depth`` more plies, with win tests: the usual move generator's test."""
    if has_run(geometry, own ^ occupied) or depth == 0:
        return 1
    nodes = 1
    for column in range(geometry.columns):
        next_own, next_occupied = play(geometry, own, occupied, column)
        if next_occupied != occupied:
            nodes += count_positions(geometry, next_own, next_occupied, depth - 1)
    return nodes


def measure_rules(options: DoctorOptions) -> Iterator[Figure]:
    """Move generation and random playouts on one core."""
    positions = median_rate(lambda: count_positions(STANDARD, U64_0, U64_0, 7), options)
    yield Figure("rules", positions, "positions/s, one core")
    states = np.array([1], np.uint64)

    def playouts() -> float:
        run_rollouts(STANDARD, U64_0, U64_0, PLAYOUTS, states, Rollout())
        return PLAYOUTS

    yield Figure("random playouts, empty board", median_rate(playouts, options), "playouts/s, one core")


def search_rate(search: TreeSearch, trees: int, simulations: int, options: DoctorOptions) -> float:
    """Simulations/s from the empty board, over all trees."""
    positions, budget = [Position()] * trees, Budget(simulations=simulations)
    return median_rate(lambda: float(search.search(positions, budget).simulations.sum()), options)


def measure_uct(options: DoctorOptions) -> Iterator[Figure]:
    """Classic MCTS on a single tree, one core."""
    for simulations in (1_000, 10_000, 100_000):
        found = search_rate(UctSearch(rng=np.random.default_rng(0)), 1, simulations, options)
        yield Figure(f"UCT, {simulations:,} a move", found, "simulations/s, one tree, one core")


def measure_puct(options: DoctorOptions) -> Iterator[Figure]:
    """The network-guided search with a free evaluator: what the tree costs."""
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    for trees in (1, 256):
        found = search_rate(search, trees, 128, options)
        yield Figure(f"PUCT, free evaluator, {trees} trees", found, "simulations/s, one core")


def measure_inference(options: DoctorOptions) -> Iterator[Figure]:
    """Evaluations/s of every backend of this machine at several batch sizes, with one calling thread a core."""
    network = untrained_network(options)
    rng = np.random.default_rng(0)
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        for batch in options.batches:
            planes = boards_for(network.config, batch, rng)
            for name in backend_names(device):
                try:
                    backend = make_backend(name, network, batch, 1)
                    backend(planes)
                except Exception as error:  # such as bf16 where the processor lacks it: the others are measured
                    logger.warning("backend %s does not work here: %s", name, first_line(error))
                    continue
                found = rate_of_streams(backend, planes, cores(), options.seconds)
                yield Figure(f"inference, {name}, batch {batch}", found, "evaluations/s")


def measure_selfplay(options: DoctorOptions) -> Iterator[Figure]:
    """Self-play on the cores with the default settings, against the evaluator's rate alone in the same run."""
    config = SelfPlayConfig()
    slots = -(-config.games // cores())
    evaluator = Evaluator(untrained_network(options), batch_size=slots, streams=cores(), int8=True)
    cache = make_cache(MAX_CACHED, STANDARD)
    actors = [Actor(STANDARD, config, evaluator, slots, np.random.default_rng(i), cache) for i in range(cores())]
    planes = boards_for(evaluator.network.config, slots, np.random.default_rng(0))
    play_together(actors, 2, lambda _index, _block: None)
    rows = []  # of each repeat
    for _ in range(REPEATS):
        work = Work()

        def on_block(_index: int, block: Block, work: Work = work) -> None:
            work.add(block.work)

        alone = rate_of_streams(evaluator.evaluate, planes, cores(), options.seconds)
        started = time.perf_counter()
        moves = max(1, int(max(2_000, 1_000 * options.seconds) / config.games))
        play_together(actors, moves, on_block)
        seconds = time.perf_counter() - started
        share = work.network_seconds / cores() / seconds
        simulations, evaluations = work.simulations / seconds, work.evaluations / seconds
        rows.append((simulations, evaluations, alone, 100 * share, 100 * evaluations / share / alone))
    by = f"simulations/s ({evaluator.backend}, {config.games} games, all cores)"
    names = {
        "self-play": by,
        "self-play: through the network": "evaluations/s",
        "the same evaluator alone": "evaluations/s",
        "self-play: network's share of the time": "%",
        "self-play: network's rate against alone": "%",
    }
    for (name, unit), value in zip(names.items(), np.median(rows, axis=0), strict=True):
        yield Figure(name, float(value), unit)


def measure_learning(options: DoctorOptions) -> Iterator[Figure]:
    """Gradient steps as the presets take them; where those are by Winograd's filtering, by PyTorch alone too."""
    network = NetworkConfig(channels=options.channels, blocks=options.blocks, ownership=True)
    config = LearningConfig(batch_size=LEARNING_BATCH)
    schedule = CosineSchedule.of_run(config, 1_000_000)
    batches = [random_batch(LEARNING_BATCH, network)] * LEARNING_STEPS

    def figure(name: str, learner: Learner) -> Figure:
        def learn() -> float:
            return LEARNING_BATCH * learner.learn_from(batches, schedule, LEARNING_BATCH).steps

        unit = f"positions/s ({learner.precision}, batch {LEARNING_BATCH}, Muon)"
        return Figure(name, median_rate(learn, options), unit)

    learner = Learner(network, config, STANDARD, seed=0)
    yield figure("learning", learner)
    if learner.by_winograd:
        alike = Learner(network, config, STANDARD, seed=0, precision=learner.precision)
        alike.by_winograd = False
        yield figure("learning by PyTorch's convolutions", alike)


def random_batch(size: int, network: NetworkConfig) -> Batch:
    """Random boards and targets: they take no less time than a game's."""
    rng = np.random.default_rng(1)
    planes = boards_for(network, size, rng)
    policy = rng.random((size, 7)).astype(np.float32)
    wdl = np.eye(3, dtype=np.float32)[rng.integers(0, 3, size)]
    return Batch(planes, policy / policy.sum(axis=1, keepdims=True), np.ones(size, np.float32), wdl, planes[:, :2])


def measure_play(options: DoctorOptions) -> Iterator[Figure]:
    """The network that plays, by the backend that is chosen here, for one game and for many."""
    network, compute = named_checkpoint("best").load().network, choose(options.device)
    for batch in (1, 128):
        evaluator = compute.evaluator(network, batch_size=batch)
        boards = boards_for(network.config, batch, np.random.default_rng(0))
        found = rate_of_streams(evaluator.evaluate, boards, 1, options.seconds)
        place = compute.learning_device.type
        yield Figure(f"best, batch {batch}", found, f"evaluations/s ({evaluator.backend} on {place})")


def measure_presets(options: DoctorOptions) -> Iterator[Figure]:
    """How long each preset that this machine can run takes here."""
    device = choose(options.device).learning_device.type
    for name, config in PRESETS.items():
        if config.machine.device != "cuda" or device == "cuda":
            yield measure_preset(name, config, PRESET_SECONDS, options.device)


def measure_preset(name: str, config: TrainConfig, seconds: float, device: str) -> Figure:
    """Minutes of a run, from an untrained network that plays and learns for about ``seconds`` each; good to a third.

    A large network takes longer: until the first games are over, and for the first steps.
    """
    compute, selfplay = choose_for_run(device, "auto"), config.selfplay
    learner = make_learner(config, compute)
    actors = compute.actors(learner.candidate(), config.board.geometry(), selfplay, np.random.default_rng)
    full = selfplay.full_search_prob
    visits = full * selfplay.full_simulations + (1 - full) * selfplay.fast_simulations
    rate, blocks = self_play_rate(actors, seconds)
    samples = rate / (EVALUATIONS_A_VISIT * visits)
    replay = Replay()
    replay.add(concatenate([make_samples(config.board.geometry(), selfplay, block.games) for block in blocks]), 1)
    steps = learning_steps_rate(learner, replay, config, seconds)
    rates = f"{samples:,.3g} positions/s of self-play by {actors.backend}, {steps:,.3g} steps/s of learning"
    return Figure(f"train --preset {name}", run_minutes(config, samples, steps), f"minutes ({rates})")


def run_minutes(config: TrainConfig, samples: float, steps: float) -> float:
    """Minutes of a whole run, from an untrained network's positions/s in self-play and the learner's steps/s."""
    play = LATER_WORK * config.iterations * config.samples / samples
    learn = config.iterations * config.learning_steps / steps
    return (play + learn) / (1 - OTHER_WORK) / 60


class _TimeIsUp(Exception):  # noqa: N818 - not an error
    """Self-play has taken long enough to be timed."""


def self_play_rate(actors: Actors, seconds: float) -> tuple[float, list[Block]]:
    """Return evaluations/s, trees included, and the games that are over by then.

    Finished games would not do as a measure: all begin together, so that at first hardly any finish, and later many.
    """
    began, blocks = time.perf_counter(), list[Block]()
    evaluations: Counter[int] = Counter()  # by actor
    first: dict[int, tuple[float, int]] = {}  # by actor: when its first block came, and the evaluations until then
    last: dict[int, tuple[float, int]] = {}

    def on_block(actor: int, block: Block) -> None:
        blocks.append(block)
        evaluations[actor] += block.work.evaluations
        now = time.perf_counter()
        last[actor] = now, evaluations[actor]
        first.setdefault(actor, last[actor])
        if now - min(since for since, _ in first.values()) >= seconds:
            raise _TimeIsUp

    with contextlib.suppress(_TimeIsUp):
        actors.play(ENDLESS, on_block)
    rate = 0.0
    for actor, (end, after) in last.items():
        start, before = first[actor] if first[actor] != last[actor] else (began, 0)  # its only block
        rate += (after - before) / (end - start)
    return rate * len(actors) / len(last), blocks


def learning_steps_rate(learner: Learner, replay: Replay, config: TrainConfig, seconds: float) -> float:
    """Steps/s: four times as many steps each time, until they take long enough to be timed."""
    schedule, rng = CosineSchedule.of_run(config.learning, ENDLESS), np.random.default_rng(0)

    def learn(steps: int) -> float:
        return learner.learn_latest(replay, replay.total, steps=steps, schedule=schedule, rng=rng).seconds

    learn(WARM_UP_STEPS)
    steps = MIN_STEPS
    while (taken := learn(steps)) < seconds / 2:
        steps *= 4
    return steps / taken


PARTS: dict[str, Callable[[DoctorOptions], Iterator[Figure]]] = {
    "play": measure_play,
    "presets": measure_presets,
    "rules": measure_rules,
    "uct": measure_uct,
    "puct": measure_puct,
    "inference": measure_inference,
    "selfplay": measure_selfplay,
    "learning": measure_learning,
}

"""Measures one network or player on sets of positions for a strength report."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import numpy as np
import torch
from tqdm import tqdm

from alphac4.arena.players import Player, PlayerError, as_searching
from alphac4.arena.specifications import (
    NamedNetwork,
    NetworkOptions,
    SpecifiedPlayer,
    describe_options,
    find_network,
    network_digest,
    parse_player,
    pool_players,
)
from alphac4.compute import Compute, Pool, choose
from alphac4.evaluation.answers import BATCH, ask_players, network_players
from alphac4.evaluation.positions import PositionSet
from alphac4.evaluation.report import (
    UNTRAINED,
    BudgetReport,
    StrengthReport,
    SubjectReport,
    budget_report,
    summarise_sets,
)
from alphac4.game import Geometry
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.checkpoints import Checkpoint, pack_checkpoint

SECONDS_BEFORE_ESTIMATE = 2.0  # of searches, after which their speed is known well enough
SHORT_S = 10.0  # what takes no longer needs no estimate


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Sets and budgets to measure, the same for every subject of a report."""

    sets: Sequence[PositionSet]
    budgets: Sequence[int]  # simulations a position of networks; 0 is the raw network
    seed: int = 0
    compute: Compute = field(default_factory=choose)
    pool: Pool | None = None  # whose processes answer, in place of ``compute``

    @property
    def geometry(self) -> Geometry:
        """The board."""
        return self.sets[0].geometry


def measure_strength(
    player: str, measurement: Measurement, references: Sequence[str] = (), *, twin: bool = True
) -> StrengthReport:
    """Measure a player, its untrained ``twin`` if it is a checkpoint, and others beside them.

    Raises:
        PlayerError: before anything has taken time, for an unknown player, or one for another board.
    """
    subjects = [prepare(player, measurement)]
    network = _unlimited_network(player)
    if network is not None and twin:
        beginner = untrained(network.load(), measurement.seed)
        measure = partial(measure_network, UNTRAINED, beginner, measurement, network.options, None)
        subjects.append(Subject(measure=measure, work=subjects[0].work))
    subjects += [prepare(name, measurement) for name in references]
    with Progress(sum(subject.work for subject in subjects)) as progress:
        reports = [subject.measure(progress) for subject in subjects]
    return StrengthReport(sets=summarise_sets(measurement.sets), subjects=reports)


class Progress:
    """One bar for all that is measured, and a line that estimates its time once two seconds of searches are known.

    Work is counted in simulations of one position, a raw evaluation being one as well.
    """

    def __init__(self, work: int) -> None:
        self._bar = tqdm(total=work, unit="sim", unit_scale=True, disable=None, leave=False)
        self._work, self._done = work, 0
        self._start: tuple[float, int] | None = None  # when the first search had ended, and the work done by then
        self._is_estimated = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.close()

    def begin(self, label: str, simulations: int) -> Callable[[int], None]:
        """Begin a measurement; returns a function to call with the number of positions just answered."""
        self._bar.set_description(label)

        def on_batch(count: int) -> None:
            with self._lock:
                self._done += count * (simulations + 1)
                self._bar.update(count * (simulations + 1))
                if simulations:
                    self._estimate()

        return on_batch

    def _estimate(self) -> None:
        now = time.perf_counter()
        if self._start is None:  # the first search includes compilation
            self._start = now, self._done
        started, before = self._start
        if self._is_estimated or now - started < SECONDS_BEFORE_ESTIMATE or self._done == before:
            return
        self._is_estimated = True
        seconds = (self._work - self._done) * (now - started) / (self._done - before)
        if seconds > SHORT_S and sys.stderr:
            shown = f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
            tqdm.write(f"measuring takes about {shown} more", file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Something to measure."""

    measure: Callable[[Progress], SubjectReport]
    work: int  # see `Progress`


def prepare(specification: str, measurement: Measurement) -> Subject:
    """Prepare the measurement of a checkpoint with every budget, or of any other player as it is.

    Raises:
        PlayerError: for an unknown player, or one for another board, before anything has taken time.
    """
    positions = sum(map(len, measurement.sets))
    network = _unlimited_network(specification)
    if network is not None:
        if network.options.temperature:  # the raw network and the searches are measured by their best moves
            raise PlayerError(f"{specification!r}: a temperature needs a limit, such as {network.written}@100,...")
        network.check(measurement.geometry)
        digest = network_digest(specification)
        measure = partial(measure_network, specification, network.load(), measurement, network.options, digest)
        return Subject(measure=measure, work=positions * sum(budget + 1 for budget in measurement.budgets))
    player = parse_player(
        specification,
        rng=np.random.default_rng(measurement.seed),
        geometry=measurement.geometry,
        compute=measurement.compute,
        batch_size=BATCH,
    )
    simulations = _simulations(player)
    measure_player = partial(_measure_player, specification, player, simulations, measurement)
    return Subject(measure=measure_player, work=positions * (simulations + 1))


def _simulations(player: Player) -> int:
    """The simulations of a player for each position; 1 where they are not limited, or it makes none."""
    searching = as_searching(player)
    return 1 if searching is None else searching.budget.simulations or 1


def _unlimited_network(specification: str) -> NamedNetwork | None:
    """The checkpoint that a specification without a budget of its own names; None for any other player."""
    network = find_network(specification)
    return None if network is None or network.limit or network.is_onnx else network


def untrained(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """A network of the same architecture that has learned nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = PolicyValueNetwork(checkpoint.network.config).eval()
    return Checkpoint(network=network, geometry=checkpoint.geometry)


def _measure_player(
    name: str, player: Player, simulations: int, measurement: Measurement, progress: Progress
) -> SubjectReport:
    started = time.perf_counter()
    players = [player]
    if measurement.pool is not None:
        backend = measurement.compute.backends.evaluators
        recipe = SpecifiedPlayer(specification=name, geometry=measurement.geometry, backend=backend)
        players = pool_players(measurement.pool, recipe, player, measurement.seed)
    answers = ask_players(players, measurement.sets, on_batch=progress.begin(name, simulations))
    report = budget_report(measurement.sets, answers, None, time.perf_counter() - started)
    return SubjectReport(name=name, description="", budgets=[report])


def measure_network(
    name: str,
    checkpoint: Checkpoint,
    measurement: Measurement,
    options: NetworkOptions,
    digest: str | None,
    progress: Progress,
) -> SubjectReport:
    """Measure a network with every budget."""
    compute = measurement.compute
    evaluator = compute.evaluator(checkpoint.network, streams=compute.streams)
    reports: list[BudgetReport] = []
    for simulations in measurement.budgets:
        started = time.perf_counter()
        on_batch = progress.begin(f"{name}, {simulations or 'no'} simulations", simulations)
        players: Sequence[Player] = network_players(compute, evaluator, simulations, measurement.geometry, options)
        if measurement.pool is not None:
            recipe = SpecifiedPlayer(
                specification=f"network.safetensors@{simulations}{describe_options(options)}",
                geometry=checkpoint.geometry,
                backend=evaluator.backend,
                reuse="nothing",
            )
            players = pool_players(measurement.pool, recipe, players[0], network=pack_checkpoint(checkpoint))
        answers = ask_players(players, measurement.sets, on_batch=on_batch)
        reports.append(budget_report(measurement.sets, answers, simulations, time.perf_counter() - started))
    config = checkpoint.network.config
    return SubjectReport(
        name=name,
        description=f"{config.channels} channels x {config.blocks} blocks, by {evaluator.backend}",
        budgets=reports,
        network=digest,
    )

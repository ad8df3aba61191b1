"""Measurement of networks and players on sets of positions, for a strength report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from alphac4.arena import PlayerError
from alphac4.arena.kinds import NetworkKind, unlimited_network
from alphac4.arena.players import NetworkPlayer, Player, SearchingPlayer, backends_of
from alphac4.arena.registry import parse_player, player_digest
from alphac4.bars import Bar
from alphac4.compute import choose_compute
from alphac4.compute.cores import Compute
from alphac4.evaluation.metrics import BATCH, collect_answers, judge_sets
from alphac4.evaluation.positions import PositionSet
from alphac4.evaluation.report import (
    UNTRAINED,
    BudgetReport,
    StrengthReport,
    SubjectReport,
)
from alphac4.game import Geometry
from alphac4.game.position import count_of
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork, torch_seed
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.records import quote, shorten


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Positions and budgets, the same for every subject of a report."""

    sets: Sequence[PositionSet]
    budgets: Sequence[int]  # simulations per position for networks; 0 is the raw policy
    seed: int = 0
    compute: Compute = field(default_factory=choose_compute)

    @property
    def geometry(self) -> Geometry:
        """The board."""
        return self.sets[0].geometry


def measure_strength(
    player: str, measurement: Measurement, references: Sequence[str] = (), *, untrained: bool = True
) -> StrengthReport:
    """Measure a player and the ``references``; for a checkpoint, also an ``untrained`` network of the same size."""
    subjects = [_prepare(player, measurement)]
    network = unlimited_network(player)
    if network is not None and untrained:
        copy = untrained_copy(network.load(), measurement.seed)
        measure = partial(_measure_network, UNTRAINED, copy, measurement, network, None)
        subjects.append(_Subject(measure=measure, simulations=subjects[0].simulations))
    subjects += [_prepare(name, measurement) for name in references]
    work = sum(map(len, measurement.sets)) * sum(subject.simulations for subject in subjects)
    with Bar(total=work, unit="sim", unit_scale=True, disable=None, leave=False) as bar:
        reports = [subject.measure(bar) for subject in subjects]
    return StrengthReport(subjects=reports)


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """Player to measure."""

    measure: Callable[[Bar], SubjectReport]
    simulations: int  # per position; the raw evaluation counts as one


def _prepare(specification: str, measurement: Measurement) -> _Subject:
    """Prepare to measure a checkpoint with every budget, or any other player as it is."""
    network = unlimited_network(specification)
    if network is not None:
        if network.temperature:  # without a limit, the measured moves are the best ones
            raise PlayerError(f"{quote(specification)}: a temperature needs a limit, such as {network.written}@100,...")
        network.check(measurement.geometry)
        digest = player_digest(specification)
        measure = partial(_measure_network, specification, network.load(), measurement, network, digest)
        return _Subject(measure=measure, simulations=sum(budget + 1 for budget in measurement.budgets))
    player = parse_player(
        specification,
        rng=np.random.default_rng(measurement.seed),
        geometry=measurement.geometry,
        compute=measurement.compute,
        batch_size=BATCH,
    )
    simulations = (player.budget.simulations or 1) if isinstance(player, SearchingPlayer) else 1
    measure = partial(_measure_player, specification, player, simulations, measurement)
    return _Subject(measure=measure, simulations=simulations + 1)


def choose_budgets(requested: Sequence[int], default: Sequence[int], players: Sequence[str]) -> list[int]:
    """Return the budgets for checkpoints, ascending: those that are ``requested``, or else the default."""
    if requested and not any(map(unlimited_network, players)):
        names = ", ".join(map(shorten, players))
        raise ValueError(f"simulations apply to a checkpoint without a limit, such as best: leave them out for {names}")
    return sorted(set(requested or default))


def untrained_copy(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """Return an untrained network of the same architecture; its initial weights depend only on the seed."""
    with torch_seed(seed):
        network = PolicyValueNetwork(checkpoint.network.config).eval()
    return Checkpoint(network=network, geometry=checkpoint.geometry)


def _measure_player(name: str, player: Player, simulations: int, measurement: Measurement, bar: Bar) -> SubjectReport:
    bar.set_description(name)
    report, backend = _measure([player], None, measurement, simulations, bar), backends_of([player])
    return SubjectReport(name=name, description=f"by {backend}" if backend else "", budgets=[report])


def _measure_network(
    name: str,
    checkpoint: Checkpoint,
    measurement: Measurement,
    network: NetworkKind,
    digest: str | None,
    bar: Bar,
) -> SubjectReport:
    compute = measurement.compute
    evaluator = compute.evaluator(checkpoint.network, streams=compute.streams)
    reports: list[BudgetReport] = []
    for simulations in measurement.budgets:
        bar.set_description(f"{name}, {count_of(simulations, 'simulation')}")
        searches = [
            compute.search(evaluator, network.selection, geometry=checkpoint.geometry, leaves=network.leaves)
            for _ in range(compute.streams)
        ]
        budget = Budget(simulations=simulations)
        players: list[Player] = [NetworkPlayer("network", evaluator, budget, search=search) for search in searches]
        reports.append(_measure(players, simulations, measurement, simulations, bar))
    config = checkpoint.network.config
    return SubjectReport(
        name=name,
        description=f"{config.channels} channels x {count_of(config.blocks, 'block')}, by {evaluator.backend}",
        budgets=reports,
        network=digest,
    )


def _measure(
    players: Sequence[Player], budget: int | None, measurement: Measurement, simulations: int, bar: Bar
) -> BudgetReport:
    """Collect and judge the answers of copies of one player in all positions."""
    started = time.perf_counter()
    answers = collect_answers(players, measurement.sets, lambda count: bar.update(count * (simulations + 1)))
    seconds = time.perf_counter() - started
    return BudgetReport(simulations=budget, sets=judge_sets(measurement.sets, *answers), seconds=seconds)

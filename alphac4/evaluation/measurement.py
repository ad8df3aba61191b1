"""Measurement of networks and players on sets of positions, for a strength report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from alphac4.arena import PlayerError
from alphac4.arena.kinds import CACHE, NetworkKind, unlimited_network
from alphac4.arena.players import NetworkPlayer, Player, SearchingPlayer, backends_of
from alphac4.arena.registry import parse_player, player_digest
from alphac4.bars import Bar
from alphac4.compute import choose_compute
from alphac4.compute.cores import Compute
from alphac4.evaluation.metrics import BATCH, collect_answers, judge_sets
from alphac4.evaluation.positions import PositionSet
from alphac4.evaluation.report import UNTRAINED, BudgetReport, StrengthReport, SubjectReport
from alphac4.game import Board
from alphac4.game.position import count_of
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork, torch_seed
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.records import quote, shorten

DEFAULT_BUDGETS = (0, 100)  # the packaged sets and an untrained network take less than a minute on two cores


@dataclass(frozen=True, kw_only=True)
class MeasurementPlan:
    """Positions for all subjects of a report, and budgets for its networks."""

    sets: Sequence[PositionSet]
    budgets: Sequence[int] = DEFAULT_BUDGETS  # simulations per position for networks; 0 is the raw policy
    seed: int = 0
    compute: Compute = field(default_factory=choose_compute)

    @property
    def board(self) -> Board:
        """The board of the positions."""
        return self.sets[0].board


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Player to measure."""

    name: str
    make: Callable[[], Sequence[Player]]  # copies, among which the positions are divided
    budgets: Sequence[int | None] = (None,)  # simulations per position, each measured; None is the player's own limit
    size: str = ""  # of its network
    digest: str | None = None  # of its file

    @classmethod
    def of_player(cls, player: Player, budgets: Sequence[int] | None = None, name: str = "") -> Self:
        """Return a player as a subject to measure, with these budgets or its own limit."""
        return cls(name=name or player.name, make=lambda: [player], budgets=budgets or (None,))

    def simulations(self, budget: int | None) -> int:
        """Return the simulations per position, plus one for the raw evaluation."""
        if budget is None:
            (player,) = self.make()
            budget = (player.budget.simulations or 1) if isinstance(player, SearchingPlayer) else 1
        return budget + 1


def measure_strength(
    player: str | Subject,
    measurement: MeasurementPlan,
    references: Sequence[str | Subject] = (),
    *,
    untrained: bool = True,
) -> StrengthReport:
    """Measure a player and the ``references``.

    For a checkpoint without a limit, such as "best", measure also an ``untrained`` network of the same size.
    """
    subjects = [_prepare(each, measurement) for each in (player, *references)]
    network = unlimited_network(player) if isinstance(player, str) else None
    if network is not None and untrained:
        copy = untrained_copy(network.load(), measurement.seed)
        subjects.insert(1, _network_subject(UNTRAINED, network, copy, measurement))
    work = sum(subject.simulations(budget) for subject in subjects for budget in subject.budgets)
    with Bar(total=sum(map(len, measurement.sets)) * work, unit="sim", unit_scale=True, estimate=True) as bar:
        return StrengthReport(subjects=[_measure(subject, measurement, bar) for subject in subjects])


def _prepare(player: str | Subject, measurement: MeasurementPlan) -> Subject:
    """Prepare to measure a checkpoint without a limit with every budget, or any other player as it is."""
    if isinstance(player, Subject):
        return player
    network = unlimited_network(player)
    if network is not None:
        if network.temperature:  # without a limit, the measured moves are the best ones
            raise PlayerError(f"{quote(player)}: a temperature needs a limit, such as {network.written}@100,...")
        network.check(measurement.board)
        return _network_subject(player, network, network.load(), measurement, player_digest(player))
    made = parse_player(
        player,
        rng=np.random.default_rng(measurement.seed),
        board=measurement.board,
        compute=measurement.compute,
        batch_size=BATCH,
    )
    return Subject.of_player(made, name=player)


def _network_subject(
    name: str, kind: NetworkKind, checkpoint: Checkpoint, measurement: MeasurementPlan, digest: str | None = None
) -> Subject:
    compute, config = measurement.compute, checkpoint.network.config
    evaluator = compute.evaluator(checkpoint.network, callers=compute.callers)

    def make() -> Sequence[Player]:
        searches = [
            compute.search(evaluator, kind.selection, board=checkpoint.board, cache=CACHE, **kind.search_options)
            for _ in range(compute.callers)
        ]
        return [NetworkPlayer("network", search, Budget(simulations=0)) for search in searches]

    size = f"{config.channels} channels x {count_of(config.blocks, 'block')}"
    return Subject(name=name, make=make, budgets=measurement.budgets, size=size, digest=digest)


def choose_budgets(requested: Sequence[int], players: Sequence[str]) -> list[int]:
    """Return the budgets for networks, ascending: those that are ``requested``, or else the default ones."""
    if requested and players and not any(map(unlimited_network, players)):
        names = ", ".join(map(shorten, players))
        raise ValueError(f"simulations apply to a checkpoint without a limit, such as best: leave them out for {names}")
    return sorted(set(requested or DEFAULT_BUDGETS))


def untrained_copy(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """Return an untrained network of the same architecture, with initial weights from the seed."""
    with torch_seed(seed):
        network = PolicyValueNetwork(checkpoint.network.config).eval()
    return Checkpoint(network=network, board=checkpoint.board)


def _measure(subject: Subject, measurement: MeasurementPlan, bar: Bar) -> SubjectReport:
    budgets = [_measure_budget(subject, budget, measurement, bar) for budget in subject.budgets]
    backend = f"by {backends}" if (backends := backends_of(subject.make())) else ""
    description = ", ".join(filter(None, [subject.size, backend]))
    return SubjectReport(name=subject.name, description=description, budgets=budgets, network_sha256=subject.digest)


def _measure_budget(subject: Subject, budget: int | None, measurement: MeasurementPlan, bar: Bar) -> BudgetReport:
    """Collect and judge the answers in all positions."""
    bar.set_description(subject.name if budget is None else f"{subject.name}, {count_of(budget, 'simulation')}")
    players, simulations = subject.make(), subject.simulations(budget)
    started = time.perf_counter()
    answers = collect_answers(
        players,
        measurement.sets,
        lambda count: bar.update(count * simulations),
        budget=None if budget is None else Budget(simulations=budget),
    )
    seconds = time.perf_counter() - started
    return BudgetReport(simulations=budget, sets=judge_sets(measurement.sets, *answers), seconds=seconds)

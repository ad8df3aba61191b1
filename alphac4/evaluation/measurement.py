"""Measures one network or player on sets of positions for a strength report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from alphac4.arena.players import Player, PlayerError
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
        subjects.append(partial(measure_network, UNTRAINED, beginner, measurement, network.options))
    subjects += [prepare(name, measurement) for name in references]
    return StrengthReport(sets=summarise_sets(measurement.sets), subjects=[measure() for measure in subjects])


def prepare(specification: str, measurement: Measurement) -> Callable[[], SubjectReport]:
    """A function that measures a checkpoint with every budget, or any other player as it is.

    Raises:
        PlayerError: for an unknown player, or one for another board, before anything has taken time.
    """
    network = _unlimited_network(specification)
    if network is not None:
        if network.options.temperature:  # the raw network and the searches are measured by their best moves
            raise PlayerError(f"{specification!r}: a temperature needs a limit, such as {network.written}@100,...")
        network.check(measurement.geometry)
        digest = network_digest(specification)
        return partial(measure_network, specification, network.load(), measurement, network.options, digest)
    player = parse_player(
        specification,
        rng=np.random.default_rng(measurement.seed),
        geometry=measurement.geometry,
        compute=measurement.compute,
        batch_size=BATCH,
    )
    return partial(_measure_player, specification, player, measurement)


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


def _measure_player(name: str, player: Player, measurement: Measurement) -> SubjectReport:
    started = time.perf_counter()
    players = [player]
    if measurement.pool is not None:
        backend = measurement.compute.backends.evaluators
        recipe = SpecifiedPlayer(specification=name, geometry=measurement.geometry, backend=backend)
        players = pool_players(measurement.pool, recipe, player, measurement.seed)
    with _bar(name, measurement) as bar:
        answers = ask_players(players, measurement.sets, on_batch=bar.update)
    report = budget_report(measurement.sets, answers, None, time.perf_counter() - started)
    return SubjectReport(name=name, description="", budgets=[report])


def measure_network(
    name: str, checkpoint: Checkpoint, measurement: Measurement, options: NetworkOptions, digest: str | None = None
) -> SubjectReport:
    """Measure a network with every budget."""
    compute = measurement.compute
    evaluator = compute.evaluator(checkpoint.network, streams=compute.streams)
    reports: list[BudgetReport] = []
    for simulations in measurement.budgets:
        started = time.perf_counter()
        with _bar(f"{name}, {simulations or 'no'} simulations", measurement) as bar:
            players: Sequence[Player] = network_players(compute, evaluator, simulations, measurement.geometry, options)
            if measurement.pool is not None:
                recipe = SpecifiedPlayer(
                    specification=f"network.safetensors@{simulations}{describe_options(options)}",
                    geometry=checkpoint.geometry,
                    backend=evaluator.backend,
                    reuse="nothing",
                )
                players = pool_players(measurement.pool, recipe, players[0], network=pack_checkpoint(checkpoint))
            answers = ask_players(players, measurement.sets, on_batch=bar.update)
        reports.append(budget_report(measurement.sets, answers, simulations, time.perf_counter() - started))
    config = checkpoint.network.config
    return SubjectReport(
        name=name,
        description=f"{config.channels} channels x {config.blocks} blocks, by {evaluator.backend}",
        budgets=reports,
        network=digest,
    )


def _bar(label: str, measurement: Measurement) -> Any:
    return tqdm(total=sum(map(len, measurement.sets)), desc=label, unit="pos", disable=None, leave=False)

"""Measures one network or player on everything that a strength report tells."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from alphac4.arena.networks import find_network
from alphac4.arena.players import NetworkPlayer, Player, PlayerError
from alphac4.arena.solver_player import SolverPlayer
from alphac4.arena.specifications import describe, parse_player
from alphac4.checkpoint import Checkpoint
from alphac4.compute import Compute, choose
from alphac4.evaluation.answers import BATCH, ask_network, ask_player
from alphac4.evaluation.games import PerfectMatchReport, play_perfect, standard_starts
from alphac4.evaluation.positions import PositionSet
from alphac4.evaluation.report import SubjectReport, budget_report
from alphac4.game import Geometry
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What is measured, the same for every subject of a report."""

    sets: Sequence[PositionSet]
    budgets: Sequence[int]  # simulations a position of networks; 0 is the raw network
    games: int = 0  # against the perfect player
    games_simulations: int = 100  # of networks a move in them
    seed: int = 0
    compute: Compute = field(default_factory=choose)

    @property
    def geometry(self) -> Geometry:
        """The board."""
        return self.sets[0].geometry


def prepare(specification: str, measurement: Measurement) -> Callable[[], SubjectReport]:
    """What measures a checkpoint with every budget, or any other player as it is.

    Whatever is wrong with the player is told here, before anything has taken time.

    Raises:
        PlayerError: for an unknown player, or one for another board.
    """
    checkpoint = as_checkpoint(specification)
    if checkpoint is not None:
        return prepare_network(specification, checkpoint, measurement)
    player = parse_player(
        specification,
        rng=np.random.default_rng(measurement.seed),
        geometry=measurement.geometry,
        compute=measurement.compute,
        batch_size=BATCH,
    )
    return partial(_measure_player, specification, player, measurement)


def prepare_network(name: str, checkpoint: Checkpoint, measurement: Measurement) -> Callable[[], SubjectReport]:
    """What measures a network with every budget.

    Raises:
        PlayerError: if it plays on another board.
    """
    if checkpoint.geometry != measurement.geometry:
        raise PlayerError(
            f"{name}: plays on {describe(checkpoint.geometry)}, not on {describe(measurement.geometry)}; "
            "--positions takes files of its own board"
        )
    return partial(_measure_network, name, checkpoint, measurement)


def as_checkpoint(specification: str) -> Checkpoint | None:
    """The checkpoint that a specification without a budget of its own names; None for any other player."""
    network = find_network(specification)
    return network.load() if network is not None and network.written == specification else None


def untrained(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """A network of the same architecture that has learned nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = PolicyValueNetwork(checkpoint.network.config).eval()
    return Checkpoint(network=network, geometry=checkpoint.geometry)


def _measure_player(name: str, player: Player, measurement: Measurement) -> SubjectReport:
    started = time.perf_counter()
    with _bar(name, measurement) as bar:
        answers = ask_player(player, measurement.sets, bar.update)
    report = budget_report(measurement.sets, answers, None, time.perf_counter() - started)
    return SubjectReport(name=name, description="", budgets=[report], games=_games(player, None, measurement))


def _measure_network(name: str, checkpoint: Checkpoint, measurement: Measurement) -> SubjectReport:
    compute = measurement.compute
    evaluator = compute.evaluator(checkpoint.network, batch_size=compute.batch, streams=compute.streams)
    rng = np.random.default_rng(measurement.seed)
    searches = [compute.search(evaluator, geometry=measurement.geometry, rng=rng) for _ in range(compute.streams)]
    reports = []
    for simulations in measurement.budgets:
        started = time.perf_counter()
        with _bar(f"{name}, {simulations or 'no'} simulations", measurement) as bar:
            answers = ask_network(
                evaluator, measurement.sets, simulations, searches, batch=compute.batch, on_batch=bar.update
            )
        reports.append(budget_report(measurement.sets, answers, simulations, time.perf_counter() - started))
    budget = Budget(simulations=measurement.games_simulations)
    search = compute.search(evaluator, geometry=measurement.geometry, rng=rng, reuse="proofs")
    player = NetworkPlayer(name, evaluator, budget, rng, measurement.geometry, search=search)
    config = checkpoint.network.config
    return SubjectReport(
        name=name,
        description=f"{config.channels} channels x {config.blocks} blocks, by {compute.inference}",
        budgets=reports,
        games=_games(player, measurement.games_simulations, measurement),
    )


def _games(player: Player, simulations: int | None, measurement: Measurement) -> PerfectMatchReport | None:
    if not measurement.games:
        return None
    perfect = SolverPlayer(np.random.default_rng([measurement.seed, 1]), measurement.geometry)
    starts = standard_starts(measurement.games, perfect, measurement.geometry)
    with tqdm(total=len(starts), desc=f"{player.name} v. solver", unit="game", disable=None, leave=False) as bar:
        games = play_perfect(player, perfect, starts, on_game_over=bar.update)
    return PerfectMatchReport(simulations=simulations, games=games)


def _bar(label: str, measurement: Measurement) -> Any:
    return tqdm(total=sum(map(len, measurement.sets)), desc=label, unit="pos", disable=None, leave=False)

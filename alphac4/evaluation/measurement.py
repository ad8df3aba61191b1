"""Measures one network or player for everything in a strength report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from alphac4.arena.alpha_beta import SolverPlayer
from alphac4.arena.network_files import NetworkFile, pool_players
from alphac4.arena.players import NetworkPlayer, Player, PlayerError
from alphac4.arena.specifications import (
    NamedNetwork,
    common_geometry,
    describe,
    find_network,
    network_digest,
    parse_player,
)
from alphac4.compute import Compute, NetworkEvaluator, Pool, choose
from alphac4.evaluation.answers import BATCH, Answers, ask_network, ask_players
from alphac4.evaluation.games import PerfectMatchReport, play_perfect, standard_starts
from alphac4.evaluation.positions import SETS, PositionSet, load_positions, packaged_positions
from alphac4.evaluation.report import ALL, UNTRAINED, StrengthReport, SubjectReport, budget_report, summarise_sets
from alphac4.game import Geometry
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.checkpoints import Checkpoint, pack_checkpoint


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What is measured, the same for every subject of a report."""

    sets: Sequence[PositionSet]
    budgets: Sequence[int]  # simulations a position of networks; 0 is the raw network
    games: int = 0  # against the perfect player
    games_simulations: int = 100  # of networks a move in them
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
        subjects.append(prepare_network(UNTRAINED, beginner, measurement, network.options.config))
    subjects += [prepare(name, measurement) for name in references]
    return StrengthReport(sets=summarise_sets(measurement.sets), subjects=[measure() for measure in subjects])


def choose_sets(player: str, files: Sequence[Path] = (), count: int | None = None) -> Sequence[PositionSet]:
    """The package's six sets of positions, or those of some files for a player's board.

    Raises:
        ValueError: in one line, for a file that holds no positions, or two of one name.
    """
    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    if not files:
        return packaged_positions(count)
    geometry = common_geometry((player,))
    sets = [load_positions(path, geometry) for path in files]
    names = [part.name for part in sets]
    if len({*names, ALL}) <= len(names):
        raise ValueError(f"the files of positions need different names, none of them {ALL!r}, not {', '.join(names)}")
    sets.sort(key=lambda part: SETS.index(part.name) if part.name in SETS else len(SETS))
    return [part.head(count or len(part)) for part in sets]


def prepare(specification: str, measurement: Measurement) -> Callable[[], SubjectReport]:
    """What measures a checkpoint with every budget, or any other player as it is.

    Whatever is wrong with the player is reported here, before anything has taken time.

    Raises:
        PlayerError: for an unknown player, or one for another board.
    """
    network = _unlimited_network(specification)
    if network is not None:
        if network.options.temperature:  # the raw network and the searches are measured by their best moves
            raise PlayerError(f"{specification!r}: a temperature needs a limit, such as {network.written}@100,...")
        measure = prepare_network(specification, network.load(), measurement, network.options.config)
        digest = network_digest(specification)
        return lambda: replace(measure(), network=digest)
    player = parse_player(
        specification,
        rng=np.random.default_rng(measurement.seed),
        geometry=measurement.geometry,
        compute=measurement.compute,
        batch_size=BATCH,
    )
    return partial(_measure_player, specification, player, measurement)


def prepare_network(
    name: str, checkpoint: Checkpoint, measurement: Measurement, puct: PuctConfig | None = None
) -> Callable[[], SubjectReport]:
    """What measures a network with every budget.

    Raises:
        PlayerError: if it plays on another board.
    """
    if checkpoint.geometry != measurement.geometry:
        raise PlayerError(
            f"{name}: plays on {describe(checkpoint.geometry)}, not on {describe(measurement.geometry)}; "
            "--positions takes files of its own board"
        )
    return partial(_measure_network, name, checkpoint, measurement, puct)


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
        players = pool_players(
            measurement.pool,
            name,
            player,
            geometry=measurement.geometry,
            seed=measurement.seed,
            backend=measurement.compute.backends.evaluators,
            batch_size=BATCH,
        )
    with _bar(name, measurement) as bar:
        answers = ask_players(players, measurement.sets, on_batch=bar.update)
    report = budget_report(measurement.sets, answers, None, time.perf_counter() - started)
    return SubjectReport(name=name, description="", budgets=[report], games=_games(player, None, measurement))


def _measure_network(
    name: str, checkpoint: Checkpoint, measurement: Measurement, puct: PuctConfig | None
) -> SubjectReport:
    compute = measurement.compute
    evaluator = compute.evaluator(checkpoint.network, batch_size=compute.batch, streams=compute.streams)
    rng = np.random.default_rng(measurement.seed)
    if measurement.pool is None:
        make_search = partial(compute.search, evaluator, puct, geometry=measurement.geometry, rng=rng)
        ask = partial(
            ask_network, evaluator, searches=[make_search() for _ in range(compute.streams)], batch=compute.batch
        )
    else:
        ask = partial(_ask_network_in_pool, measurement.pool, checkpoint, evaluator, puct)
    reports = []
    for simulations in measurement.budgets:
        started = time.perf_counter()
        with _bar(f"{name}, {simulations or 'no'} simulations", measurement) as bar:
            answers = ask(sets=measurement.sets, simulations=simulations, on_batch=bar.update)
        reports.append(budget_report(measurement.sets, answers, simulations, time.perf_counter() - started))
    budget = Budget(simulations=measurement.games_simulations)
    search = compute.search(evaluator, puct, geometry=measurement.geometry, rng=rng, reuse="proofs")
    player = NetworkPlayer(name, evaluator, budget, search=search)
    config = checkpoint.network.config
    return SubjectReport(
        name=name,
        description=f"{config.channels} channels x {config.blocks} blocks, by {compute.inference}",
        budgets=reports,
        games=_games(player, measurement.games_simulations, measurement),
    )


def _ask_network_in_pool(
    pool: Pool,
    checkpoint: Checkpoint,
    evaluator: NetworkEvaluator,
    puct: PuctConfig | None,
    *,
    sets: Sequence[PositionSet],
    simulations: int,
    on_batch: Callable[[int], object],
) -> Answers:
    """What `ask_network` answers, from the processes of a pool."""
    network = NetworkFile(written="network", suffix=".safetensors", content=pack_checkpoint(checkpoint))
    geometry = sets[0].geometry
    model = NetworkPlayer("network", evaluator, Budget(simulations=simulations), None, geometry, puct, reuse="nothing")
    players = pool_players(
        pool,
        f"{network.written}@{simulations}",
        model,
        geometry=geometry,
        backend=evaluator.backend,
        batch_size=BATCH,
        reuse="nothing",
        puct=puct,
        network=network,
    )
    return ask_players(players, sets, on_batch=on_batch)


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

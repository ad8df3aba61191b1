"""Measures one network or player for a strength report: on sets of positions, and in games against perfect play."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from alphac4.arena.alpha_beta import SolverPlayer
from alphac4.arena.match import play_games
from alphac4.arena.network_files import NetworkFile, SpecifiedPlayer, pool_players
from alphac4.arena.players import NetworkPlayer, Player, PlayerError
from alphac4.arena.specifications import (
    NamedNetwork,
    NetworkOptions,
    describe_options,
    find_network,
    network_digest,
    parse_player,
)
from alphac4.compute import Compute, NetworkEvaluator, Pool, choose
from alphac4.evaluation.answers import BATCH, Answers, Ask, ask_players, make_asker
from alphac4.evaluation.positions import PositionSet
from alphac4.evaluation.report import (
    UNTRAINED,
    PerfectGame,
    PerfectMatchReport,
    Slip,
    StrengthReport,
    SubjectReport,
    budget_report,
    summarise_sets,
)
from alphac4.game import Geometry, Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.checkpoints import Checkpoint, pack_checkpoint


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Sets, budgets and games to measure, the same for every subject of a report."""

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
        subjects.append(partial(_measure_network, UNTRAINED, beginner, measurement, network.options.config))
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
        return partial(_measure_network, specification, network.load(), measurement, network.options.config, digest)
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
    return SubjectReport(name=name, description="", budgets=[report], games=_games(player, None, measurement))


def _measure_network(
    name: str, checkpoint: Checkpoint, measurement: Measurement, puct: PuctConfig, digest: str | None = None
) -> SubjectReport:
    compute = measurement.compute
    evaluator = compute.evaluator(checkpoint.network, batch_size=compute.batch, streams=compute.streams)
    ask: Ask
    if measurement.pool is None:
        ask = make_asker(compute, evaluator, measurement.geometry, puct)
    else:
        ask = partial(_ask_network_in_pool, measurement.pool, checkpoint, evaluator, puct)
    reports = []
    for simulations in measurement.budgets:
        started = time.perf_counter()
        with _bar(f"{name}, {simulations or 'no'} simulations", measurement) as bar:
            answers = ask(measurement.sets, simulations, on_batch=bar.update)
        reports.append(budget_report(measurement.sets, answers, simulations, time.perf_counter() - started))
    budget = Budget(simulations=measurement.games_simulations)
    search = compute.search(evaluator, puct, geometry=measurement.geometry, reuse="proofs")
    player = NetworkPlayer(name, evaluator, budget, search=search)
    config = checkpoint.network.config
    return SubjectReport(
        name=name,
        description=f"{config.channels} channels x {config.blocks} blocks, by {compute.inference}",
        budgets=reports,
        games=_games(player, measurement.games_simulations, measurement),
        network=digest,
    )


def _ask_network_in_pool(
    pool: Pool,
    checkpoint: Checkpoint,
    evaluator: NetworkEvaluator,
    puct: PuctConfig,
    sets: Sequence[PositionSet],
    simulations: int,
    *,
    on_batch: Callable[[int], object],
) -> Answers:
    """See `Ask`; the answers come from the processes of a pool."""
    network = NetworkFile(written="network.safetensors", suffix=".safetensors", content=pack_checkpoint(checkpoint))
    geometry = sets[0].geometry
    search = NetworkSearch(evaluator, puct, geometry=geometry)
    model = NetworkPlayer("network", evaluator, Budget(simulations=simulations), search=search)
    options = describe_options(NetworkOptions(**vars(puct)))
    player = SpecifiedPlayer(
        specification=f"{network.written}@{simulations}{options}",
        geometry=geometry,
        backend=evaluator.backend,
        reuse="nothing",
    )
    return ask_players(pool_players(pool, player, model, network=network), sets, on_batch=on_batch)


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


def standard_starts(count: int, perfect: SolverPlayer, geometry: Geometry) -> list[tuple[Position, bool]]:
    """``count`` starts, each with whether our side has the first move of the game; half of them of each kind.

    With the first move we begin at the empty board. Without it that would be lost from the start on the standard
    board, and nothing could slip: the first stone is given, in turn each that leaves us a draw or a win.
    """
    empty = Position(geometry=geometry)
    given = [empty.play(column) for column in empty.legal_columns()]
    open_games = [start for start in given if _outcome(perfect, start, first=False) >= 0] or given
    return [(open_games[i // 2 % len(open_games)], False) if i % 2 else (empty, True) for i in range(count)]


def play_perfect(
    player: Player,
    perfect: SolverPlayer,
    starts: Sequence[tuple[Position, bool]],
    *,
    on_game_over: Callable[[], object] = lambda: None,
) -> list[PerfectGame]:
    """Play games from unfinished ``starts``, each with whether our side moves first in the game."""
    turns = [(start, start.first_to_move == first) for start, first in starts]
    ends = play_games(player, perfect, turns, on_game_over=on_game_over)
    return [_judge(end.moves or "", start, perfect, first) for end, (start, first) in zip(ends, starts, strict=True)]


def _judge(moves: str, start: Position, perfect: SolverPlayer, first: bool) -> PerfectGame:
    """Our slips in a game: the moves after which our outcome with best play is worse than before."""
    position = start
    outcome = _outcome(perfect, start, first)
    slips = []
    for name in moves[start.plies :]:
        ours = position.first_to_move == first
        position = position.play(COLUMN_NAMES.index(name))
        if not ours:  # the solver keeps the outcome; asking again would cost a search
            continue
        after = _outcome(perfect, position, first)
        if after < outcome:
            slips.append(Slip(ply=position.plies, before=outcome, after=after))
        outcome = after
    return PerfectGame(moves=moves, first=first, outcome=_outcome(perfect, position, first), slips=slips)


def _outcome(perfect: SolverPlayer, position: Position, first: bool) -> int:
    """1 win, 0 draw, -1 loss with best play for one of the colours."""
    value = perfect.outcome(position)
    return value if position.first_to_move == first else -value

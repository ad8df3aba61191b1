"""`alphac4 arena`: matches between any players."""

import dataclasses
import json
import logging
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from alphac4.arena.ratings import MAX_ELO, elo_interval
from alphac4.arena.specifications import (
    common_geometry,
    describe,
    find_network,
    parse_player,
)
from alphac4.arena.tournament import (
    FORMAT,
    PART,
    Results,
    Tournament,
    TournamentRecord,
    crosstable,
    digests,
    play_round_robin,
    rate_players,
    short_names,
)
from alphac4.commands.arguments import Board, BoardOptions, Cluster, device_with, pool_or_none, read_arguments
from alphac4.compute import Compute, choose
from alphac4.machine import cores
from alphac4.storage.journal import read_about
from alphac4.storage.locks import own_file
from alphac4.storage.records import MOST_SEED, check_ranges

MAX_GAMES = 1_000_000  # in a pairing
MAX_PROCESSES = 1024


@dataclass(frozen=True, kw_only=True)
class ArenaOptions:
    """What to play and how."""

    players: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Two players or more; with one, the shipped network is its opponent."""
    games: int = 100
    """Games in each pairing, an even number; with --sprt, the most there may be."""
    seed: int = 0
    """Seed of openings and players; games between players limited by time still differ from run to run."""
    output: Path | None = None
    """A file of JSON lines for results and games; if it holds some of this tournament already, it goes on."""
    processes: int | None = None
    """Processes that play; by default one a core, or a single one where the trees are on a GPU."""
    sprt: tuple[float, float] | None = None
    """ELO0 ELO1: end each pairing once a sequential test tells whether the first is ELO1 or only ELO0 stronger."""
    board: Board = field(default_factory=BoardOptions)
    """The board."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here."""
    cluster: Cluster = None
    json: bool = False
    """Print the result as JSON instead of a table."""

    def __post_init__(self) -> None:
        check_ranges(
            self, games=(2, MAX_GAMES), seed=(0, MOST_SEED), processes=(1, MAX_PROCESSES), sprt=(-MAX_ELO, MAX_ELO)
        )


DESCRIPTION = """\
Play a round robin and rate the players.

Games are colour-swapped pairs from a common set of openings. Checkpoints decide the board.
`alphac4 players` lists the players."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    options = read_arguments(ArenaOptions, arguments, "arena", description=DESCRIPTION)
    if len(options.players) == 1:
        options = dataclasses.replace(options, players=("best", *options.players))
    return run(options)


def run(options: ArenaOptions) -> int:
    """Play what is not recorded yet; print the crosstable, and each pairing's score with its interval."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _check(options)
    with own_file(options.output):
        tournament, results = _play(options)
    print(_as_json(tournament, results) if options.json else _as_text(tournament, results))
    return 0


def _play(options: ArenaOptions) -> tuple[Tournament, Results]:
    """The tournament, and what was and is now recorded of it."""
    geometry = common_geometry(options.players, options.board.geometry())
    compute, backend, processes = _compute(options)
    settings: dict[str, Any] = {
        "players": options.players,
        "checkpoints": digests(options.players),
        "games": options.games,
        "seed": options.seed,
        "sprt": options.sprt,
        "board": describe(geometry),
        "backend": backend,
    }
    tournament = Tournament(
        players=options.players,
        pairs=options.games // 2,
        seed=options.seed,
        sprt=options.sprt,
        geometry=geometry,
        backend=settings["backend"],
        device=options.device,
    )
    for name in options.players:  # a bad specification should be reported before hours of games, not after
        parse_player(name, rng=np.random.default_rng(0), geometry=geometry, compute=compute)
    record = TournamentRecord(options.output, settings)
    with pool_or_none(options.cluster) as pool:
        return tournament, play_round_robin(tournament, record, processes=processes, pool=pool)


def _check(options: ArenaOptions) -> None:
    if len(options.players) < 2 or len(set(options.players)) < len(options.players):
        raise ValueError("an arena needs two different players or more")
    if options.games < 2 or options.games % 2:
        raise ValueError(
            f"--games must be an even number, not {options.games}: every opening is played with both colours"
        )
    if options.cluster is not None and options.processes is not None:
        raise ValueError("--processes are those of this machine; on a cluster there is one a core")
    if options.sprt is not None and options.sprt[0] >= options.sprt[1]:
        raise ValueError(f"--sprt needs ELO0 below ELO1, not {options.sprt[0]:g} and {options.sprt[1]:g}")


def _compute(options: ArenaOptions) -> tuple[Compute, str, int]:
    """The place where all networks run, their backend, and the number of processes.

    The backend is the one asked for, else the one recorded, else the fastest for the first network. It is chosen
    once, as results of two backends differ in their last digits, and so games may.
    """
    backend = options.backend
    recorded = read_about(options.output, FORMAT) if options.output is not None else None
    if backend == "auto" and recorded is not None:
        backend = str(recorded.get("backend", backend))
    device = device_with(options.cluster, options.device)
    processes = options.processes or choose(device, backend).streams
    compute = choose(device, backend, threads=max(1, cores() // processes))
    found = [network for network in map(find_network, options.players) if network is not None]
    networks = [network for network in found if not network.is_onnx]
    if networks:
        compute.evaluator(networks[0].load().network, batch_size=2 * PART)
        backend = compute.backends.evaluators
    return compute, backend, processes


def _as_text(tournament: Tournament, results: Results) -> str:
    """The crosstable, and a line for each pairing."""
    anchor, short = tournament.players[-1], short_names(tournament.players)
    lines = [
        crosstable(results, rate_players(results, anchor)),
        f"Elo by maximum likelihood, {short[anchor]} = 0, with 95 % intervals; scores in per cent.",
        "",
    ]
    for (first, second), result in results.items():
        elo = elo_interval(result.interval)
        test = tournament.test(result)
        lines.append(
            f"{short[first]} v. {short[second]}: {result}, "
            f"Elo {elo.value:+.0f} [{elo.low:+.0f}, {elo.high:+.0f}]" + (f"; {test}" if test else "")
        )
    return "\n".join(lines)


def _as_json(tournament: Tournament, results: Results) -> str:
    """Pairings and ratings; an infinite Elo, from a score of 0 or 1, is written as null."""
    ratings = rate_players(results, tournament.players[-1])
    pairings: list[dict[str, Any]] = []
    for pairing, result in results.items():
        score, test = result.interval, tournament.test(result)
        elo = elo_interval(score)
        pairings.append(
            {
                "players": pairing,
                **{name: getattr(result, name) for name in ("wins", "draws", "losses", "score")},
                "interval": [score.low, score.high],
                "elo": _finite(elo.value),
                "elo_interval": [_finite(elo.low), _finite(elo.high)],
                **({"sprt": dataclasses.asdict(test)} if test else {}),
            }
        )
    rated = {name: {"elo": rating.elo, "error": rating.error} for name, rating in ratings.items()}
    return json.dumps({"pairings": pairings, "ratings": rated}, indent=2)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

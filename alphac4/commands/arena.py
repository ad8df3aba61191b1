"""`alphac4 arena`: matches between any players."""

import dataclasses
import json
import math
from typing import Any

import numpy as np

from alphac4.arena.ratings import elo_interval
from alphac4.arena.specifications import (
    common_geometry,
    find_network,
    parse_player,
)
from alphac4.arena.tournament import (
    FORMAT,
    PART,
    Results,
    Tournament,
    crosstable,
    play_round_robin,
    rate_players,
    short_names,
)
from alphac4.commands.arguments import device_with, pool_or_none
from alphac4.commands.options.judge import ArenaOptions
from alphac4.compute import Compute, choose
from alphac4.machine import cores
from alphac4.storage.journal import read_about
from alphac4.storage.locks import own_file


def run(options: ArenaOptions) -> int:
    """Play what is not recorded yet; print the crosstable, and each pairing's score with its interval."""
    if len(options.players) == 1:
        options = dataclasses.replace(options, players=("best", *options.players))
    _check(options)
    with own_file(options.output):
        tournament, results = _play(options)
    print(_as_json(tournament, results) if options.json else _as_text(tournament, results))
    return 0


def _play(options: ArenaOptions) -> tuple[Tournament, Results]:
    """The tournament, and what was and is now recorded of it."""
    geometry = common_geometry(options.players, options.board.geometry())
    compute, backend, processes = _compute(options)
    tournament = Tournament(
        players=options.players,
        pairs=options.games // 2,
        seed=options.seed,
        sprt=options.sprt,
        geometry=geometry,
        backend=backend,
        device=options.device,
    )
    for name in options.players:  # a bad specification should be reported before hours of games, not after
        parse_player(name, rng=np.random.default_rng(0), geometry=geometry, compute=compute)
    with pool_or_none(options.cluster) as pool:
        return tournament, play_round_robin(tournament, options.output, processes=processes, pool=pool)


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

"""`alphac4 arena`: matches between any players."""

import contextlib
import dataclasses
import json
import math
import sys
from typing import Any

import numpy as np

from alphac4.arena.ratings import elo_interval
from alphac4.arena.specifications import common_geometry, find_network, parse_player
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
from alphac4.commands.options import ArenaOptions
from alphac4.machine import cores, wrapped
from alphac4.storage.locks import own_file


def run(options: ArenaOptions) -> int:
    """Play what is not recorded yet; print the crosstable, and each pairing's score with its interval."""
    players = options.players if len(options.players) > 1 else ("best", *options.players)
    if len(players) < 2 or len(set(players)) < len(players):
        raise ValueError("an arena needs two different players or more")
    with own_file(options.output), contextlib.redirect_stdout(sys.stderr):  # players of the user's own may print
        tournament, results = _play(options, players)
    print(_as_json(tournament, results) if options.json else _as_text(tournament, results))
    return 0


def _play(options: ArenaOptions, players: tuple[str, ...]) -> tuple[Tournament, Results]:
    """The tournament, and what was and is now recorded of it."""
    geometry = common_geometry(players, options.board.geometry())
    place = options.place.of_record(options.output, FORMAT)
    processes = options.processes or place.compute().streams
    compute = place.compute(threads=max(1, cores() // processes))
    networks = [network for network in map(find_network, players) if network is not None and not network.is_onnx]
    if networks:  # chooses the fastest backend for all, once: games of two backends may differ
        compute.evaluator(networks[0].load().network, batch_size=2 * PART)
    tournament = Tournament(
        players=players,
        pairs=options.games // 2,
        seed=options.seed,
        sprt=options.sprt,
        geometry=geometry,
        backend=compute.backend if networks else place.backend,
        device=place.device,
    )
    for name in players:  # a bad specification should be reported before hours of games, not after
        parse_player(name, rng=np.random.default_rng(0), geometry=geometry, compute=compute)
    with place.pool() as pool:
        return tournament, play_round_robin(tournament, options.output, processes=processes, pool=pool)


def _as_text(tournament: Tournament, results: Results) -> str:
    """The crosstable, and a line for each pairing."""
    anchor, short = tournament.players[-1], short_names(tournament.players)
    lines = [
        crosstable(results, rate_players(results, anchor)),
        f"Elo by maximum likelihood, {short[anchor]} = 0, with 95 % intervals; scores in per cent.",
        "",
    ]
    if tournament.sprt:
        lines[-1:] = ["Scores and Elo of pairings that the sequential test ended early exaggerate the difference.", ""]
    for (first, second), result in results.items():
        elo = elo_interval(result.interval)
        test = tournament.test(result)
        line = (
            f"{short[first]} v. {short[second]}: {result}, "
            f"Elo {elo.value:+.0f} [{elo.low:+.0f}, {elo.high:+.0f}]" + (f"; {test}" if test else "")
        )
        lines.append(wrapped(line, sys.stdout))
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

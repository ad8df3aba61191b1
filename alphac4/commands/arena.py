"""`alphac4 arena`: matches between any players."""

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from alphac4.arena.openings import balanced_openings
from alphac4.arena.players import SPECIFICATIONS, parse_player
from alphac4.arena.tournament import crosstable, play_round_robin, rate


@dataclass(frozen=True, kw_only=True)
class ArenaOptions:
    """Play a round robin and rate the players.

    Games are colour-swapped pairs from a common set of openings. Players are written::

    {specifications}
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Two players or more."""
    games: int = 100
    """Games in each pairing, an even number."""
    seed: int = 0
    """Fixes openings and players."""
    output: Path | None = None
    """A file of JSON lines for results and games; if it holds some already, the tournament goes on."""
    json: bool = False
    """Print the result as JSON instead of a table."""


ArenaOptions.__doc__ = (ArenaOptions.__doc__ or "").format(specifications=SPECIFICATIONS)


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(tyro.cli(ArenaOptions, args=arguments, prog="alphac4 arena"))


def run(options: ArenaOptions) -> int:
    """Play and print the crosstable; for two players also the score with its interval."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    if len(options.players) < 2 or len(set(options.players)) < len(options.players):
        raise ValueError("an arena needs two different players or more")
    if options.games < 2 or options.games % 2:
        raise ValueError(
            f"games must be an even number, not {options.games}: every opening is played with both colours"
        )
    makers = {name: partial(parse_player, name, seed=options.seed) for name in options.players}
    for make in makers.values():
        make()  # a bad specification should be told before hours of games, not after
    openings = balanced_openings(options.games // 2, np.random.default_rng([options.seed, 1]))
    settings = {"players": list(options.players), "games": options.games, "seed": options.seed}
    results = play_round_robin(makers, openings, options.output, settings)
    ratings = rate(results, anchor=options.players[-1])
    if options.json:
        pairings = [
            {"players": pair, "wins": r.wins, "draws": r.draws, "losses": r.losses, "score": r.score}
            | {"low": r.interval.low, "high": r.interval.high}
            for pair, r in results.items()
        ]
        rated = {name: {"elo": rating.elo, "error": rating.error} for name, rating in ratings.items()}
        print(json.dumps({"pairings": pairings, "ratings": rated}, indent=2))
        return 0
    print(crosstable(results, ratings))
    print(f"Elo by maximum likelihood, {options.players[-1]} = 0, 95 % intervals; scores in per cent.")
    for (first, second), result in results.items():
        interval = result.interval
        print(
            f"{first} v. {second}: {result.wins} won, {result.draws} drawn, {result.losses} lost, "
            f"score {interval.value:.1%} [{interval.low:.1%}, {interval.high:.1%}]"
        )
    return 0

"""`alphac4 arena`: matches between any players."""

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from alphac4.arena.ratings import elo_interval
from alphac4.arena.record import TournamentRecord, digests, read_settings
from alphac4.arena.specifications import (
    SPECIFICATIONS,
    common_geometry,
    describe,
    load_player_checkpoint,
    parse_player,
    split_checkpoint,
)
from alphac4.arena.tournament import Results, Tournament, crosstable, play_round_robin, rate, short_names
from alphac4.nn.evaluator import Evaluator, cores


@dataclass(frozen=True, kw_only=True)
class ArenaOptions:
    """Play a round robin and rate the players.

    Games are colour-swapped pairs from a common set of openings. Checkpoints decide the board. Players are written::

    {specifications}
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Two players or more."""
    games: int = 100
    """Games in each pairing, an even number; with --sprt, the most there may be."""
    seed: int = 0
    """Fixes openings and players; games between players limited by time still differ from run to run."""
    output: Path | None = None
    """A file of JSON lines for results and games; if it holds some of this tournament already, it goes on."""
    processes: int | None = None
    """Processes that play; by default one a core."""
    sprt: tuple[float, float] | None = None
    """ELO0 ELO1: end each pairing once a sequential test tells whether the first is ELO1 or only ELO0 stronger."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run."""
    backend: str = "auto"
    """Inference backend; auto measures all and takes the fastest."""
    json: bool = False
    """Print the result as JSON instead of a table."""


ArenaOptions.__doc__ = (ArenaOptions.__doc__ or "").format(specifications=SPECIFICATIONS)


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(tyro.cli(ArenaOptions, args=arguments, prog="alphac4 arena"))


def run(options: ArenaOptions) -> int:
    """Play what is not recorded yet; print the crosstable, and each pairing's score with its interval."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _check(options)
    geometry = common_geometry(options.players)
    settings = {
        "players": options.players,
        "checkpoints": digests(options.players),
        "games": options.games,
        "seed": options.seed,
        "sprt": options.sprt,
        "board": describe(geometry),
        "backend": _backend(options),
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
    for name in options.players:  # a bad specification should be told before hours of games, not after
        parse_player(name, rng=np.random.default_rng(0), geometry=geometry, backend=tournament.backend)
    record = TournamentRecord(options.output, settings) if options.output is not None else None
    results = play_round_robin(tournament, record, processes=options.processes or cores())
    print(_as_json(tournament, results) if options.json else _as_text(tournament, results))
    return 0

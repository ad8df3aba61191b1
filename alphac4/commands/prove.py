"""`alphac4 prove`: whether a player ever errs, whatever the opponent does."""

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
from tqdm import tqdm

from alphac4.arena.players import Player
from alphac4.arena.specifications import (
    SpecifiedPlayer,
    common_geometry,
    find_network,
    network_digest,
    parse_player,
    pool_players,
)
from alphac4.certificate.walk import Claim
from alphac4.commands.certificate import SHOWN_FAILURES, show_moves
from alphac4.commands.options import ProveOptions
from alphac4.evaluation.answers import BATCH
from alphac4.evaluation.walks import FORMAT, KnownMoves, LevelReport, MoveKind, outcome_solver, walk_games
from alphac4.machine import cores
from alphac4.storage.locks import own_file

COLUMNS = {
    "won": MoveKind.WINS,
    "proven won": MoveKind.PROOF,
    "drawn": MoveKind.DRAWS,
    "go on": MoveKind.ANSWER,
    "mistakes": MoveKind.MISTAKE,
}


def run(options: ProveOptions) -> int:
    """Walk and print a line for each number of stones, then the verdict; 1 if the player makes a mistake."""
    claim = Claim(geometry=common_geometry((options.player,)), side=options.side, after=options.start)
    start = claim.start
    plies = start.geometry.cells if options.plies is None else options.plies
    if plies < start.plies:
        raise ValueError(f"--plies {plies}: the start has {start.plies} stones already")
    if plies == start.plies and start.first_to_move != (options.side == "first"):
        raise ValueError(f"--plies {plies}: {options.player}, moving {options.side}, has its first move after that")
    with own_file(options.record):
        reports = _walk(options, claim, plies)
    print(_verdict(options, reports))
    return int(any(report.failures for report in reports))


def _walk(options: ProveOptions, claim: Claim, plies: int) -> list[LevelReport]:
    """Walk, and print a line for each number of stones."""
    place = options.place.of_record(options.record, FORMAT)
    compute = place.compute(threads=1)
    one_per_core = (
        find_network(options.player) is not None and place.cluster is None and compute.learning_device.type == "cpu"
    )
    players: Sequence[Player] = [
        parse_player(
            options.player,
            rng=np.random.default_rng(options.seed),
            geometry=claim.geometry,
            threads=1 if one_per_core or place.cluster is not None else None,
            compute=compute,
            batch_size=BATCH,
        )
        for _ in range(cores() if one_per_core else 1)
    ]
    backend = compute.backend
    reports: list[LevelReport] = []
    with place.pool() as pool, tqdm(unit="pos", disable=None, leave=False) as bar:
        if pool is not None:
            recipe = SpecifiedPlayer(specification=options.player, geometry=claim.geometry, backend=backend)
            players = pool_players(pool, recipe, players[0], options.seed)
        about = {name: getattr(options, name) for name in ("player", "side", "start", "seed")}
        about |= {"network": network_digest(options.player), "backend": backend}
        known = KnownMoves(claim.geometry, options.record, about)
        bar.write("  ".join(f"{heading:>10}" for heading in ("stones", "positions", *COLUMNS)), file=sys.stdout)
        for report in walk_games(
            players,
            outcome_solver(claim.geometry, pool),
            known,
            claim,
            plies=plies,
            beyond_mistakes=options.beyond_mistakes,
            on_moves=partial(show_moves, bar),
        ):
            numbers = (report.stones, len(report.keys), *map(report.count, COLUMNS.values()))
            bar.write("  ".join(f"{number:>10,}" for number in numbers), file=sys.stdout)
            reports.append(report)
    return reports


def _verdict(options: ProveOptions, reports: Sequence[LevelReport]) -> str:
    positions = sum(len(report.keys) for report in reports)
    mistakes = [position.moves or "" for report in reports for position in report.failures]
    unfinished = bool(reports) and reports[-1].count(MoveKind.ANSWER) > 0
    scope = f"the {positions:,} positions that an opponent can reach"
    if unfinished:
        scope += f" with up to {reports[-1].stones} stones"
    if not mistakes:
        proof = "" if unfinished else " Every line was followed to its end: proven."
        return f"\n{options.player}, moving {options.side}, makes no mistake in {scope}.{proof}"
    shown = ", ".join(mistakes[:SHOWN_FAILURES]) + (", ..." if len(mistakes) > SHOWN_FAILURES else "")
    further = "" if options.beyond_mistakes else "; lines stop at the first mistake"
    return (
        f"\n{options.player}, moving {options.side}, makes a mistake in {len(mistakes):,} of {scope}"
        f" ({len(mistakes) / positions:.2%}){further}.\nMoves up to the mistakes: {shown}"
    )

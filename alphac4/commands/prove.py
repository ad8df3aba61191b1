"""`alphac4 prove`: whether a player ever errs, whatever the opponent does."""

import sys
from collections.abc import Sequence

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
from alphac4.commands.options import ProveOptions
from alphac4.evaluation.answers import BATCH
from alphac4.evaluation.walks import FORMAT, Kind, KnownMoves, PlyReport, outcome_solver, walk_games
from alphac4.machine import cores
from alphac4.storage.locks import own_file

SHOWN_MISTAKES = 10


COLUMNS = {
    "won": Kind.WINS,
    "proven won": Kind.PROOF,
    "drawn": Kind.DRAWS,
    "go on": Kind.ANSWER,
    "mistakes": Kind.ERRS,
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
    return int(any(report.errors for report in reports))


def _walk(options: ProveOptions, claim: Claim, plies: int) -> list[PlyReport]:
    """Walk, and print a line for each number of stones."""
    place = options.place.of_record(options.record, FORMAT)
    compute = place.compute(threads=1)
    one_a_core = find_network(options.player) is not None and compute.learning_device.type == "cpu"
    players: Sequence[Player] = [
        parse_player(
            options.player,
            rng=np.random.default_rng(options.seed),
            geometry=claim.geometry,
            threads=1 if one_a_core or place.cluster is not None else None,
            compute=compute,
            batch_size=BATCH,
        )
        for _ in range(cores() if one_a_core and place.cluster is None else 1)
    ]
    backend = compute.backends.evaluators
    reports: list[PlyReport] = []
    with place.pool() as pool, tqdm(unit="pos", disable=None, leave=False) as bar:
        if pool is not None:
            recipe = SpecifiedPlayer(specification=options.player, geometry=claim.geometry, backend=backend)
            players = pool_players(pool, recipe, players[0], options.seed)

        def show(done: int, total: int) -> None:
            bar.total, bar.n = total, done
            if reports:
                following = total * total / reports[-1].positions  # if they grow as they did
                bar.set_postfix_str(f"then about {following:,.0f}", refresh=False)
            bar.refresh()

        about = {name: getattr(options, name) for name in ("player", "side", "start", "seed")}
        about |= {"network": network_digest(options.player), "backend": backend}
        known = KnownMoves(claim.geometry, options.record, about)
        bar.write("  ".join(f"{heading:>10}" for heading in ("stones", "positions", *COLUMNS)), file=sys.stdout)
        solve, beyond = outcome_solver(claim.geometry, pool), options.beyond_mistakes
        for report in walk_games(players, solve, known, claim, plies=plies, beyond_mistakes=beyond, on_moves=show):
            bar.write(_line(report), file=sys.stdout)
            reports.append(report)
    return reports


def _line(report: PlyReport) -> str:
    numbers = (report.ply, report.positions, *(report.counts[kind] for kind in COLUMNS.values()))
    return "  ".join(f"{number:>10,}" for number in numbers)


def _verdict(options: ProveOptions, reports: Sequence[PlyReport]) -> str:
    positions = sum(report.positions for report in reports)
    errors = [moves for report in reports for moves in report.errors]
    unfinished = bool(reports) and reports[-1].counts[Kind.ANSWER] > 0
    scope = f"the {positions:,} positions that any opponent can bring about"
    if unfinished:
        scope += f" with up to {reports[-1].ply} stones"
    if not errors:
        proof = "" if unfinished else " Every line was followed to its end: proven."
        return f"\n{options.player}, moving {options.side}, makes no mistake in {scope}.{proof}"
    shown = ", ".join(errors[:SHOWN_MISTAKES]) + (", ..." if len(errors) > SHOWN_MISTAKES else "")
    further = "" if options.beyond_mistakes else "; beyond a mistake the walk does not go"
    return (
        f"\n{options.player}, moving {options.side}, makes a mistake in {len(errors):,} of {scope}"
        f" ({len(errors) / positions:.2%}){further}.\nMoves up to the mistakes: {shown}"
    )

"""`alphac4 certificate`: a player's win or draw against every reply, to be checked by anybody."""

import sys
import time
from pathlib import Path
from typing import cast

import numpy as np
from tqdm import tqdm

from alphac4.arena.specifications import common_geometry, network_digest, parse_player
from alphac4.certificate.file import (
    Certificate,
    CertificateError,
    read_certificate,
    shipped_certificates,
    walk_certificate,
    write_certificate,
)
from alphac4.certificate.walk import Claim, position_of
from alphac4.commands.options import CertificateOptions
from alphac4.compute import choose
from alphac4.evaluation.walks import KnownMoves, LevelReport, ProvingPlayer, build, moves_in_order
from alphac4.game import Geometry
from alphac4.machine import cores
from alphac4.solver import Solver
from alphac4.storage.files import check_output
from alphac4.storage.locks import own_folder
from alphac4.version import __version__

BATCH = 256
SHOWN_MISTAKES = 10


def run(options: CertificateOptions) -> int:
    """Build, or check a file or all that come with the project; 1 if the player errs, or one does not hold."""
    if options.task == "verify":
        return max(map(_verify, [options.file] if options.file else shipped_certificates()))
    with own_folder(options.record):
        return _build(options)


def _verify(path: Path) -> int:
    """Check a file; 1 if it does not hold."""
    certificate = read_certificate(path)
    print(f"{path}: moves of {certificate.about.get('player', 'nobody')}")
    started = time.perf_counter()
    try:
        levels = walk_certificate(
            certificate, lambda level: print(f"{level.stones:2d} stones: {len(level.keys):,} positions")
        )
    except CertificateError as error:
        print(error)
        return 1
    positions, seconds = sum(len(level.keys) for level in levels), time.perf_counter() - started
    print(
        f"{positions:,} positions ({len(certificate.columns):,} with a move of their own), the last with "
        f"{levels[-1].stones} stones, in {seconds:.1f} s: {certificate.claim}."
    )
    return 0


def _build(options: CertificateOptions) -> int:
    """Walk and write; 1 if the player errs."""
    geometry, path = common_geometry((options.player,)), options.file or options.record / "best.certificate"
    claim = Claim(geometry=geometry, side=options.side, after=options.after, result=options.result)
    check_output(path)
    players = _players(options, geometry)
    about = {"player": options.player, "network": network_digest(options.player), "code": __version__}
    whose, judge = {**about, "claim": str(claim)}, Solver(geometry) if options.judge else None
    known = KnownMoves(geometry, options.record / "moves.jsonl", whose, first_answers=options.judge)
    levels: dict[int, LevelReport] = {}
    try:
        with tqdm(unit="pos", disable=None, leave=False) as bar:

            def tell(stones: int, done: int, total: int) -> None:
                bar.set_description(f"{stones} stones")
                bar.total, bar.n = total, done
                bar.refresh()

            for level in build(players, known, claim, judge=judge, max_stones=options.stones, on_moves=tell):
                if level.stones not in levels:  # or else it is walked once more
                    bar.write(_describe(level, judged=options.judge), file=sys.stdout)
                levels[level.stones] = level
    finally:
        known.save()
    errors = [error for level in levels.values() for error in level.errors]
    mended = sum(level.mended for level in levels.values())
    if errors:
        shown = "\n".join(str(position_of(geometry, key)) for key in errors[:SHOWN_MISTAKES])
        print(f"\n{options.player} does not show that {claim}. It fails in {len(errors):,} positions, such as\n{shown}")
        return 1
    answers = options.player + (f", which took back {mended:,} of its moves" if mended else "")
    if not levels[max(levels)].last:
        found = "no mistake of" if options.judge else "no line lost by"
        print(f"\nUp to {options.stones} stones there is {found} {answers}; no end is reached.")
        return 0
    certificate = Certificate(claim=claim, columns=moves_in_order(known, claim), about={**about, "taken_back": mended})
    positions = sum(len(level.keys) for level in walk_certificate(certificate))
    write_certificate(path, certificate)
    print(f"\n{path}: {len(certificate.columns):,} moves for {positions:,} positions, by {answers}: {claim}.")
    return 0


def _players(options: CertificateOptions, geometry: Geometry) -> list[ProvingPlayer]:
    """The player, once for each core."""
    compute = choose(options.device, options.backend, threads=1)
    players = [
        parse_player(
            options.player,
            rng=np.random.default_rng([options.seed, index]),
            geometry=geometry,
            threads=1,
            compute=compute,
            batch_size=BATCH,
            reuse="nothing",
        )
        for index in range(cores())
    ]
    if not all(hasattr(player, "proven_moves") for player in players):
        raise ValueError(f"{options.player}: only a network's search can be asked for its proofs")
    proving = cast(list[ProvingPlayer], players)
    if proving[0].budget.seconds is not None:
        raise ValueError(f"{options.player!r}: limit it by simulations, not by time, so that its moves are found again")
    return proving


def _describe(level: LevelReport, *, judged: bool) -> str:
    """A line on a level."""
    text = (
        f"{level.stones:2d} stones: {level.positions:>9,} positions, {level.decided:>9,} decided by the rules, "
        f"{level.proven:>9,} proven by the player's search, {level.answered:>7,} by its move alone"
    )
    return text + (f", {len(level.errors):,} mistakes" if judged else "")

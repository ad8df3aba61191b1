"""`alphac4 certificate`: a player's win or draw against every reply, which anybody can check."""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from alphac4.arena.players import NetworkPlayer
from alphac4.arena.specifications import common_geometry, network_digest, parse_player
from alphac4.certificate.file import (
    Certificate,
    CertificateError,
    read_certificate,
    shipped_certificates,
    walk_certificate,
    write_certificate,
)
from alphac4.certificate.walk import ASK, Claim
from alphac4.commands.options import CertificateOptions
from alphac4.compute import choose
from alphac4.evaluation.walks import KnownMoves, LevelReport, MoveKind, build, moves_in_order
from alphac4.game import Geometry
from alphac4.machine import cores
from alphac4.storage.files import check_output
from alphac4.storage.locks import own_folder
from alphac4.version import __version__

BATCH = 256
SHOWN_FAILURES = 10


def run(options: CertificateOptions) -> int:
    """Build a certificate, or verify a file or all that come with the project; 1 if a claim is not shown."""
    if options.task == "verify":
        return max(map(_verify, [options.file] if options.file else shipped_certificates()))
    with own_folder(options.record):
        return _build(options)


def _verify(path: Path) -> int:
    """Check a file; 1 if it does not hold."""
    certificate = read_certificate(path)
    print(f"{path}: moves of {certificate.about.get('player', 'an unnamed player')}")
    started = time.perf_counter()
    positions = last = 0
    try:
        for last, keys, _ in walk_certificate(certificate):
            print(f"{last:2d} stones: {len(keys):,} positions")
            positions += len(keys)
    except CertificateError as error:
        print(error)
        return 1
    print(
        f"{positions:,} positions ({len(certificate.columns):,} with a move of their own), the last with "
        f"{last} stones, in {time.perf_counter() - started:.1f} s: {certificate.claim}."
    )
    return 0


def _build(options: CertificateOptions) -> int:
    """Walk and write; 1 if the claim is not shown."""
    geometry, path = common_geometry((options.player,)), options.file or options.record / "best.certificate"
    claim = Claim(geometry=geometry, side=options.side, after=options.after, result=options.result)
    check_output(path)
    players = _players(options, geometry)
    about: dict[str, Any] = {"player": options.player, "network": network_digest(options.player), "code": __version__}
    known = KnownMoves(geometry, options.record / "moves.jsonl", {**about, "claim": str(claim)})
    levels: dict[int, LevelReport] = {}
    with tqdm(unit="pos", disable=None, leave=False) as bar:
        for level in build(players, known, claim, max_stones=options.stones, on_moves=partial(show_moves, bar)):
            if level.stones not in levels:  # it may be walked again
                bar.write(_describe(level), file=sys.stdout)
            levels[level.stones] = level
    last = levels[max(levels)]
    taken_back = sum(level.taken_back for level in levels.values())
    if failures := [position for level in levels.values() for position in level.failures]:
        shown = "\n".join(map(str, failures[:SHOWN_FAILURES]))
        print(
            f"\n{options.player} does not show that {claim}. It fails in {len(failures):,} positions, such as\n{shown}"
        )
        return 1
    answers = options.player + (f", which took back {taken_back:,} of its moves" if taken_back else "")
    if not last.is_last:
        print(f"\nUp to {options.stones} stones no line is lost by {answers}; the walk is not complete.")
        return 0
    about |= {"taken_back": taken_back}
    certificate = Certificate(claim=claim, columns=moves_in_order(known, claim), about=about)
    positions = sum(len(level.keys) for level in walk_certificate(certificate))
    write_certificate(path, certificate)
    print(f"\n{path}: {len(certificate.columns):,} moves for {positions:,} positions, by {answers}: {claim}.")
    return 0


def show_moves(bar: tqdm, stones: int, done: int, total: int) -> None:
    """Show on a bar how far a walk is among the positions with so many stones, and how long they still take."""
    if done == 0:
        bar.set_description(f"{stones} stones", refresh=False)
        bar.reset(total)
    bar.update(done - bar.n)


def _players(options: CertificateOptions, geometry: Geometry) -> list[NetworkPlayer]:
    """The player, once for each core."""
    compute = choose(options.device, options.backend, threads=1)
    players = []
    for index in range(cores()):
        player = parse_player(
            options.player,
            rng=np.random.default_rng([options.seed, index]),
            geometry=geometry,
            threads=1,
            compute=compute,
            batch_size=BATCH,
            reuse="nothing",
        )
        if not isinstance(player, NetworkPlayer):
            raise ValueError(f"{options.player}: only the search of a network gives its proofs")
        if player.budget.seconds is not None:
            raise ValueError(f"{options.player!r}: limit it by simulations, not by time, so that moves are repeatable")
        players.append(player)
    return players


def _describe(level: LevelReport) -> str:
    """A line on a level."""
    decided, proven = level.count(ASK), level.count(MoveKind.PROOF)
    return (
        f"{level.stones:2d} stones: {len(level.keys):>9,} positions, {decided:>9,} decided by the rules, "
        f"{proven:>9,} proven by the player's search, {len(level.keys) - decided - proven:>7,} by its move alone"
    )

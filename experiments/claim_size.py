"""Estimate the size of a certificate, and the time to build it, before it is built.

    python experiments/claim_size.py --side second --after 3 --result draw --record runs/after-3
    python experiments/claim_size.py --certificate checkpoints/best.certificate   # errors of the estimates

The opponent may only use the bottom row, and some cells above it that are drawn at random with their mirror images. A
walk over these replies visits a position exactly if all of the opponent's stones are in those cells.
So the sum over the visited positions of 1 / (probability of being visited) is an unbiased estimate of the size of the
whole walk. Single draws have a large variance, because a few cells decide how many games there are.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from math import comb
from pathlib import Path

import numpy as np

from alphac4.arena.players import NetworkPlayer, backends_of
from alphac4.arena.registry import parse_player, player_digest
from alphac4.compute import choose_compute
from alphac4.evaluation.walks import KnownMoves
from alphac4.game.rules import STANDARD
from alphac4.game.walk import Columns, Keys, Walk, unpack_key
from alphac4.plugins.certificates.build import build
from alphac4.plugins.certificates.file import Claim, read_certificate, walk_certificate
from alphac4.version import __version__

FREE = [(column, row) for column in range((STANDARD.columns + 1) // 2) for row in range(1, STANDARD.rows)]


def cell(column: int, row: int) -> int:
    """Return the bits of a cell and its mirror image."""
    return 1 << column * (STANDARD.rows + 1) + row | 1 << (STANDARD.columns - 1 - column) * (STANDARD.rows + 1) + row


def draw_cells(count: int, rng: np.random.Generator) -> np.uint64:
    """Return the bits of the bottom row and of ``count`` random cells above it, each with its mirror image."""
    drawn = sum(cell(*FREE[index]) for index in rng.choice(len(FREE), count, replace=False))
    return np.uint64(drawn | int(STANDARD.bottom))


def estimate(keys: Keys, count: int, claim: Claim) -> float:
    """Estimate the number of positions from those visited with ``count`` cells."""
    start = claim.start
    is_to_move = start.first_to_move == (claim.side == "first")
    given = int(start.own ^ start.occupied if is_to_move else start.own)  # need not be drawn
    pairs = [(pair, (given & pair).bit_count()) for pair in (cell(*free) for free in FREE)]
    total = 0.0
    for key in keys:
        own, occupied = unpack_key(STANDARD, key)
        theirs = int(own ^ occupied)
        needed = sum((theirs & pair).bit_count() > known for pair, known in pairs)
        total += comb(len(FREE), count) / comb(len(FREE) - needed, count - needed)
    return total


def certified_levels(moves: dict[int, tuple[Keys, Columns]], claim: Claim, cells: np.uint64) -> Iterator[Keys]:
    """Yield the positions that a certificate's player visits, level by level."""
    walk = Walk(claim, cells=cells)
    while len(walk.keys):
        yield walk.keys
        keys, columns = moves[walk.stones]
        walk.play(columns[np.searchsorted(keys, walk.keys)])
        walk.advance()


def main() -> None:
    """Draw cells several times and print an estimate for each draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--player", default="best@auto")
    parser.add_argument("--side", choices=("first", "second"), default="first")
    parser.add_argument("--after", default="")
    parser.add_argument("--result", choices=("win", "draw"), default="win")
    parser.add_argument("--cells", type=int, default=10, help=f"mirrored pairs of cells to draw, at most {len(FREE)}")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="folder that stores the moves, for a later build")
    parser.add_argument("--certificate", type=Path, help="existing certificate, whose size is known, to walk instead")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    draws = [draw_cells(options.cells, rng) for _ in range(options.samples)]
    if options.certificate is not None:
        walk_known(options.certificate, draws, options.cells)
        return
    claim = Claim(side=options.side, after=options.after, result=options.result)
    compute = choose_compute(threads=1)
    player = parse_player(options.player, rng=rng, threads=1, compute=compute, reuse="nothing", batch_size=256)
    assert isinstance(player, NetworkPlayer)
    about = {
        "player": options.player,
        "network": player_digest(options.player),
        "backend": backends_of([player]),
        "code": __version__,
    }
    known = KnownMoves(STANDARD, options.record and options.record / "moves.jsonl", {**about, "claim": str(claim)})
    for draw, cells in enumerate(draws):
        positions, hours, visited, began = 0.0, 0.0, 0, time.perf_counter()
        for level in build([player], known, claim, cells=cells):
            weight = estimate(level.keys, options.cells, claim) / max(1, len(level.keys))
            seconds, began = time.perf_counter() - began, time.perf_counter()
            positions, hours = positions + weight * len(level.keys), hours + weight * seconds / 3600
            visited += len(level.keys)
        print(
            f"draw {draw}: {visited:,} positions visited, estimate {positions:,.0f}, {hours:,.1f} core hours",
            flush=True,
        )


def walk_known(path: Path, draws: Sequence[np.uint64], count: int) -> None:
    """Estimate the size of an existing certificate."""
    certificate = read_certificate(path)
    levels = list(walk_certificate(certificate))
    moves = {level.stones: (level.keys, level.moves) for level in levels}
    whole = sum(len(level.keys) for level in levels)
    for draw, cells in enumerate(draws):
        visited = list(certified_levels(moves, certificate.claim, cells))
        total = sum(estimate(keys, count, certificate.claim) for keys in visited)
        print(f"draw {draw}: {sum(map(len, visited)):,} positions visited, estimate {total:,.0f}, actual {whole:,}")


if __name__ == "__main__":
    main()

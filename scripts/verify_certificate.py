#!/usr/bin/env python3
"""Check from the rules alone that a certificate's first player wins Connect Four against every reply.

    python scripts/verify_certificate.py [FILE]

Needs nothing but Python. It plays the certificate's moves from the empty board, every reply of the opponent, and so
on to the end of every game. Nothing counts as won but four in a row on the board.

The file: a line of JSON, then, compressed by zlib, one digit for each position in which the first player needs to be
told its column (1 to 7). Positions are visited by numbers of stones, 0, 2, 4 ..., and among those of one number in the
order of their keys. None is written down: a position needs a digit unless the first player can complete a run now,
or the opponent could with its next stone, which it must prevent.

A position is two numbers of 49 bits, seven a column, the lowest cell first: the stones of the side to move, and all
stones. Its key is the sum of the two. Of a position and its mirror image only the one with the lesser key is visited.
"""

import json
import os
import sys
import zlib
from pathlib import Path

ROWS, COLUMNS, HEIGHT = 6, 7, 7
BOTTOM = [1 << (HEIGHT * column) for column in range(COLUMNS)]
TOP = [cell << (ROWS - 1) for cell in BOTTOM]
COLUMN = [(1 << ROWS) - 1 << (HEIGHT * column) for column in range(COLUMNS)]
FULL = sum(COLUMN)


class Failure(Exception):  # noqa: N818 - no error of the program
    """The certificate does not show that the first player wins."""


def completing(stones: int) -> int:
    """The cells, among others beside the board, where one more of these stones makes four in a row."""
    cells = stones << 1 & stones << 2 & stones << 3  # upwards
    for step in 7, 6, 8:  # across, and along both diagonals
        before, after = stones << step, stones >> step  # the neighbours on one side and on the other
        two, both = before & stones << 2 * step, after & stones >> 2 * step
        cells |= two & (stones << 3 * step | after) | both & (stones >> 3 * step | before)
    return cells


def landing_cells(occupied: int) -> list[int]:
    """The cell where a stone comes to rest in each column that is not full, by column; 0 for a full one."""
    return [0 if occupied & TOP[c] else (occupied & COLUMN[c]) + BOTTOM[c] for c in range(COLUMNS)]


def mirrored(stones: int) -> int:
    """The stones, or the key, with left and right exchanged."""
    left = (stones & 127) << 42 | (stones >> 7 & 127) << 35 | (stones >> 14 & 127) << 28
    return left | stones & 127 << 21 | stones >> 14 & 127 << 14 | stones >> 28 & 127 << 7 | stones >> 42


def follow(own: int, occupied: int, column: int, losing: int, found: dict[int, tuple[int, int]]) -> None:
    """Play a column, then every reply; add the positions that follow to ``found``, by key.

    In the cells ``losing`` the opponent would win.
    """
    cell = landing_cells(occupied)[column]
    if not cell:
        raise Failure("the column is full")
    own, occupied = own | cell, occupied | cell
    if occupied == FULL:
        raise Failure("the game is drawn")
    for reply in landing_cells(occupied):
        if not reply:
            continue
        if reply & losing:
            raise Failure("the opponent wins")
        after = occupied | reply
        if after == FULL:
            raise Failure("the game is drawn")
        key = own + after
        image = mirrored(key)
        if key <= image:
            found[key] = own, after
        elif image not in found:
            found[image] = mirrored(own), mirrored(after)


def check(digits: bytes, own: int = 0, occupied: int = 0) -> tuple[int, int]:
    """Walk every game; the numbers of positions, and of the stones in the last of them.

    It begins on the empty board, or in another position of as many stones of either side.
    """
    level, stones, visited, used = {own + occupied: (own, occupied)}, occupied.bit_count(), 0, 0
    while level:
        following: dict[int, tuple[int, int]] = {}
        for key in sorted(level):
            own, occupied = level[key]
            visited += 1
            cells = landing_cells(occupied)
            if completing(own) & sum(cells):
                continue  # won on the spot
            losing = completing(occupied ^ own)
            threats = [column for column, cell in enumerate(cells) if cell & losing]
            try:
                if len(threats) > 1:
                    raise Failure("the opponent threatens to win in two columns")
                if threats:
                    column = threats[0]
                elif used < len(digits) and 49 <= digits[used] < 49 + COLUMNS:
                    column = digits[used] - 49
                    used += 1
                else:
                    raise Failure("its move is missing")
                follow(own, occupied, column, losing, following)
            except Failure as failure:
                raise Failure(f"{failure} after {stones} stones (own {own:#x}, all {occupied:#x})") from None
        print(f"{stones:2d} stones: {len(level):,} positions", flush=True)
        level, stones = following, stones + 2
    if used != len(digits):
        raise Failure(f"{len(digits) - used:,} moves are left over")
    return visited, stones - 2


def main() -> int:
    """Check the file named, or the one that comes with the project; the exit code is 2 if it is no certificate."""
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        print(__doc__)
        return 0
    shipped = Path(__file__).resolve().parent.parent / "checkpoints" / "best.certificate"
    if len(sys.argv) > 2:
        print("one certificate at a time", file=sys.stderr)
        return 2
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else shipped
    try:
        first, _, packed = path.read_bytes().partition(b"\n")
        header, moves = json.loads(first), zlib.decompress(packed)
        if header.get("format") != "alphac4-certificate":
            raise ValueError
    except OSError as error:
        print(f"{path}: cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, AttributeError, zlib.error):
        print(f"{path}: no certificate, or a damaged one", file=sys.stderr)
        return 2
    print("certificate of", header.get("player", "nobody"))
    try:
        visited, stones = check(moves)
    except Failure as failure:
        print(f"{path}: {failure}")
        return 1
    print(f"{visited:,} positions, the last with {stones} stones: the first player always wins.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)  # nobody reads on

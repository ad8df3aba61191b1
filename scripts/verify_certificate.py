#!/usr/bin/env python3
"""Check, using only the rules, that a certificate's player wins Connect Four, or at least draws, against every reply.

    python scripts/verify_certificate.py [FILE ...]

It needs only Python 3.10 or later. It plays the certificate's moves and every reply of the opponent to the end of every
game. A game is won only by four in a row on the board.

A certificate is a line of JSON, followed by digits compressed by zlib: the player's column (1 to 7) in each position
that needs one. The line states the claim: whether the player is first or second, the moves after which it plays, and
whether it wins or at least draws. Positions are visited in the order of their numbers of stones, and with equal numbers
in the order of their keys; they are not stored. A position has no digit if the player can complete a run, or must block
the opponent's run.

A position consists of two 49-bit numbers, with 7 bits per column, lowest cell first: the stones of the side to move,
and all stones. Its key is their sum. Of a position and its mirror image, only the one with the smaller key is visited.
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
MAX_MOVES_PER_BYTE = 64  # moves per byte of a file; a file with more is not a certificate


class Failure(Exception):  # noqa: N818 - not an error of the program
    """A certificate does not prove its claim."""


def completing(stones: int) -> int:
    """Return the cells, including some outside the board, where another of these stones makes four in a row."""
    cells = stones << 1 & stones << 2 & stones << 3  # upwards
    for step in 7, 6, 8:  # horizontally, and along both diagonals
        before, after = stones << step, stones >> step  # neighbours on either side
        two, both = before & stones << 2 * step, after & stones >> 2 * step
        cells |= two & (stones << 3 * step | after) | both & (stones >> 3 * step | before)
    return cells


def landing_cells(occupied: int) -> list[int]:
    """Return the cell where a stone lands in each column; 0 for a full one."""
    return [0 if occupied & TOP[c] else (occupied & COLUMN[c]) + BOTTOM[c] for c in range(COLUMNS)]


def mirrored(stones: int) -> int:
    """Return the mirror image of stones or of a key."""
    left = (stones & 127) << 42 | (stones >> 7 & 127) << 35 | (stones >> 14 & 127) << 28
    return left | stones & 127 << 21 | stones >> 14 & 127 << 14 | stones >> 28 & 127 << 7 | stones >> 42


Boards = dict[int, tuple[int, int]]  # the player's stones and all stones, by the position's key


def reply(own: int, occupied: int, losing: int, draws: bool, following: Boards) -> None:
    """Play every move of the opponent and add the resulting positions to ``following``.

    ``own`` are the player's stones; ``losing`` are the cells where the opponent wins.
    """
    for cell in landing_cells(occupied):
        if not cell:
            continue
        if cell & losing:
            raise Failure("the opponent wins")
        after = occupied | cell
        if after == FULL:
            if not draws:
                raise Failure("the game is drawn")
            continue
        key = own + after
        image = mirrored(key)
        if key <= image:
            following[key] = own, after
        elif image not in following:
            following[image] = mirrored(own), mirrored(after)


def begin(claim: dict[str, str]) -> Boards:
    """Return the first positions of a claim in which the player is to move."""
    own, occupied, side = 0, 0, 0  # the stones of the side to move; 0 while that is the first player
    for name in claim["after"]:
        cell = landing_cells(occupied)[int(name) - 1]
        if not cell or completing(own) & cell:
            raise Failure(f"the moves {claim['after']} are illegal or end the game")
        own, occupied, side = occupied ^ own, occupied | cell, 1 - side
    level: Boards = {}
    if side == ("first", "second").index(claim["side"]):
        key = own + occupied
        level[min(key, mirrored(key))] = (
            (own, occupied) if key <= mirrored(key) else (mirrored(own), mirrored(occupied))
        )
    else:
        reply(occupied ^ own, occupied, completing(own), claim["result"] == "draw", level)
    if not level:
        raise Failure(f"its player has no move after {claim['after']}")
    return level


def check(digits: bytes, level: Boards, draws: bool) -> tuple[int, int]:
    """Play every game from the positions of ``level``; return the number of positions and the last one's stones."""
    stones, visited, used = 0, 0, 0
    while level:
        following: Boards = {}
        stones = next(iter(level.values()))[1].bit_count()
        for key in sorted(level):
            own, occupied = level[key]
            visited += 1
            cells = landing_cells(occupied)
            if completing(own) & sum(cells):
                continue  # the player wins immediately
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
                if not cells[column]:
                    raise Failure("the column is full")
                if occupied | cells[column] == FULL and not draws:
                    raise Failure("the game is drawn")
                reply(own | cells[column], occupied | cells[column], losing, draws, following)
            except Failure as failure:
                raise Failure(
                    f"{failure} after {count_of(stones, 'stone')} (own {own:#x}, all {occupied:#x})"
                ) from None
        print(f"{count_of(stones, 'stone'):>9}: {count_of(len(level), 'position')}", flush=True)
        level = following
    if used != len(digits):
        raise Failure(f"{count_of(len(digits) - used, 'move')} left unused")
    return visited, stones


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 move" or "2,000 moves"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe(claim: dict[str, str]) -> str:
    """Return a claim as text."""
    after = f"after {claim['after']} " if claim["after"] else ""
    return f"{after}the {claim['side']} player {'always wins' if claim['result'] == 'win' else 'never loses'}"


def main() -> int:
    """Check the files given, or those of the project; return the highest exit code of `check_file`."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    for argument in sys.argv[1:]:
        if argument.startswith("-"):
            print(f"unknown option {argument}; see --help", file=sys.stderr)
            return 2
    shipped = Path(__file__).resolve().parent.parent / "checkpoints"
    paths = [Path(argument) for argument in sys.argv[1:]] or sorted(shipped.glob("*.certificate"))
    if not paths:
        print(f"{shipped}: no *.certificate files found", file=sys.stderr)
        return 2
    return max(check_file(path) for path in paths)


def check_file(path: Path) -> int:
    """Check a file and print the result; return 0 if the claim holds, 1 if not, 2 for an unreadable or invalid file."""
    try:
        first, _, packed = path.read_bytes().partition(b"\n")
        header, unpacking = json.loads(first), zlib.decompressobj()
        moves = unpacking.decompress(packed, MAX_MOVES_PER_BYTE * (len(packed) + 16))
        if not unpacking.eof or unpacking.unused_data:
            raise ValueError
        board, claim = header["board"], header["claim"]
        if header["format"] != "alphac4-certificate" or header["version"] != 2:
            raise ValueError
        if board != {"rows": ROWS, "columns": COLUMNS, "run_length": 4, "diagonals": True}:
            raise ValueError
        if claim["side"] not in ("first", "second") or claim["result"] not in ("win", "draw"):
            raise ValueError
        if not isinstance(claim["after"], str) or not set(claim["after"]) <= set("1234567"):
            raise ValueError
        player = ascii(header["player"]) if "player" in header else "an unnamed player"
    except OSError as error:
        print(f"{path}: cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error):
        print(f"{path}: not a certificate of this board, or damaged", file=sys.stderr)
        return 2
    print(f"{path}: certificate of {player}")
    try:
        visited, stones = check(moves, begin(claim), claim["result"] == "draw")
    except Failure as failure:
        print(f"{path}: {failure}")
        return 1
    print(f"{count_of(visited, 'position')}, the last with {count_of(stones, 'stone')}: {describe(claim)}.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)  # without flushing to a closed pipe

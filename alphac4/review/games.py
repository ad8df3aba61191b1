"""Games to be reviewed, from a move string, a file, or lines of the standard input."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from alphac4.game import Geometry, IllegalMove, Position
from alphac4.game.position import may_be_moves
from alphac4.game.rules import STANDARD

STDIN = "-"


def read_games(source: str, stdin: TextIO | None, geometry: Geometry = STANDARD) -> list[str]:
    """The move strings that ``source`` holds: a game itself, a file of games a line, or "-" for the standard input.

    Blank lines and what follows "#" are passed over.

    Raises:
        ValueError: naming the line that is no game, or if there is none.
        OSError: if the file cannot be read.
    """
    if source == STDIN:
        return _parse(stdin or (), "the standard input", geometry)
    if os.path.exists(source) and not os.path.isdir(source):  # noqa: PTH110, PTH112 - a name too long is none, no error
        text = Path(source).read_bytes().decode("utf-8-sig", errors="replace")  # Windows' editors begin with a mark
        return _parse(text.splitlines(), source, geometry)
    if not source.strip():
        raise ValueError("there is no move to review; write the game as columns, such as 4455, a file's name, or -")
    moves = "".join(source.split())
    if not may_be_moves(moves, geometry):
        raise ValueError(f"{source!r} is no game such as 4455, and there is no such file")
    _check(moves, geometry)
    return [moves]


def _parse(lines: Iterable[str], name: str, geometry: Geometry) -> list[str]:
    games = []
    for number, line in enumerate(lines, start=1):
        moves = "".join(line.partition("#")[0].split())
        if moves:
            try:
                _check(moves, geometry)
            except IllegalMove as error:
                raise ValueError(f"{name}, line {number}: {error}") from error
            games.append(moves)
    if not games:
        raise ValueError(f"{name} holds no game")
    return games


def _check(moves: str, geometry: Geometry) -> None:
    Position.from_moves(moves, geometry)

"""The file of a certificate, and what it is worth: nothing until it has been checked.

The first line is a JSON header. The rest is compressed by zlib (RFC 1950) and holds a 1-based column, one character
each, for every position that needs one, in the order of the walk in `alphac4.certificate.walk`. No position is
written down: whoever checks the file walks the positions from the empty board, and takes the moves as they come.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.certificate.walk import ASK, LOST, Columns, Keys, follow, rule_moves, stones_of, unpack_key
from alphac4.game.position import COLUMN_NAMES, Position
from alphac4.game.rules import BoardConfig, Geometry
from alphac4.storage.files import write_atomically
from alphac4.storage.records import parse_json, read_record, read_value

SHIPPED = "best.certificate"
"""The certificate that comes with the project; see `shipped_file`."""
FORMAT, VERSION = "alphac4-certificate", 1
MOST_MOVES = 1 << 30  # a larger file is damaged


class CertificateError(ValueError):
    """A certificate that cannot be read, or does not hold, and why, in one line."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A first player's moves, in the order of the walk."""

    geometry: Geometry
    columns: Columns  # [N] 0-based
    about: Mapping[str, Any] = field(default_factory=dict)  # whose moves they are


@dataclass(kw_only=True)
class Walked:
    """What a walk from the empty board has seen."""

    positions: int = 0  # in which the first player is to move; mirror images are one
    named: int = 0  # of them, those whose move the certificate names
    longest: int = 0  # stones on the board in the last of them
    levels: list[tuple[Keys, Columns]] = field(default_factory=list)  # all positions by number of stones; their moves


def write_certificate(path: Path, certificate: Certificate) -> None:
    """Write it whole or not at all."""
    geometry = certificate.geometry
    text = "".join(COLUMN_NAMES[column] for column in certificate.columns.tolist()).encode()
    header = {
        "format": FORMAT,
        "version": VERSION,
        "board": {name: getattr(geometry, name) for name in ("rows", "columns", "run_length", "diagonals")},
        "moves": len(text),
        "sha256": hashlib.sha256(text).hexdigest(),
        **certificate.about,
    }
    write_atomically(path, json.dumps(header).encode() + b"\n" + zlib.compress(text, 9))


def read_certificate(path: Path) -> Certificate:
    """Read a file; whether its moves win is for `walk_certificate` to find out.

    Raises:
        CertificateError: in one line that names the file.
    """
    try:
        first, _, packed = path.read_bytes().partition(b"\n")
        header = read_value(dict[str, Any], parse_json(first), "the header")
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ValueError(f"not a certificate of version {VERSION}")
        count = read_value(int, header.get("moves"), "moves")
        if not 0 <= count <= MOST_MOVES:
            raise ValueError(f"it cannot hold {count} moves")
        reader = zlib.decompressobj()
        text = reader.decompress(packed, count + 1)
        if len(text) != count or not reader.eof or hashlib.sha256(text).hexdigest() != header.get("sha256"):
            raise ValueError("it is damaged, or was altered")
        geometry = read_record(BoardConfig, header.get("board"), "board").geometry()
        codes = np.full(256, -1, np.int8)
        codes[list(COLUMN_NAMES[: geometry.columns].encode())] = np.arange(geometry.columns)
        columns = codes[np.frombuffer(text, np.uint8)]
        if (columns < 0).any():
            raise ValueError("it holds something else than columns")
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, zlib.error) as error:
        raise CertificateError(f"{path}: no certificate that can be used: {error}") from error
    own = ("format", "version", "board", "moves", "sha256")
    return Certificate(
        geometry=geometry, columns=columns, about={name: value for name, value in header.items() if name not in own}
    )


def walk_certificate(
    certificate: Certificate,
    start: int = 0,
    on_level: Callable[[int, int], object] = lambda _stones, _positions: None,
) -> Walked:
    """Play the certificate's moves against every reply, from the empty board to the end of every game.

    ``start`` is the canonical key of another position to begin from, of as many stones of either side.

    ``on_level`` hears how many stones are on the board and how many positions there are.

    Raises:
        CertificateError: naming a position where the first player does not win, or has no move.
    """
    geometry, columns = certificate.geometry, certificate.columns
    walked = Walked()
    keys = np.array([start], np.uint64)
    stones = int(stones_of(geometry, keys)[0])
    while len(keys):
        moves = rule_moves(geometry, keys)
        asked = np.flatnonzero(moves == ASK)
        if walked.named + len(asked) > len(columns):
            missing = keys[asked[len(columns) - walked.named]]
            raise CertificateError(f"the move is missing in\n{_drawn(geometry, missing)}")
        moves[asked] = columns[walked.named : walked.named + len(asked)]
        walked.levels.append((keys, moves))
        walked.named += len(asked)
        walked.positions += len(keys)
        walked.longest = stones
        on_level(stones, len(keys))
        following, not_won = follow(geometry, keys, moves)
        not_won |= moves == LOST
        if not_won.any():
            raise CertificateError(f"the first player does not win from\n{_drawn(geometry, keys[not_won][0])}")
        keys, stones = following, stones + 2
    if walked.named != len(columns):
        raise CertificateError(f"{len(columns) - walked.named:,} moves are left over: they belong to another walk")
    return walked


def _drawn(geometry: Geometry, key: np.uint64) -> str:
    own, occupied = unpack_key(geometry, key)
    return str(Position(np.uint64(own), np.uint64(occupied), geometry, None))

"""Exact scores of all early positions, so that they need no search, and their file.

A book's file is one line of JSON, then the zlib-compressed rest: keys as ascending differences (little-endian uint64
[N]), then scores (int8 [N]). Keys are `canonical_key`'s. The CRC-32 covers the number of plies and the rest before
compression.
"""

import json
import warnings
import zlib
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game.rules import Geometry, Words
from alphac4.storage.files import write_atomically
from alphac4.storage.records import parse_json, read_value

UNKNOWN = -128  # no score
FORMAT = "alphac4 opening book 1"
MAX_POSITIONS = 100_000_000  # the books of the standard board with 10 and 12 stones hold 0.2 and 2 million


class BookError(ValueError):
    """A book file that is damaged or made for another board."""


class KnownScores(NamedTuple):
    """Scores found earlier, such as an opening book's."""

    keys: Words  # [N] ascending; of a position and its mirror image the lesser
    scores: npt.NDArray[np.int8]  # [N] exact, side to move
    plies: int  # no position with more stones is among them


def no_known_scores() -> KnownScores:
    """An empty book."""
    return KnownScores(np.zeros(0, np.uint64), np.zeros(0, np.int8), -1)


@compiled
def look_up(known: KnownScores, key: np.uint64) -> int:
    """The score stored for a key; `UNKNOWN` if there is none."""
    low, high = 0, len(known.keys)
    while low < high:
        middle = (low + high) // 2
        if known.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < len(known.keys) and known.keys[low] == key:
        return int(known.scores[low])
    return UNKNOWN


def book_name(geometry: Geometry) -> str:
    """The file name of a geometry's book, such as ``6x7x4.book``."""
    straight = "" if geometry.diagonals else "-straight"
    return f"{geometry.rows}x{geometry.columns}x{geometry.run_length}{straight}.book"


def save_book(path: Path, geometry: Geometry, book: KnownScores) -> None:
    """Write a book atomically."""
    content = np.diff(book.keys, prepend=np.uint64(0)).astype("<u8").tobytes() + book.scores.tobytes()
    header = _expected_header(geometry) | {
        "plies": book.plies,
        "positions": len(book.keys),
        "crc32": _checksum(book.plies, content),
    }
    write_atomically(path, json.dumps(header).encode() + b"\n" + zlib.compress(content, 9))


def parse_book(content: bytes, geometry: Geometry) -> KnownScores:
    """Read a book from the bytes of its file.

    Raises:
        BookError: saying in one line what is wrong with it.
    """
    line, _, rest = content.partition(b"\n")
    try:
        header = read_value(dict[str, Any], parse_json(line), "the header")
        plies, positions, checksum = (read_value(int, header[name], name) for name in ("plies", "positions", "crc32"))
        if not 0 <= positions <= MAX_POSITIONS:
            raise ValueError("impossible number of positions")
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(rest, 9 * positions + 1)  # no more, whatever the file unfolds to
        if not unpacker.eof:
            raise ValueError("cut short, or longer than it says")
    except (ValueError, KeyError, zlib.error) as error:
        raise BookError(f"not an opening book or cut short ({type(error).__name__})") from error
    for name, value in _expected_header(geometry).items():
        if header.get(name) != value:
            raise BookError(f"{name} is {header.get(name)!r:.40}, expected {value!r}")
    if len(unpacked) != 9 * positions or _checksum(plies, unpacked) != checksum:
        raise BookError("its content does not match its checksum")
    differences = np.frombuffer(unpacked, "<u8", count=positions)
    scores = np.frombuffer(unpacked, np.int8, offset=8 * positions)
    # Copies: views of bytes are read-only, a type for which the search would be compiled again.
    return KnownScores(np.cumsum(differences, dtype=np.uint64), scores.copy(), plies)


def load_book(path: Path, geometry: Geometry) -> KnownScores:
    """Read a book file.

    Raises:
        BookError: if it is damaged or made for another board.
        OSError: if it cannot be read.
    """
    try:
        return parse_book(path.read_bytes(), geometry)
    except BookError as error:
        raise BookError(f"{path}: {error}") from error


def packaged_book(geometry: Geometry) -> KnownScores:
    """The package's own book; without any for the geometry an empty one, with a warning if it is damaged."""
    name = book_name(geometry)
    try:
        return parse_book((resources.files("alphac4.solver") / name).read_bytes(), geometry)
    except FileNotFoundError:
        pass
    except (BookError, OSError) as error:
        warnings.warn(f"opening book {name} is ignored: {error}; early positions will take long", stacklevel=2)
    return no_known_scores()


def _checksum(plies: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(str(plies).encode()))


def _expected_header(geometry: Geometry) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "rows": geometry.rows,
        "columns": geometry.columns,
        "run_length": geometry.run_length,
        "diagonals": geometry.diagonals,
    }

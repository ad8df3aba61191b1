"""Exact scores of all early positions, so that they need no search, and their file."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game.rules import Geometry, Words, board_settings
from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.files import FileError

UNKNOWN = -128  # no score
FORMAT = "alphac4-opening-book-2"


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
    header = {"format": FORMAT, "board": board_settings(geometry), "plies": book.plies}
    save_arrays(path, {"keys": book.keys, "scores": book.scores}, header)


def load_book(path: Path, geometry: Geometry) -> KnownScores:
    """Read a book file. Raises FileError if it is missing, damaged, or made for another board."""
    arrays, header = load_arrays(path, FORMAT)
    try:
        board, plies = header["board"], int(header["plies"])
        # Copies: views of a file are read-only, a type for which the search would be compiled again.
        keys, scores = arrays["keys"].astype(np.uint64), arrays["scores"].astype(np.int8)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not an opening book") from error
    if board != board_settings(geometry):
        raise FileError(f"{path}: a book for {board}, expected {board_settings(geometry)}")
    return KnownScores(keys, scores, plies)


def packaged_book(geometry: Geometry) -> KnownScores:
    """The package's book for a geometry, or an empty one. Raises FileError if it is damaged."""
    path = Path(__file__).with_name(book_name(geometry))
    return load_book(path, geometry) if path.exists() else no_known_scores()

"""Opening books: exact scores of all early positions, which then need no search, and their files."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game.rules import Board, Words, board_settings
from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.files import FileError

UNKNOWN_SCORE = -128
FORMAT = "alphac4-opening-book-2"


class KnownScores(NamedTuple):
    """Exact scores of N positions, such as an opening book's."""

    keys: Words  # [N] canonical, ascending
    scores: npt.NDArray[np.int8]  # [N] for the side to move
    plies: int  # the most stones of any of the positions


def no_known_scores() -> KnownScores:
    return KnownScores(np.zeros(0, np.uint64), np.zeros(0, np.int8), -1)


@compiled
def look_up(known: KnownScores, key: np.uint64) -> int:
    """Return the score of a canonical key; `UNKNOWN_SCORE` if the book lacks it."""
    low, high = 0, len(known.keys)
    while low < high:
        middle = (low + high) // 2
        if known.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < len(known.keys) and known.keys[low] == key:
        return int(known.scores[low])
    return UNKNOWN_SCORE


def book_name(board: Board) -> str:
    """Return the file name of a board's book, such as ``6x7x4.book``."""
    straight = "" if board.diagonals else "-straight"
    return f"{board.rows}x{board.columns}x{board.run_length}{straight}.book"


def save_book(path: Path, board: Board, book: KnownScores) -> None:
    header = {"format": FORMAT, "board": board_settings(board), "plies": book.plies}
    save_arrays(path, {"keys": book.keys, "scores": book.scores}, header)


def load_book(path: Path, board: Board) -> KnownScores:
    """Read a book; raise FileError if it is missing, damaged, or for another board."""
    arrays, header = load_arrays(path, FORMAT)
    try:
        stored, plies = header["board"], int(header["plies"])
        # Copies: views of a file are read-only, a type for which the search would be compiled again.
        keys, scores = arrays["keys"].astype(np.uint64), arrays["scores"].astype(np.int8)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not an opening book") from error
    if stored != board_settings(board):
        raise FileError(f"{path}: is a book for {stored}, not for {board_settings(board)}")
    return KnownScores(keys, scores, plies)


def packaged_book(board: Board) -> KnownScores:
    """Return the package's book for a board, or an empty one."""
    path = Path(__file__).with_name(book_name(board))
    return load_book(path, board) if path.exists() else no_known_scores()

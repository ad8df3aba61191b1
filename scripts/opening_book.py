"""Compute an opening book for the exact solver: ``python scripts/opening_book.py --plies 4 --rows 6 --columns 7``.

Positions of the last ply are scored by search, and earlier positions from the scores after their moves. Rerun an
interrupted command to resume. The book is written to the solver's package (``alphac4/solver/6x7x4.book``), where the
solver finds it. On the standard board, four plies take about an hour and six several hours.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from alphac4.game.position import count_of
from alphac4.game.rules import Board, Words, canonical_keys, has_run, make_board
from alphac4.solver import book as books
from alphac4.solver.book import KnownScores, load_book, no_known_scores, save_book
from alphac4.solver.search import children
from alphac4.solver.solver import Scores, Solver
from alphac4.storage.files import FileError
from alphac4.storage.locks import lock_file

SAVE_INTERVAL_S = 60.0


def build_book(board: Board, plies: int, path: Path, *, table_bits: int) -> KnownScores:
    """Score all unfinished positions with at most ``plies`` stones and write the book.

    The scores are saved next to ``path`` every `SAVE_INTERVAL_S`, so that another call can resume.
    """
    partial = path.with_name(path.name + ".partial")
    *earlier, (keys, own, occupied) = unfinished_positions(board, plies)
    known = _resumed(partial, board, len(earlier))
    missing = np.flatnonzero(~np.isin(keys, known.keys))
    solver = Solver(board, table_bits=table_bits, book=no_known_scores())
    saved = time.monotonic()
    done = len(keys) - len(missing)
    with tqdm(total=len(keys), initial=done, disable=None, unit="position", desc=f"ply {len(earlier)}") as progress:
        for row in missing:
            known = _merged(known, keys[[row]], solver.solve_batch(own[[row]], occupied[[row]]))
            progress.update()
            if time.monotonic() - saved > SAVE_INTERVAL_S:
                save_book(partial, board, known)
                saved = time.monotonic()
    for keys, own, occupied in reversed(earlier):
        solver = Solver(board, table_bits=table_bits, book=known)  # has the scores of all children
        known = _merged(known, keys, solver.analyze_batch(own, occupied).max(axis=1))
    save_book(path, board, known)
    partial.unlink(missing_ok=True)
    return known


def unfinished_positions(board: Board, plies: int) -> Iterator[tuple[Words, Words, Words]]:
    """Yield ``(keys, own, occupied)`` [B] of the unfinished positions with 0, 1, ... ``plies`` stones.

    Mirror images are deduplicated. Adjacent positions have common stones, so that their searches share table entries.
    """
    own = occupied = np.zeros(1, np.uint64)
    for _ in range(plies + 1):
        pairs = zip(own ^ occupied, occupied, strict=True)
        is_open = [stones != board.playable and not has_run(board, theirs) for theirs, stones in pairs]
        own, occupied = own[is_open], occupied[is_open]
        keys, first = np.unique(canonical_keys(board, own, occupied)[0], return_index=True)
        if not len(keys):
            return
        own, occupied = own[first], occupied[first]
        yield keys, own, occupied
        _, own, occupied = children(board, own, occupied)


def _resumed(partial: Path, board: Board, plies: int) -> KnownScores:
    """Return the scores that an interrupted call has saved for the same ply, if any."""
    try:
        known = load_book(partial, board)
    except FileError:  # missing or damaged: start from the beginning
        known = no_known_scores()
    return known if known.plies == plies else no_known_scores()._replace(plies=plies)


def _merged(known: KnownScores, keys: Words, scores: Scores) -> KnownScores:
    """Return the book with further scores, sorted for look-ups."""
    all_keys, all_scores = np.concatenate([known.keys, keys]), np.concatenate([known.scores, scores])
    order = np.argsort(all_keys)
    return KnownScores(all_keys[order], all_scores[order], known.plies)


def main() -> None:
    """Build the book of a board."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plies", type=int, default=4, help="maximum number of stones")
    parser.add_argument("--rows", type=int, default=6)
    parser.add_argument("--columns", type=int, default=7)
    parser.add_argument("--run-length", type=int, default=4)
    parser.add_argument("--no-diagonals", action="store_true")
    parser.add_argument("--table-bits", type=int, default=22, help="size of the table: 8 bytes times 2 to this power")
    parser.add_argument("--output", type=Path, help="file to write (default: in the solver's package)")
    options = parser.parse_args()
    if options.plies < 0:
        parser.error(f"--plies must be at least 0, not {options.plies}")
    try:
        board = make_board(options.rows, options.columns, options.run_length, not options.no_diagonals)
    except ValueError as error:
        parser.error(str(error))
    path = options.output or Path(books.__file__).with_name(books.book_name(board))
    with lock_file(path):
        book = build_book(board, options.plies, path, table_bits=options.table_bits)
    print(f"{path}: {count_of(len(book.keys), 'position')} with up to {count_of(book.plies, 'stone')}")


if __name__ == "__main__":
    main()

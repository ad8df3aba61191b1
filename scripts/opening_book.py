"""Compute an opening book for the exact solver: ``python scripts/opening_book.py --plies 4 --rows 6 --columns 7``.

The last ply is scored by search, the earlier ones from it; if interrupted, the same command goes on. The solver finds a
book for a board in its package (``alphac4/solver/6x7x4.book``), where this writes it. Four plies take about an hour on
the standard board, six several.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from alphac4.game.rules import Geometry, Words, canonical_keys, has_run, make_geometry
from alphac4.solver import book as books
from alphac4.solver.book import KnownScores, load_book, no_known_scores, save_book
from alphac4.solver.search import children
from alphac4.solver.solver import Scores, Solver
from alphac4.storage.files import FileError
from alphac4.storage.locks import lock_file

SAVE_EVERY_SECONDS = 60.0


def build_book(geometry: Geometry, plies: int, path: Path, *, table_bits: int) -> KnownScores:
    """Score all unfinished positions with at most ``plies`` stones and write the book.

    What is done is saved beside ``path`` every minute, from where another call goes on.
    """
    partial = path.with_name(path.name + ".partial")
    *earlier, (keys, own, occupied) = unfinished_positions(geometry, plies)
    known = _resumed(partial, geometry, len(earlier))
    missing = np.flatnonzero(~np.isin(keys, known.keys))
    solver = Solver(geometry, table_bits=table_bits, book=no_known_scores())
    saved = time.monotonic()
    done = len(keys) - len(missing)
    with tqdm(total=len(keys), initial=done, disable=None, unit="position", desc=f"ply {len(earlier)}") as progress:
        for row in missing:
            known = _merged(known, keys[[row]], solver.solve_batch(own[[row]], occupied[[row]]))
            progress.update()
            if time.monotonic() - saved > SAVE_EVERY_SECONDS:
                save_book(partial, geometry, known)
                saved = time.monotonic()
    for keys, own, occupied in reversed(earlier):
        solver = Solver(geometry, table_bits=table_bits, book=known)  # the children are all known
        known = _merged(known, keys, solver.analyze_batch(own, occupied).max(axis=1))
    save_book(path, geometry, known)
    partial.unlink(missing_ok=True)
    return known


def unfinished_positions(geometry: Geometry, plies: int) -> Iterator[tuple[Words, Words, Words]]:
    """``(keys, own, occupied)`` [B] of the positions with 0, 1, ... ``plies`` stones, as long as there are any.

    Mirror images are one. Neighbours share stones, so that their searches share the table.
    """
    own = occupied = np.zeros(1, np.uint64)
    for _ in range(plies + 1):
        pairs = zip(own ^ occupied, occupied, strict=True)
        is_open = [stones != geometry.board and not has_run(geometry, theirs) for theirs, stones in pairs]
        own, occupied = own[is_open], occupied[is_open]
        keys, first = np.unique(canonical_keys(geometry, own, occupied)[0], return_index=True)
        if not len(keys):
            return
        own, occupied = own[first], occupied[first]
        yield keys, own, occupied
        _, own, occupied = children(geometry, own, occupied)


def _resumed(partial: Path, geometry: Geometry, plies: int) -> KnownScores:
    """Scores that an earlier, interrupted call has saved for the same ply."""
    try:
        known = load_book(partial, geometry)
    except FileError:  # a save that cannot be used only costs time
        known = no_known_scores()
    return known if known.plies == plies else no_known_scores()._replace(plies=plies)


def _merged(known: KnownScores, keys: Words, scores: Scores) -> KnownScores:
    """A book with these scores too, in the order that look-ups need."""
    all_keys, all_scores = np.concatenate([known.keys, keys]), np.concatenate([known.scores, scores])
    order = np.argsort(all_keys)
    return KnownScores(all_keys[order], all_scores[order], known.plies)


def main() -> None:
    """Build the book of a board."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plies", type=int, default=4, help="stones of the last positions")
    parser.add_argument("--rows", type=int, default=6)
    parser.add_argument("--columns", type=int, default=7)
    parser.add_argument("--run-length", type=int, default=4)
    parser.add_argument("--no-diagonals", action="store_true")
    parser.add_argument("--table-bits", type=int, default=22, help="memory: 8 bytes times 2 to this power")
    parser.add_argument("--output", type=Path, help="another file than the one in the package")
    options = parser.parse_args()
    if options.plies < 0:
        parser.error(f"--plies must be at least 0, not {options.plies}")
    try:
        geometry = make_geometry(options.rows, options.columns, options.run_length, not options.no_diagonals)
    except ValueError as error:
        parser.error(str(error))
    path = options.output or Path(books.__file__).with_name(books.book_name(geometry))
    with lock_file(path):
        book = build_book(geometry, options.plies, path, table_bits=options.table_bits)
    print(f"{path}: {len(book.keys)} positions with up to {book.plies} stones")


if __name__ == "__main__":
    main()

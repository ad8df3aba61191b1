"""Computes an opening book: the last ply by search, earlier ones from it."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from alphac4.game import rules
from alphac4.game.rules import Geometry, canonical_key
from alphac4.solver.book import KnownScores, load_book, no_known_scores, save_book
from alphac4.solver.solver import Solver
from alphac4.storage.files import FileError

SAVE_EVERY_SECONDS = 60.0

Boards = dict[int, tuple[np.uint64, np.uint64]]  # (own, occupied) by key


def build_book(geometry: Geometry, plies: int, path: Path, *, table_bits: int) -> KnownScores:
    """Score all unfinished positions with at most ``plies`` stones and write the book.

    What is done is saved beside ``path`` every minute, from where another call goes on.
    """
    partial = path.with_name(path.name + ".partial")
    levels = list(unfinished_positions(geometry, plies))
    known = _score_last(geometry, levels[-1], len(levels) - 1, partial, table_bits)
    for ply in range(len(levels) - 2, -1, -1):
        level = levels[ply]
        solver = Solver(geometry, table_bits=table_bits, book=known)  # the children are all known
        own, occupied = (np.array(stones, np.uint64) for stones in zip(*level.values(), strict=True))
        known = _merged(known, list(level), list(solver.analyze_batch(own, occupied).max(axis=1)))
    save_book(path, geometry, known)
    partial.unlink(missing_ok=True)
    return known


def unfinished_positions(geometry: Geometry, plies: int) -> Iterator[Boards]:
    """The distinct positions, up to mirroring, with 0, 1, ... ``plies`` stones; fewer if every game is over before."""
    level: Boards = {_key(geometry, np.uint64(0), np.uint64(0)): (np.uint64(0), np.uint64(0))}
    yield level
    for _ in range(plies):
        following: Boards = {}
        for own, occupied in level.values():
            for column in range(geometry.columns):
                if not rules.landing_cell(geometry, occupied, column):
                    continue
                child = rules.play(geometry, own, occupied, column)
                stones, everything = np.uint64(child[0]), np.uint64(child[1])
                if everything != geometry.board and not rules.has_run(geometry, stones ^ everything):
                    following[_key(geometry, stones, everything)] = stones, everything
        if not following:
            return
        level = dict(sorted(following.items()))  # neighbours share stones, so that searches share the table
        yield level


def _score_last(geometry: Geometry, level: Boards, plies: int, partial: Path, table_bits: int) -> KnownScores:
    """The scores of the last ply, by search."""
    known = _resumed(partial, geometry, plies)
    solver = Solver(geometry, table_bits=table_bits, book=no_known_scores())
    done = set(known.keys.tolist())
    keys: list[int] = []
    scores: list[int] = []
    saved = time.monotonic()
    with tqdm(total=len(level), initial=len(done), disable=None, unit="position", desc=f"ply {plies}") as progress:
        for key, (own, occupied) in level.items():
            if key in done:
                continue
            scores.append(int(solver.solve_batch(np.array([own]), np.array([occupied]))[0]))
            keys.append(key)
            progress.update()
            if time.monotonic() - saved > SAVE_EVERY_SECONDS:
                save_book(partial, geometry, _merged(known, keys, scores))
                saved = time.monotonic()
    return _merged(known, keys, scores)


def _resumed(partial: Path, geometry: Geometry, plies: int) -> KnownScores:
    """What an earlier, interrupted call has saved for the same ply."""
    try:
        known = load_book(partial, geometry)
    except FileError:  # a save that cannot be used only costs time
        known = no_known_scores()
    return known if known.plies == plies else no_known_scores()._replace(plies=plies)


def _merged(known: KnownScores, keys: list[int], scores: list[int]) -> KnownScores:
    """A book with these scores too, in the order that look-ups need."""
    all_keys = np.concatenate([known.keys, np.array(keys, np.uint64)])
    all_scores = np.concatenate([known.scores, np.array(scores, np.int8)])
    order = np.argsort(all_keys)
    return KnownScores(all_keys[order], all_scores[order], known.plies)


def _key(geometry: Geometry, own: np.uint64, occupied: np.uint64) -> int:
    return int(canonical_key(geometry, own, occupied))

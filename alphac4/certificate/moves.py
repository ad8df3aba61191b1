"""The moves found so far, in memory and in a folder, so that an interrupted walk goes on."""

import io
import json
import logging
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.certificate.walk import ASK, Columns, Keys, stones_of
from alphac4.game.rules import Geometry
from alphac4.storage.files import write_atomically
from alphac4.storage.records import parse_json

logger = logging.getLogger(__name__)

ANSWER, PROOF, TAKEN_BACK = 0, 1, 3
"""What a move is: the player's answer, part of a proof of an earlier position, or an answer that is no longer one."""
SHARD_MOVES = 500_000  # in memory before they are written
_ABOUT = "about.json"


class Moves(NamedTuple):
    """M moves."""

    keys: Keys  # [M] of canonical positions
    columns: Columns  # [M] 0-based, as the canonical position sees them
    kinds: Columns  # [M] ANSWER, PROOF or TAKEN_BACK


class KnownMoves:
    """Moves by canonical position.

    Args:
        geometry: of the board.
        folder: where they are kept, in files of many; only in memory without one.
        about: whose moves they are.
        first_answers: pass over what was taken back, so that each position has the player's first answer.

    Raises:
        ValueError: if the folder holds the moves of somebody else.
    """

    def __init__(
        self,
        geometry: Geometry,
        folder: Path | None = None,
        about: Mapping[str, Any] | None = None,
        *,
        first_answers: bool = False,
    ) -> None:
        self._geometry = geometry
        self._folder = folder
        self._first_answers = first_answers
        self._sorted: dict[int, Moves] = {}
        self._new: defaultdict[int, list[Moves]] = defaultdict(list)
        self._unsaved: list[Moves] = []
        self._shards = 0
        self.taken_back: dict[int, set[int]] = {}  # columns by canonical key
        if folder is not None:
            _check_about(folder / _ABOUT, dict(about or {}))
            for path in sorted(folder.glob("[0-9]*.npz")):
                self._shards = max(self._shards, int(path.stem) + 1) if path.stem.isdecimal() else self._shards
                try:
                    with np.load(path, allow_pickle=False) as file:  # zip files carry a checksum of each part
                        self._insert(Moves(*(file[name] for name in Moves._fields)))
                except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
                    logger.warning("%s: damaged and left out: %s", path, error)

    def find(self, stones: int, keys: Keys) -> tuple[Columns, Columns]:
        """The columns and kinds [B] of positions with so many stones; ASK where nothing is known."""
        if self._new[stones]:
            parts = ([self._sorted[stones]] if stones in self._sorted else []) + self._new.pop(stones)
            self._sorted[stones] = self._merge(parts)
        if stones not in self._sorted or len(self._sorted[stones].keys) == 0:
            nothing = np.full(len(keys), ASK, np.int8)
            return nothing, nothing
        known = self._sorted[stones]
        place = np.minimum(np.searchsorted(known.keys, keys), len(known.keys) - 1)
        there = known.keys[place] == keys
        columns, kinds = (np.where(there, part[place], ASK).astype(np.int8) for part in (known.columns, known.kinds))
        return columns, kinds

    def take_back(self, keys: Keys, columns: Columns) -> None:
        """These moves [B], answers or forced ones, shall not be found again."""
        self.add([Moves(keys, columns, np.full(len(keys), TAKEN_BACK, np.int8))])

    def is_taken_back(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Whether some move of each position [B] was taken back."""
        return np.isin(keys, np.fromiter(self.taken_back, np.uint64))

    def add(self, parts: Sequence[Moves]) -> None:
        """Take down moves; of a position that comes twice, a proof counts more than an answer, and the first counts."""
        joined = _joined(parts)
        self._insert(joined)
        self._unsaved.append(joined)
        if sum(len(part.keys) for part in self._unsaved) >= SHARD_MOVES:
            self.save()

    def save(self) -> None:
        """Write what is not on disk yet."""
        if self._folder is None or not self._unsaved:
            return
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **_joined(self._unsaved)._asdict())
        write_atomically(self._folder / f"{self._shards:06d}.npz", buffer.getvalue())
        self._shards += 1
        self._unsaved = []

    def _insert(self, moves: Moves) -> None:
        if self._first_answers:
            moves = Moves(*(part[moves.kinds != TAKEN_BACK] for part in moves))
        rows = moves.kinds == TAKEN_BACK
        for key, column in zip(moves.keys[rows].tolist(), moves.columns[rows].tolist(), strict=True):
            self.taken_back.setdefault(key, set()).add(column)
        # Moves are given up where the player sees no win; a proof that comes later knows better.
        proven = moves.keys[moves.kinds == PROOF]
        for key in proven[self.is_taken_back(proven)].tolist():
            self.taken_back.pop(key, None)
        stones = stones_of(self._geometry, moves.keys)
        for level in np.unique(stones):
            rows = stones == level
            self._new[int(level)].append(Moves(*(part[rows] for part in moves)))

    def _merge(self, parts: Sequence[Moves]) -> Moves:
        """By key, each once, without what was taken back."""
        moves = _joined(parts)
        stays = moves.kinds != TAKEN_BACK
        for row in np.flatnonzero(self.is_taken_back(moves.keys)):
            if moves.columns[row] in self.taken_back[int(moves.keys[row])]:
                if moves.kinds[row] == PROOF:
                    raise ValueError(f"a proof of position {moves.keys[row]} does not hold")
                stays[row] = False
        moves = Moves(*(part[stays] for part in moves))
        order = np.lexsort((np.arange(len(moves.keys)), moves.kinds != PROOF, moves.keys))
        first = np.append(True, np.diff(moves.keys[order]) != 0)[: len(order)]
        return Moves(*(part[order][first] for part in moves))


def _check_about(path: Path, about: dict[str, Any]) -> None:
    if not path.exists():
        write_atomically(path, json.dumps(about).encode())
        return
    try:
        found = parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: damaged: {error}") from error
    if found != about:
        raise ValueError(f"{path.parent}: holds the moves of {json.dumps(found):.300}; name another folder")


def _joined(parts: Sequence[Moves]) -> Moves:
    return Moves(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def proof_moves(proofs: Sequence[tuple[Keys, Columns]]) -> list[Moves]:
    """The moves of proofs."""
    return [Moves(keys, columns, np.full(len(keys), PROOF, np.int8)) for keys, columns in proofs]


def answers(keys: Keys, columns: npt.NDArray[np.integer]) -> Moves:
    """A player's answers."""
    return Moves(keys, columns.astype(np.int8), np.full(len(keys), ANSWER, np.int8))

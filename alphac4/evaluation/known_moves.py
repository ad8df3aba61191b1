"""The moves found so far on a walk, in memory and in a journal, so that an interrupted walk goes on."""

import base64
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.certificate.walk import ASK, Columns, Keys, stones_of
from alphac4.game.rules import Geometry
from alphac4.storage.journal import Journal
from alphac4.storage.records import read_value

FORMAT = "alphac4-walk"
CHUNK = 500_000  # moves in memory before they are written


class Kind(IntEnum):
    """Kinds of moves on a walk."""

    ANSWER = 0  # the player's answer; the game goes on
    PROOF = 1  # the player's search has proven that it wins, here or from an earlier position
    TAKEN_BACK = 2  # an answer that no longer is one
    WINS = 3  # it completes a run
    DRAWS = 4  # it fills the board
    ERRS = 5  # it gives a win or a draw away, as a judge says


class Moves(NamedTuple):
    """M moves."""

    keys: Keys  # [M] of canonical positions
    columns: Columns  # [M] 0-based, as the canonical position sees them
    kinds: Columns  # [M] see `Kind`


class KnownMoves:
    """Moves by canonical position.

    Args:
        geometry: of the board.
        path: the journal in which they are kept; only in memory without one.
        about: whose moves they are.
        first_answers: pass over what was taken back, so that each position has the player's first answer.

    Raises:
        JournalError: if the file holds something else, or somebody else's moves.
    """

    def __init__(
        self,
        geometry: Geometry,
        path: Path | None = None,
        about: Mapping[str, Any] | None = None,
        *,
        first_answers: bool = False,
    ) -> None:
        self._geometry = geometry
        self._first_answers = first_answers
        self._sorted: dict[int, Moves] = {}
        self._new: defaultdict[int, list[Moves]] = defaultdict(list)
        self._unsaved: list[Moves] = []
        self.taken_back: dict[int, set[int]] = {}  # columns by canonical key
        self._journal = Journal(path, FORMAT, about or {})
        for moves in self._journal.read(lambda entry: unpack_moves(entry, geometry)):
            self._insert(moves)

    def find(self, stones: int, keys: Keys) -> tuple[Columns, Columns]:
        """The columns and kinds [B] of positions with so many stones; ASK where nothing is known."""
        if self._new[stones]:
            parts = ([self._sorted[stones]] if stones in self._sorted else []) + self._new.pop(stones)
            self._sorted[stones] = self._merge(parts)
        if stones not in self._sorted or len(self._sorted[stones].keys) == 0:
            nothing = np.full(len(keys), ASK, np.int8)
            return nothing, nothing.copy()
        known = self._sorted[stones]
        place = np.minimum(np.searchsorted(known.keys, keys), len(known.keys) - 1)
        there = known.keys[place] == keys
        columns, kinds = (np.where(there, part[place], ASK).astype(np.int8) for part in (known.columns, known.kinds))
        return columns, kinds

    def take_back(self, keys: Keys, columns: Columns) -> None:
        """These moves [B], answers or forced ones, shall not be found again."""
        self.add([Moves(keys, columns, np.full(len(keys), Kind.TAKEN_BACK, np.int8))])

    def is_taken_back(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Whether some move of each position [B] was taken back."""
        return np.isin(keys, np.fromiter(self.taken_back, np.uint64))

    def add(self, parts: Sequence[Moves]) -> None:
        """Take down moves; of a position that comes twice, a proof counts more than an answer, and the first counts."""
        joined = _joined(parts)
        self._insert(joined)
        self._unsaved.append(joined)
        if sum(len(part.keys) for part in self._unsaved) >= CHUNK:
            self.save()

    def save(self) -> None:
        """Write what is not on disk yet."""
        if self._unsaved:
            self._journal.add(_pack(_joined(self._unsaved)))
        self._unsaved = []

    def _insert(self, moves: Moves) -> None:
        if self._first_answers:
            moves = Moves(*(part[moves.kinds != Kind.TAKEN_BACK] for part in moves))
        rows = moves.kinds == Kind.TAKEN_BACK
        for key, column in zip(moves.keys[rows].tolist(), moves.columns[rows].tolist(), strict=True):
            self.taken_back.setdefault(key, set()).add(column)
        # Moves are given up where the player sees no win; a proof that comes later knows better.
        proven = moves.keys[moves.kinds == Kind.PROOF]
        for key in proven[self.is_taken_back(proven)].tolist():
            self.taken_back.pop(key, None)
        stones = stones_of(self._geometry, moves.keys)
        for level in np.unique(stones):
            rows = stones == level
            self._new[int(level)].append(Moves(*(part[rows] for part in moves)))

    def _merge(self, parts: Sequence[Moves]) -> Moves:
        """By key, each once, without what was taken back."""
        moves = _joined(parts)
        stays = moves.kinds != Kind.TAKEN_BACK
        for row in np.flatnonzero(self.is_taken_back(moves.keys)):
            if moves.columns[row] in self.taken_back[int(moves.keys[row])]:
                if moves.kinds[row] == Kind.PROOF:
                    raise ValueError(f"a proof of position {moves.keys[row]} does not hold")
                stays[row] = False
        moves = Moves(*(part[stays] for part in moves))
        order = np.lexsort((np.arange(len(moves.keys)), moves.kinds != Kind.PROOF, moves.keys))
        first = np.append(True, np.diff(moves.keys[order]) != 0)[: len(order)]
        return Moves(*(part[order][first] for part in moves))


def _joined(parts: Sequence[Moves]) -> Moves:
    return Moves(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _pack(moves: Moves) -> dict[str, Any]:
    """Moves as an entry of a journal: 8 bytes each for the keys, one for columns and kinds, by zlib and Base64."""
    content = moves.keys.astype("<u8").tobytes() + moves.columns.tobytes() + moves.kinds.tobytes()
    return {"count": len(moves.keys), "moves": base64.b64encode(zlib.compress(content)).decode()}


def unpack_moves(entry: dict[str, Any], geometry: Geometry) -> Moves:
    """The moves of an entry of the journal.

    Raises:
        ValueError: if it holds anything else.
    """
    count = read_value(int, entry.get("count"), "count")
    try:
        content = zlib.decompress(base64.b64decode(read_value(str, entry.get("moves"), "moves"), validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) != 10 * count:
        raise ValueError(f"it does not hold {count} moves")
    columns, kinds = np.frombuffer(content[8 * count :], np.int8).reshape(2, count)
    if count and not (columns.min() >= 0 and columns.max() < geometry.columns and 0 <= kinds.min() <= kinds.max() <= 5):
        raise ValueError("it holds something else than moves")
    return Moves(np.frombuffer(content[: 8 * count], "<u8").astype(np.uint64), columns.copy(), kinds.copy())


def proof_moves(proofs: Sequence[tuple[Keys, Columns]]) -> list[Moves]:
    """The moves of proofs."""
    return [Moves(keys, columns, np.full(len(keys), Kind.PROOF, np.int8)) for keys, columns in proofs]


def answers(keys: Keys, columns: npt.NDArray[np.integer]) -> Moves:
    """A player's answers."""
    return Moves(keys, columns.astype(np.int8), np.full(len(keys), Kind.ANSWER, np.int8))

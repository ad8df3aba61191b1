"""Sets of positions with the exact score of every move: the packaged ones, and files."""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.game import Board, Position
from alphac4.game.position import count_of, describe_outcome
from alphac4.game.rules import STANDARD
from alphac4.solver import FULL_COLUMN, Solver
from alphac4.solver.solver import shared_solver
from alphac4.storage.files import FileError
from alphac4.storage.text import parse_lines, read_text_lines

logger = logging.getLogger(__name__)

SETS = ("begin-hard", "begin-medium", "begin-easy", "middle-medium", "middle-easy", "end-easy")
PUBLIC_NAMES = {  # Pascal Pons's six test sets: L1 to L3 by stage from begin to end, R1 to R3 from easy to hard
    "Test_L1_R3": "begin-hard",
    "Test_L1_R2": "begin-medium",
    "Test_L1_R1": "begin-easy",
    "Test_L2_R2": "middle-medium",
    "Test_L2_R1": "middle-easy",
    "Test_L3_R1": "end-easy",
}
SUFFIX = ".columns"
ALL = "all"  # name of all sets together
CHECKED_CELLS = 22  # empty cells up to which scores in files are checked: the solver takes milliseconds
_SCORE = re.compile(r"-?[0-9]{1,2}")


@dataclass(frozen=True, kw_only=True)
class PositionSet:
    """S unfinished positions of one board, with the exact score of every move for the side to move."""

    name: str
    board: Board
    positions: Sequence[Position]
    scores: npt.NDArray[np.int8]  # [S, A]; `FULL_COLUMN` for illegal moves

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def legal(self) -> npt.NDArray[np.bool_]:
        """[S, A] legal moves."""
        return np.not_equal(self.scores, FULL_COLUMN)

    @cached_property
    def move_outcomes(self) -> npt.NDArray[np.int8]:
        """[S, A] outcome of every move: 1 win, 0 draw, -1 loss, `FULL_COLUMN` for illegal moves."""
        return np.where(self.legal, np.sign(self.scores), np.int8(FULL_COLUMN))

    @cached_property
    def best_score(self) -> npt.NDArray[np.int8]:
        """[S] exact score with best play."""
        return self.scores.max(axis=1)  # type: ignore[no-any-return]

    @cached_property
    def best_outcome(self) -> npt.NDArray[np.int8]:
        """[S] outcome with best play: 1 win, 0 draw, -1 loss for the side to move."""
        return np.sign(self.best_score)

    @cached_property
    def decisive(self) -> npt.NDArray[np.bool_]:
        """[S] positions in which at least one move is a mistake."""
        worst = np.where(self.legal, self.move_outcomes, np.int8(1)).min(axis=1)
        return np.less(worst, self.best_outcome)  # type: ignore[no-any-return]

    def head(self, count: int) -> "PositionSet":
        return replace(self, positions=self.positions[:count], scores=self.scores[:count])


def join_sets(sets: Sequence[PositionSet]) -> PositionSet:
    """Join the positions of some sets, in their order, into a set named `ALL`."""
    positions = [position for part in sets for position in part.positions]
    scores = np.concatenate([part.scores for part in sets])
    return PositionSet(name=ALL, board=sets[0].board, positions=positions, scores=scores)


def parse_positions(
    lines: Iterable[str],
    source: str,
    name: str,
    board: Board = STANDARD,
    solver: Solver | None = None,
    count: int | None = None,
) -> PositionSet:
    """Parse lines of moves followed by a score per column, '.' for a full one; at most ``count`` positions.

    A ``solver`` checks the scores of positions with at most `CHECKED_CELLS` empty cells. A FileError for an
    invalid line or a wrong score names ``source`` and the line.
    """
    known: dict[Position, list[int]] = {}

    def parse(words: list[str]) -> tuple[Position, list[int]]:
        position, scores = _parse_scored(words, board)
        if solver is not None and board.cells - position.plies <= CHECKED_CELLS:
            for column, (given, exact) in enumerate(zip(scores, solver.analyze(position), strict=True)):
                if exact not in (None, given):
                    raise ValueError(f"column {column + 1} has the score {given}, but its exact score is {exact}")
        if known.setdefault(position, scores) != scores:
            raise ValueError("an earlier line gives the same position other scores")
        return position, scores

    rows = list(islice(parse_lines(lines, source, parse), count))
    if not rows:
        raise FileError(f"{source}: contains no positions")
    if repeated := len(rows) - len(known):
        logger.warning("%s: %d of %d lines repeat an earlier position; each line counts", source, repeated, len(rows))
    scores = np.array([scores for _, scores in rows], np.int8)
    return PositionSet(name=name, board=board, positions=[position for position, _ in rows], scores=scores)


def load_positions(path: Path, board: Board = STANDARD, count: int | None = None) -> PositionSet:
    """Read a file by `parse_positions`; the set has the name of the file, or that in `PUBLIC_NAMES`."""
    stem = path.name.removesuffix(SUFFIX)
    name = PUBLIC_NAMES.get(stem, stem)
    return parse_positions(read_text_lines(path), str(path), name, board, shared_solver(board), count)


@cache
def packaged_positions(count: int | None = None) -> tuple[PositionSet, ...]:
    """Read the package's six sets for the standard board, or the first ``count`` positions of each."""
    folder = resources.files("alphac4.evaluation") / "sets"
    sets = []
    for name in SETS:
        lines = (folder / f"{name}{SUFFIX}").read_text(encoding="utf-8").splitlines()
        sets.append(parse_positions(lines, name, name, count=count))
    return tuple(sets)


def choose_sets(board: Board = STANDARD, files: Sequence[Path] = (), count: int | None = None) -> Sequence[PositionSet]:
    """Return the package's six sets, or the sets of ``files`` for a board; at most ``count`` positions of each."""
    if not files and board != STANDARD:
        raise ValueError("the package has positions of the standard board only; give files for other boards")
    if not files:
        return packaged_positions(count)
    sets = [load_positions(path, board, count) for path in files]
    names = [part.name for part in sets]
    if len({*names, ALL}) <= len(names):
        raise ValueError(f"files of positions need different names, none of them {ALL!r}, not {', '.join(names)}")
    sets.sort(key=lambda part: SETS.index(part.name) if part.name in SETS else len(SETS))
    return sets


def parse_position(words: Sequence[str], board: Board = STANDARD) -> tuple[Position, list[int]]:
    """Parse the words of a line: a move string, then optional scores. Return the unfinished position and the scores.

    The scores are none, one for the position (as in the public test sets), or one per column (as in the package's
    sets), with '.' for a full one (`FULL_COLUMN`).
    """
    moves, *shown = words
    position = Position.from_moves(moves, board)
    if len(shown) not in (0, 1, board.columns):
        raise ValueError(
            f"expected moves in one word, then at most a score, or a score for each of {board.columns} columns, "
            f"not {' '.join(words)!r:.60}"
        )
    if position.outcome() is not None:
        raise ValueError(f"the game is over after {moves}: {describe_outcome(position)}")
    if len(shown) == 1:
        return position, [_parse_score(shown[0], position)]
    scores = []
    for column, text in enumerate(shown):
        if position.is_legal(column) == (text == "."):
            state = "is not full, but has no score" if text == "." else f"is full, but has the score {text:.40}"
            raise ValueError(f"column {column + 1} {state}")
        try:
            scores.append(FULL_COLUMN if text == "." else _parse_score(text, position))
        except ValueError as error:
            raise ValueError(f"column {column + 1}: {error}") from error
    return position, scores


def _parse_scored(words: Sequence[str], board: Board) -> tuple[Position, list[int]]:
    """Parse a line with a score per column; see `parse_position`."""
    if len(words) != 1 + board.columns:
        expected = f"expected moves and a score for each of {board.columns} columns"
        raise ValueError(f"{expected}, not {count_of(len(words) - 1, 'score')}")
    return parse_position(words, board)


def _parse_score(text: str, position: Position) -> int:
    if not _SCORE.fullmatch(text):
        raise ValueError(f"{text!r:.40} is not a score")
    score = int(text)
    if abs(score) > (position.board.cells + 1 - position.plies) // 2:
        raise ValueError(f"a score of {text} is impossible after {count_of(position.plies, 'stone')}")
    return score

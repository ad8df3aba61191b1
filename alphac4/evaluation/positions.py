"""Sets of positions with the exact score of every move: the packaged ones, files, and the generation of new ones."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.game import Geometry, Position
from alphac4.game.position import count_of, describe_outcome
from alphac4.game.rules import STANDARD
from alphac4.solver import FULL_COLUMN, Solver, moves_to_end
from alphac4.solver.solver import shared_solver
from alphac4.storage.files import FileError, append_line, write_atomically
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
# Maximum number of stones on the board by stage, and of stones that best play adds by difficulty.
STAGES = {"begin": 14, "middle": 28, "end": STANDARD.cells - 1}
DIFFICULTIES = {"easy": 14, "medium": 28, "hard": STANDARD.cells}
CHECKED_CELLS = 22  # empty cells up to which scores in files are checked: the solver takes milliseconds
_SCORE = re.compile(r"-?[0-9]{1,2}")
_LINE_START = re.compile(rb"[1-7]+( (-?[0-9]{0,2}|\.))*")  # any part of a line from its start


@dataclass(frozen=True, kw_only=True)
class PositionSet:
    """S unfinished positions of one board, with the exact score of every move for the side to move."""

    name: str
    geometry: Geometry
    positions: Sequence[Position]
    scores: npt.NDArray[np.int8]  # [S, A]; `FULL_COLUMN` for illegal moves

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def legal(self) -> npt.NDArray[np.bool_]:
        """[S, A] legal moves."""
        return np.not_equal(self.scores, FULL_COLUMN)

    @cached_property
    def outcomes(self) -> npt.NDArray[np.int8]:
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
        worst = np.where(self.legal, self.outcomes, np.int8(1)).min(axis=1)
        return np.less(worst, self.best_outcome)  # type: ignore[no-any-return]

    def head(self, count: int) -> "PositionSet":
        """Return a set of the first ``count`` positions."""
        return replace(self, positions=self.positions[:count], scores=self.scores[:count])


def join_sets(sets: Sequence[PositionSet]) -> PositionSet:
    """Join the positions of some sets, in their order, into a set named `ALL`."""
    positions = [position for part in sets for position in part.positions]
    scores = np.concatenate([part.scores for part in sets])
    return PositionSet(name=ALL, geometry=sets[0].geometry, positions=positions, scores=scores)


def parse_positions(
    lines: Iterable[str],
    source: str,
    name: str,
    geometry: Geometry = STANDARD,
    solver: Solver | None = None,
    count: int | None = None,
) -> PositionSet:
    """Parse lines of moves followed by a score per column, '.' for a full one; at most ``count`` positions.

    A ``solver`` checks the scores of positions with at most `CHECKED_CELLS` empty cells.

    Raises:
        FileError: for an invalid line or a wrong score; the message names ``source``, the line and the problem.
    """
    known: dict[Position, list[int]] = {}

    def parse(words: list[str]) -> tuple[Position, list[int]]:
        position, scores = _parse_scored(words, geometry)
        if solver is not None and geometry.cells - position.plies <= CHECKED_CELLS:
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
    return PositionSet(name=name, geometry=geometry, positions=[position for position, _ in rows], scores=scores)


def load_positions(path: Path, geometry: Geometry = STANDARD, count: int | None = None) -> PositionSet:
    """Read a file in the ``.columns`` format, at most ``count`` positions; its name becomes the name of the set.

    See `parse_positions` for checks.

    Raises:
        FileError: if the file cannot be read, a line is invalid, or a score is wrong.
    """
    stem = path.name.removesuffix(SUFFIX)
    try:
        lines = read_text_lines(path)
    except OSError as error:
        expected = "expected a file with moves and a score per column on each line"
        raise FileError(f"{path}: {error.strerror}; {expected}") from error
    name = PUBLIC_NAMES.get(stem, stem)
    return parse_positions(lines, str(path), name, geometry, shared_solver(geometry), count)


@cache
def packaged_positions(count: int | None = None) -> tuple[PositionSet, ...]:
    """Read the package's six sets for the standard board, or the first ``count`` positions of each."""
    folder = resources.files("alphac4.evaluation") / "sets"
    sets = []
    for name in SETS:
        lines = (folder / f"{name}{SUFFIX}").read_text(encoding="utf-8").splitlines()
        sets.append(parse_positions(lines, name, name, count=count))
    return tuple(sets)


def choose_sets(
    geometry: Geometry = STANDARD, files: Sequence[Path] = (), count: int | None = None
) -> Sequence[PositionSet]:
    """Return the package's six sets, or the sets of ``files`` for a board; at most ``count`` positions of each.

    Raises:
        ValueError: for a file without positions, or two sets of the same name.
    """
    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    if not files and geometry != STANDARD:
        raise ValueError("the package has positions of the standard board only; give files for other boards")
    if not files:
        return packaged_positions(count)
    sets = [load_positions(path, geometry, count) for path in files]
    names = [part.name for part in sets]
    if len({*names, ALL}) <= len(names):
        raise ValueError(f"files of positions need different names, none of them {ALL!r}, not {', '.join(names)}")
    sets.sort(key=lambda part: SETS.index(part.name) if part.name in SETS else len(SETS))
    return sets


def parse_position(words: Sequence[str], geometry: Geometry = STANDARD) -> tuple[Position, list[int]]:
    """Parse the words of a line: a move string, then optional scores. Return the unfinished position and the scores.

    There are no scores, the score of the position as in the public test sets, or a score per column as in this
    package's sets, with '.' for a full one (`FULL_COLUMN`).

    Raises:
        ValueError: for an illegal move, a finished game, an impossible score, or other words after the moves.
    """
    moves, *shown = words
    position = Position.from_moves(moves, geometry)
    if len(shown) not in (0, 1, geometry.columns):
        raise ValueError(
            f"expected moves in one word, then at most a score, or a score for each of {geometry.columns} columns, "
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


def _parse_scored(words: Sequence[str], geometry: Geometry) -> tuple[Position, list[int]]:
    """Parse a line with a score per column; see `parse_position`."""
    if len(words) != 1 + geometry.columns:
        expected = f"expected moves and a score for each of {geometry.columns} columns"
        raise ValueError(f"{expected}, not {count_of(len(words) - 1, 'score')}")
    return parse_position(words, geometry)


def _parse_score(text: str, position: Position) -> int:
    if not _SCORE.fullmatch(text):
        raise ValueError(f"{text!r:.40} is not a score")
    score = int(text)
    if abs(score) > (position.geometry.cells + 1 - position.plies) // 2:
        raise ValueError(f"a score of {text} is impossible after {count_of(position.plies, 'stone')}")
    return score


def stage_of(position: Position) -> str:
    """Return the stage of the game: "begin", "middle" or "end"."""
    return next(stage for stage, plies in STAGES.items() if position.plies <= plies)


def set_of(position: Position, score: int) -> str:
    """Return the name of the set that a position with this exact score belongs to, such as "middle-easy"."""
    plies = position.plies
    # Moves of the winner and those of the loser between them; a draw fills the board.
    stones = 2 * moves_to_end(STANDARD, plies, score) - (score > 0) if score else STANDARD.cells - plies
    return f"{stage_of(position)}-{next(name for name, most in DIFFICULTIES.items() if stones <= most)}"


def random_positions(stage: str, rng: np.random.Generator) -> Iterator[Position]:
    """Yield unfinished positions of a stage, without end, from random games of random length."""
    names = list(STAGES)
    fewest = 1 + STAGES[names[names.index(stage) - 1]] if stage != names[0] else 1
    while True:
        position = Position()
        for _ in range(int(rng.integers(fewest, STAGES[stage] + 1))):
            legal = position.legal_columns()
            if not legal:
                break
            position = position.play(int(rng.choice(legal)))
        if position.outcome() is None:
            yield position


def sampled_positions(path: Path, rng: np.random.Generator) -> Iterator[Position]:
    """Yield the positions of a file's lines in random order.

    Raises:
        OSError: if the file cannot be read.
        FileError: if a line is invalid, or there is none.
    """
    positions = list(parse_lines(read_text_lines(path), str(path), parse_position))
    if not positions:
        raise FileError(f"{path}: contains no positions")
    for index in rng.permutation(len(positions)):
        yield positions[index][0]


def write_set(
    path: Path,
    name: str,
    count: int,
    candidates: Iterable[Position],
    solver: Solver,
    *,
    on_position: Callable[[], object] = lambda: None,
) -> int:
    """Fill a file with ``count`` different candidates that belong to the set ``name``, scored by ``solver``.

    Each line is written as soon as it is scored, and existing lines count: repeat an interrupted call to resume. A last
    line without a line break is computed again, because it may have been cut off within a score.

    Returns:
        The number of lines, which is below ``count`` only if there are no more candidates.

    Raises:
        FileError: if an existing file holds anything else, such as positions of another set or of other candidates.
        OSError: if a line cannot be written.
    """
    known = _read_known(path, name, solver)
    for _ in known:
        on_position()
    missing = set(known)
    for position in candidates:
        missing.discard(position)
        if len(known) >= count and len(missing) < len(known):  # one of its own candidates must be there
            return len(known)
        # Check the stage first, because the difficulty takes a search.
        if position in known or stage_of(position) != name.partition("-")[0]:
            continue
        if set_of(position, solver.solve(position)) == name:
            if missing:
                break
            scores = ("." if score is None else str(score) for score in solver.analyze(position))
            append_line(path, " ".join([position.moves or "", *scores]))
            known.add(position)
            on_position()
    if missing:
        raise FileError(f"{path}: has positions of another seed or source: remove it, or choose another folder")
    return len(known)


def _read_known(path: Path, name: str, solver: Solver) -> set[Position]:
    """Return the positions in a file of `write_set`, and remove an incomplete last line."""
    if not path.exists():
        return set()
    content, lines = path.read_bytes(), read_text_lines(path)
    last = content.rpartition(b"\n")[2]
    is_incomplete = bool(_LINE_START.fullmatch(last))
    if is_incomplete:
        content = content.removesuffix(last)
        del lines[-1]
    known = set[Position]()
    if content.strip():
        part = parse_positions(lines, str(path), name, solver=solver)
        for position, score in zip(part.positions, part.best_score.tolist(), strict=True):
            if (other := set_of(position, score)) != name:
                raise FileError(f"{path}: {position.moves} belongs to the set {other}, not to {name}: remove the file")
        known.update(part.positions)
    if is_incomplete:
        logger.warning("%s: the last line is incomplete and is computed again", path)
        write_atomically(path, content)
    return known

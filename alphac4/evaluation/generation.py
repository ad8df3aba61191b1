"""Makes sets of positions with exact scores, laid out like Pascal Pons's six public test sets."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from alphac4.evaluation.positions import PositionSetError, format_line, parse_positions, read_text
from alphac4.game import IllegalMove, Position
from alphac4.game.rules import STANDARD
from alphac4.solver import Solver, moves_to_end
from alphac4.storage.files import append_line, write_atomically

# The most stones on the board in each stage, and the most still to come with best play in each difficulty.
STAGES = {"begin": 14, "middle": 28, "end": STANDARD.cells - 1}
DIFFICULTIES = {"easy": 14, "medium": 28, "hard": STANDARD.cells}


def stage_of(position: Position) -> str:
    """Begin, middle or end of the game."""
    return next(stage for stage, plies in STAGES.items() if position.plies <= plies)


def set_of(position: Position, score: int) -> str:
    """The set of a position with that exact score, such as "middle-easy"."""
    plies = position.plies
    # The winner's moves and the other side's between them; a draw fills the board.
    stones = 2 * moves_to_end(STANDARD, plies, score) - (score > 0) if score else STANDARD.cells - plies
    return f"{stage_of(position)}-{next(name for name, most in DIFFICULTIES.items() if stones <= most)}"


def random_positions(stage: str, rng: np.random.Generator) -> Iterator[Position]:
    """Endless unfinished positions of a stage by random moves, their numbers of stones uniform before wins are cut."""
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
    """The positions of a file's lines in random order: move strings, whatever follows them unread.

    Raises:
        PositionSetError: if the file cannot be read or holds an impossible move.
    """
    try:
        moves = [line.split()[0] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise PositionSetError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    for index in rng.permutation(len(moves)):
        try:
            position = Position.from_moves(moves[index])
        except IllegalMove as error:
            raise PositionSetError(f"{path}: {error}") from error
        if position.outcome() is not None:
            raise PositionSetError(f"{path}: the game is over after {moves[index]}")
        yield position


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

    Each line is on disk as soon as its scores are known; those found there count, so that an interrupted call can be
    repeated and goes on. Returns how many there are: fewer than ``count`` only where there are no more candidates.

    Raises:
        PositionSetError: if the file is there and holds anything else.
    """
    known = _whole_lines(path)
    for _ in known:
        on_position()
    for position in candidates:
        if len(known) >= count:
            break
        # The stage is plain to see, while the difficulty takes a search.
        if position in known or stage_of(position) != name.partition("-")[0]:
            continue
        if set_of(position, solver.solve(position)) == name:
            append_line(path, format_line(position, solver.analyze(position)))
            known.add(position)
            on_position()
    return len(known)


def _whole_lines(path: Path) -> set[Position]:
    """The positions in a file, from which a line cut short by a kill is removed."""
    if not path.exists():
        return set()
    text = read_text(path)
    whole = text[: text.rfind("\n") + 1]
    known = set(parse_positions(whole.splitlines(), str(path), path.stem).positions) if whole.strip() else set()
    if whole != text:
        write_atomically(path, whole.encode())
    return known

"""Judges the moves of a game by the exact solver, within a limit of time, and asks a player for its opinion.

Only the positions of the game are solved, from the last to the first: what is proven of later ones speeds up earlier
ones, and if time runs out it is the opening that is not judged. Other moves are looked at only where the outcome slips.
"""

import time
from collections.abc import Callable

from alphac4.arena.players import SearchingPlayer
from alphac4.game import Geometry, Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.game.rules import STANDARD
from alphac4.review.record import Opinion, Review, ReviewedMove, Verdict
from alphac4.solver.deadline import Deadline, TimeIsUp
from alphac4.solver.solver import Solver, moves_to_end, shared_solver
from alphac4.solver.verdict import from_the_centre

DEFAULT_SECONDS = 120.0  # for the solver, a game
LINE_PLIES = 10  # of best play that are shown
LINE_SHARE = 0.5  # of the time for the positions that may be spent on better moves and their lines

OnPause = Callable[[], None]


def review_game(
    moves: str,
    geometry: Geometry = STANDARD,
    *,
    player: SearchingPlayer | None = None,
    solver: Solver | None = None,
    seconds: float = DEFAULT_SECONDS,
    on_pause: OnPause = lambda: None,
    on_move: Callable[[int, int], None] = lambda _done, _all: None,
) -> Review:
    """Review a game, finished or not.

    Args:
        moves: the game as a move string.
        geometry: its board.
        player: whose opinion to show.
        solver: by default the process's shared one.
        seconds: how long the solver may take for the positions, and half as long again for better moves.
        on_pause: called some dozens of times a second; what it raises ends the review.
        on_move: called with the number of moves judged so far, and of all.

    Raises:
        IllegalMove: naming the offending character.
    """
    positions = [Position(geometry=geometry)]
    columns = [COLUMN_NAMES.index(name) for name in Position.from_moves(moves, geometry).moves or ""]
    for column in columns:
        positions.append(positions[-1].play(column))
    judge = _Judge(solver or shared_solver(geometry), on_pause)
    started = time.monotonic()
    judge.give(seconds)
    scores: list[int | None] = [None] * len(positions)
    for ply in reversed(range(len(positions))):
        scores[ply] = judge.score(positions[ply])
        on_move(len(columns) - ply, len(columns))
    opinions, values = _ask(player, positions, columns)
    judge.give(LINE_SHARE * seconds)  # the player's time is none of the solver's
    reviewed: list[ReviewedMove] = []
    for index, column in reversed(list(enumerate(columns))):  # again the easy positions first
        before, after = positions[index], scores[index + 1]
        best = _verdict(before, scores[index])
        played = _verdict(before, None if after is None else -after)
        better: tuple[int, ...] = ()
        line: tuple[int, ...] = ()
        if best is not None and played is not None and best.outcome != played.outcome:
            better = judge.best_columns(before, best.score)
            line = judge.best_line(before, best.score, better)
        reviewed.append(
            ReviewedMove(
                ply=index + 1,
                column=column,
                best=best,
                played=played,
                better=better,
                line=line,
                opinion=opinions[index],
            )
        )
    return Review(
        moves=positions[-1].moves or "",
        geometry=geometry,
        player="" if player is None else player.name,
        reviewed=tuple(reversed(reviewed)),
        seconds=time.monotonic() - started,
        values=values,
    )


def _verdict(position: Position, score: int | None) -> Verdict | None:
    """A score for the side to move in a position, with its distance to the end."""
    if score is None:
        return None
    return Verdict(score=score, moves=moves_to_end(position.geometry, position.plies, score))


def _ask(
    player: SearchingPlayer | None, positions: list[Position], columns: list[int]
) -> tuple[list[Opinion | None], tuple[float, ...]]:
    """The player's opinion before each move, and its `Review.values`; ``positions`` has one more than ``columns``."""
    if player is None:
        return [None] * len(columns), ()
    outcome = positions[-1].outcome()
    result = player.search(positions if outcome is None else positions[:-1])
    values_to_move = [float(value) for value in result.value] + ([] if outcome is None else [float(outcome)])
    opinions: list[Opinion | None] = [
        Opinion(value=values_to_move[index], column=int(result.moves[index]), prior=float(result.priors[index, column]))
        for index, column in enumerate(columns)
    ]
    values = zip(values_to_move, positions, strict=True)
    return opinions, tuple(value if position.first_to_move else -value for value, position in values)


class _Judge:
    """The solver with a limit of time; None and empty answers say that it was over."""

    def __init__(self, solver: Solver, on_pause: OnPause) -> None:
        self._solver = solver
        self._on_pause = on_pause
        self._deadline = Deadline(0, on_pause)

    def give(self, seconds: float) -> None:
        """Begin a stretch of so many seconds."""
        self._deadline = Deadline(seconds, self._on_pause)

    def score(self, position: Position) -> int | None:
        """The exact score for the side to move."""
        known = position.plies <= self._solver.book.plies  # whatever the time
        try:
            return self._solver.solve(position, self._on_pause if known else self._deadline)
        except TimeIsUp:
            return None

    def best_columns(self, position: Position, score: int) -> tuple[int, ...]:
        """The columns that reach the position's score, as far as there is time."""
        return tuple(c for c in from_the_centre(position) if self._reaches(position, c, score))

    def best_line(self, position: Position, score: int, first: tuple[int, ...]) -> tuple[int, ...]:
        """Best play by both sides, a few moves long; of moves equally good the most central."""
        line: list[int] = []
        candidates = first
        while candidates and len(line) < LINE_PLIES:
            column = next((c for c in candidates if self._reaches(position, c, score)), None)
            if column is None:
                break
            line.append(column)
            position, score = position.play(column), -score
            candidates = from_the_centre(position)
        return tuple(line)

    def _reaches(self, position: Position, column: int, score: int) -> bool:
        found = self.score(position.play(column))
        return found is not None and -found == score

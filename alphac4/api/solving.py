"""The exact solver's verdict, for Python users."""

from dataclasses import dataclass
from functools import cached_property

from alphac4.api.positions import Given, read_position
from alphac4.game import Geometry, Outcome, Position, column_name
from alphac4.game.rules import STANDARD
from alphac4.solver.solver import ExactColumn, exact, shared_solver


@dataclass(frozen=True, kw_only=True)
class SolvedPosition:
    """A position with the exact score of every move that can be made."""

    position: Position
    columns: dict[int, ExactColumn]  # by 0-based column

    @cached_property
    def score(self) -> int:
        """The position's exact score for the side to move: that of its best move."""
        return max(column.score for column in self.columns.values())

    @property
    def outcome(self) -> Outcome:
        """Win, draw or loss with best play, for the side to move."""
        return Outcome((self.score > 0) - (self.score < 0))

    @property
    def best(self) -> list[int]:
        """The 0-based columns with the highest score."""
        return [column for column, verdict in self.columns.items() if verdict.best]

    def __repr__(self) -> str:
        lines = [f"after {self.position.moves!r}: {self.outcome.name.lower()}, score {self.score}"]
        for column, verdict in self.columns.items():
            mark = " *" if verdict.best else ""
            lines.append(f"  column {column_name(column)}: {verdict.score:+d}, {verdict.outcome}{mark}")
        return "\n".join(lines)


def solve(position: Given, *, geometry: Geometry = STANDARD) -> int:
    """The exact score of a position for the side to move.

    0 is a draw. A positive score is a win, the higher the faster: the stones that the winner still holds before its
    last move. A negative score is the same for the opponent. Positions with few stones may take minutes on boards
    that the package has no opening book for.

    Raises:
        ValueError: for an illegal move, or a game that is over.
    """
    found = read_position(position, position.geometry if isinstance(position, Position) else geometry)
    return shared_solver(found.geometry).solve(found)


def analyze(position: Given, *, geometry: Geometry = STANDARD) -> SolvedPosition:
    """The exact score of every move; see `solve`."""
    found = read_position(position, position.geometry if isinstance(position, Position) else geometry)
    return SolvedPosition(position=found, columns={verdict.column: verdict for verdict in exact(found)})

"""Players, solvers and a game for tests of reviews."""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
from helpers import LATE

from alphac4.game import STANDARD, Position, make_board
from alphac4.plugins.review.game import Review, review_game
from alphac4.solver import Solver, no_known_scores, shared_solver


class Counting:
    """Player for which a position with n stones has the value n / 100; it stores the positions of the last call."""

    name = "counting"

    def search(self, positions: Sequence[Position]) -> SimpleNamespace:
        count = len(positions)
        self.asked = [position.plies for position in positions]
        return SimpleNamespace(
            value=np.array(self.asked) / 100, moves=np.full(count, 3), priors=np.full((count, 7), 1 / 7)
        )


class Scripted:
    """Player with prepared values and columns for ten positions of a game; column c has the prior c / 10."""

    name = "net@50"

    def search(self, positions: Sequence[Position]) -> SimpleNamespace:
        assert len(positions) == 10
        return SimpleNamespace(
            value=np.array([1, -0.5, 0.25, -0.1, 0.75, 0.3, -1, 0.6, 0, -0.25]),
            moves=np.array([2, 2, 1, 3, 0, 0, 4, 3, 0, 4]),
            priors=np.tile(np.arange(5) / 10, (10, 1)),
        )


def short_review() -> Review:
    """Return the review of a game with moves of every grade; `data/review.txt` is its text."""
    board = make_board(3, 5, 3)
    solver = Solver(board, book=no_known_scores())
    return review_game("2253441423", board, solver=solver, player=Scripted())  # type: ignore[arg-type]


class LateSolver:
    """Solver of late positions that assumes best play before them, so that the opening takes no time."""

    book = no_known_scores()

    def __init__(self, game: str) -> None:
        self.first = shared_solver(STANDARD).solve(Position.from_moves(game[:LATE]))

    def solve(self, position: Position, _on_poll: object) -> int:
        if position.plies < LATE:
            return self.first * (-1) ** position.plies
        return shared_solver(STANDARD).solve(position)

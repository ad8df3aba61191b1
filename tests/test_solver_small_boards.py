from functools import cache

import numpy as np
import pytest

from alphac4.game.position import Position
from alphac4.game.rules import Geometry, make_geometry
from alphac4.solver import Solver, no_known_scores

BOARDS = [  # rows, columns, run length, diagonals, least number of stones that plain minimax can cope with
    pytest.param(4, 4, 3, True, 0, id="4x4 connect 3"),
    pytest.param(4, 4, 3, False, 2, id="4x4 connect 3 without diagonals"),
    pytest.param(4, 4, 4, True, 4, id="4x4 connect 4"),
    pytest.param(5, 4, 4, True, 9, id="5x4 connect 4"),
    pytest.param(4, 5, 4, False, 9, id="4x5 connect 4 without diagonals"),
    pytest.param(3, 5, 3, True, 2, id="3x5 connect 3"),
    pytest.param(5, 3, 3, True, 2, id="5x3 connect 3"),
    pytest.param(5, 3, 3, False, 2, id="5x3 connect 3 without diagonals"),
    pytest.param(3, 3, 2, True, 0, id="3x3 connect 2"),
    pytest.param(1, 9, 3, True, 0, id="1x9 connect 3"),
    pytest.param(3, 3, 3, False, 0, id="3x3 connect 3 without diagonals"),
    pytest.param(7, 1, 3, True, 0, id="7x1 connect 3"),
    pytest.param(6, 3, 5, True, 6, id="6x3 connect 5"),
]

Columns = tuple[str, ...]  # stones of each column from the bottom


class PlainMinimax:
    """Scores by the definition, on strings: no bit, no bound and no line of the solver's code."""

    def __init__(self, rows: int, columns: int, run_length: int, diagonals: bool) -> None:
        self.rows = rows
        self.cells = rows * columns
        self.run_length = run_length
        self.directions = [(1, 0), (0, 1)] + ([(1, 1), (1, -1)] if diagonals else [])
        self.score = cache(self.score)  # type: ignore[method-assign]

    def wins(self, board: Columns, column: int) -> bool:
        """Whether the top stone of a column completes a run."""
        row = len(board[column]) - 1
        player = board[column][row]
        for right, up in self.directions:
            length = 1
            for sign in (1, -1):
                x, y = column + sign * right, row + sign * up
                while 0 <= x < len(board) and 0 <= y < len(board[x]) and board[x][y] == player:
                    length, x, y = length + 1, x + sign * right, y + sign * up
            if length >= self.run_length:
                return True
        return False

    def score(self, board: Columns) -> int:
        """The exact score of an unfinished or drawn board for the side to move."""
        plies = sum(map(len, board))
        best = None
        for column in range(len(board)):
            if len(board[column]) == self.rows:
                continue
            child = (*board[:column], board[column] + "xo"[plies % 2], *board[column + 1 :])
            score = (self.cells + 1 - plies) // 2 if self.wins(child, column) else -self.score(child)
            best = score if best is None else max(best, score)
        return 0 if best is None else best


def random_moves(geometry: Geometry, plies: int, rng: np.random.Generator) -> Position | None:
    """A position after random moves; None if the game ends before."""
    position = Position(geometry=geometry)
    for _ in range(plies):
        if not position.legal_columns():
            return None
        position = position.play(int(rng.choice(position.legal_columns())))
    return position if position.legal_columns() else None


@pytest.mark.parametrize(("rows", "columns", "run_length", "diagonals", "least_plies"), BOARDS)
def test_scores_equal_plain_minimax(
    rows: int, columns: int, run_length: int, diagonals: bool, least_plies: int
) -> None:
    """On boards of many shapes, scores and columns equal those of a minimax written from the definition."""
    geometry = make_geometry(rows, columns, run_length, diagonals)
    minimax = PlainMinimax(rows, columns, run_length, diagonals)
    solver = Solver(geometry, book=no_known_scores())
    rng = np.random.default_rng(rows * 100 + columns)
    for attempt in range(60):
        plies = least_plies + attempt % max(1, geometry.cells - least_plies)
        position = random_moves(geometry, plies, rng)
        if position is None:
            continue
        grid = position.grid()
        board = tuple("".join(".xo"[cell] for cell in grid[:, column] if cell) for column in range(columns))
        expected = minimax.score(board)
        assert solver.solve(position) == expected, position.moves
        assert max(score for score in solver.analyze(position) if score is not None) == expected
        assert solver.solve_outcome(position) == np.sign(expected)


@pytest.mark.slow
@pytest.mark.parametrize("table_bits", [14, 22])
def test_boards_of_64_bits_are_solved(table_bits: int) -> None:
    """Where a key takes all 64 bits, tag and bounds still fit an entry; a smaller table is refused."""
    geometry = make_geometry(7, 8)
    solver = Solver(geometry, table_bits=table_bits, book=no_known_scores())
    rng = np.random.default_rng(5)
    solved = 0
    while solved < 20:
        position = random_moves(geometry, 44, rng)
        if position is None:
            continue
        solved += 1
        children = [position.play(column) for column in position.legal_columns()]
        assert solver.solve(position) == max(-solver.solve(child) for child in children)
    with pytest.raises(ValueError, match="at least 14"):
        Solver(geometry, table_bits=13)

import itertools
import math

import numpy as np
import pytest

from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.mcts.heuristics import (
    CHAINS_SCALE,
    LONGEST_SCALE,
    chain_points,
    chains_value,
    lines_value,
    longest_run,
    longest_value,
)

BOARDS = [STANDARD, make_geometry(5, 5, 3), make_geometry(4, 4, 3), make_geometry(5, 6, 4, False)]


def naive_lines(geometry: Geometry) -> list[list[tuple[int, int]]]:
    """Every line as its cells (row, column), found by walking."""
    directions = [(1, 0), (0, 1)] + ([(1, 1), (-1, 1)] if geometry.diagonals else [])
    lines = []
    for row, column, (down, right) in itertools.product(range(geometry.rows), range(geometry.columns), directions):
        cells = [(row + i * down, column + i * right) for i in range(geometry.run_length)]
        if all(0 <= r < geometry.rows and 0 <= c < geometry.columns for r, c in cells):
            lines.append(cells)
    return lines


def random_position(geometry: Geometry, rng: np.random.Generator) -> Position:
    """After some random moves, unfinished."""
    while True:
        position = Position.from_moves("", geometry)
        for _ in range(int(rng.integers(1, geometry.cells))):
            if position.outcome() is not None:
                break
            position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is None:
            return position


def cells_of(position: Position) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Own and the opponent's cells (row, column)."""
    grid = position.grid()
    own = 1 if position.first_to_move else 2
    found: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
    for row in range(position.geometry.rows):
        for column in range(position.geometry.columns):
            if grid[row][column]:
                found[0 if grid[row][column] == own else 1].add((row, column))
    return found


def stones(position: Position) -> tuple[np.uint64, np.uint64]:
    """Own and the opponent's stones as bits."""
    return np.uint64(position.own), np.uint64(position.own ^ position.occupied)


@pytest.mark.parametrize("geometry", BOARDS, ids=str)
def test_lines_and_chains_agree_with_counting_cell_by_cell(geometry: Geometry, rng: np.random.Generator) -> None:
    """On random positions of four boards."""
    lines = naive_lines(geometry)
    for _ in range(30):
        position = random_position(geometry, rng)
        own, other = cells_of(position)
        through = [sum(len(side & set(line)) for line in lines) for side in (own, other)]
        expected = (through[0] - through[1]) / max(sum(through), 1)
        assert lines_value(geometry, *stones(position)) == pytest.approx(expected)

        def points(side: set[tuple[int, int]], against: set[tuple[int, int]]) -> float:
            worth = {geometry.run_length - 1: 10.0, geometry.run_length - 2: 5.0, geometry.run_length - 3: 2.0}
            worth.pop(0, None)
            return sum(worth.get(len(side & set(line)), 0.0) for line in lines if not against & set(line))

        ours, theirs = points(own, other), points(other, own)
        assert chain_points(geometry, *stones(position)) == ours
        assert chains_value(geometry, *stones(position)) == pytest.approx(math.tanh((ours - theirs) / CHAINS_SCALE))


@pytest.mark.parametrize("geometry", BOARDS, ids=str)
def test_the_longest_run_agrees_with_walking(geometry: Geometry, rng: np.random.Generator) -> None:
    """The length times how many there are, over all directions in which a winning line fits."""
    directions = {tuple(np.subtract(line[1], line[0])) for line in naive_lines(geometry)}
    for _ in range(30):
        position = random_position(geometry, rng)
        own, _ = cells_of(position)
        best, count = 0, 0
        for length in range(1, geometry.run_length):
            found = sum(
                all((row + i * down, column + i * right) in own for i in range(length))
                for row, column in own
                for down, right in directions
            )
            if found:
                best, count = length, found
        assert longest_run(geometry, stones(position)[0]) == best * count


def test_a_corner_has_three_lines_and_the_centre_thirteen() -> None:
    """The well-known table: a stone in the corner against one in the centre column's third row (hand-counted)."""
    corner, centre = np.uint64(1), np.uint64(1) << np.uint64(3 * 7 + 2)
    assert lines_value(STANDARD, centre, corner) == pytest.approx((13 - 3) / (13 + 3))


def test_evaluations_flip_with_the_side(rng: np.random.Generator) -> None:
    """What is good for one is bad for the other."""
    for _ in range(20):
        own, other = stones(random_position(STANDARD, rng))
        for value in (lines_value, longest_value, chains_value):
            assert value(STANDARD, own, other) == pytest.approx(-value(STANDARD, other, own))
            assert -1 <= value(STANDARD, own, other) <= 1


def test_three_in_a_row_is_worth_three_times_its_count() -> None:
    """X holds 1, 2, 3 of the bottom row: one run of three."""
    position = Position.from_moves("112233")
    own, other = stones(position)
    assert longest_run(STANDARD, own) == 3
    assert longest_value(STANDARD, own, other) == pytest.approx(math.tanh((3 - 3) / LONGEST_SCALE))

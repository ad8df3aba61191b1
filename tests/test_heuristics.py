import math

import numpy as np
import pytest
from helpers import random_positions
from naive import naive_lines

from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.mcts.classic.rollouts import (
    CHAINS_SCALE,
    LONGEST_SCALE,
    chain_points,
    chains_value,
    lines_value,
    longest_run,
    longest_value,
)

BOARDS = [STANDARD, make_geometry(5, 5, 3), make_geometry(4, 4, 3), make_geometry(5, 6, 4, False)]
Cells = set[tuple[int, int]]


def cells_of(position: Position) -> tuple[Cells, Cells]:
    """Own and the opponent's cells (row, column)."""
    sides = (1, 2) if position.first_to_move else (2, 1)
    own, other = ({(int(r), int(c)) for r, c in np.argwhere(position.grid() == side)} for side in sides)
    return own, other


def stones(position: Position) -> tuple[np.uint64, np.uint64]:
    """Own and the opponent's stones as bits."""
    return np.uint64(position.own), np.uint64(position.own ^ position.occupied)


@pytest.mark.parametrize("geometry", BOARDS)
def test_evaluations_agree_with_counting_cell_by_cell(geometry: Geometry, rng: np.random.Generator) -> None:
    lines = naive_lines(geometry)
    directions = {tuple(np.subtract(line[1], line[0])) for line in lines}
    worth = {geometry.run_length - 1: 10.0, geometry.run_length - 2: 5.0, geometry.run_length - 3: 2.0, 0: 0.0}

    def points(side: Cells, against: Cells) -> float:
        return sum(worth.get(len(side & set(line)), 0.0) for line in lines if not against & set(line))

    for position in random_positions(30, rng, geometry):
        own, other = cells_of(position)
        through = [sum(len(side & set(line)) for line in lines) for side in (own, other)]
        expected = (through[0] - through[1]) / max(sum(through), 1)
        assert lines_value(geometry, *stones(position)) == pytest.approx(expected)

        ours, theirs = points(own, other), points(other, own)
        assert chain_points(geometry, *stones(position)) == ours
        assert chains_value(geometry, *stones(position)) == pytest.approx(math.tanh((ours - theirs) / CHAINS_SCALE))

        runs = [  # of each length, over all directions in which a winning line fits
            sum(
                all((row + i * down, column + i * right) in own for i in range(length))
                for row, column in own
                for down, right in directions
            )
            for length in range(1, geometry.run_length)
        ]
        longest = max((length for length, count in enumerate(runs, 1) if count), default=0)
        assert longest_run(geometry, stones(position)[0]) == (longest * runs[longest - 1] if longest else 0)


def test_known_positions_have_the_values_counted_by_hand() -> None:
    corner, centre = np.uint64(1), np.uint64(1) << np.uint64(3 * 7 + 2)  # on 3 and on 13 lines
    assert lines_value(STANDARD, centre, corner) == pytest.approx((13 - 3) / (13 + 3))
    own, other = stones(Position.from_moves("11223"))  # O, who holds two on the second row; X three on the first
    assert (longest_run(STANDARD, own), longest_run(STANDARD, other)) == (2, 3)
    assert longest_value(STANDARD, own, other) == pytest.approx(math.tanh((2 - 3) / LONGEST_SCALE))

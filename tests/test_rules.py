import random

import numpy as np
import pytest
from naive import random_board, wins

from alphac4.game import Position, make_geometry
from alphac4.game.rules import STANDARD, count_stones, has_run, legal_cells, mirror, play, winning_cells

GEOMETRIES = [
    (6, 7, 4, True),
    (5, 5, 3, True),
    (4, 4, 3, True),
    (5, 6, 4, False),
    (7, 8, 5, True),
    (3, 9, 2, True),
    (31, 2, 4, True),
    (9, 3, 4, True),
]


def stones_of(board: tuple[str, ...], side: str, rows: int) -> np.uint64:
    """The bitboard of a naive board."""
    return np.uint64(
        sum(
            1 << (c * (rows + 1) + r) for c, stack in enumerate(board) for r, stone in enumerate(stack) if stone == side
        )
    )


def test_distinct_positions_by_ply_match_the_published_sequence() -> None:
    """OEIS A212693: distinct positions after each ply, play stopping at a win."""
    known = [1, 7, 49, 238, 1120, 4263, 16422, 54859]
    level = {(np.uint64(0), np.uint64(0))}
    for ply, expected in enumerate(known):
        assert len(level) == expected, f"ply {ply}"
        following = set()
        for own, occupied in level:
            if has_run(STANDARD, own ^ occupied):
                continue
            for column in range(7):
                after = play(STANDARD, own, occupied, column)
                if after[1] != occupied:
                    following.add((np.uint64(after[0]), np.uint64(after[1])))
        level = following


@pytest.mark.parametrize("shape", GEOMETRIES)
def test_wins_agree_with_a_naive_grid_scan(shape: tuple[int, int, int, bool]) -> None:
    """Random boards of both sides, wins in every direction or none."""
    rows, columns, run, diagonals = shape
    geometry = make_geometry(*shape)
    rng = random.Random(1)
    found = 0
    for _ in range(400):
        board, _ = random_board(rng, rows, columns, rng.randrange(rows * columns + 1))
        for side in "xo":
            expected = wins(board, side, rows, run, diagonals)
            found += expected
            assert has_run(geometry, stones_of(board, side, rows)) == expected, board
    assert found > 10, "the boards must contain wins for the comparison to mean anything"


@pytest.mark.parametrize("shape", GEOMETRIES)
def test_winning_cells_are_those_whose_stone_wins(shape: tuple[int, int, int, bool]) -> None:
    """Every empty cell is tried by placing a stone there; boards already won do not count."""
    rows, columns, _, _ = shape
    geometry = make_geometry(*shape)
    rng = random.Random(2)
    for _ in range(150):
        board, _ = random_board(rng, rows, columns, rng.randrange(rows * columns))
        own, other = stones_of(board, "x", rows), stones_of(board, "o", rows)
        if has_run(geometry, own):
            continue
        cells = int(winning_cells(geometry, own, np.uint64(own | other)))
        for column in range(columns):
            for row in range(rows):
                bit = 1 << (column * (rows + 1) + row)
                empty = not (int(own) | int(other)) & bit
                assert bool(cells & bit) == (empty and has_run(geometry, np.uint64(int(own) | bit)))


def test_the_largest_boards_use_every_bit() -> None:
    """A 7 x 8 board takes 64 bits: its last column must still play and win."""
    geometry = make_geometry(7, 8, 4)
    position = Position.from_moves("8181818", geometry)
    assert position.outcome() is not None
    assert count_stones(position.occupied) == 7
    full = Position.from_moves("8888888", make_geometry(7, 8, 8))
    assert not full.is_legal(7)
    assert full.is_legal(6)
    assert int(legal_cells(full.geometry, full.occupied)).bit_count() == 7


def test_mirroring_reverses_the_columns() -> None:
    """Against the mirrored move string."""
    position = Position.from_moves("1223334")
    expected = Position.from_moves("7665554")
    assert mirror(STANDARD, position.occupied) == expected.occupied
    assert mirror(STANDARD, position.own) == expected.own
    assert position.mirror() == expected
    assert position.mirror().moves == "7665554"


@pytest.mark.parametrize("rows", [6, 62, 63])
def test_a_single_column_is_its_own_mirror_image(rows: int) -> None:
    """Also where its bits, with the one on top, are all 64."""
    position = Position.from_moves("111", make_geometry(rows, 1, 4))
    assert position.mirror() == position
    assert position.mirror().occupied == position.occupied != 0


@pytest.mark.parametrize("shape", [(8, 8, 4), (0, 7, 4), (6, 7, 1), (6, 7, 8)])
def test_impossible_boards_are_refused(shape: tuple[int, int, int]) -> None:
    """Too many bits, no rows, no run, a run that does not fit."""
    with pytest.raises(ValueError, match=r"\d"):
        make_geometry(*shape)

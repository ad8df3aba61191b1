import random

import pytest
from naive import random_board

from alphac4.game import IllegalMove, Outcome, Position, make_geometry


def test_a_move_string_is_rendered_as_the_board_it_makes() -> None:
    """X began; columns fill from the bottom."""
    assert str(Position.from_moves("44553")) == (
        ". . . . . . .\n. . . . . . .\n. . . . . . .\n. . . . . . .\n. . . o o . .\n. . x x x . .\n1 2 3 4 5 6 7"
    )


@pytest.mark.parametrize(
    ("moves", "column", "told"),
    [("4444444", 3, "full"), ("48", "8", "1 to 7"), ("4x", "x", "1 to 7"), ("40", "0", "1 to 7")],
)
def test_an_illegal_move_string_names_the_move_and_why(moves: str, column: int | str, told: str) -> None:
    """The exception carries the column, the moves before it and the reason."""
    with pytest.raises(IllegalMove, match=told) as caught:
        Position.from_moves(moves)
    assert caught.value.column == column
    assert caught.value.moves == moves[:-1]


def test_no_move_is_legal_after_the_end() -> None:
    """A vertical win ends the game for every column."""
    won = Position.from_moves("1212121")
    assert won.outcome() is Outcome.LOSS
    assert won.legal_columns() == []
    with pytest.raises(IllegalMove, match="over"):
        won.play(4)


def test_a_full_board_without_a_run_is_a_draw() -> None:
    """A known draw by stacking columns in an order that makes no run."""
    drawn = Position.from_moves("111111" + "222222" + "333333" + "5444444" + "55555" + "666666" + "777777")
    assert drawn.plies == 42
    assert drawn.outcome() is Outcome.DRAW


def test_kaggle_boards_round_trip() -> None:
    """Flat boards come back as the same position, and top left is their first cell."""
    rng = random.Random(5)
    for _ in range(100):
        _, moves = random_board(rng, 6, 7, rng.randrange(30))
        position = None
        try:
            position = Position.from_moves(moves)
        except IllegalMove:
            continue
        assert Position.from_kaggle(position.to_kaggle()) == position
    flat = Position.from_moves("1").to_kaggle()
    assert flat[35] == 1
    assert sum(flat) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({0: 1}, "below"),
        ({35: 2}, "stones"),
        ({35: 1, 36: 1}, "stones"),
        ({35: 3}, "expected 0, 1 or 2"),
    ],
)
def test_impossible_kaggle_boards_are_refused(change: dict[int, int], told: str) -> None:
    """Floating stones, wrong counts, unknown values."""
    board = [0] * 42
    for cell, value in change.items():
        board[cell] = value
    with pytest.raises(ValueError, match=told):
        Position.from_kaggle(board)


def test_a_kaggle_board_of_the_wrong_size_or_mark_is_refused() -> None:
    """41 cells; a mark that contradicts the stones."""
    with pytest.raises(ValueError, match="42 cells"):
        Position.from_kaggle([0] * 41)
    with pytest.raises(ValueError, match="to move"):
        Position.from_kaggle([0] * 42, mark=2)


def test_positions_are_values() -> None:
    """Transpositions are equal; playing leaves the original as it was."""
    assert Position.from_moves("142") == Position.from_moves("241")
    start = Position()
    start.play(3)
    assert start == Position()
    assert hash(Position.from_moves("142")) == hash(Position.from_moves("241"))


def test_boards_wider_than_nine_columns_use_letters() -> None:
    """Column ten is written "a"."""
    geometry = make_geometry(3, 12, 4)
    position = Position.from_moves("ac1", geometry)
    assert position.moves == "ac1"
    assert position.grid()[0, 9] == 1


def test_stones_that_no_moves_have_put_there_have_no_moves() -> None:
    """So nobody takes the position, or one that follows from it, for another."""
    known = Position.from_moves("4455")
    bare = Position(known.own, known.occupied)
    assert bare == known
    assert bare.moves is None
    assert bare.play(6).moves is None
    assert Position().moves == ""

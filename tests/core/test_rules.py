import random

import numpy as np
import pytest
from helpers import random_positions
from naive import Stacks, bits, naive_planes, random_board, wins

from alphac4.game import Board, IllegalMove, Outcome, Position, make_board
from alphac4.game.planes import PLANES, make_planes, stones
from alphac4.game.rules import STANDARD, canonical_keys, has_run, legal_cells, mirror, oriented, winning_cells

SHAPES = [
    (6, 7, 4, True),
    (4, 4, 3, True),
    (5, 6, 4, False),
    (7, 8, 5, True),
    (31, 2, 4, True),
]


def stone_counts(stacks: Stacks, rows: int) -> tuple[np.uint64, np.uint64]:
    return np.uint64(bits(stacks, "x", rows)), np.uint64(bits(stacks, "x", rows) | bits(stacks, "o", rows))


@pytest.mark.parametrize("shape", SHAPES)
def test_wins_winning_cells_and_planes_agree_with_a_naive_reading_of_the_board(
    shape: tuple[int, int, int, bool],
) -> None:
    rows, columns, run, diagonals = shape
    board = make_board(*shape)
    rng = random.Random(1)
    found = 0
    for plies in [rng.randrange(rows * columns + 1) for _ in range(250)]:
        stacks, _ = random_board(rng, rows, columns, plies)
        own, occupied = stone_counts(stacks, rows)
        won = [wins(stacks, side, rows, run, diagonals) for side in "xo"]
        found += sum(won)
        assert [has_run(board, side) for side in (own, own ^ occupied)] == won, stacks

        expected = naive_planes(stacks, rows, run, diagonals)
        ours = make_planes(board, np.array([own]), np.array([occupied]), PLANES["lines"])
        np.testing.assert_array_equal(ours[0], expected)
        np.testing.assert_array_equal(make_planes(board, np.array([own]), np.array([occupied]))[0], expected[:2])

        if won[0]:
            continue  # otherwise every cell would win
        cells = int(winning_cells(board, own, occupied))
        for bit in (1 << (column * (rows + 1) + row) for column in range(columns) for row in range(rows)):
            empty = not int(occupied) & bit
            assert bool(cells & bit) == (empty and has_run(board, np.uint64(int(own) | bit)))
    assert found > 10, "the boards must contain wins for the comparison to mean anything"


def test_the_largest_boards_use_every_bit() -> None:
    position = Position.from_moves("8181818", make_board(7, 8, 4))
    assert position.outcome() is Outcome.LOSS
    full = Position.from_moves("8888888", make_board(7, 8, 8))
    assert not full.is_legal(7)
    assert full.is_legal(6)
    assert not position.is_legal(1)  # the game is over
    assert int(legal_cells(full.board, full.occupied)).bit_count() == 7


def test_mirroring_reverses_the_columns() -> None:
    position, expected = Position.from_moves("1223334"), Position.from_moves("7665554")
    assert mirror(STANDARD, position.occupied) == expected.occupied
    assert position.mirror() == expected
    assert position.mirror().moves == "7665554"
    for rows in (6, 62, 63):  # a single column takes up to all 64 bits
        single = Position.from_moves("111", make_board(rows, 1, 4))
        assert single.mirror() == single
        assert single.mirror().occupied == single.occupied != 0


@pytest.mark.parametrize("board", [STANDARD, make_board(5, 6), make_board(7, 8)])
def test_a_position_and_its_mirror_image_have_one_canonical_form(board: Board, rng: np.random.Generator) -> None:
    positions = random_positions(200, rng, board)
    forms = []
    for part in (positions, [position.mirror() for position in positions]):
        own, occupied = stones(part)
        keys, mirrored = canonical_keys(board, own, occupied)
        *turned, turned_round = oriented(board, own, occupied)
        assert (turned_round == mirrored).all()
        forms.append((*turned, keys))
    for ours, theirs in zip(*forms, strict=True):
        assert (ours == theirs).all()
    distinct = {frozenset({(p.own, p.occupied), (p.mirror().own, p.mirror().occupied)}) for p in positions}
    assert len(np.unique(forms[0][2])) == len(distinct)


@pytest.mark.parametrize("shape", [(8, 8, 4), (0, 7, 4), (6, 7, 1), (6, 7, 8)])
def test_make_board_rejects_impossible_boards(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"\d"):  # too many bits, no rows, no run, a run that does not fit
        make_board(*shape)


def test_a_move_string_is_rendered_as_the_board_it_makes() -> None:
    assert str(Position.from_moves("44553")) == (
        ". . . . . . .\n. . . . . . .\n. . . . . . .\n. . . . . . .\n. . . o o . .\n. . x x x . .\n1 2 3 4 5 6 7"
    )
    wide = Position.from_moves("aC1", make_board(3, 12, 4))
    assert wide.moves == "ac1"  # either case is read
    assert wide.grid()[0, 9] == 1  # column ten is written "a"


@pytest.mark.parametrize(
    ("moves", "column", "message"), [("4444444", "4", "'4' after '4{6}': .*full"), ("40", "0", "1 to 7")]
)
def test_an_illegal_move_string_names_the_move_and_why(moves: str, column: str, message: str) -> None:
    with pytest.raises(IllegalMove, match=message) as caught:
        Position.from_moves(moves)
    assert (caught.value.column, caught.value.moves) == (column, moves[:-1])


def test_games_end_with_a_run_or_a_full_board() -> None:
    won = Position.from_moves("1212121")
    assert won.outcome() is Outcome.LOSS
    assert won.legal_columns() == []
    with pytest.raises(IllegalMove, match="over"):
        won.play(4)
    drawn = Position.from_moves("111111" + "222222" + "333333" + "5444444" + "55555" + "666666" + "777777")
    assert drawn.plies == 42
    assert drawn.outcome() is Outcome.DRAW


@pytest.mark.parametrize(
    ("cells", "mark", "message"),
    [
        ({0: 1}, None, "below"),
        ({35: 2}, None, "stones"),
        ({35: 3}, None, "expected 0, 1 or 2"),
        ({}, 2, "to move"),
    ],
)
def test_from_kaggle_rejects_impossible_boards(cells: dict[int, int], mark: int | None, message: str) -> None:
    board = [cells.get(cell, 0) for cell in range(42)]
    with pytest.raises(ValueError, match=message):
        Position.from_kaggle(board, mark=mark)
    with pytest.raises(ValueError, match="has 42 cells, not 41"):
        Position.from_kaggle(board[:41])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0020000 0020001 1112202 1221201 1211212 1211212", "the player to move has won and the other one as well"),
        ("0000000 0000000 0000000 0000000 2222000 1111000", "the player to move has won and the other one as well"),
        ("0000000 0000000 0000000 0000000 0000000 1111222", "no error"),
        ("0000000 0000000 0000000 0000000 2000000 1111222", "the player to move has won"),
        # Two runs of the player who moved last, but no stone completes both.
        ("0000000 0000000 1000001 1000001 1220201 1220221", "no stone can have been the last one"),
        # A stone that completes two runs.
        ("0000000 0000000 0000000 0000000 2220222 1111111", "no error"),
        # The run is below a later stone of the same player.
        ("0000000 0000000 0000000 0000000 2212000 1111020", "no stone can have been the last one"),
        # The player who moved last has no stone on top.
        ("0000000 0000000 0000000 0000000 2020000 1010000", "no error"),
        ("0000000 0000000 0000000 0000000 1010000 2020000", "no stone can have been the last one"),
    ],
)
def test_from_kaggle_rejects_boards_that_no_game_reaches(rows: str, message: str) -> None:
    board = [int(cell) for cell in rows.replace(" ", "")]
    if message == "no error":
        assert Position.from_kaggle(board).to_kaggle() == board
    else:
        with pytest.raises(ValueError, match=f"^impossible board: {message}$"):
            Position.from_kaggle(board)


def test_from_kaggle_accepts_every_board_that_a_game_reaches() -> None:
    rng = np.random.default_rng(1)
    for board in (STANDARD, make_board(4, 5, 3), make_board(4, 4, 4), make_board(5, 6, 4, diagonals=False)):
        for _ in range(30):
            position = Position(board=board)
            while legal := position.legal_columns():
                position = position.play(int(rng.choice(legal)))
                assert Position.from_kaggle(position.to_kaggle(), board=board) == position


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position.from_moves("4455"), "Position.from_moves('4455')"),
        (Position(), "Position.from_moves('')"),
        (Position(129, 387), "Position(own=129, occupied=387, moves=None)"),
        (
            Position.from_moves("44", make_board(5, 6)),
            "Position.from_moves('44', board=make_board(rows=5, columns=6, run_length=4, diagonals=True))",
        ),
    ],
)
def test_the_repr_of_a_position_makes_an_equal_one(position: Position, text: str) -> None:
    assert repr(position) == text
    again = eval(text)
    assert (again, again.moves) == (position, position.moves)


def test_a_position_made_from_bits_has_no_move_string() -> None:
    known = Position.from_moves("4455")
    bare = Position(known.own, known.occupied)
    assert bare == known
    assert bare.moves is None
    assert bare.play(6).moves is None  # so that the position does not seem to have other moves
    assert Position().moves == ""

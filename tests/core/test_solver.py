"""Exact scores, by `alphac4.solver` and by `alphac4 solve`, and opening books."""

import io
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
from helpers import DRAWN, load_script, random_game

from alphac4.commands.play import SolveCommand
from alphac4.game.position import Outcome, Position
from alphac4.game.rules import STANDARD, make_board
from alphac4.solver import FULL_COLUMN, KnownScores, Solver, moves_to_end, no_known_scores, shared_solver
from alphac4.solver import book as books
from alphac4.solver import solver as solver_module
from alphac4.solver.book import UNKNOWN_SCORE, load_book, look_up, packaged_book, save_book
from alphac4.solver.memory import make_table, slot_and_tag
from alphac4.storage.files import FileError

PROJECT = Path(__file__).parents[2]
SAMPLE = PROJECT / "tests" / "core" / "data" / "solver_sample.columns"
SEARCHED_FAST = 16  # positions of the sample with at least this many stones take milliseconds
NEARLY_FULL = "2252576253462244111563365343671351441"

Scored = list[tuple[Position, list[int | None]]]

BOARDS = [  # rows, columns, run length, diagonals, fewest stones that plain minimax can solve
    (4, 4, 3, True, 1),
    (4, 4, 3, False, 4),
    (5, 4, 4, True, 10),
    (3, 3, 2, True, 0),
    (1, 9, 3, True, 0),
    (7, 1, 3, True, 0),
    (6, 3, 5, True, 8),
]


def sample() -> Scored:
    """Return the sample's positions, each with the score of every column."""
    lines = [line.split() for line in SAMPLE.read_text().splitlines()]
    return [
        (Position.from_moves(moves), [None if score == "." else int(score) for score in scores])
        for moves, *scores in lines
    ]


@pytest.fixture(scope="module")
def solver() -> Solver:
    """A solver without a book, so that it must search."""
    return Solver(book=no_known_scores())


@pytest.fixture(scope="module")
def late() -> Scored:
    """The positions of the sample that are solved immediately."""
    return [(position, scores) for position, scores in sample() if position.plies >= SEARCHED_FAST]


def test_scores_are_those_of_the_sample_whose_solver_agreed_with_public_sets(solver: Solver, late: Scored) -> None:
    for position, scores in late:
        assert solver.analyze(position) == scores, position.moves


def test_scores_outcomes_mirror_images_and_batches_agree_with_the_columns_scores(solver: Solver, late: Scored) -> None:
    some = late[::4]
    for position, scores in some:
        best = max(score for score in scores if score is not None)
        assert solver.solve(position) == best, position.moves
        assert solver.solve(position, weak=True) == np.sign(best)
        assert solver.analyze(position, weak=True) == [None if score is None else np.sign(score) for score in scores]
        assert solver.analyze(position.mirror()) == scores[::-1]
    own, occupied = (
        np.array([getattr(position, name) for position, _ in some], np.uint64) for name in ("own", "occupied")
    )
    by_column = solver.analyze_batch(own, occupied)
    assert by_column.dtype == np.int8
    assert by_column.tolist() == [[FULL_COLUMN if s is None else s for s in scores] for _, scores in some]
    assert solver.solve_batch(own, occupied).tolist() == [solver.solve(position) for position, _ in some]
    assert solver.solve_batch(own[:0], occupied[:0]).shape == (0,)
    with pytest.raises(ValueError, match="one length"):
        solver.solve_batch(own[:2], occupied[:1])


def test_a_tiny_table_changes_no_score(late: Scored) -> None:
    """Entries that replace one another all the time are never taken for another position's."""
    tiny = Solver(table_bits=4, book=no_known_scores())
    for position, scores in late[40:]:
        assert tiny.analyze(position) == scores


def test_threads_may_share_a_solver(late: Scored) -> None:
    shared = Solver(book=no_known_scores(), table_bits=16)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(shared.analyze, (position for position, _ in late))) == [scores for _, scores in late]


def test_pauses_do_not_change_a_search(late: Scored, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pausing = Solver(book=no_known_scores()), Solver(book=no_known_scores())
    expected = [whole.analyze(position) for position, _ in late[:4]]
    monkeypatch.setattr(solver_module, "NODES_PER_PAUSE", 7)
    pauses: list[int] = []
    assert [pausing.analyze(position, lambda: pauses.append(1)) for position, _ in late[:4]] == expected
    assert pausing.nodes == whole.nodes
    assert len(pauses) >= whole.nodes // 7


def test_an_exception_in_a_pause_ends_the_search_and_keeps_its_table() -> None:
    """The empty board without a book takes minutes; a later call uses what the table holds."""
    solver = Solver(book=no_known_scores())

    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        solver.analyze(Position(), stop)
    assert 0 < solver.nodes <= 2 * solver_module.NODES_PER_PAUSE
    assert np.count_nonzero(solver._table.entries) > 0


def test_finished_games_have_a_score_and_other_boards_are_rejected(solver: Solver) -> None:
    """A full board is a draw; a lost game has the negative of the winning move's score."""
    lost = Position.from_moves("1122334")
    assert (solver.solve(lost), solver.solve(lost, weak=True)) == (-18, Outcome.LOSS)
    assert solver.analyze(lost) == [None] * 7
    board = make_board(3, 2, 3, diagonals=False)
    assert Solver(board).solve(Position.from_moves("112212", board)) == 0
    with pytest.raises(ValueError, match="cannot solve"):
        Solver(board).solve(Position())


@pytest.mark.parametrize(("plies", "score", "moves"), [(6, 18, 1), (5, -18, 1), (0, 1, 21), (7, 0, 0)])
def test_moves_to_end_counts_the_winners_moves(plies: int, score: int, moves: int) -> None:
    assert moves_to_end(STANDARD, plies, score) == moves


def test_the_shared_solver_knows_the_empty_board() -> None:
    """The first player wins in the centre, draws next to it, and loses elsewhere (Allen 1988; Allis 1988)."""
    assert shared_solver().solve(Position()) == 1
    assert shared_solver().analyze(Position()) == [-2, -1, 0, 1, 0, -1, -2]


@pytest.mark.parametrize(("rows", "columns", "run_length", "diagonals", "least_plies"), BOARDS)
def test_scores_equal_plain_minimax(
    rows: int, columns: int, run_length: int, diagonals: bool, least_plies: int
) -> None:
    board = make_board(rows, columns, run_length, diagonals)
    solver = Solver(board, book=no_known_scores())
    draws = random.Random(rows * 100 + columns)
    compared = 0
    for attempt in range(60):
        plies = least_plies + attempt % max(1, board.cells - least_plies)
        stacks, moves = naive.random_board(draws, rows, columns, plies)
        if any(naive.wins(stacks, side, rows, run_length, diagonals) for side in "xo"):
            continue
        outcome, to_end = naive.minimax(stacks, rows, run_length, diagonals)
        expected = outcome * ((board.cells + 2 - plies - to_end) // 2)
        position = Position.from_moves(moves, board)
        assert solver.solve(position) == expected, moves
        assert max(score for score in solver.analyze(position) if score is not None) == expected
        assert solver.solve(position, weak=True) == outcome
        compared += 1
    assert compared >= 6


@pytest.mark.parametrize("table_bits", [14, 22])
def test_boards_of_64_bits_are_solved(table_bits: int) -> None:
    """Tag and bounds fit an entry even if a key takes all 64 bits; a smaller table is rejected."""
    board = make_board(7, 8)
    solver = Solver(board, table_bits=table_bits, book=no_known_scores())
    rng = np.random.default_rng(5)
    solved = 0
    while solved < 4:
        position = random_game(46, rng, board)
        if position.outcome() is None:
            children = [position.play(column) for column in position.legal_columns()]
            assert solver.solve(position) == max(-solver.solve(child) for child in children)
            solved += 1
    with pytest.raises(ValueError, match="at least 14"):
        Solver(board, table_bits=13)


def test_the_command_shows_a_position_as_a_table(run_command: Callable[..., str]) -> None:
    rows = [" ".join(line.split()) for line in run_command(f"solve {NEARLY_FULL}").splitlines()]
    assert {"1 . full", "6 -1 loses in 2 moves *", "7 -2 loses in 1 move"} <= set(rows)
    expected = {"moves": NEARLY_FULL, "score": -1, "columns": {"6": -1, "7": -2}}
    assert json.loads(run_command(f"solve {NEARLY_FULL} --json")) == expected
    assert "4      1  wins  *" in run_command("solve 112233 --weak")  # without a number of moves


def test_a_batch_answers_every_valid_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for options, status, lines, answers in (
        ({}, 2, "112233\n48\n\n1111111\n31415\n", "112233 18\n31415 -18\n"),
        ({}, 2, f"112233\n1122334\n\n{DRAWN}\n", "112233 18\n"),  # games that are over
        ({"weak": True}, 2, f"112233\n1122334\n\n{DRAWN}\n", "112233 1\n"),
        ({"column_scores": True}, 2, f"{NEARLY_FULL}\n1122334\n\n{DRAWN}\n", f"{NEARLY_FULL} . . . . . -1 -2\n"),
        ({"column_scores": True}, 0, NEARLY_FULL, f"{NEARLY_FULL} . . . . . -1 -2\n"),
        ({"column_scores": True, "weak": True}, 0, NEARLY_FULL, f"{NEARLY_FULL} . . . . . -1 -1\n"),
        ({"json": True}, 0, "112233\n", '{"moves": "112233", "score": 18}\n'),
        (
            {"json": True, "column_scores": True},
            0,
            NEARLY_FULL,
            f'{{"moves": "{NEARLY_FULL}", "score": -1, "columns": {{"6": -1, "7": -2}}}}\n',
        ),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        assert SolveCommand(batch=True, **options)() == status  # type: ignore[arg-type]
        output = capsys.readouterr()
        assert output.out == answers
        assert [line[:7] for line in output.err.splitlines()] == ["line 2:", "line 4:"][:status]


FOURS = make_board(4, 4, 4)


@pytest.fixture(scope="module")
def builder() -> Any:
    return load_script("opening_book")


@pytest.fixture
def book() -> KnownScores:
    return KnownScores(np.array([3, 5, 2**63], np.uint64), np.array([-1, 0, 7], np.int8), 2)


def same(one: KnownScores, other: KnownScores) -> bool:
    return (
        one.plies == other.plies and np.array_equal(one.keys, other.keys) and np.array_equal(one.scores, other.scores)
    )


def test_numbers_of_positions_with_mirror_images_are_those_of_oeis_a212693(builder: Any) -> None:
    counts = []
    for level in builder.unfinished_positions(STANDARD, 5):
        positions = [Position(own, occupied) for _, own, occupied in zip(*level, strict=True)]
        images = [image for position in positions for image in (position, position.mirror())]
        counts.append(len({image.own.item() + image.occupied.item() for image in images}))
    assert counts == [1, 7, 49, 238, 1120, 4263]


def test_books_round_trip_and_are_rejected_for_other_boards(tmp_path: Path, book: KnownScores) -> None:
    path = tmp_path / "a.book"
    save_book(path, STANDARD, book)
    assert same(load_book(path, STANDARD), book)
    with pytest.raises(FileError, match=r"a book for .*'rows': 6"):
        load_book(path, FOURS)


def test_every_position_of_the_book_is_found() -> None:
    book = packaged_book(STANDARD)
    assert [look_up(book, key) for key in book.keys] == book.scores.tolist()
    assert look_up(book, book.keys[-1] + np.uint64(1)) == UNKNOWN_SCORE


@pytest.mark.parametrize("bits", [4, 9, 30])
def test_slot_and_tag_of_the_table_determine_the_key(bits: int) -> None:
    board = make_board(3, 4, 3)  # keys of 16 bits
    table = make_table(board, bits)
    found = {tuple(map(int, slot_and_tag(table, np.uint64(key)))) for key in range(2**16)}
    assert len(found) == 2**16
    assert max(slot for slot, _ in found) == len(table.entries) - 1


def test_a_damaged_packaged_book_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(packaged_book(make_board(5, 4, 3)).keys) == 0  # there is no file
    (tmp_path / books.book_name(FOURS)).write_bytes(b"rubbish")
    monkeypatch.setattr(books, "__file__", str(tmp_path / "book.py"))
    with pytest.raises(FileError, match=r"4x4x4\.book"):
        Solver(FOURS).solve(Position.from_moves("12", FOURS))


def test_positions_of_the_book_are_not_searched() -> None:
    images = Position.from_moves("12"), Position.from_moves("76")
    key = min(image.own + image.occupied for image in images)
    solver = Solver(book=KnownScores(np.array([key]), np.array([13], np.int8), 2))
    assert [solver.solve(image) for image in images] == [13, 13]
    assert solver.nodes == 0


def test_a_book_agrees_with_search_and_an_interrupted_build_resumes(
    builder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds every unfinished position up to the depth; after an interruption only the rest is searched."""
    whole = builder.build_book(FOURS, 4, tmp_path / "whole.book", table_bits=14)
    assert same(load_book(tmp_path / "whole.book", FOURS), whole)
    searcher = Solver(FOURS, book=no_known_scores())
    levels = list(builder.unfinished_positions(FOURS, 4))
    assert len(whole.keys) == sum(len(keys) for keys, _, _ in levels)
    for level in levels:
        for key, own, occupied in zip(*level, strict=True):
            score = whole.scores[np.searchsorted(whole.keys, key)]
            assert score == searcher.solve(Position(own, occupied, FOURS, None))

    searched, most = 0, 30

    class Interrupted(Solver):
        def solve_batch(self, own: np.ndarray, occupied: np.ndarray, **options: Any) -> np.ndarray:
            nonlocal searched
            if searched == most:
                raise KeyboardInterrupt
            searched += len(own) == 1  # earlier positions are looked up in batches
            return super().solve_batch(own, occupied, **options)

    monkeypatch.setattr(builder, "Solver", Interrupted)
    monkeypatch.setattr(builder, "SAVE_INTERVAL_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        builder.build_book(FOURS, 4, tmp_path / "parts.book", table_bits=14)
    monkeypatch.setattr(builder, "SAVE_INTERVAL_S", 60.0)
    searched, most = 0, 10**9
    assert same(builder.build_book(FOURS, 4, tmp_path / "parts.book", table_bits=14), whole)
    assert searched == len(levels[-1][0]) - 30
    assert sorted(file.name for file in tmp_path.iterdir()) == ["parts.book", "whole.book"]

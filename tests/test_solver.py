import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from alphac4.game.position import Outcome, Position
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.solver import FULL_COLUMN, Solver, analyze, best_columns, moves_to_end, no_known_scores, solve
from alphac4.solver import solver as solver_module

SAMPLE = Path(__file__).parent / "data" / "solver_sample.columns"
SEARCHED_FAST = 16  # plies from which a position of the sample takes milliseconds


def sample() -> list[tuple[Position, list[int | None]]]:
    """Positions and the score of each column."""
    lines = [line.split() for line in SAMPLE.read_text().splitlines()]
    return [
        (Position.from_moves(moves), [None if score == "." else int(score) for score in scores])
        for moves, *scores in lines
    ]


def stones(positions: list[Position]) -> tuple[np.ndarray, np.ndarray]:
    """``(own, occupied)``, uint64 [B] each."""
    return (
        np.array([position.own for position in positions], np.uint64),
        np.array([position.occupied for position in positions], np.uint64),
    )


@pytest.fixture(scope="module")
def solver() -> Solver:
    """A solver that must search, as it has no book."""
    return Solver(book=no_known_scores())


@pytest.fixture(scope="module")
def late() -> list[tuple[Position, list[int | None]]]:
    """The positions of the sample that take no time to speak of."""
    return [(position, scores) for position, scores in sample() if position.plies >= SEARCHED_FAST]


def test_scores_of_every_column_are_exact(solver: Solver, late: list[tuple[Position, list[int | None]]]) -> None:
    """The scores are those of the stored sample, whose solver agreed with public test sets."""
    for position, scores in late:
        assert solver.analyze(position) == scores, position.moves


@pytest.mark.slow
def test_scores_of_early_positions_are_exact(solver: Solver) -> None:
    """The same for positions with few stones."""
    for position, scores in sample():
        if position.plies < SEARCHED_FAST:
            assert solver.analyze(position) == scores, position.moves


def test_a_position_is_worth_its_best_column(solver: Solver, late: list[tuple[Position, list[int | None]]]) -> None:
    """`solve` is the maximum of `analyze`."""
    for position, scores in late:
        assert solver.solve(position) == max(score for score in scores if score is not None), position.moves


def test_the_outcome_is_the_sign_of_the_score(solver: Solver, late: list[tuple[Position, list[int | None]]]) -> None:
    """Searching for the outcome only finds the same winner."""
    for position, scores in late:
        signs = [None if score is None else int(np.sign(score)) for score in scores]
        assert solver.solve_outcome(position) == max(sign for sign in signs if sign is not None), position.moves
        assert solver.analyze_outcome(position) == signs


def test_mirror_images_score_alike(solver: Solver, late: list[tuple[Position, list[int | None]]]) -> None:
    """Mirroring a position mirrors its columns' scores."""
    for position, scores in late[:100]:
        assert solver.analyze(position.mirror()) == scores[::-1]


def test_a_tiny_table_changes_no_score(late: list[tuple[Position, list[int | None]]]) -> None:
    """Entries that replace one another all the time are never mistaken for another position's."""
    tiny = Solver(table_bits=4, book=no_known_scores())
    for position, scores in late[40:]:
        assert tiny.analyze(position) == scores


def test_threads_may_share_a_solver(late: list[tuple[Position, list[int | None]]]) -> None:
    """Four threads on one table find the scores that one finds."""
    shared = Solver(book=no_known_scores(), table_bits=16)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(shared.analyze, (position for position, _ in late)))
    assert found == [scores for _, scores in late]


@pytest.mark.parametrize("nodes", [1, 7, 1000])
def test_a_search_that_pauses_is_the_same_search(
    nodes: int, late: list[tuple[Position, list[int | None]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it pauses it finds the same scores, and searches the very same number of nodes."""
    positions = late[: max(2, nodes // 20)]
    whole, pausing = Solver(book=no_known_scores()), Solver(book=no_known_scores())
    for position, scores in positions:
        assert whole.analyze(position) == scores
    monkeypatch.setattr(solver_module, "SLICE_NODES", nodes)
    pauses: list[int] = []
    for position, scores in positions:
        assert pausing.analyze(position, lambda: pauses.append(1)) == scores
    assert pausing.nodes == whole.nodes
    assert len(pauses) >= whole.nodes // nodes


def test_what_a_pause_raises_ends_the_search_and_keeps_what_is_proven() -> None:
    """The empty board without a book takes minutes; a later call goes on with a table that is no longer empty."""
    solver = Solver(book=no_known_scores())

    def stop() -> None:
        raise TimeoutError

    started = time.perf_counter()
    with pytest.raises(TimeoutError):
        solver.analyze(Position(), stop)
    assert time.perf_counter() - started < 5
    assert 0 < solver.nodes <= 2 * solver_module.SLICE_NODES
    assert np.count_nonzero(solver._table.entries) > 0


def test_ctrl_c_interrupts_a_search() -> None:
    """The signal arrives while compiled code runs, and is seen at the next pause."""
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        Solver(book=no_known_scores()).analyze(Position())
    assert time.perf_counter() - started < 5
    timer.join()


def test_batches_equal_single_calls(solver: Solver, late: list[tuple[Position, list[int | None]]]) -> None:
    """A batch gives int8 scores in order, `FULL_COLUMN` where a move is not possible."""
    positions = [position for position, _ in late[:60]]
    own, occupied = stones(positions)
    by_column = solver.analyze_batch(own, occupied)
    assert by_column.dtype == np.int8
    assert by_column.tolist() == [[FULL_COLUMN if s is None else s for s in scores] for _, scores in late[:60]]
    assert solver.solve_batch(own, occupied).tolist() == [solver.solve(position) for position in positions]
    assert solver.solve_batch(own[:0], occupied[:0]).shape == (0,)


def test_the_fastest_win_scores_the_stones_left(solver: Solver) -> None:
    """A win with the fourth stone leaves 18 of 21 before it is played."""
    assert solver.solve(Position.from_moves("112233")) == 18
    assert solver.analyze(Position.from_moves("112233"))[3] == 18


def test_an_unstoppable_double_threat_scores_the_next_win(solver: Solver) -> None:
    """An open three loses for the side to move, whose opponent wins with its fourth stone."""
    assert solver.solve(Position.from_moves("31415")) == -18
    assert solver.analyze(Position.from_moves("31415")) == [-18] * 7


def test_finished_positions_score_as_their_last_move(solver: Solver) -> None:
    """A lost game scores the negative of the winning move's score; it has no columns."""
    finished = Position.from_moves("1122334")
    assert solver.solve(finished) == -18
    assert solver.solve_outcome(finished) is Outcome.LOSS
    assert solver.analyze(finished) == [None] * 7
    assert best_columns(solver.analyze(finished)) == []


def test_a_full_board_is_a_draw() -> None:
    """The last stone that completes no run leaves 0."""
    geometry = make_geometry(3, 2, 3, diagonals=False)
    assert Solver(geometry).solve(Position.from_moves("112212", geometry)) == 0


def test_positions_of_another_board_are_refused(solver: Solver) -> None:
    """A solver belongs to one geometry."""
    with pytest.raises(ValueError, match="cannot solve"):
        solver.solve(Position(geometry=make_geometry(5, 5)))


def test_batches_of_unequal_length_are_refused(solver: Solver) -> None:
    """Stones and occupied cells come in pairs."""
    with pytest.raises(ValueError, match="one length"):
        solver.solve_batch(np.zeros(2, np.uint64), np.zeros(1, np.uint64))


def test_moves_to_end_counts_the_winners_moves() -> None:
    """18 with 6 stones on the board is a win with the next move; -18 with 5 stones the opponent's next move."""
    assert moves_to_end(STANDARD, 6, 18) == 1
    assert moves_to_end(STANDARD, 5, -18) == 1
    assert moves_to_end(STANDARD, 0, 1) == 21
    assert moves_to_end(STANDARD, 7, 0) == 0


def test_the_shared_solver_knows_the_empty_board() -> None:
    """In the centre the first player wins, next to it it draws, else it loses (Allen 1988; Allis 1988)."""
    assert solve(Position()) == 1
    assert analyze(Position()) == [-2, -1, 0, 1, 0, -1, -2]

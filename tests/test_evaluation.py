import random
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from naive import drop, minimax

from alphac4 import evaluation
from alphac4.arena.players import RandomPlayer
from alphac4.arena.solver_player import SolverPlayer
from alphac4.cli import main
from alphac4.evaluation.accuracy import judge_moves, judge_values, mean, proportion
from alphac4.evaluation.answers import ask_network, ask_players
from alphac4.evaluation.games import Slip, play_perfect, standard_starts
from alphac4.evaluation.generation import random_positions, sampled_positions, set_of, stage_of, write_set
from alphac4.evaluation.positions import (
    SETS,
    PositionSet,
    PositionSetError,
    format_line,
    load_positions,
    packaged_positions,
    parse_positions,
)
from alphac4.game import STANDARD, Position, make_geometry
from alphac4.mcts import NetworkSearch
from alphac4.nn.evaluator import UniformEvaluator
from alphac4.solver import Solver

# Red to move holds three in columns 1 to 3 of the bottom row: 4 wins at once. The scores are made up for the counting.
LINES = [
    "112233 -2 0 1 18 0 -3 -1",
    "4 -4 -2 0 0 0 -2 -4",
    "44 -1 -1 -2 -1 -3 -1 -1",
    "444444 1 2 3 . 3 2 1",
]


@pytest.fixture
def positions() -> PositionSet:
    """A won, a drawn, a lost and a won position; no move errs in the last two."""
    return parse_positions(LINES, "lines", "by hand")


def chosen(*columns: int) -> np.ndarray:
    """0-based columns from 1-based ones."""
    return np.array(columns, np.int64) - 1


def test_moves_are_judged_as_by_hand(positions: PositionSet) -> None:
    """A win given away, a draw kept, a loss made faster, a win made slower: one error in four."""
    found = judge_moves([positions], [chosen(2, 3, 5, 1)])
    assert positions.decisive.tolist() == [True, True, False, False]
    assert (found.error.value, found.error.count) == (0.25, 4)
    assert found.keeps.value == 0.75
    assert found.fastest.value == 0.25  # only the draw
    assert found.loss.value == (18 + 0 + 2 + 2) / 4
    decisive = judge_moves([positions], [chosen(2, 3, 5, 1)], decisive=True)
    assert (decisive.error.value, decisive.error.count, decisive.loss.value) == (0.5, 2, 9.0)


def test_the_best_moves_have_no_fault(positions: PositionSet) -> None:
    """The highest score in each position: no error, always fastest, nothing lost."""
    found = judge_moves([positions], [chosen(4, 4, 7, 5)])
    assert (found.error.value, found.fastest.value, found.loss.value) == (0.0, 1.0, 0.0)


def test_a_move_into_a_full_column_is_no_move(positions: PositionSet) -> None:
    """It is refused, not counted as anything."""
    with pytest.raises(ValueError, match="move 4 after '444444': the column is full"):
        judge_moves([positions], [chosen(4, 4, 7, 4)])


def test_intervals_are_those_of_the_textbook() -> None:
    """Wilson's interval for 2 of 10 is [0.0567, 0.5098]; it never closes, and a mean's is +- 1.96 errors."""
    two = proportion(np.arange(10) < 2)
    assert (two.low, two.high) == pytest.approx((0.0567, 0.5098), abs=1e-4)
    none = proportion(np.zeros(20, bool))
    assert none.low == 0.0
    assert none.high == pytest.approx(0.1611, abs=1e-4)
    average = mean(np.array([1.0, 2.0, 3.0]))
    assert average.error == pytest.approx(1 / 3**0.5)
    assert average.high == pytest.approx(2 + 1.959964 / 3**0.5)
    assert proportion(np.zeros(0, bool)).count == 0


def test_values_are_judged_as_by_hand(positions: PositionSet) -> None:
    """Outcomes 1, 0, -1, 1 against 0.5, 0.5, -1, 0.9: the two predictions of 0.5 came to 0.5 on average."""
    found = judge_values([positions], [np.array([0.5, 0.5, -1.0, 0.9])])
    assert found.absolute.value == pytest.approx((0.5 + 0.5 + 0.0 + 0.1) / 4)
    assert found.squared.value == pytest.approx((0.25 + 0.25 + 0.0 + 0.01) / 4)
    assert [(b.predicted, b.outcome, b.count) for b in found.bins] == [(-1.0, -1.0, 1), (0.5, 0.5, 2), (0.9, 1.0, 1)]
    assert found.calibration_error == pytest.approx(0.1 / 4)


def test_errors_agree_with_a_plain_count() -> None:
    """Random moves on the packaged sets, counted once more line by line from the text."""
    rng = random.Random(5)
    sets = packaged_positions(30)
    columns = [[rng.choice(p.legal_columns()) for p in part.positions] for part in sets]
    folder = Path(evaluation.__file__).parent / "sets"
    errors = fastest = lost = 0
    for part, moves in zip(sets, columns, strict=True):
        for line, column in zip((folder / f"{part.name}.columns").read_text().splitlines(), moves, strict=False):
            words = line.split()[1:]
            scores = [int(word) for word in words if word != "."]
            mine, best = int(words[column]), max(scores)
            errors += (best > 0 and mine <= 0) or (best == 0 and mine < 0)
            fastest += mine == best
            lost += best - mine
    found = judge_moves(sets, [np.array(moves) for moves in columns])
    assert found.error.value == pytest.approx(errors / 180)
    assert found.fastest.value == pytest.approx(fastest / 180)
    assert found.loss.value == pytest.approx(lost / 180)


def test_random_play_errs_as_often_as_its_columns_say() -> None:
    """The expected rate is the mean share of erring moves; 40 tries at each position come within 4 errors of it."""
    sets = packaged_positions(20)
    shares = [
        np.mean([part.outcomes[row, column] < part.best_outcome[row] for column in position.legal_columns()])
        for part in sets
        for row, position in enumerate(part.positions)
    ]
    player = RandomPlayer(np.random.default_rng(2))
    found = [judge_moves(sets, ask_players([player], sets).columns).error.value for _ in range(40)]
    spread = np.sqrt(np.mean([share * (1 - share) for share in shares]) / len(shares) / len(found))
    assert np.mean(found) == pytest.approx(float(np.mean(shares)), abs=4 * float(spread))


def searches(count: int) -> list[NetworkSearch]:
    """Searches without a network's opinion, for as many callers at a time."""
    return [NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0)) for _ in range(count)]


def test_the_raw_network_does_not_look_ahead() -> None:
    """Without any opinion it plays the first open column, past wins at once that a single simulation sees."""
    part = parse_positions(["112233 -2 0 1 18 0 -3 -1", "111111 . 1 1 1 1 1 1"], "lines", "wins")
    raw = ask_network(UniformEvaluator(), [part], 0, searches(1))
    assert raw.columns[0].tolist() == [0, 1]
    assert raw.values is not None
    assert raw.values[0].tolist() == [0.0, 0.0]
    assert ask_network(UniformEvaluator(), [part], 8, searches(1)).columns[0][0] == 3


def test_answers_do_not_depend_on_threads() -> None:
    """One search or three at a time, every set gets the same moves, in order."""
    sets = packaged_positions(40)
    one, three = (ask_network(UniformEvaluator(), sets, 16, searches(count)) for count in (1, 3))
    for name, part, other in zip(SETS, one.columns, three.columns, strict=True):
        assert part.tolist() == other.tolist(), name


def test_players_that_fail_end_the_questions_at_once() -> None:
    """However many batches nobody has asked about yet: who waits for a player gets one."""

    class Failing(RandomPlayer):
        def choose(self, positions: Sequence[Position]) -> list[int]:
            raise RuntimeError(f"no idea about {len(positions)}")

    players = [Failing(np.random.default_rng(0)) for _ in range(2)]
    with pytest.raises(RuntimeError, match="no idea about 16"):
        ask_players(players, packaged_positions(40), 16)
    asking = [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]
    for thread in asking:
        thread.join(30)
        assert not thread.is_alive()


def test_the_solver_makes_no_errors() -> None:
    """On sets that it solves quickly the solver keeps every outcome, and by default no score is lost either."""
    sets = packaged_positions(40)[3:]
    fastest = judge_moves(sets, ask_players([SolverPlayer(np.random.default_rng(0))], sets).columns)
    assert (fastest.error.value, fastest.fastest.value) == (0.0, 1.0)
    outcome = SolverPlayer(np.random.default_rng(0), fastest=False)
    assert judge_moves(sets, ask_players([outcome], sets).columns).error.value == 0.0


def test_packaged_scores_are_the_solvers() -> None:
    """A sample of every packaged set but the slowest, solved anew, and all of them classified as they are named."""
    solver = Solver()
    for part in packaged_positions():
        for position, best in zip(part.positions, part.best_score, strict=True):
            assert set_of(position, int(best)) == part.name
        for index in [] if part.name.startswith("begin-") else range(0, len(part), 10):
            scores = [None if score == -128 else int(score) for score in part.scores[index]]
            assert solver.analyze(part.positions[index]) == scores


def test_an_early_packaged_position_has_the_solvers_scores() -> None:
    """One position each of begin-easy and begin-medium, which take longer."""
    for part in packaged_positions(1)[1:3]:
        scores = [None if score == -128 else int(score) for score in part.scores[0]]
        assert Solver().analyze(part.positions[0]) == scores


def test_the_packaged_sets_are_complete() -> None:
    """Six sets of different positions, and outcomes that a plain minimax agrees with near the end."""
    sets = packaged_positions()
    assert [part.name for part in sets] == list(SETS)
    assert all(len(set(part.positions)) == len(part) >= 120 for part in sets)
    late = [p for p in range(len(sets[5])) if sets[5].positions[p].plies >= 36]
    for index in late[:10]:
        position = sets[5].positions[index]
        board: tuple[str, ...] = ("",) * 7
        for ply, name in enumerate(position.moves or ""):
            board = drop(board, int(name) - 1, "xo"[ply % 2])
        assert minimax(board, 6, 4)[0] == sets[5].best_outcome[index]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("44x5 1 1 1 1 1 1 1", "illegal move 'x'"),
        ("4455 1 1 1 1 1 1", "expected moves and a score for each of 7 columns"),
        ("44444 1 1 1 . 1 1 1", "column 4 can be played, but has no score"),
        ("444444 1 1 1 2 1 1 1", "column 4 is full, but has the score 2"),
        ("4455 1 1 one 1 1 1 1", "column 3: 'one' is no score"),
        ("4455 1 1 99 1 1 1 1", "column 3: a score of 99 is impossible after 4 stones"),
        ("1122334 1 1 1 1 1 1 1", "the game is over"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    """One line that tells the file, the number of the line and what is wrong."""
    path = tmp_path / "mine.columns"
    path.write_text(f"{LINES[0]}\n\n{line}\n")
    with pytest.raises(PositionSetError) as caught:
        load_positions(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unusable_files_are_reported_in_one_line(tmp_path: Path) -> None:
    """A missing file, an empty one, one that is no text, and one for another board."""
    with pytest.raises(PositionSetError, match="no such file"):
        load_positions(tmp_path / "absent.columns")
    (tmp_path / "empty.columns").write_text("\n")
    with pytest.raises(PositionSetError, match="holds no positions"):
        load_positions(tmp_path / "empty.columns")
    (tmp_path / "binary.columns").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PositionSetError, match="not a text file"):
        load_positions(tmp_path / "binary.columns")
    with pytest.raises(PositionSetError, match="line 1: expected moves and a score for each of 5 columns, found 7"):
        parse_positions(LINES, "lines", "lines", make_geometry(4, 5, 3))


def test_public_files_are_shown_by_what_they_hold(tmp_path: Path) -> None:
    """The public name Test_L1_R3 reads begin-hard; the empty board and blank lines may occur."""
    path = tmp_path / "Test_L1_R3.columns"
    path.write_text("\n -2 -1 0 1 0 -1 -2\n")
    part = load_positions(path)
    assert part.name == "begin-hard"
    assert part.positions == [Position()]
    assert part.best_outcome.tolist() == [1]


def test_a_lost_opportunity_is_a_slip() -> None:
    """Red, with a win at once in column 4, stacks column 1 instead; yellow blocks, and what was won is not any more."""

    class Careless:
        name = "careless"

        def choose(self, positions: list[Position]) -> list[int]:
            return [position.legal_columns()[0] for position in positions]

    # Late enough that the solver needs no time: the two columns left are played out whatever happens.
    won = Position.from_moves("112233")
    game = play_perfect(Careless(), SolverPlayer(np.random.default_rng(0), STANDARD), [(won, True)])[0]
    assert game.moves.startswith("11223314")
    assert game.slips[0].ply == 7
    assert game.slips[0].before == 1
    assert game.first


def test_slips_agree_with_a_plain_minimax() -> None:
    """Random players on a small board: outcomes before and after each move of theirs, by minimax from the rules."""
    geometry = make_geometry(3, 4, 3)
    perfect = SolverPlayer(np.random.default_rng(1), geometry)
    starts = [(Position(geometry=geometry), True), (Position.from_moves("1", geometry), False)] * 15
    games = play_perfect(RandomPlayer(np.random.default_rng(3)), perfect, starts)
    assert sum(len(game.slips) for game in games) > 5
    for game, (start, first) in zip(games, starts, strict=True):
        board: tuple[str, ...] = ("",) * 4
        expected = []
        for ply, name in enumerate(game.moves):
            after = drop(board, int(name) - 1, "xo"[ply % 2])
            if ply >= start.plies and (ply % 2 == 0) == first:
                before_outcome, after_outcome = minimax(board, 3, 3)[0], -minimax(after, 3, 3)[0]
                if after_outcome < before_outcome:
                    expected.append(Slip(ply=ply + 1, before=before_outcome, after=after_outcome))
            board = after
        assert game.slips == expected, game.moves
        sign = 1 if (len(game.moves) % 2 == 0) == first else -1
        assert game.outcome == sign * minimax(board, 3, 3)[0]


def test_the_perfect_player_never_slips_and_its_games_differ() -> None:
    """Perfect against perfect on a small board: every outcome stands, by more than one sequence of moves."""
    geometry = make_geometry(4, 4, 3)
    starts = standard_starts(12, SolverPlayer(np.random.default_rng(0), geometry), geometry)
    assert sum(first for _, first in starts) == 6
    player = SolverPlayer(np.random.default_rng(5), geometry)
    games = play_perfect(player, SolverPlayer(np.random.default_rng(1), geometry), starts)
    assert not any(game.slips for game in games)
    assert len({game.moves for game in games}) > 3


def test_second_players_start_where_there_is_something_to_lose() -> None:
    """The given first stone leaves the second player a draw at least wherever there is such a stone."""
    geometry = make_geometry(4, 5, 4)
    perfect = SolverPlayer(np.random.default_rng(0), geometry)
    for start, first in standard_starts(8, perfect, geometry):
        assert start.plies == (0 if first else 1)
        assert perfect.outcome(start) >= 0  # our side is to move in every start


def test_positions_fall_into_the_six_sets_by_their_stones() -> None:
    """The limits of stage and difficulty, worked by hand from stones on the board and stones still to come."""
    fourteen = Position.from_moves("44444433333355")
    assert stage_of(fourteen) == "begin"
    assert stage_of(fourteen.play(5)) == "middle"
    # 14 on the board, a score of 14 wins with the next stone; -8 loses with the 14th stone from here, -7 with the 16th.
    assert set_of(fourteen, 14) == "begin-easy"
    assert set_of(fourteen, -8) == "begin-easy"
    assert set_of(fourteen, -7) == "begin-medium"
    assert set_of(fourteen, 0) == "begin-medium"  # 28 stones fill the board
    assert set_of(Position.from_moves("4444443333335"), 0) == "begin-hard"


def test_generated_sets_go_on_where_they_were_cut(tmp_path: Path) -> None:
    """A file cut in the middle of a line is completed to the same content as one made without a break."""
    solver = Solver()
    paths = tmp_path / "whole.columns", tmp_path / "cut.columns"
    for path in paths:
        write_set(path, "end-easy", 8, random_positions("end", np.random.default_rng(4)), solver)
    text = paths[0].read_text()
    assert text == paths[1].read_text()
    paths[1].write_text(text[: len(text) // 2])
    write_set(paths[1], "end-easy", 8, random_positions("end", np.random.default_rng(4)), solver)
    assert paths[1].read_text() == text
    assert len(load_positions(paths[0])) == 8


def test_a_set_that_is_there_is_read_before_it_is_added_to(tmp_path: Path) -> None:
    """Empty lines and the empty board are no obstacle; what is no set stays as it is, and is named."""
    path = tmp_path / "begin-hard.columns"
    path.write_text("\n -2 -1 0 1 0 -1 -2\n\n 1 cut")
    assert write_set(path, "begin-hard", 1, [], Solver()) == 1
    assert path.read_text() == "\n -2 -1 0 1 0 -1 -2\n\n"
    for content in (b"hello\nworld", b"\xff\xfe\n", b"44 1 2\n"):
        path.write_bytes(content)
        with pytest.raises(PositionSetError, match=re.escape(str(path))):
            write_set(path, "begin-hard", 1, [], Solver())
        assert path.read_bytes() == content


def test_a_sample_with_too_few_positions_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And what it has is written."""
    source = tmp_path / "end-easy.columns"
    source.write_text("".join(f"{position.moves}\n" for position in packaged_positions(3)[5].positions))
    command = ["positions", str(tmp_path / "made"), "--sets", "end-easy", "--count", "9", "--sample", str(source)]
    assert main(command) == 0
    assert "3 of 9 positions; the sample has no more of this set" in caplog.text
    assert len(load_positions(tmp_path / "made" / "end-easy.columns")) == 3


@pytest.mark.parametrize("moves", ["1212121", "666165577462463234152541333211132724554777"])
def test_finished_games_are_no_samples(tmp_path: Path, moves: str) -> None:
    """Won, or drawn on a full board: in one line that names the file."""
    source = tmp_path / "source"
    source.write_text(f"{moves}\n")
    with pytest.raises(PositionSetError, match=f"source: the game is over after {moves}"):
        list(sampled_positions(source, np.random.default_rng(0)))


def test_samples_are_drawn_from_move_strings_alone(tmp_path: Path) -> None:
    """Scores in the source are not read: wrong ones make no difference."""
    part = packaged_positions(12)[5]
    source = tmp_path / "source"
    source.write_text("".join(f"{position.moves} 99 99\n" for position in part.positions))
    made = tmp_path / "end-easy.columns"
    write_set(made, "end-easy", 12, sampled_positions(source, np.random.default_rng(0)), Solver())
    lines = {
        format_line(p, [None if s == -128 else int(s) for s in row])
        for p, row in zip(part.positions, part.scores, strict=True)
    }
    assert set(made.read_text().splitlines()) == lines

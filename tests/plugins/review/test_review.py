"""Reviews of games, their text, and the commands."""

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from helpers import DRAWN, Terminal, save_untrained

from alphac4.arena.registry import parse_searching_player
from alphac4.cli import main
from alphac4.game import Position, make_board
from alphac4.play.screen import Screen
from alphac4.plugins.review.game import Grade, Review, ReviewedMove, review_game
from alphac4.plugins.review.html import review_page
from alphac4.plugins.review.text import describe_review
from alphac4.solver import Solver, best_columns, no_known_scores, shared_solver
from alphac4.solver.solver import TimeIsUp, Verdict, deadline
from examples import Counting, LateSolver, short_review

PLAIN = Screen(io.StringIO())  # without colours
SMALL = make_board(5, 6, 4)  # solved from the empty board in a tenth of a second
GAME = "5122256411234321551344"  # random moves, with mistakes of every kind
TEXT = Path(__file__).parent / "data" / "review.txt"


def all_scores(moves: str) -> list[list[int | None]]:
    solver = Solver(SMALL, book=no_known_scores())
    return [solver.analyze(Position.from_moves(moves[:ply], SMALL)) for ply in range(len(moves))]


@pytest.fixture(scope="module")
def review() -> Review:
    return review_game(GAME, SMALL, solver=Solver(SMALL, book=no_known_scores()), seconds=600)


def test_grades_agree_with_the_scores_of_all_columns(review: Review) -> None:
    assert {move.grade for move in review.reviewed} >= {Grade.BEST, Grade.KEEPS, Grade.LOSES_DRAW, Grade.WIN_TO_LOSS}
    for move, scores in zip(review.reviewed, all_scores(GAME), strict=True):
        best, played = max(score for score in scores if score is not None), scores[move.column]
        assert (move.best.score, move.played.score) == (best, played)
        assert move.grade.is_mistake == (np.sign(best) != np.sign(played))
        assert (move.grade is Grade.BEST) == (best == played)
        assert sorted(move.better) == (best_columns(scores) if move.grade.is_mistake else [])
        known = {column: score for column, score in enumerate(scores) if score is not None}
        assert {column: verdict.score for column, verdict in move.columns.items()} == (
            known if move.grade.is_mistake else {}
        )
        if move.grade is Grade.KEEPS:  # a later win or a sooner loss than after the best move
            assert move.delay == (move.played.moves - move.best.moves) * move.best.outcome > 0
            assert f"{move.delay} move" in move.comment


def test_best_lines_keep_the_score(review: Review) -> None:
    for move in review.mistakes[::3]:
        position = Position.from_moves(GAME[: move.ply - 1], SMALL)
        assert move.line
        for column in move.line:
            assert column in best_columns(Solver(SMALL, book=no_known_scores()).analyze(position))
            position = position.play(column)


def test_accuracy_is_the_mean_credit() -> None:
    win, draw, loss = Verdict(score=5, moves=3), Verdict(score=0, moves=0), Verdict(score=-2, moves=4)
    worked = [  # by hand, one move of each kind
        (win, Verdict(score=3, moves=5), 0.9),  # two moves later: 1 - 2 * 0.05
        (win, win, 1),
        (win, draw, 0.3),
        (win, loss, 0),
        (draw, loss, 0.3),
        (win, Verdict(score=1, moves=30), 0.7),
        (win, None, None),
    ]
    moves = [
        ReviewedMove(ply=1 + 2 * index, column=0, best=best, played=played, opinion=None)
        for index, (best, played, _) in enumerate(worked)
    ]
    assert [move.credit for move in moves] == [credit for _, _, credit in worked]
    side = Review(moves="", board=SMALL, player="", reviewed=tuple(moves), seconds=0).summary(0)
    assert side.accuracy == pytest.approx(100 * (0.9 + 1 + 0.3 + 0 + 0.3 + 0.7) / 6)
    assert (side.judged, side.best, side.mistakes) == (6, 1, 3)


def test_without_time_only_moves_in_the_opening_book_are_judged() -> None:
    review = review_game("444445", seconds=0)
    assert review.reviewed[0].grade is Grade.BEST
    assert review.unjudged >= 1
    assert review.reviewed[-1].comment == "not judged"
    assert "not judged" in describe_review(review, PLAIN)
    assert review.summary(1).judged < 3
    without_book = review_game("11223", SMALL, seconds=0)
    assert without_book.unjudged == 5
    assert "5 moves are not judged: the time limit was reached." in describe_review(without_book, PLAIN)


class HurriedSolver(Solver):
    """Solver without time for positions of fewer stones than ``fewest``, once the game's positions are solved."""

    def __init__(self, fewest: int) -> None:
        super().__init__(SMALL, book=no_known_scores())
        self._left, self._fewest = len(GAME) + 1, fewest

    def solve(self, position: Position, on_poll: Callable[[], None] | None = None) -> int:
        self._left -= 1
        if self._left < 0 and position.plies < self._fewest:
            raise TimeIsUp
        return super().solve(position, on_poll)


def test_better_moves_are_searched_from_the_end_of_the_game(review: Review) -> None:
    mistakes = [move.ply for move in review.mistakes]
    assert review.mistakes_without_better == 0
    middle = mistakes[len(mistakes) // 2]
    hurried = review_game(GAME, SMALL, solver=HurriedSolver(middle))
    assert [bool(move.better) for move in hurried.mistakes] == [ply >= middle for ply in mistakes]
    assert hurried.mistakes_without_better == mistakes.index(middle) > 0
    assert f"missing for {hurried.mistakes_without_better} mistakes" in describe_review(hurried, PLAIN)


class TiredSolver(Solver):
    """Solver whose time is up after some positions."""

    left = 5

    def solve(self, position: Position, on_poll: Callable[[], None] | None = None) -> int:
        self.left -= 1
        if self.left < 0:
            raise TimeIsUp
        return super().solve(position, on_poll)


def test_positions_are_judged_from_the_end_of_the_game() -> None:
    reviewed = review_game(GAME, SMALL, solver=TiredSolver(SMALL, book=no_known_scores())).reviewed
    assert [move.ply for move in reviewed if move.grade is not Grade.UNKNOWN] == list(
        range(len(GAME) - 3, len(GAME) + 1)
    )


def test_review_can_be_interrupted() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        review_game("4444", on_poll=stop)


def test_the_solvers_time_limit_does_not_include_the_player(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow network leaves the solver its full time for better moves."""
    now = [0.0]
    monkeypatch.setattr("alphac4.solver.solver.time", SimpleNamespace(monotonic=lambda: now[0]))
    limits = Mock(side_effect=deadline)
    monkeypatch.setattr("alphac4.plugins.review.game.deadline", limits)

    class Slow(Counting):
        def search(self, positions: Sequence[Position]) -> SimpleNamespace:
            now[0] += 1000.0
            return super().search(positions)

    found = review_game(GAME, SMALL, solver=Solver(SMALL, book=no_known_scores()), player=Slow(), seconds=10)
    assert found.mistakes
    assert found.mistakes_without_better == 0
    assert [call.args[0] for call in limits.call_args_list] == [10, 5]  # the second for better moves


def test_opinions_are_the_players_search_results() -> None:
    player = parse_searching_player("uct:300", rng=np.random.default_rng(0))
    review = review_game("1122334", player=player, seconds=0.1)
    assert review.player == "uct:300"
    opinion = review.reviewed[-1].opinion  # for the side to move before each move
    assert opinion.column == 3
    assert opinion.value == pytest.approx(1, abs=0.1)
    assert review.values[5] == -review.reviewed[5].opinion.value  # o is to move after five moves
    assert review.values[6] == pytest.approx(1, abs=0.1)  # x wins in column 4


def test_opinion_has_no_prior_where_the_rules_decide_the_position() -> None:
    """The search wins at once without asking the network."""
    player = parse_searching_player("quick@20", rng=np.random.default_rng(0))
    opinion = review_game("1122334", player=player, seconds=0.1).reviewed[-1].opinion
    assert (opinion.value, opinion.played_prior) == (1.0, None)


def test_values_include_the_last_position() -> None:
    def review(moves: str) -> Review:
        return review_game(moves, SMALL, player=Counting(), seconds=0)

    unfinished = review("11223")
    assert unfinished.values == (0, -0.01, 0.02, -0.03, 0.04, -0.05)  # for x
    data = json.loads(json.dumps(unfinished.to_dict()))
    assert [move["opinion"]["value"] for move in data["reviewed"]] == [0, 0.01, 0.02, 0.03, 0.04]
    assert data["values"] == list(unfinished.values)
    assert review("1122334").values[-2:] == (0.06, 1)  # won by x
    assert review("61121314").values[-1] == -1
    assert review("").values == (0,)


def test_complete_review_of_a_short_game() -> None:
    """The text is checked by hand, its verdicts by `naive.minimax`.

    Credits of x: 1, 0.75 for a win 5 moves later, 0, 0 and 0.3; of o: 0.9 for a loss 2 moves sooner, 1, 0, 0.3 and 1.
    """
    review = short_review()
    assert describe_review(review, PLAIN) + "\n" == TEXT.read_text()
    data = json.loads(json.dumps(review.to_dict()))
    assert [move["opinion"]["prior"] for move in data["reviewed"]] == [0.1, 0.1, 0.4, 0.2, 0.3, 0.3, 0, 0.3, 0.1, 0.2]
    assert [side["accuracy"] for side in data["sides"]] == pytest.approx([100 * 2.05 / 5, 100 * 3.2 / 5])
    assert (data["outcome"], data["mistakes"], data["unjudged"]) == (-1, [5, 6, 7, 8, 9], 0)


def test_review_page_is_self_contained(review: Review) -> None:
    page = review_page([review])
    assert not re.search(r"(src|href)=|url\((?!#)|@import|https?://(?!www\.w3\.org)", page)
    assert json.dumps(GAME) in page
    assert page.count("</script>") == 2  # the reviews, and the script that shows them


def test_review_text_explains_only_the_marks_that_occur() -> None:
    perfect = describe_review(review_game("4444"), PLAIN)  # only best moves
    assert "mistakes |" not in perfect
    assert not re.search(r"^[~?]", perfect, re.MULTILINE)


def test_a_review_of_the_longest_game_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its graph and its table have a line for each value and move; only sentences are wrapped."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    screen = Screen(terminal)
    review = review_game(DRAWN, player=Counting(), solver=LateSolver(DRAWN))  # type: ignore[arg-type]
    screen.line(describe_review(review, screen))
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert f"  played |.{DRAWN}" in lines
    assert len([line for line in lines if re.fullmatch(r" *\d+  [xo] \d.*\d %, plays \d", line)]) == 42
    monkeypatch.setenv("COLUMNS", "120")
    assert f"  played |. {' '.join(DRAWN)}" in describe_review(review, screen).splitlines()


def test_graph_shows_the_exact_outcomes() -> None:
    scores = [shared_solver(SMALL).solve(Position.from_moves(moves, SMALL)) for moves in ("", "1", "12")]
    outcomes = [scores[0], -scores[1], scores[2]]  # for x
    line = "   exact |" + " ".join("x" if score > 0 else "o" if score < 0 else "=" for score in outcomes)
    assert line in describe_review(review_game("12", SMALL), PLAIN).splitlines()
    # A player that expects x to win until the seventh move: points are above the moves that led there; . is the start.
    seen = replace(review_game("61121314", SMALL, player=Counting(), seconds=0), values=(1,) * 7 + (-1,) * 2)
    lines = {line.partition(" |")[0].strip(): line for line in describe_review(seen, PLAIN).splitlines()}
    for name, moves in (("x wins", ".611213"), ("o wins", "14")):
        assert [lines["played"][place] for place, mark in enumerate(lines[name]) if mark == "*"] == list(moves)


def test_reviews_are_kept_if_their_page_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    games, page = tmp_path / "games.txt", tmp_path / "review.html"
    games.write_text("1122334\n112233\n")
    arguments = ["review", str(games), "--rows", "5", "--columns", "6", "--html", str(page)]

    def fail(path: Path, *_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("alphac4.plugins.review.command.write_atomically", fail)
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out.count("1 2 3 4 5 6") == 2
    assert output.err == f"alphac4 review: {page}: No space left on device\n"


def test_interrupted_reviews_write_the_finished_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    games, page = tmp_path / "games.txt", tmp_path / "review.html"
    games.write_text("1122334\n112233\n")

    def review(moves: str, *_: object) -> Review:
        if moves == "112233":
            raise KeyboardInterrupt
        return review_game(moves, SMALL)

    monkeypatch.setattr("alphac4.plugins.review.command.review_with_progress", review)
    assert main(["review", str(games), "--rows", "5", "--columns", "6", "--html", str(page)]) == 130
    assert '"moves": "1122334"' in page.read_text()


def test_review_command_writes_text_json_and_a_page(tmp_path: Path, run_command: Callable[..., str]) -> None:
    path, page, command = tmp_path / "games.txt", tmp_path / "review.html", "review --rows 5 --columns 6"
    path.write_text("1122334\n112233\n")
    # By default without a player, because the package has no network for this board.
    assert re.search("1 2 3 4 5 6\n.*x has won", run_command(f"{command} 1122334"), re.DOTALL)
    reviews = [json.loads(line) for line in run_command(f"{command} {path} --player uct:50 --json").splitlines()]
    assert [review["outcome"] for review in reviews] == [1, None]
    assert reviews[0]["reviewed"][-1]["move"] == "4"
    assert run_command(f"{command} {path} --player none --html {page}") == ""
    assert '"moves": "1122334"' in page.read_text()


@pytest.mark.parametrize("by_network", [False, True])
def test_review_in_a_terminals_game_uses_its_board(
    by_network: bool, tmp_path: Path, run_command: Callable[..., str]
) -> None:
    board = "--rows 5 --columns 6"
    if by_network:
        board = f"--checkpoint {save_untrained(tmp_path / 'small.safetensors', make_board(5, 6))}"
    output = run_command(f"play human --moves 112233 {board}", given="4\nreview\n")
    assert "\033" not in output  # no colours in a pipe
    assert "x: accuracy" in output
    assert output.count("  X X X X . .\n  1 2 3 4 5 6\n") == 2  # the boards of the game and of the review
    assert "there is no move to review yet" in run_command(f"play human {board}", given="review\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("review 44 5", "'44 5' is neither"),
        ("review 44 --player negamax:2", "searches no tree"),
        ("review 44 --html .", "is a folder"),
        ("review 44 --html {path}.html", "exists already: choose another name, or replace it by --overwrite"),
        ("review 44 --html {path}", "the name must end in .html"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    line: str, message: str, tmp_path: Path, error_line: Callable[..., str]
) -> None:
    path = tmp_path / "mine"
    path.with_suffix(".html").write_text("mine")
    assert message in error_line(line.format(path=path))
    assert path.with_suffix(".html").read_text() == "mine"

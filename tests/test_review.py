import dataclasses
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from alphac4.arena.specifications import parse_searching_player
from alphac4.cli import main
from alphac4.game import Position, make_geometry
from alphac4.game.wording import signed
from alphac4.play.screen import Screen
from alphac4.review import Grade, Opinion, Review, ReviewedMove, Verdict, review_game
from alphac4.review.games import read_games
from alphac4.review.html import review_page
from alphac4.review.text import describe_review
from alphac4.solver import Solver, best_columns, no_known_scores, solve
from alphac4.solver.deadline import TimeIsUp

SMALL = make_geometry(5, 6, 4)  # solved from the empty board in a tenth of a second
GAME = "5122256411234321551344"  # random moves, with slips of every kind


def all_scores(moves: str) -> list[list[int | None]]:
    """The scores of every column before each move, each position analysed for itself."""
    solver = Solver(SMALL, book=no_known_scores())
    return [solver.analyze(Position.from_moves(moves[:ply], SMALL)) for ply in range(len(moves))]


@pytest.fixture(scope="module")
def review() -> Review:
    """The review of `GAME`."""
    return review_game(GAME, SMALL, solver=Solver(SMALL, book=no_known_scores()), seconds=600)


def test_moves_are_graded_as_the_scores_of_all_columns_say(review: Review) -> None:
    """The reviewer solves the positions of the game alone, this test every column of each."""
    assert {move.grade for move in review.reviewed} >= {Grade.BEST, Grade.KEEPS, Grade.SLIPS_DRAW, Grade.THROWS_WIN}
    for move, scores in zip(review.reviewed, all_scores(GAME), strict=True):
        best, played = max(score for score in scores if score is not None), scores[move.column]
        assert played is not None
        assert move.best is not None
        assert move.played is not None
        assert (move.best.score, move.played.score) == (best, played)
        assert move.grade.slips == (np.sign(best) != np.sign(played))
        assert (move.grade is Grade.BEST) == (best == played)
        if move.grade.slips:
            assert sorted(move.better) == best_columns(scores)
        else:
            assert move.better == ()


def test_best_lines_keep_the_score(review: Review) -> None:
    """Each move of a line is one of the best for the side that makes it."""
    for move in review.turning_points[::3]:
        position = Position.from_moves(GAME[: move.ply - 1], SMALL)
        assert move.line
        for column in move.line:
            assert column in best_columns(Solver(SMALL, book=no_known_scores()).analyze(position))
            position = position.play(column)


def test_what_a_move_costs_is_told_in_moves(review: Review) -> None:
    """Moves that keep the outcome are never sooner wins or later losses than the best."""
    kept = [move for move in review.reviewed if move.grade is Grade.KEEPS]
    for move in kept:
        assert move.best is not None
        assert move.played is not None
        assert move.delay == (move.played.moves - move.best.moves) * move.best.outcome > 0
        assert f"{move.delay} move" in move.comment


def test_accuracy_is_the_mean_credit() -> None:
    """Worked by hand for one move of each kind."""
    record = ReviewedMove(
        ply=1, column=0, best=Verdict(score=5, moves=3), played=Verdict(score=3, moves=5), opinion=None
    )
    draw, loss = Verdict(score=0, moves=0), Verdict(score=-2, moves=4)
    moves = [
        record,  # two moves later: 1 - 2 * 0.05
        dataclasses.replace(record, ply=3, played=record.best),
        dataclasses.replace(record, ply=5, played=draw),
        dataclasses.replace(record, ply=7, played=loss),
        dataclasses.replace(record, ply=9, best=draw, played=loss),
        dataclasses.replace(record, ply=11, played=Verdict(score=1, moves=30)),
        dataclasses.replace(record, ply=13, played=None),
    ]
    assert [move.credit for move in moves] == [0.9, 1, 0.3, 0, 0.3, 0.7, None]
    side = Review(moves="", geometry=SMALL, player="", reviewed=tuple(moves), seconds=0).side(0)
    assert side.accuracy == pytest.approx(100 * (0.9 + 1 + 0.3 + 0 + 0.3 + 0.7) / 6)
    assert (side.moves, side.judged, side.best, side.slips) == (7, 6, 1, 3)


def test_without_time_only_what_is_known_is_judged() -> None:
    """The opening stands in the book; the rest says that it was not judged, and nothing is claimed."""
    review = review_game("444445", seconds=0)
    assert review.reviewed[0].grade is Grade.BEST
    assert review.unjudged >= 1
    assert review.reviewed[-1].comment == "not judged"
    assert "not judged" in describe_review(review)
    assert review.side(1).judged < review.side(1).moves


class AskedSolver(Solver):
    """Remembers the stones of the positions that it was asked about, and may stop at some of them."""

    def __init__(self, fewest: int = 0) -> None:
        super().__init__(SMALL, book=no_known_scores())
        self.asked: list[int] = []
        self._fewest = fewest

    def solve(self, position: Position, on_pause: Callable[[], None] | None = None) -> int:
        """As ever; what has fewer stones takes too long once the game's own positions are solved."""
        self.asked.append(position.plies)
        if len(self.asked) > len(GAME) + 1 and position.plies < self._fewest:
            raise TimeIsUp
        return super().solve(position, on_pause)


def test_better_moves_are_looked_for_from_the_end(review: Review) -> None:
    """Where they are cheap; those that are missing are counted, and the text says so."""
    slips = [move.ply for move in review.turning_points]
    solver = AskedSolver()
    assert review_game(GAME, SMALL, solver=solver).unmended == 0
    firsts = [plies for plies in solver.asked[len(GAME) + 1 :] if plies in slips]
    assert firsts[0] == slips[-1]
    assert list(dict.fromkeys(firsts))[-1] == slips[0]
    middle = slips[len(slips) // 2]
    hurried = review_game(GAME, SMALL, solver=AskedSolver(fewest=middle))
    assert [bool(move.better) for move in hurried.turning_points] == [ply >= middle for ply in slips]
    assert hurried.unmended == slips.index(middle) > 0
    assert f"missing for {hurried.unmended} slips" in describe_review(hurried)
    assert "missing" not in describe_review(review)


def test_whoever_waits_can_end_it() -> None:
    """What a pause raises ends the review, as Ctrl-C does."""

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        review_game("4444", on_pause=stop)


def test_opinions_are_those_of_the_player() -> None:
    """Values are for the side to move before each move; the first player's are mirrored every second time."""
    player = parse_searching_player("uct:300", rng=np.random.default_rng(0))
    review = review_game("112233", player=player, seconds=0.1)
    assert review.player == "uct:300"
    final = review_game("1122334", player=player, seconds=0.1).reviewed[-1]
    assert final.opinion is not None
    assert final.opinion.column == 3
    assert final.opinion.value == pytest.approx(1, abs=0.1)
    second = review.reviewed[-1]
    assert second.opinion is not None
    assert review.values[5] == -second.opinion.value  # o is to move after five moves
    assert review.values[6] == pytest.approx(1, abs=0.1)  # x wins in column 4


class Counting:
    """Holds a position with n stones for worth n hundredths to the side to move; remembers what it was asked."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def search(self, positions: Sequence[Position]) -> SimpleNamespace:
        """See `SearchingPlayer`."""
        self.asked = [position.plies for position in positions]
        count = len(positions)
        return SimpleNamespace(
            value=np.array(self.asked) / 100, moves=np.full(count, 3), priors=np.full((count, 7), 1 / 7)
        )


def review_by_counting(moves: str) -> tuple[Review, Counting]:
    """A review in `Counting`'s opinion."""
    player = Counting()
    return review_game(moves, SMALL, player=player, seconds=0), player  # type: ignore[arg-type]


def test_the_players_time_is_none_of_the_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that takes longer to be loaded than the solver may take for better moves leaves it its time."""
    now = [0.0]
    monkeypatch.setattr("alphac4.solver.deadline.time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(Counting):
        def search(self, positions: Sequence[Position]) -> SimpleNamespace:
            now[0] += 1000.0
            return super().search(positions)

    solver = Solver(SMALL, book=no_known_scores())
    found = review_game(GAME, SMALL, solver=solver, player=Slow(), seconds=10.0)  # type: ignore[arg-type]
    assert found.turning_points
    assert found.unmended == 0


def test_the_player_is_asked_about_the_last_position_too() -> None:
    """Unless the game is over: its outcome is the value then. Values are for the player who began."""
    unfinished, player = review_by_counting("11223")
    assert player.asked == [0, 1, 2, 3, 4, 5]
    assert unfinished.values == (0, -0.01, 0.02, -0.03, 0.04, -0.05)
    won, player = review_by_counting("1122334")
    assert player.asked == [0, 1, 2, 3, 4, 5, 6]
    assert won.values[-2:] == (0.06, 1)
    lost, _ = review_by_counting("61121314")
    assert lost.outcome == lost.values[-1] == -1
    assert review_by_counting("")[0].values == (0,)
    assert review_game("11", SMALL, seconds=0).values == ()


def test_what_reads_the_json_finds_the_opinions_where_they_were() -> None:
    """Before each move, for the side to move; the values after each move are beside them, and no zero has a sign."""
    told = json.loads(json.dumps(review_by_counting("11223")[0].to_dict()))
    assert [move["opinion"]["value"] for move in told["reviewed"]] == [0, 0.01, 0.02, 0.03, 0.04]
    assert told["values"] == [0, -0.01, 0.02, -0.03, 0.04, -0.05]
    moved = dataclasses.replace(review_by_counting("1")[0], values=(-0.0001, 0.0001))
    assert json.dumps(moved.to_dict()["values"]) == "[0.0, 0.0]"


def test_the_text_shows_graph_turning_points_and_every_move(review: Review) -> None:
    """Also without anybody's opinion, and for a game that is empty."""
    text = describe_review(review)
    assert GAME in text
    assert "Turning points" in text
    assert len(re.findall(r"^ +\d+  [xo] \d", text, re.MULTILINE)) == len(GAME)
    assert "unfinished after 0 moves" in describe_review(review_game(""))


def test_the_graph_shows_what_each_move_did() -> None:
    """In the column of the move, not of the one after it; the end of the game is there."""

    class Blundered(Counting):
        """Sees a win for x, until o wins at once: from the seventh move on."""

        def search(self, positions: Sequence[Position]) -> SimpleNamespace:
            found = super().search(positions)
            found.value = np.array([(1.0 if p.plies < 7 else -1.0) * (-1) ** p.plies for p in positions])
            return found

    review = review_game("61121314", SMALL, player=Blundered(), seconds=0)  # type: ignore[arg-type]
    lines = describe_review(review).splitlines()
    top = next(line for line in lines if line.startswith("  x wins |"))
    bottom = next(line for line in lines if line.startswith("  o wins |"))
    played = next(line for line in lines if line.startswith("  played |"))
    assert [played[i] for i in range(len(top)) if top[i] == "*"] == list(".611213")  # . is the start
    assert [played[i] for i in range(len(bottom)) if bottom[i] == "*"] == list("14")
    assert "expects at the start and after each move" in "\n".join(lines)


def test_the_graph_begins_with_the_exact_outcome_of_the_start() -> None:
    """Before the first move, which may have changed it."""
    review = review_game("12", SMALL)
    exact = next(line for line in describe_review(review).splitlines() if line.startswith("   exact |"))
    scores = [solve(Position.from_moves(moves, SMALL)) for moves in ("", "1", "12")]
    outcomes = [scores[0], -scores[1], scores[2]]  # for x
    assert exact == "   exact |" + " ".join("x" if score > 0 else "o" if score < 0 else "=" for score in outcomes)


def test_numbers_and_nouns_agree() -> None:
    """One move, two moves; a draw is told as a verb like a win; and no zero has a sign."""
    win, draw, loss = Verdict(score=5, moves=3), Verdict(score=0, moves=0), Verdict(score=-2, moves=4)
    move = ReviewedMove(ply=1, column=0, best=draw, played=loss, opinion=Opinion(value=-0.001, column=2, prior=None))

    def told(*moves: ReviewedMove) -> str:
        text = "1" * len(moves)
        return describe_review(Review(moves=text, geometry=SMALL, player="p", reviewed=moves, seconds=0))

    one = told(move)
    assert "unfinished after 1 move\n" in one
    assert "of 1 judged move 0 best, 1 slip\n" in one
    assert "(with best play it draws, now it loses in 4 moves)" in one
    assert "missing for 1 slip:" in one
    assert " 0.00, plays 3" in one
    assert "-0.00" not in one
    unjudged = dataclasses.replace(move, ply=2, played=None)
    assert "1 move is not judged" in told(move, unjudged)
    two = told(unjudged, dataclasses.replace(unjudged, ply=3), dataclasses.replace(move, best=win, played=draw, ply=5))
    assert "2 moves are not judged" in two
    assert "(with best play it wins in 3 moves, now it draws)" in two
    assert "after 3 moves" in two
    assert [signed(value) for value in (0.004, -0.004, 0.25, -1.0)] == ["0.00", "0.00", "+0.25", "-1.00"]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_a_review_is_drawn_like_the_game_around_it(monkeypatch: pytest.MonkeyPatch, review: Review) -> None:
    """The board as `alphac4 play` shows it, and its stones everywhere; without their colours every line is aligned."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    screen = Screen(stream)
    screen.board(Position.from_moves(GAME, SMALL))
    board = stream.getvalue().strip("\n")
    coloured, plain = describe_review(review, screen), describe_review(review)
    assert coloured.startswith(board)
    assert "●" in board
    after = re.sub("\x1b\\[\\d+m", "", coloured.removeprefix(board))
    assert not re.search(r"\b[xo]\b", after)
    letters = plain.removeprefix(str(Position.from_moves(GAME, SMALL)))
    letters = letters.replace("x (red)", "● red").replace("o (yellow)", "● yellow")
    assert after == re.sub(r"\b[xo]\b", "●", letters)


def test_the_page_needs_nothing_else(review: Review) -> None:
    """No address, no file; and no text in the data can end the script."""
    page = review_page([review])
    assert not re.search(r"(src|href)=|url\((?!#)|@import|https?://(?!www\.w3\.org)", page)
    assert json.dumps(GAME) in page
    assert page.count("</script>") == 1


def test_games_come_from_files_and_the_standard_input(tmp_path: Path) -> None:
    """One a line; comments and blank lines are passed over, and a bad line is named."""
    path = tmp_path / "games.txt"
    path.write_text("# ours\n4455\n\n1 1 2 2 # spaces\n")
    assert read_games(str(path), None) == ["4455", "1122"]
    assert read_games("-", io.StringIO("44\n")) == ["44"]
    path.write_text("44\n49\n")
    with pytest.raises(ValueError, match=r"games.txt, line 2: illegal move '9'"):
        read_games(str(path), None)
    assert read_games(" 44 5 5", None) == ["4455"]
    for missing in ("nofile.txt", str(tmp_path / "games"), "games", "4455.", "44/55"):
        with pytest.raises(ValueError, match=f"'{re.escape(missing)}' is no game .* there is no such file"):
            read_games(missing, None)
    assert read_games("1a", None, make_geometry(3, 10, 3)) == ["1a"]  # column 10
    path.write_bytes("\ufeff44\r\n".encode())  # as Windows' editors save it
    assert read_games(str(path), None) == ["44"]
    for nothing in ("-", "", " "):
        with pytest.raises(ValueError, match=r"no (game|move)"):
            read_games(nothing, None)


def test_the_command_writes_text_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one game and of several."""
    small = ["--rows", "5", "--columns", "6"]
    assert main(["review", "1122334", "--player", "none", *small]) == 0
    assert "x (red) has won" in capsys.readouterr().out
    path = tmp_path / "games.txt"
    path.write_text("1122334\n112233\n")
    assert main(["review", str(path), "--player", "uct:50", "--json", *small]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["outcome"] == 1
    assert second["outcome"] is None
    assert first["reviewed"][-1]["move"] == "4"
    page = tmp_path / "review.html"
    assert main(["review", str(path), "--player", "none", "--html", str(page), *small]) == 0
    assert capsys.readouterr().out == ""
    assert '"moves": "1122334"' in page.read_text()


def test_another_board_can_be_reviewed(capsys: pytest.CaptureFixture[str]) -> None:
    """By the solver alone, as no network comes with it."""
    assert main(["review", "112233", "--rows", "4", "--columns", "5", "--run-length", "3"]) == 2
    assert main(["review", "1122", "--rows", "4", "--columns", "5", "--run-length", "3"]) == 0
    assert "unfinished after 4 moves" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["49"], "illegal move '9'"),
        (["nofile.txt"], "there is no such file"),
        ([], "no move to review"),
        (["44", "--player", "nobody"], "unknown player"),
        (["44", "--player", "missing.safetensors"], "no such file"),
        (["44", "--player", "negamax:2"], "searches no tree"),
        (["44", "--seconds", "-1"], "--seconds must be at least 0"),
        (["44", "--html", "."], "is a folder"),
    ],
)
def test_bad_input_ends_with_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    assert main(["review", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1

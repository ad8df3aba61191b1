from collections.abc import Sequence

import naive
import numpy as np
import pytest

from alphac4.arena.match import MatchResult, play_match
from alphac4.arena.openings import balanced_openings
from alphac4.arena.players import RandomPlayer, UctPlayer
from alphac4.game import IllegalMove, Position, make_geometry
from alphac4.mcts import Budget

OPENINGS = [Position.from_moves(moves) for moves in ("44", "123", "7", "4435")]


class Leftmost:
    """Plays the first legal column, and notes how many positions it was asked about at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[int] = []

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        self.batches.append(len(positions))
        return [position.legal_columns()[0] for position in positions]


class Rightmost(Leftmost):
    """Plays the last legal column."""

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [position.legal_columns()[-1] for position in positions]


class Scripted(Leftmost):
    """Answers with columns given in advance, legal or not, whatever it is asked."""

    def __init__(self, name: str, *columns: int) -> None:
        super().__init__(name)
        self.columns = columns

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        super().choose(positions)
        return list(self.columns)


def winner(moves: str) -> str:
    """Who has won a finished game, "x" (the first player), "o" or nobody, by a naive scan of the grid."""
    board: naive.Board = ("",) * 7
    for ply, name in enumerate(moves):
        assert not any(naive.wins(board, side, 6, 4) for side in "xo"), "the game was over before"
        board = naive.drop(board, int(name) - 1, "xo"[ply % 2])
    return next((side for side in "xo" if naive.wins(board, side, 6, 4)), "")


def test_every_opening_is_played_once_with_each_colour() -> None:
    """Two players of one mind play the same game twice, so each pair is even."""
    result = play_match(Leftmost("a"), Leftmost("b"), OPENINGS, progress=False)
    assert result.pair_scores == (1.0,) * 4
    assert result.games[::2] == result.games[1::2]
    assert all(game.startswith(o.moves or "") for game, o in zip(result.games[::2], OPENINGS, strict=True))
    assert result.score == 0.5


def test_the_first_side_moves_first_in_even_games() -> None:
    """After the opening, whichever colour that is."""
    result = play_match(Leftmost("a"), Rightmost("b"), OPENINGS, progress=False)
    plies = [opening.plies for opening in OPENINGS]
    assert [game[n : n + 2] for game, n in zip(result.games[::2], plies, strict=True)] == ["17"] * 4
    assert [game[n : n + 2] for game, n in zip(result.games[1::2], plies, strict=True)] == ["71"] * 4


def test_the_score_is_what_a_replay_of_the_games_gives(rng: np.random.Generator) -> None:
    """Random games, replayed on a naive grid, with the colours worked out from the opening's length."""
    openings = balanced_openings(40, rng)
    result = play_match(RandomPlayer(rng), RandomPlayer(rng), openings, progress=False)
    points = []
    for game, moves in enumerate(result.games):
        ours = "xo"[(openings[game // 2].plies + game) % 2]
        points.append({ours: 1.0, "": 0.5}.get(winner(moves), 0.0))
    assert (result.wins, result.draws, result.losses) == (points.count(1.0), points.count(0.5), points.count(0.0))
    assert result.pair_scores == tuple(points[i] + points[i + 1] for i in range(0, 80, 2))
    assert result.score == pytest.approx(sum(points) / 80)


def test_all_games_advance_in_one_batch_a_ply() -> None:
    """From its second move on each side is asked about all games still open."""
    player = Leftmost("a")
    play_match(player, Leftmost("b"), OPENINGS, progress=False)
    assert player.batches[0] == len(OPENINGS)
    assert player.batches[1] == 2 * len(OPENINGS)
    assert len(player.batches) <= 21


def test_an_illegal_move_names_the_player() -> None:
    """Instead of counting as a loss."""
    with pytest.raises(IllegalMove, match=r"illegal move column 4 after '444444': .*full.*player cheat"):
        play_match(Scripted("cheat", 3), Leftmost("b"), [Position.from_moves("444444")], progress=False)


def test_a_player_must_answer_for_every_position() -> None:
    """No more and no fewer moves than positions."""
    with pytest.raises(ValueError, match="player lazy chose 1 moves for 4 positions"):
        play_match(Scripted("lazy", 0), Leftmost("b"), OPENINGS, progress=False)


def test_finished_openings_are_refused() -> None:
    """Nobody could move."""
    with pytest.raises(ValueError, match="'1122334' is finished"):
        play_match(Leftmost("a"), Leftmost("b"), [Position.from_moves("1122334")], progress=False)


def test_a_check_may_end_a_match_at_any_ply() -> None:
    """What it raises comes through."""
    countdown = iter(range(3))

    def check() -> None:
        if next(countdown) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play_match(Leftmost("a"), Leftmost("b"), OPENINGS, check=check, progress=False)


def test_results_add_up() -> None:
    """Games keep their order, so pairs stay pairs."""
    first = play_match(Leftmost("a"), Rightmost("b"), OPENINGS[:1], progress=False)
    second = play_match(Leftmost("a"), Rightmost("b"), OPENINGS[1:], progress=False)
    assert first + second == play_match(Leftmost("a"), Rightmost("b"), OPENINGS, progress=False)
    assert MatchResult() + first == first
    assert MatchResult().score == 0.0


def test_classic_mcts_beats_random_play(rng: np.random.Generator) -> None:
    """At 100 rollouts a move nearly always, with either colour."""
    openings = balanced_openings(15, rng)
    result = play_match(UctPlayer(Budget(simulations=100), rng), RandomPlayer(rng), openings, progress=False)
    assert result.score > 0.9
    assert result.interval.low > 0.7


def test_openings_are_distinct_up_to_mirroring_and_fixed_by_the_seed() -> None:
    """Short ones, none of them twice."""
    once, twice = (balanced_openings(64, np.random.default_rng(1)) for _ in range(2))
    assert [opening.moves for opening in once] == [opening.moves for opening in twice]
    boards = {min(str(opening), str(opening.mirror())) for opening in once}
    assert len(boards) == 64
    assert {opening.plies for opening in once} == {2, 3, 4, 5}


def test_no_opening_is_lost_or_won_within_two_plies() -> None:
    """No side can complete a run at once, and the mover has an answer after which the other cannot either."""
    for opening in balanced_openings(100, np.random.default_rng(2), plies=(5, 8)):
        after = [opening.play(column) for column in opening.legal_columns()]
        assert all(position.outcome() is None for position in after)
        assert any(
            all(position.play(column).outcome() is None for column in position.legal_columns()) for position in after
        )


def test_both_sides_have_a_game_from_an_opening(rng: np.random.Generator) -> None:
    """Between equals neither colour takes nearly all the points."""
    openings = balanced_openings(40, rng)
    player = UctPlayer(Budget(simulations=200), rng)
    result = play_match(player, player, openings, progress=False)
    first = [game for game in result.games if winner(game) == "x"]
    assert 0.25 < len(first) / len(result.games) < 0.8


def test_a_board_with_few_openings_repeats_them(rng: np.random.Generator) -> None:
    """Rather than none; on the smallest board even the empty one."""
    assert len(balanced_openings(50, rng, make_geometry(3, 3, 3), (1, 2))) == 50
    tiny = balanced_openings(3, rng, make_geometry(2, 1, 2), (2, 2))
    assert [opening.moves for opening in tiny] == ["", "", ""]

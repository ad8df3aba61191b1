import math
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import naive
import numpy as np
import pytest
from helpers import new_threads_end

from alphac4.arena import match as match_module
from alphac4.arena.match import MatchResult, balanced_openings, match_openings, play_match
from alphac4.arena.players import NetworkPlayer, RandomPlayer
from alphac4.game import IllegalMove, Position, make_board
from alphac4.machine import check_block
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.network_search import NetworkSearch, NotFiniteError
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import UNPROVEN
from alphac4.nn.foreign import FunctionEvaluator

OPENINGS = [Position.from_moves(moves) for moves in ("44", "123", "7", "4435")]


class _Scripted:
    """Plays the legal column of an index, or a fixed answer; records the sizes of batches."""

    name = "scripted"

    def __init__(self, index: int = 0, answer: Any = None) -> None:
        self.index, self.answer = index, answer
        self.batches: list[int] = []

    def choose(self, positions: Sequence[Position]) -> list[int]:
        self.batches.append(len(positions))
        return self.answer or [position.legal_columns()[self.index] for position in positions]


def winner(moves: str) -> str:
    """Return the winner of a finished game, "x" (first player), "o" or "", by a naive scan of the board."""
    before, after = naive.board_of(moves[:-1]), naive.board_of(moves)
    assert not any(naive.wins(before, side, 6, 4) for side in "xo"), "the game was over before"
    return next((side for side in "xo" if naive.wins(after, side, 6, 4)), "")


def test_every_opening_is_played_once_with_each_colour() -> None:
    player = _Scripted()
    result = play_match([player], [_Scripted()], OPENINGS)
    assert result.pair_points == (1.0,) * 4  # equal players play the same game twice
    assert result.games[::2] == result.games[1::2]
    assert all(game.startswith(o.moves or "") for game, o in zip(result.games[::2], OPENINGS, strict=True))
    assert result.score == 0.5
    assert player.batches[:2] == [4, 8]  # from its second move, a player gets all unfinished games
    assert len(player.batches) <= 21


def test_scores_agree_with_a_replay_of_the_games(rng: np.random.Generator) -> None:
    openings = balanced_openings(40, rng)
    result = play_match([RandomPlayer(rng)], [RandomPlayer(rng)], openings)
    points = []
    for game, moves in enumerate(result.games):
        ours = "xo"[(openings[game // 2].plies + game) % 2]
        points.append({ours: 1.0, "": 0.5}.get(winner(moves), 0.0))
    assert (result.wins, result.draws, result.losses) == (points.count(1.0), points.count(0.5), points.count(0.0))
    assert result.pair_points == tuple(points[i] + points[i + 1] for i in range(0, 80, 2))
    assert result.score == pytest.approx(sum(points) / 80)


@pytest.mark.parametrize(
    ("answer", "opening", "message"),
    [
        ([3], "444444", r"illegal move 3 \(columns count from 0\) after '444444': .*full.*player scripted"),
        ([0, 0], "44", "player scripted chose 2 moves for 1 position$"),
        ([-1], "44", r"illegal move -1 \(columns count from 0\).*player scripted"),
        ([2.0], "44", r"player scripted returned 2\.0 for a column, expected an integer that counts from 0"),
        (3, "44", "player scripted returned 3, expected a list of columns"),
    ],
)
def test_invalid_moves_are_rejected(answer: Any, opening: str, message: str) -> None:
    with pytest.raises((IllegalMove, ValueError), match=message):
        play_match([_Scripted(answer=answer)], [_Scripted()], [Position.from_moves(opening)])


class _Thinking(_Scripted):
    """Player that thinks for minutes, unless its work is ended."""

    began = threading.Event()

    def choose(self, positions: Sequence[Position]) -> list[int]:
        self.began.set()
        for _ in range(6000):
            check_block()
            time.sleep(0.01)
        return super().choose(positions)


@pytest.mark.parametrize(("player", "copies"), [(_Scripted(), 1), (_Thinking(), 2)])
def test_a_check_that_raises_ends_a_match_at_once(player: _Scripted, copies: int) -> None:
    """It is called in the calling thread, also while the players think in other threads."""

    def check(_ended: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        if player.batches or _Thinking.began.is_set():
            raise KeyboardInterrupt

    with new_threads_end(), pytest.raises(KeyboardInterrupt):
        play_match([player] * copies, [_Scripted()] * copies, OPENINGS, check)


class _Failing(_Scripted):
    """Player whose network returns NaN from a number of stones, in games that begin with some moves."""

    def __init__(self, name: str, stones: int = 0, moves: str = "") -> None:
        super().__init__()
        self.name, self._stones, self._moves = name, stones, moves

    def choose(self, positions: Sequence[Position]) -> list[int]:
        if any(p.plies >= self._stones and (p.moves or "").startswith(self._moves) for p in positions):
            raise NotFiniteError("no number")
        return super().choose(positions)


def test_a_player_that_returns_nan_loses_without_playing(caplog: pytest.LogCaptureFixture) -> None:
    """This holds for either side, with one message; NaN for a column has the same effect."""
    result = play_match([_Failing("bad")], [_Scripted()], OPENINGS)
    assert (result.wins, result.draws, result.losses, result.pair_points) == (0, 0, 8, (0.0,) * 4)
    assert result.games == tuple(opening.moves for opening in OPENINGS for _ in range(2))
    assert caplog.messages == ["bad loses every game of the match: no number"]
    assert play_match([_Scripted()], [_Failing("bad")], OPENINGS).pair_points == (2.0,) * 4
    for nowhere in ([math.nan] * len(OPENINGS), [np.float32("nan")] * len(OPENINGS), [3, 3, 3, math.nan]):
        caplog.clear()
        assert play_match([_Scripted(answer=nowhere)], [_Scripted()], OPENINGS).losses == 8
        assert caplog.messages == ["scripted loses every game of the match: player scripted returned NaN for a column"]


@pytest.mark.parametrize(
    ("ours", "theirs", "score"),
    [
        (_Failing("a", 8), _Failing("b", 9), 0.0),
        (_Failing("a", 7, "123"), _Failing("b", 7, "44"), 1.0),
    ],
)
def test_the_first_nan_decides_a_match_in_any_number_of_parts(ours: Any, theirs: Any, score: float) -> None:
    """The gates of a run must not depend on the number of cores, each of which plays a part."""
    results = [play_match([ours] * parts, [theirs] * parts, OPENINGS) for parts in (1, 2, 4)]
    assert results[0] == results[1] == results[2]
    assert results[0].score == score


def test_a_network_that_returns_nan_during_a_search_loses_the_match(rng: np.random.Generator) -> None:
    def network(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = np.where(planes[:, :2].sum(axis=(1, 2, 3)) > 6, np.nan, 0.0)
        return np.zeros((len(planes), 7)), values

    search = NetworkSearch(FunctionEvaluator(network))
    for simulations in (50, 0):
        player = NetworkPlayer("bad", search, Budget(simulations=simulations))
        assert play_match([player], [RandomPlayer(rng)], OPENINGS).losses == 8


def test_results_of_parts_add_up_to_that_of_the_match() -> None:
    first, second, whole = (
        play_match([_Scripted()], [_Scripted(-1)], part) for part in (OPENINGS[:1], OPENINGS[1:], OPENINGS)
    )
    assert first + second == whole  # games keep their order, so pairs stay pairs
    assert MatchResult() + first == first
    assert MatchResult().score == 0.0


def test_openings_differ_up_to_mirroring_and_depend_only_on_the_seed() -> None:
    once, twice = (balanced_openings(64, np.random.default_rng(1)) for _ in range(2))
    assert [opening.moves for opening in once] == [opening.moves for opening in twice]
    assert len({min(str(opening), str(opening.mirror())) for opening in once}) == 64
    assert {opening.plies for opening in once} == {2, 3, 4, 5}


def test_openings_are_balanced_for_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that judges by the first move replaces the package's."""
    values = dict(zip("1234567", (-0.9, -0.41, -0.4, 0.0, 0.4, 0.41, 0.9), strict=True))

    class Search:
        def __init__(self, **_options: Any) -> None:
            pass

        def search(self, positions: Sequence[Position], _budget: Budget) -> SimpleNamespace:
            value = np.array([values[(position.moves or "")[0]] for position in positions])
            return SimpleNamespace(value=value, proofs=np.full((len(positions), 7), UNPROVEN))

    monkeypatch.setattr(match_module, "UctSearch", Search)
    assert {(opening.moves or "")[0] for opening in match_openings(40, 0)} == set("345")


def test_long_matches_get_longer_openings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_module, "balanced_openings", lambda _count, _rng, _board, plies: [plies])
    assert [match_openings(pairs, 0) for pairs in (500, 501)] == [[(2, 5)], [(2, 8)]]


def test_repeated_openings_of_a_match_are_reported_with_the_number_of_distinct_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    match_openings(40, 0)
    assert not caplog.records
    distinct = len(set(match_openings(100, 0, make_board(2, 3, 3))))
    assert 1 < distinct < 100
    assert f"only {distinct} distinct openings for 100 pairs" in caplog.text


def test_openings_that_are_proven_draws_are_unbalanced() -> None:
    tiny = make_board(2, 3, 3)
    search, start = UctSearch(board=tiny, rng=np.random.default_rng(0)), [Position(board=tiny)]
    assert search.search(start, Budget(simulations=400)).value.tolist() == [0.0]
    assert match_module._imbalance(search, start).tolist() == [1.0]


def test_openings_have_no_win_within_two_plies() -> None:
    for opening in balanced_openings(100, np.random.default_rng(2), plies=(5, 8)):
        after = [opening.play(column) for column in opening.legal_columns()]
        assert all(position.outcome() is None for position in after)
        assert any(
            all(position.play(column).outcome() is None for column in position.legal_columns()) for position in after
        )


def test_openings_repeat_on_a_board_with_few_of_them(rng: np.random.Generator) -> None:
    assert len(balanced_openings(50, rng, make_board(3, 3, 3), (1, 2))) == 50
    tiny = balanced_openings(3, rng, make_board(2, 1, 2), (2, 2))
    assert [opening.moves for opening in tiny] == ["", "", ""]

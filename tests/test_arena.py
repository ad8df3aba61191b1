import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from alphac4.arena.match import play_match
from alphac4.arena.openings import balanced_openings
from alphac4.arena.players import PlayerError, RandomPlayer, UctPlayer, parse_player
from alphac4.arena.ratings import (
    GateRule,
    elo_of_score,
    expected_score,
    fit_ratings,
    log_likelihood_ratio,
    pair_counts,
    score_interval,
)
from alphac4.arena.tournament import TournamentError, play_round_robin, rate
from alphac4.game import IllegalMove, Position
from alphac4.mcts import Budget


def test_elo_matches_the_published_table() -> None:
    """FIDE's conversion: 200 Elo is a score of 0.76, 400 of 0.91."""
    assert expected_score(200) == pytest.approx(0.76, abs=0.005)
    assert expected_score(400) == pytest.approx(10 / 11)
    assert elo_of_score(0.75) == pytest.approx(190.85, abs=0.01)
    assert elo_of_score(1.0) == math.inf


def test_two_player_ratings_invert_the_score() -> None:
    """With many games the maximum-likelihood difference is the Elo of the score."""
    ratings = fit_ratings({("a", "b"): (7500, 10_000)}, anchor="b")
    assert ratings["b"].elo == 0.0
    assert ratings["a"].elo == pytest.approx(elo_of_score(0.75), abs=0.5)
    # Standard error of a logit, sqrt(1 / (n p (1 - p))), in Elo, times 1.96.
    assert ratings["a"].error == pytest.approx(1.96 * 400 / math.log(10) / math.sqrt(1875), rel=0.01)


def test_a_player_that_won_everything_gets_a_finite_rating() -> None:
    """And one above its opponent."""
    ratings = fit_ratings({("a", "b"): (10, 10), ("b", "c"): (5, 10)}, anchor="c")
    assert math.isfinite(ratings["a"].elo)
    assert ratings["a"].elo > ratings["b"].elo + 200


def test_the_likelihood_ratio_leans_to_what_was_seen() -> None:
    """Zero half-way between the hypotheses, of the winner's sign elsewhere, and growing with the games."""
    better = [1.5, 1.0, 2.0, 1.0] * 10
    ratio = log_likelihood_ratio(pair_counts(better), 0, 30)
    assert ratio > 0
    assert log_likelihood_ratio(pair_counts([2 - score for score in better]), 0, 30) < 0
    assert log_likelihood_ratio(pair_counts(better * 2), 0, 30) == pytest.approx(2 * ratio, rel=0.01)


def test_the_sequential_test_decides_rightly_about_as_often_as_promised() -> None:
    """200 simulated tests of an equal and of a 60 Elo better player: errors of at most twice 5 %, noise included."""
    rng = np.random.default_rng(0)
    rule = GateRule(kind="sprt", elo0=0, elo1=60)
    for elo, wanted in ((0, False), (60, True)):
        wrong = 0
        for _ in range(200):
            pairs: list[float] = []
            decision = None
            while decision is None:
                pairs.extend((rng.random((5, 2)) < expected_score(elo)).sum(axis=1).tolist())
                decision, _ = rule.decide(pairs)
            wrong += decision is not wanted
        assert wrong <= 20, elo


def test_a_threshold_gate_asks_for_its_score() -> None:
    """At the threshold it accepts, below it does not, and it says why."""
    accepted, why = GateRule(threshold=0.55).decide([1.5, 1.0, 0.8])
    assert accepted
    assert "6 games" in why
    assert GateRule(threshold=0.6).decide([1.5, 1.0, 0.8])[0] is False


def test_intervals_of_unanimous_pairs_stay_open() -> None:
    """Ten wins out of ten do not prove that an eleventh is certain."""
    interval = score_interval([2.0] * 5)
    assert interval.low < 0.9
    assert interval.high == 1.0


def test_openings_are_distinct_unfinished_and_fixed_by_the_seed() -> None:
    """Up to mirroring."""
    once, twice = (balanced_openings(30, np.random.default_rng(1)) for _ in range(2))
    assert [p.moves for p in once] == [p.moves for p in twice]
    keys = {min((int(p.own), int(p.occupied)), (int(p.mirror().own), int(p.mirror().occupied))) for p in once}
    assert len(keys) == 30
    assert all(p.outcome() is None for p in once)


class Leftmost:
    """Plays the first legal column, or an illegal one."""

    def __init__(self, name: str, illegal: bool = False) -> None:
        self.name = name
        self.illegal = illegal

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [99 if self.illegal else position.legal_columns()[0] for position in positions]


def test_every_opening_is_played_with_both_colours() -> None:
    """Two equal deterministic players play the same game twice, so each pair is even."""
    openings = [Position.from_moves(moves) for moves in ("44", "123", "7")]
    result = play_match(Leftmost("a"), Leftmost("b"), openings, progress=False)
    assert result.pair_scores == (1.0, 1.0, 1.0)
    assert result.games[0] == result.games[1]
    assert result.games[2].startswith("123")
    assert result.score == 0.5


def test_an_illegal_move_names_the_player() -> None:
    """Instead of counting as a loss."""
    with pytest.raises(IllegalMove, match="player cheat"):
        play_match(Leftmost("cheat", illegal=True), Leftmost("b"), [Position()], progress=False)


def test_classic_mcts_beats_random_play_as_either_colour(rng: np.random.Generator) -> None:
    """At 100 rollouts a move nearly always."""
    openings = balanced_openings(15, rng)
    result = play_match(UctPlayer(Budget(simulations=100), rng), RandomPlayer(rng), openings, progress=False)
    assert result.score > 0.9
    assert result.interval.low > 0.7


@pytest.mark.parametrize("text", ["nobody", "uct:", "uct:many", "uct:-3", "missing.safetensors", "openspiel:1s"])
def test_bad_players_are_told_in_words(text: str) -> None:
    """A PlayerError that names what was written."""
    with pytest.raises(PlayerError, match=text.split(":")[0]):
        parse_player(text)


def test_a_tournament_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """A finished pairing is read, not replayed; a line cut short is played again; other settings are refused."""
    output = tmp_path / "t.jsonl"
    made: list[str] = []

    def maker(name: str) -> Leftmost:
        made.append(name)
        return Leftmost(name)

    players = {name: (lambda name=name: maker(name)) for name in "abc"}
    openings = [Position.from_moves("44")]
    first = play_round_robin(players, openings, output, {"games": 2})
    lines = output.read_text().splitlines()
    output.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    made.clear()
    assert play_round_robin(players, openings, output, {"games": 2}) == first
    assert sorted(made) == ["b", "c"]
    with pytest.raises(TournamentError, match="other settings"):
        play_round_robin(players, openings, output, {"games": 4})
    assert rate(first, "a")["a"].elo == 0.0

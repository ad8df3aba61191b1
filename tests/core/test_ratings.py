import math

import numpy as np
import pytest

from alphac4.arena.ratings import (
    NATS_PER_ELO,
    Z95,
    Rating,
    choose_anchor,
    elo_interval,
    elo_of_score,
    expected_score,
    fit_ratings,
    log_likelihood_ratio,
    pair_counts,
    score_interval,
    sprt,
)

# American League East 1987: wins of the row's team against the column's, in 13 games of each pair. Agresti 2002,
# "Categorical Data Analysis", table 10.10; the fit is that of table 10.11 and of the R package BradleyTerry2.
TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
WINS = (
    (0, 7, 9, 7, 7, 9, 11),
    (6, 0, 7, 5, 11, 9, 9),
    (4, 6, 0, 7, 7, 8, 12),
    (6, 8, 6, 0, 6, 7, 10),
    (6, 2, 6, 7, 0, 7, 12),
    (4, 4, 5, 6, 6, 0, 6),
    (2, 4, 1, 3, 1, 7, 0),
)
BASEBALL = {(TEAMS[i], TEAMS[j]): (WINS[i][j], 13) for i in range(7) for j in range(i + 1, 7)}


def test_elo_agrees_with_the_published_conversion() -> None:
    # FIDE's handbook, B.02, table 8.1; for 400 it has 0.92.
    assert expected_score(100) == pytest.approx(0.64, abs=0.005)
    assert expected_score(200) == pytest.approx(0.76, abs=0.005)
    assert expected_score(400) == pytest.approx(10 / 11)
    assert elo_of_score(0.75) == pytest.approx(400 * math.log10(3))
    assert elo_interval(score_interval([2.0] * 5)).high == elo_of_score(1.0) == math.inf


def test_ratings_reproduce_a_published_bradley_terry_fit() -> None:
    fit = fit_ratings(BASEBALL, anchor="Baltimore")
    abilities = [round(fit[name].elo * NATS_PER_ELO, 2) for name in TEAMS]
    assert abilities == [1.58, 1.44, 1.29, 1.25, 1.11, 0.68, 0.0]
    errors = [round(rating.error * NATS_PER_ELO / Z95, 1) for name, rating in fit.items() if name != "Baltimore"]
    assert errors == [0.3] * 6
    assert fit["Baltimore"].error == 0.0


def test_a_rating_difference_does_not_depend_on_the_anchor() -> None:
    one, other = (fit_ratings(BASEBALL, anchor=anchor) for anchor in ("Baltimore", "Detroit"))
    shifts = [one[name].elo - other[name].elo for name in TEAMS]
    assert shifts == pytest.approx([one["Detroit"].elo] * 7)
    assert one["Detroit"].error == pytest.approx(other["Baltimore"].error)


def test_the_rating_of_two_players_inverts_the_score() -> None:
    # The error is that of a logit, 1 / sqrt(n p (1 - p)).
    fit = fit_ratings({("a", "b"): (75, 100)}, anchor="b")
    assert fit["a"].elo == pytest.approx(elo_of_score(0.75))
    assert fit["a"].error == pytest.approx(Z95 / math.sqrt(100 * 0.75 * 0.25) / NATS_PER_ELO)


def test_ratings_converge_for_lopsided_results() -> None:
    # Newton's plain step overshoots here.
    fit = fit_ratings({("a", "b"): (9999, 10_000), ("b", "c"): (1, 10_000), ("c", "d"): (5000, 10_000)}, anchor="d")
    assert fit["c"].elo == pytest.approx(0)
    assert fit["b"].elo == pytest.approx(elo_of_score(1e-4))
    assert fit["a"].elo == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("played", [20, 40, 100])
def test_intervals_of_ratings_contain_the_truth(played: int) -> None:
    """In 87 to 100 % of matches; the share for each difference is a sum over all scores."""
    fits = [fit_ratings({("a", "b"): (won, played)}, "b")["a"] for won in range(played + 1)]
    shares = []
    for elo in range(0, 1600, 50):
        chance = expected_score(elo)
        shares.append(
            sum(
                math.comb(played, won) * chance**won * (1 - chance) ** (played - won)
                for won, fit in enumerate(fits)
                if abs(fit.elo - elo) <= fit.error
            )
        )
    assert min(shares) > 0.87
    assert np.mean(shares) > 0.95


def test_games_determine_a_difference_only_by_points_in_both_directions() -> None:
    """Players a, b and c beat each other in a circle; d only loses, e only wins; f and g only play each other."""
    circle = {("a", "b"): (9.0, 10.0), ("b", "c"): (9.5, 10.0), ("a", "c"): (9.0, 10.0), ("c", "a"): (0.5, 1.0)}
    others = {("d", "c"): (0.0, 10.0), ("e", "a"): (10.0, 10.0), ("f", "g"): (5.0, 10.0)}
    assert choose_anchor(circle | others) == "c"
    fit = fit_ratings(circle | others, "c")
    alone = fit_ratings(circle, "c")
    assert 0 < alone["b"].error < 400
    assert {name: fit[name] for name in alone} == alone  # other games do not change a group's ratings
    assert {name: rating.elo for name, rating in fit.items() if math.isinf(rating.error)} == pytest.approx(
        {"d": -math.inf, "e": math.inf, "f": math.nan, "g": math.nan}, nan_ok=True
    )
    fit = fit_ratings(circle | others, "d")
    assert {name for name, rating in fit.items() if math.isfinite(rating.error)} == {"d"}
    assert fit["d"] == Rating(elo=0.0, error=0.0)
    assert [fit[name].elo for name in ("a", "b", "c", "e")] == [math.inf] * 4
    assert choose_anchor({("a", "b"): (10.0, 10.0)}) == "b"  # the last of groups of one


@pytest.mark.parametrize(
    ("counts", "elos", "published"),
    [
        ((665, 4806, 9333, 4893, 747), (-0.5, 1.5), 2.95),
        ((40, 1272, 12142, 1300, 30), (-1.5, 0.5), 3.01),
    ],
)
def test_the_likelihood_ratio_is_the_one_that_fishtest_reports(
    counts: tuple[int, ...], elos: tuple[float, float], published: float
) -> None:
    assert round(log_likelihood_ratio(counts, *elos), 2) == published


def test_the_likelihood_ratio_is_binomial_without_draws_and_changes_sign_with_the_sides() -> None:
    # Two possible scores leave no freedom: W log(s1 / s0) + L log((1 - s1) / (1 - s0)).
    s0, s1 = expected_score(0), expected_score(50)
    expected = 60 * math.log(s1 / s0) + 40 * math.log((1 - s1) / (1 - s0))
    assert log_likelihood_ratio((40, 60), 0, 50) == pytest.approx(expected)
    counts = (3, 5, 20, 9, 8)
    assert log_likelihood_ratio(counts[::-1], -30, 0) == pytest.approx(-log_likelihood_ratio(counts, 0, 30))
    assert log_likelihood_ratio((0, 0, 0), 0, 30) == 0.0
    assert pair_counts([0, 0.5, 1, 1, 1.5, 2, 2, 2]) == (1, 1, 2, 1, 3)


def test_sprt_bounds_are_walds() -> None:
    state = sprt((10, 80, 10), 0, 30)  # errors of 5 %
    assert (state.lower, state.upper) == pytest.approx((-math.log(19), math.log(19)))
    assert state.accepted is None
    assert sprt((100, 0, 200), 0, 30).accepted is True
    lost = sprt((200, 0, 100), 0, 30)
    assert lost.accepted is False
    assert (str(state).partition(",")[0], str(lost).partition(",")[0]) == ("undecided", "rejected")


@pytest.mark.parametrize(("elo", "right"), [(0, False), (60, True)])
def test_sprt_error_rate_is_about_five_per_cent(elo: float, right: bool) -> None:
    # 200 simulated tests between players of known strength: 5 % of errors, plus three standard deviations.
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        counts = np.zeros(5)
        accepted = None
        while accepted is None:
            points = 2 * (rng.random((10, 2)) < expected_score(elo)).sum(axis=1)
            counts += np.bincount(points, minlength=5)
            accepted = sprt(counts.tolist(), 0, 60).accepted
        wrong += accepted is not right
    assert wrong <= 200 * 0.05 + 3 * math.sqrt(200 * 0.05 * 0.95)


def test_score_intervals_cover_the_true_score_in_95_per_cent() -> None:
    """Count the matches of 50 pairs; the two games of a pair are correlated by their opening."""
    rng = np.random.default_rng(1)

    def match() -> list[float]:
        opening = rng.random(50) < 0.3  # the first player wins both games of such an opening: one point each
        return [1.0 if decided else float((rng.random(2) < 0.7).sum()) for decided in opening]

    truth = 0.3 * 0.5 + 0.7 * 0.7
    covered = sum(interval.low <= truth <= interval.high for interval in (score_interval(match()) for _ in range(500)))
    assert 0.92 < covered / 500 < 0.98
    by_hand = score_interval([2.0, 1.0, 0.0, 1.0])  # with a pair of each extreme, the variance is 1 / 5
    error = Z95 * math.sqrt(0.2 / 6)
    assert (by_hand.low, by_hand.high) == pytest.approx((0.5 - error, 0.5 + error))
    unanimous, nothing = score_interval([2.0] * 5), score_interval([])
    assert unanimous.value == unanimous.high == 1.0
    assert unanimous.low < 0.9  # after ten wins in a row, an eleventh is not certain
    assert (nothing.low, nothing.high) == (0.0, 1.0)

"""Statistics of matches: scores with intervals, Elo, sequential tests, maximum-likelihood ratings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Z95 = NormalDist().inv_cdf(0.975)
NATS_PER_ELO = math.log(10) / 400
SPRT_ERROR = 0.05  # probability of either error of a sequential test

Floats = npt.NDArray[np.float64]


def expected_score(elo: float) -> float:
    """Return the expected score in [0, 1] at an advantage of ``elo``: ``1 / (1 + 10^(-elo / 400))`` (Elo 1978)."""
    return 1.0 / (1.0 + math.pow(10.0, -elo / 400.0))


def elo_of_score(score: float) -> float:
    """Return the Elo advantage that predicts a score, the inverse of `expected_score`; infinite at 0 and 1."""
    if score <= 0.0 or score >= 1.0:
        return math.copysign(math.inf, score - 0.5)
    return 400.0 * math.log10(score / (1.0 - score))


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def score_interval(pair_points: Sequence[float]) -> Interval:
    """Return the mean score per game, from the points of colour-swapped pairs, each in [0, 2].

    The two games of a pair share an opening and are correlated, so pairs are the independent unit (Fishtest's
    pentanomial model). One pseudo-pair of each extreme keeps the interval from closing when all pairs agree. Intervals
    of fewer than 20 pairs are too narrow if each pair's games have the same winner: with 4 games, they contain a true
    score of 1/2 only half of the time.
    """
    if not pair_points:
        return Interval(value=0.5, low=0.0, high=1.0)
    scores = np.asarray(pair_points, float) / 2
    padded = np.concatenate([scores, [0.0, 1.0]])
    error = Z95 * float(padded.std(ddof=1)) / math.sqrt(len(padded))
    mean = float(scores.mean())
    return Interval(value=mean, low=max(0.0, mean - error), high=min(1.0, mean + error))


def elo_interval(score: Interval) -> Interval:
    """Convert a score's interval to Elo; an end at 0 or 1 becomes infinite."""
    return Interval(value=elo_of_score(score.value), low=elo_of_score(score.low), high=elo_of_score(score.high))


def pair_counts(pair_points: Sequence[float]) -> tuple[int, int, int, int, int]:
    """Count the colour-swapped pairs with 0, 1/2, 1, 3/2 and 2 points."""
    doubled = [round(2 * score) for score in pair_points]
    return doubled.count(0), doubled.count(1), doubled.count(2), doubled.count(3), doubled.count(4)


def log_likelihood_ratio(counts: Sequence[float], elo0: float, elo1: float) -> float:
    """Return the log-likelihood ratio, in nats, of an advantage of ``elo1`` over one of ``elo0``, given results.

    Each hypothesis only fixes the mean score and takes the most likely distribution with that mean: the generalised
    ratio of Van den Bergh, "A practical introduction to the GSPRT", as in Fishtest, with its pseudo-count of 0.001 for
    scores that did not occur. ``counts`` [K] are of scores evenly spaced over [0, 1]: (losses, draws, wins) of games,
    or better `pair_counts`.
    """
    observed = np.asarray(counts, float)
    if observed.sum() == 0:
        return 0.0
    observed = np.where(observed == 0, 1e-3, observed)
    scores = np.linspace(0.0, 1.0, len(observed))
    likely0, likely1 = (_tilted(observed, scores - expected_score(elo)) for elo in (elo0, elo1))
    return float((observed * np.log(likely1 / likely0)).sum())


def _tilted(observed: Floats, deviations: Floats) -> Floats:
    """Return the most likely distribution [K] whose mean deviation d is 0: ``p / (1 + x d)`` for a suitable x.

    Bisection finds x, because ``sum p d / (1 + x d)`` decreases in x between the two poles.
    """
    shares = observed / observed.sum()
    low, high = -1.0 / deviations.max(), -1.0 / deviations.min()
    for _ in range(100):
        middle = (low + high) / 2
        if float((shares * deviations / (1.0 + middle * deviations)).sum()) > 0.0:
            low = middle
        else:
            high = middle
    tilted: Floats = shares / (1.0 + (low + high) / 2 * deviations)
    return tilted


@dataclass(frozen=True, kw_only=True)
class SprtState:
    """State of a sequential test, with the bounds of Wald (1945): ``log(beta / (1 - alpha))`` and its counterpart."""

    ratio: float  # log-likelihood ratio in nats
    lower: float  # elo0 is accepted at or below it
    upper: float  # elo1 is accepted at or above it
    accepted: bool | None  # True: elo1, False: elo0, None: undecided

    def __str__(self) -> str:
        verdict = {True: "accepted", False: "rejected", None: "undecided"}[self.accepted]
        return f"{verdict}, log-likelihood ratio {self.ratio:.2f} of [{self.lower:.2f}, {self.upper:.2f}]"


def sprt(counts: Sequence[float], elo0: float, elo1: float) -> SprtState:
    """Test sequentially whether the advantage is ``elo1`` or ``elo0``, with errors of probability `SPRT_ERROR`."""
    ratio = log_likelihood_ratio(counts, elo0, elo1)
    lower, upper = math.log(SPRT_ERROR / (1 - SPRT_ERROR)), math.log((1 - SPRT_ERROR) / SPRT_ERROR)
    accepted = True if ratio >= upper else False if ratio <= lower else None
    return SprtState(ratio=ratio, lower=lower, upper=upper, accepted=accepted)


@dataclass(frozen=True, kw_only=True)
class Rating:
    """A player's strength relative to the anchor."""

    elo: float  # infinite or NaN if the games do not determine the difference
    error: float  # half-width of the 95 % interval; infinite if the games do not determine the difference


Points = Mapping[tuple[str, str], tuple[float, float]]  # {(a, b): (points of a, games)}


def choose_anchor(results: Points) -> str:
    """Return the last player of the largest group whose rating differences the games determine."""
    names, points, _ = _tabulate(results)
    has_scored = _has_scored(points)
    sizes = (has_scored & has_scored.T).sum(axis=1)
    return names[int(np.flatnonzero(sizes == sizes.max())[-1])]


def fit_ratings(results: Points, anchor: str) -> dict[str, Rating]:
    """Fit ratings by maximum likelihood (Bradley and Terry 1952) relative to the ``anchor``, which is rated 0.

    The games determine the difference of two players if each has scored against the other, directly or through a chain
    of other players (Ford 1957). If only one of them has scored, the likelihood always grows with the difference, which
    is therefore infinite. If neither has scored, the difference is NaN. Games against players without a finite rating
    do not change the ratings of the others.

    The inverse of the observed information gives the errors. A draw counts as half a point, so errors are a little too
    wide if there are many draws. Intervals of a player that lost almost no game are too narrow: between two players
    they contain the truth in 87 % of matches at worst.
    """
    names, points, games = _tabulate(results)
    fixed, has_scored = names.index(anchor), _has_scored(points)
    is_determined = has_scored[fixed] & has_scored[:, fixed]
    group = np.flatnonzero(is_determined)
    points, games = points[np.ix_(group, group)], games[np.ix_(group, group)]
    strengths, errors, free = np.zeros(len(group)), np.zeros(len(group)), group != fixed
    for _ in range(1000):
        chances = np.exp(-np.logaddexp(0.0, strengths[None, :] - strengths[:, None]))
        gradient = (points - games * chances).sum(axis=1)
        weights = games * chances * chances.T
        information = np.diag(weights.sum(axis=1)) - weights  # the negative Hessian of the log-likelihood
        information = information[np.ix_(free, free)]
        step = np.linalg.solve(information, gradient[free]).clip(-1.0, 1.0)  # Newton's overshoots far from the maximum
        strengths[free] += step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    errors[free] = Z95 * np.sqrt(np.diag(np.linalg.inv(information)))
    fitted = {
        names[index]: Rating(elo=float(elo), error=float(error))
        for index, elo, error in zip(group, strengths / NATS_PER_ELO, errors / NATS_PER_ELO, strict=True)
    }
    others = np.select([has_scored[:, fixed], has_scored[fixed]], [math.inf, -math.inf], math.nan)
    return {
        name: fitted.get(name, Rating(elo=float(elo), error=math.inf)) for name, elo in zip(names, others, strict=True)
    }


def _tabulate(results: Points) -> tuple[list[str], Floats, Floats]:
    """Return the players in order of appearance, and their points and games [P, P], row against column."""
    names = list(dict.fromkeys(name for pair in results for name in pair))
    points, games = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    for (a, b), (won, played) in results.items():
        row, column = names.index(a), names.index(b)
        points[row, column] += won
        points[column, row] += played - won
        games[row, column] += played
        games[column, row] += played
    return names, points, games


def _has_scored(points: Floats) -> npt.NDArray[np.bool_]:
    """Return whether the row's player has scored against the column's, directly or through a chain of others [P, P]."""
    scored = (points > 0) | np.eye(len(points), dtype=bool)
    for via in range(len(points)):  # Warshall's transitive closure
        scored |= scored[:, via : via + 1] & scored[via]
    return scored

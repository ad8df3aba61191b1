"""What match results say: scores with intervals, Elo, sequential tests, maximum-likelihood ratings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

Z95 = NormalDist().inv_cdf(0.975)
ELO_SCALE = math.log(10) / 400  # Elo per nat of log-odds, inverted


def expected_score(elo: float) -> float:
    """The score that an advantage of ``elo`` predicts: ``1 / (1 + 10^(-elo / 400))`` (Elo 1978)."""
    return 1.0 / (1.0 + math.pow(10.0, -elo / 400.0))


def elo_of_score(score: float) -> float:
    """The inverse of `expected_score`; infinite at 0 and 1."""
    if score <= 0.0 or score >= 1.0:
        return math.copysign(math.inf, score - 0.5)
    return -400.0 * math.log10(1.0 / score - 1.0)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson_interval(successes: float, trials: float) -> Interval:
    """The interval of a share (Wilson 1927), which stays within [0, 1] and is honest near its ends."""
    if trials <= 0:
        return Interval(value=0.5, low=0.0, high=1.0)
    share, z2 = successes / trials, Z95 * Z95
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return Interval(value=share, low=max(0.0, centre - half), high=min(1.0, centre + half))


def score_interval(pair_scores: Sequence[float]) -> Interval:
    """The mean score a game, from the scores of colour-swapped pairs, each in [0, 2].

    The two games of a pair share an opening and are correlated, so pairs are the independent unit (Fishtest's
    pentanomial model). One pseudo-pair of each extreme keeps the interval from closing when all pairs agree.
    """
    n = len(pair_scores)
    if n == 0:
        return Interval(value=0.5, low=0.0, high=1.0)
    scores = np.asarray(pair_scores, float) / 2
    padded = np.concatenate([scores, [0.0, 1.0]])
    error = Z95 * float(padded.std(ddof=1)) / math.sqrt(len(padded))
    mean = float(scores.mean())
    return Interval(value=mean, low=max(0.0, mean - error), high=min(1.0, mean + error))


def log_likelihood_ratio(pair_scores: Sequence[float], elo0: float, elo1: float) -> float:
    """How much more likely ``elo1`` makes the pairs' scores than ``elo0``: the generalised ratio of Fishtest.

    ``(s1 - s0) (2 mean - s0 - s1) n / (2 variance)`` for pair means in [0, 1], normal approximation of
    Van den Bergh 2020, "A practical introduction to the GSPRT".
    """
    n = len(pair_scores)
    if n == 0:
        return 0.0
    scores = np.asarray(pair_scores, float) / 2
    # Two pseudo-pairs of one point each way: without them a run of equal pairs has no variance.
    variance = (float(((scores - scores.mean()) ** 2).sum()) + 0.25) / (n + 1)
    s0, s1 = expected_score(elo0), expected_score(elo1)
    return n * (s1 - s0) * (2 * float(scores.mean()) - s0 - s1) / (2 * variance)


@dataclass(frozen=True, kw_only=True)
class GateRule:
    """When a candidate replaces the best network."""

    kind: Literal["threshold", "sprt"] = "threshold"
    """threshold: its score reaches `threshold`; sprt: a sequential test of `elo1` against `elo0` accepts it."""
    threshold: float = 0.52
    """Score to reach, draws counting half (AlphaGo Zero: 0.55; AlphaZero and KataGo ask less or nothing)."""
    elo0: float = 0.0
    """Advantage under the null hypothesis of the sequential test (Fishtest: 0)."""
    elo1: float = 30.0
    """Advantage under its alternative."""
    alpha: float = 0.05
    """Probability of accepting a candidate of advantage `elo0` (Fishtest: 0.05)."""
    beta: float = 0.05
    """Probability of rejecting one of advantage `elo1` (Fishtest: 0.05)."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold must be within 0 and 1, not {self.threshold}")
        if self.elo1 <= self.elo0:
            raise ValueError("elo1 must be above elo0")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise ValueError("alpha and beta must be within 0 and 0.5")

    def decide(self, pair_scores: Sequence[float]) -> tuple[bool | None, str]:
        """``(accepted, why)``; ``accepted`` is None while a sequential test is undecided (Wald 1945)."""
        score = score_interval(pair_scores)
        shown = f"score {score.value:.3f} [{score.low:.3f}, {score.high:.3f}] over {2 * len(pair_scores)} games"
        if self.kind == "threshold":
            accepted = score.value >= self.threshold
            return accepted, f"{shown}, {'at least' if accepted else 'below'} {self.threshold}"
        ratio = log_likelihood_ratio(pair_scores, self.elo0, self.elo1)
        low, high = math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)
        accepted_or_open = True if ratio >= high else False if ratio <= low else None
        return accepted_or_open, f"{shown}, log-likelihood ratio {ratio:.2f} of [{low:.2f}, {high:.2f}]"


@dataclass(frozen=True, kw_only=True)
class Rating:
    """A player's strength in Elo with the half-width of its 95 % interval against the anchor."""

    elo: float
    error: float


def fit_ratings(results: Mapping[tuple[str, str], tuple[float, int]], anchor: str) -> dict[str, Rating]:
    """Maximum-likelihood ratings (Bradley and Terry 1952) from ``{(a, b): (points of a, games)}``.

    Draws count half a point (Hunter 2004). A prior of one drawn game spread over each player's opponents keeps
    a player that won or lost everything finite. Errors come from the inverse of the observed information.
    """
    names = sorted({name for pair in results for name in pair} | {anchor})
    index = {name: i for i, name in enumerate(names)}
    n = len(names)
    points, games = np.zeros((n, n)), np.zeros((n, n))
    for (a, b), (won, played) in results.items():
        points[index[a], index[b]] += won
        points[index[b], index[a]] += played - won
        games[index[a], index[b]] += played
        games[index[b], index[a]] += played
    opponents = np.maximum((games > 0).sum(axis=1), 1)
    prior = np.where(games > 0, 0.5 / opponents[:, None] + 0.5 / opponents[None, :], 0.0)
    points, games = points + prior / 2, games + prior
    strengths: npt.NDArray[np.float64] = np.zeros(n)
    free = [i for i in range(n) if i != index[anchor]]
    information = np.zeros((n, n))
    for _ in range(200):  # Newton's method on a concave function, damped
        chances = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
        gradient = (points - games * chances).sum(axis=1)
        weights = games * chances * chances.T
        information = np.diag(weights.sum(axis=1)) - weights
        if not free:
            break
        # The tiny ridge only matters for players that no chain of games connects to the anchor.
        step = np.linalg.solve(information[np.ix_(free, free)] + 1e-9 * np.eye(len(free)), gradient[free])
        step = np.clip(step, -2.0, 2.0)
        strengths[free] += step
        if np.abs(step).max() < 1e-9:
            break
    errors = np.zeros(n)
    if free:
        covariance = np.linalg.inv(information[np.ix_(free, free)] + 1e-9 * np.eye(len(free)))
        errors[free] = Z95 * np.sqrt(np.diag(covariance))
    return {name: Rating(elo=strengths[i] / ELO_SCALE, error=errors[i] / ELO_SCALE) for name, i in index.items()}

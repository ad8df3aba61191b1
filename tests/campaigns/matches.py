"""Matches between players of known strength, simulated: are the intervals and the sequential tests right?

``PYTHONPATH=tests python -m campaigns.matches --count 20000``
"""

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alphac4.arena.ratings import expected_score, fit_ratings, pair_counts, score_interval, sprt

PAIRS = (10, 50, 200)
DRAWS = (0.05, 0.3)
ELOS = (0.0, 30.0, 150.0)
ELO0, ELO1 = 0.0, 40.0


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Shares over all simulated matches; each should be what its name promises."""

    least_coverage: float  # of the 95 % interval of the score, over strengths, draws and lengths
    coverage: float  # the same on average
    rating_coverage: float  # of the 95 % interval of a rating among four players
    false_accepted: float  # tests that accept ELO1 where ELO0 is true; at most 0.05
    false_rejected: float  # the opposite
    undecided: int

    def problems(self, count: int) -> list[str]:
        """What is worse than promised by more than chance: three standard errors of so many matches."""
        slack = 3 * math.sqrt(0.05 * 0.95 / count)
        found = []
        if self.coverage < 0.95 - 0.01 - slack or self.least_coverage < 0.92 - slack:
            found.append(f"intervals cover {self.coverage:.3f}, at least {self.least_coverage:.3f}")
        if self.rating_coverage < 0.94 - slack:
            found.append(f"ratings' intervals cover {self.rating_coverage:.3f}")
        if max(self.false_accepted, self.false_rejected) > 0.05 + slack:
            found.append(f"tests err in {self.false_accepted:.3f} and {self.false_rejected:.3f}")
        if self.undecided:
            found.append(f"{self.undecided} tests undecided")
        return found


def main() -> int:
    """Parse, simulate, print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    found = simulate(options.count, options.seed)
    print(
        f"matches: {options.count} of each kind: 95 % intervals of scores cover {found.coverage:.1%} "
        f"(at least {found.least_coverage:.1%}), of ratings {found.rating_coverage:.1%}; sequential tests of 5 % err "
        f"in {found.false_accepted:.1%} and {found.false_rejected:.1%}, {time.monotonic() - started:.0f} s"
    )
    problems = found.problems(options.count)
    for problem in problems:
        print(problem)
    return int(bool(problems))


def simulate(count: int, seed: int) -> Findings:
    """Simulate ``count`` matches, tests and tournaments."""
    rng = np.random.default_rng(seed)
    kinds = [(pairs, draws, elo) for pairs in PAIRS for draws in DRAWS for elo in ELOS]
    each = -(-count // len(kinds))
    coverages = [_coverage(rng, *kind, each) for kind in kinds]
    accepted, undecided = _tests(rng, ELO0, max(count // 20, 50))
    kept, open_too = _tests(rng, ELO1, max(count // 20, 50))
    return Findings(
        least_coverage=min(coverages),
        coverage=float(np.mean(coverages)),
        rating_coverage=_rating_coverage(rng, max(count // 50, 40)),
        false_accepted=accepted,
        false_rejected=1 - kept,
        undecided=undecided + open_too,
    )


def pair_scores(rng: np.random.Generator, elo: float, draws: float, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Points of colour-swapped pairs whose first player is ``elo`` stronger and whose openings favour one side."""
    score = expected_score(elo)
    tilt = rng.choice([-1.0, 1.0], shape) * 0.8 * min(score, 1 - score, 0.3)  # what an opening gives to one colour
    total = np.zeros(shape)
    for sign in (1.0, -1.0):
        expected = score + sign * tilt
        drawn = draws * np.minimum(expected, 1 - expected) * 2
        win = expected - drawn / 2
        lot = rng.random(shape)
        total += np.where(lot < win, 1.0, np.where(lot < win + drawn, 0.5, 0.0))
    return total


def _coverage(rng: np.random.Generator, pairs: int, draws: float, elo: float, count: int) -> float:
    true, covered = expected_score(elo), 0
    for scores in pair_scores(rng, elo, draws, (count, pairs)):
        interval = score_interval(list(scores))
        covered += interval.low <= true <= interval.high
    return covered / count


def _tests(rng: np.random.Generator, elo: float, count: int) -> tuple[float, int]:
    """The share of sequential tests that accept ELO1 between players who differ by ``elo``, and how many never end."""
    accepted = undecided = 0
    for _ in range(count):
        scores = pair_scores(rng, elo, 0.2, (20_000,))
        for played in range(10, len(scores) + 1, 10):
            verdict = sprt(pair_counts(list(scores[:played])), ELO0, ELO1).accepted
            if verdict is not None:
                accepted += verdict
                break
        else:
            undecided += 1
    return accepted / count, undecided


def _rating_coverage(rng: np.random.Generator, count: int) -> float:
    """How often the rating's interval holds the truth, among four players of 40 pairs a pairing, without draws."""
    strengths = {"a": 0.0, "b": 50.0, "c": -80.0, "d": 120.0}
    names = list(strengths)
    covered = 0
    for _ in range(count):
        results = {}
        for index, first in enumerate(names):
            for second in names[index + 1 :]:
                chance = expected_score(strengths[first] - strengths[second])
                results[first, second] = (float(rng.binomial(80, chance)), 80.0)
        ratings = fit_ratings(results, "a")
        covered += sum(abs(ratings[name].elo - strengths[name]) <= ratings[name].error for name in names[1:])
    return covered / (3 * count)


if __name__ == "__main__":
    raise SystemExit(main())

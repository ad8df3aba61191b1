"""The answers of networks and players on sets of positions, and how good they are against exact scores."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, as_searching, checked_moves
from alphac4.arena.ratings import Z95, Interval
from alphac4.evaluation.positions import PositionSet
from alphac4.machine import worker_threads

BATCH = 128  # positions searched together: large enough to fill the network's calls, small enough for the caches
MIN_BATCH = 16  # the same where there are many players for few positions
BINS = 10  # of the reliability diagram, equally wide in the predicted value

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The moves played in every position of some sets, an array [S] for each set."""

    columns: list[npt.NDArray[np.int64]]  # 0-based
    values: list[Floats] | None = None  # in [-1, 1], for the side to move; None if the player returns no values


def ask_players(
    players: Sequence[Player],
    sets: Sequence[PositionSet],
    on_batch: Callable[[int], object] = lambda _count: None,
) -> Answers:
    """Divide positions among copies of one player, each of which answers a batch at a time.

    A batch has `BATCH` positions, or fewer if some copy would get none. ``on_batch`` gets the size of each batch.
    """
    positions = [position for part in sets for position in part.positions]
    size = min(BATCH, max(MIN_BATCH, -(-len(positions) // len(players))))
    idle: SimpleQueue[Player] = SimpleQueue()
    for player in players:
        idle.put(player)

    def answer(first: int) -> tuple[npt.NDArray[np.int64], Floats | None]:
        batch = positions[first : first + size]
        player = idle.get()
        try:
            searching = as_searching(player)
            if searching is None:
                moves, values = np.array(checked_moves(player, batch), np.int64), None
            else:
                result = searching.search(batch)
                moves, values = result.moves, result.value
        finally:
            idle.put(player)  # after an error too: other threads wait for a player
        on_batch(len(batch))
        return moves, values

    with worker_threads(len(players)) as pool:
        answers = list(pool.map(answer, range(0, len(positions), size)))
    ends = np.cumsum([len(part) for part in sets])[:-1]
    values = [value for _, value in answers if value is not None]
    return Answers(
        columns=np.split(np.concatenate([moves for moves, _ in answers]), ends),
        values=np.split(np.concatenate(values), ends) if values else None,
    )


@dataclass(frozen=True, kw_only=True)
class Estimate(Interval):
    """A rate or a mean over positions, with its standard error and 95 % interval."""

    error: float  # standard error
    count: int  # positions


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Figures of the moves chosen in some positions."""

    error: Estimate  # share of moves whose outcome is worse than the best move's
    fastest: Estimate  # share whose score is the best as well: the fastest win, the slowest loss
    loss: Estimate  # mean loss of exact score, in stones


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """The positions whose predicted value fell between two bounds."""

    low: float
    high: float
    predicted: float  # their mean prediction
    outcome: float  # their mean exact outcome
    count: int


@dataclass(frozen=True, kw_only=True)
class ValueAccuracy:
    """Figures of predicted values in [-1, 1] against exact outcomes."""

    absolute: Estimate  # mean |value - outcome|
    calibration_error: float  # expected calibration error: mean over positions of their bin's |predicted - outcome|
    bins: tuple[ReliabilityBin, ...]  # those with any position


def proportion(hits: npt.NDArray[np.bool_]) -> Estimate:
    """A share with Wilson's interval (Wilson 1927), which stays open where all positions agree.

    ``(p + z^2/2n ± z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)``; NaN without positions.
    """
    n = len(hits)
    if n == 0:
        return Estimate(value=math.nan, error=math.nan, low=math.nan, high=math.nan, count=0)
    p = float(hits.mean())
    error = math.sqrt(p * (1 - p) / n)
    scale = 1 + Z95**2 / n
    middle = (p + Z95**2 / (2 * n)) / scale
    half = Z95 * math.sqrt(error**2 + Z95**2 / (4 * n * n)) / scale
    # The ends are exact at 0 and 1 despite rounding.
    return Estimate(value=p, error=error, low=min(p, middle - half), high=max(p, middle + half), count=n)


def mean(values: Floats) -> Estimate:
    """A mean with the normal interval; NaN without positions."""
    n = len(values)
    if n == 0:
        return Estimate(value=math.nan, error=math.nan, low=math.nan, high=math.nan, count=0)
    average = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Estimate(value=average, error=error, low=average - Z95 * error, high=average + Z95 * error, count=n)


def judge_moves(
    sets: Sequence[PositionSet], columns: Sequence[npt.NDArray[np.int64]], *, decisive: bool = False
) -> Accuracy:
    """Figures of the chosen 0-based ``columns``, an array [S] for each set, over all positions of the sets.

    A move is a mistake if its outcome is worse than the best move's, as AlphaZero.jl counts it. With ``decisive`` only
    positions in which at least one move is a mistake count.

    Raises:
        ValueError: for a move into a full column.
    """
    errs, fastest, loss = [], [], []
    for positions, chosen in zip(sets, columns, strict=True):
        rows = np.arange(len(positions))
        impossible = np.flatnonzero(~positions.legal[rows, chosen])
        if len(impossible):
            first = int(impossible[0])
            raise ValueError(f"move {chosen[first] + 1} after {positions.positions[first].moves!r}: the column is full")
        counted = positions.decisive if decisive else np.ones(len(positions), bool)
        score = positions.scores[rows, chosen].astype(np.float64)
        errs.append((positions.outcomes[rows, chosen] < positions.best_outcome)[counted])
        fastest.append((score == positions.best_score)[counted])
        loss.append((positions.best_score - score)[counted])
    error = np.concatenate(errs)
    return Accuracy(
        error=proportion(error),
        fastest=proportion(np.concatenate(fastest)),
        loss=mean(np.concatenate(loss)),
    )


def errors_by_set(sets: Sequence[PositionSet], answers: Answers) -> dict[str, float]:
    """The share of moves that err in each set."""
    pairs = zip(sets, answers.columns, strict=True)
    return {part.name: judge_moves([part], [columns]).error.value for part, columns in pairs}


def judge_values(sets: Sequence[PositionSet], values: Sequence[Floats]) -> ValueAccuracy:
    """Figures of predicted ``values`` in [-1, 1], an array [S] for each set, over all positions of the sets."""
    predicted = np.concatenate(list(values)).astype(np.float64)
    outcome = np.concatenate([positions.best_outcome for positions in sets]).astype(np.float64)
    edges = np.linspace(-1.0, 1.0, BINS + 1)
    index = np.clip(np.digitize(predicted, edges) - 1, 0, BINS - 1)
    bins = tuple(
        ReliabilityBin(
            low=float(edges[b]),
            high=float(edges[b + 1]),
            predicted=float(predicted[index == b].mean()),
            outcome=float(outcome[index == b].mean()),
            count=int((index == b).sum()),
        )
        for b in range(BINS)
        if (index == b).any()
    )
    return ValueAccuracy(
        absolute=mean(np.abs(predicted - outcome)),
        calibration_error=sum(b.count * abs(b.predicted - b.outcome) for b in bins) / max(len(predicted), 1),
        bins=bins,
    )

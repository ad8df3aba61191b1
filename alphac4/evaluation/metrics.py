"""Answers of networks and players on sets of positions, and their metrics against exact scores."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, SearchingPlayer, checked_moves
from alphac4.arena.ratings import Z95, Interval
from alphac4.evaluation.positions import PositionSet, join_sets
from alphac4.machine import worker_threads
from alphac4.mcts.search import Budget

BATCH = 128  # positions searched together: enough to fill the network's batches; their trees fit into the caches
MIN_BATCH = 16  # minimum if there are many players for few positions
BINS = 10  # bins of the reliability diagram, of equal width in the predicted value

Moves = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate(Interval):
    """Rate or mean over positions, with its standard error and 95 % interval."""

    stderr: float
    count: int  # positions


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """Positions with a predicted value between two bounds."""

    low: float
    high: float
    predicted: float  # mean predicted value
    outcome: float  # mean exact outcome
    count: int


@dataclass(frozen=True, kw_only=True)
class ValueMetrics:
    """Metrics of predicted values in [-1, 1] against exact outcomes."""

    absolute_error: Estimate  # mean |value - outcome|
    calibration_error: float  # expected calibration error: mean over positions of |predicted - outcome| of the bin
    bins: tuple[ReliabilityBin, ...]  # without empty ones


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Metrics of the answers in some positions."""

    mistakes: Estimate  # share of moves whose outcome is worse than the best move's, as AlphaZero.jl counts them
    mistakes_in_decisive: Estimate  # the same, only in positions in which at least one move is a mistake
    fastest_moves: Estimate  # share of moves with the best score: the fastest win, a draw or the slowest loss
    score_loss: Estimate  # mean loss of exact score, in stones
    value: ValueMetrics | None  # None for players that return no values


def collect_answers(
    players: Sequence[Player],  # copies of one player, which share the positions
    sets: Sequence[PositionSet],  # S positions in total
    on_batch: Callable[[int], object] = lambda _count: None,  # called in this thread, with the size of each batch
    budget: Budget | None = None,  # by default the players' own
) -> tuple[Moves, Floats | None]:
    """Return a player's 0-based columns [S], and values [S] in [-1, 1] for the side to move, or None if it has none."""
    positions = join_sets(sets).positions
    size = min(BATCH, max(MIN_BATCH, -(-len(positions) // len(players))))
    idle: SimpleQueue[Player] = SimpleQueue()
    for player in players:
        idle.put(player)

    def answer(first: int) -> tuple[Moves, Floats | None]:
        batch = positions[first : first + size]
        player = idle.get()
        try:
            if isinstance(player, SearchingPlayer):
                result = player.search(batch, budget)
                moves, values = result.moves, result.value
            else:
                moves, values = np.array(checked_moves(player, batch), np.int64), None
        finally:
            idle.put(player)  # also after an error, because other threads may wait for a player
        return moves, values

    columns, found = list[Moves](), list[Floats | None]()
    with worker_threads(len(players)) as pool:
        for moves, predicted in pool.map(answer, range(0, len(positions), size)):
            columns.append(moves)
            found.append(predicted)
            on_batch(len(moves))
    values = [value for value in found if value is not None]
    return np.concatenate(columns), np.concatenate(values) if values else None


def judge_sets(sets: Sequence[PositionSet], columns: Moves, values: Floats | None = None) -> dict[str, Metrics]:
    """Return the metrics of the answers of `collect_answers` by set, and for all sets together as `ALL`."""
    ends = np.cumsum([len(part) for part in sets])[:-1]
    moves = [*np.split(columns, ends), columns]
    predicted = [None] * len(moves) if values is None else [*np.split(values, ends), values]
    answers = zip([*sets, join_sets(sets)], moves, predicted, strict=True)
    return {part.name: judge(part, chosen, expected) for part, chosen, expected in answers}


def judge(positions: PositionSet, columns: Moves, values: Floats | None = None) -> Metrics:
    """Return the metrics of legal moves (0-based columns [S]) and predicted values [S] in S positions."""
    rows = np.arange(len(positions))
    scores = positions.scores[rows, columns].astype(np.float64)
    is_mistake = positions.move_outcomes[rows, columns] < positions.best_outcome
    return Metrics(
        mistakes=proportion(is_mistake),
        mistakes_in_decisive=proportion(is_mistake[positions.decisive]),
        fastest_moves=proportion(scores == positions.best_score),
        score_loss=mean(positions.best_score - scores),
        value=None if values is None else judge_values(values, positions.best_outcome.astype(np.float64)),
    )


def judge_values(predicted: Floats, outcomes: Floats) -> ValueMetrics:
    """Return the metrics of predicted values [S] in [-1, 1] against exact outcomes [S]."""
    edges = np.linspace(-1.0, 1.0, BINS + 1)
    index = np.clip(np.digitize(predicted, edges) - 1, 0, BINS - 1)
    bins = tuple(
        ReliabilityBin(
            low=float(edges[b]),
            high=float(edges[b + 1]),
            predicted=float(predicted[index == b].mean()),
            outcome=float(outcomes[index == b].mean()),
            count=int((index == b).sum()),
        )
        for b in np.unique(index)
    )
    return ValueMetrics(
        absolute_error=mean(np.abs(predicted - outcomes)),
        calibration_error=sum(b.count * abs(b.predicted - b.outcome) for b in bins) / max(len(predicted), 1),
        bins=bins,
    )


def proportion(hits: npt.NDArray[np.bool_]) -> Estimate:
    """Return a share with Wilson's interval (Wilson 1927), which does not collapse where all positions agree.

    ``(p + z^2/2n ± z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)``; NaN without positions.
    """
    n = len(hits)
    if n == 0:
        return Estimate(value=math.nan, stderr=math.nan, low=math.nan, high=math.nan, count=0)
    p = float(hits.mean())
    stderr = math.sqrt(p * (1 - p) / n)
    scale = 1 + Z95**2 / n
    middle = (p + Z95**2 / (2 * n)) / scale
    half = Z95 * math.sqrt(stderr**2 + Z95**2 / (4 * n * n)) / scale
    # min and max keep p in the interval despite rounding at 0 and 1.
    return Estimate(value=p, stderr=stderr, low=min(p, middle - half), high=max(p, middle + half), count=n)


def mean(values: Floats) -> Estimate:
    """Return a mean with its normal interval; NaN without positions."""
    n = len(values)
    average = float(values.mean()) if n else math.nan
    stderr = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Estimate(value=average, stderr=stderr, low=average - Z95 * stderr, high=average + Z95 * stderr, count=n)

"""The answers of networks and players on sets of positions, and how good they are against exact scores."""

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

BATCH = 128  # positions searched together: large enough to fill the network's calls, small enough for the caches
MIN_BATCH = 16  # the same where there are many players for few positions
BINS = 10  # of the reliability diagram, equally wide in the predicted value

Moves = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate(Interval):
    """A rate or a mean over positions, with its standard error and 95 % interval."""

    error: float  # standard error
    count: int  # positions


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """The positions whose predicted value fell between two bounds."""

    low: float
    high: float
    predicted: float  # their mean prediction
    outcome: float  # their mean exact outcome
    count: int


@dataclass(frozen=True, kw_only=True)
class ValueFigures:
    """How good predicted values in [-1, 1] are against exact outcomes."""

    error: Estimate  # mean |value - outcome|
    calibration_error: float  # expected calibration error: mean over positions of their bin's |predicted - outcome|
    bins: tuple[ReliabilityBin, ...]  # those with any position


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How good the answers in some positions are."""

    mistakes: Estimate  # share of moves whose outcome is worse than the best move's, as AlphaZero.jl counts them
    decisive: Estimate  # the same in the positions in which at least one move is a mistake
    fastest: Estimate  # share of moves whose score is the best as well: the fastest win, the slowest loss
    score_loss: Estimate  # mean loss of exact score, in stones
    value: ValueFigures | None  # None for players that return no values


def ask_players(
    players: Sequence[Player],
    sets: Sequence[PositionSet],
    on_batch: Callable[[int], object] = lambda _count: None,
) -> tuple[Moves, Floats | None]:
    """Divide positions among copies of one player, each of which answers a batch at a time.

    A batch has `BATCH` positions, or fewer if some copy would get none. ``on_batch`` gets the size of each batch.

    Returns:
        the 0-based columns [S] that it plays in all positions of the sets, and its values [S] in [-1, 1] for the side
        to move, or None if it returns no values.
    """
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
                result = player.search(batch)
                moves, values = result.moves, result.value
            else:
                moves, values = np.array(checked_moves(player, batch), np.int64), None
        finally:
            idle.put(player)  # after an error too: other threads wait for a player
        on_batch(len(batch))
        return moves, values

    with worker_threads(len(players)) as pool:
        columns, found = zip(*pool.map(answer, range(0, len(positions), size)), strict=True)
    values = [value for value in found if value is not None]
    return np.concatenate(columns), np.concatenate(values) if values else None


def judge_sets(sets: Sequence[PositionSet], columns: Moves, values: Floats | None = None) -> dict[str, Figures]:
    """The figures of the answers of `ask_players`, by the name of each set, and for all sets together by `ALL`."""
    ends = np.cumsum([len(part) for part in sets])[:-1]
    moves = [*np.split(columns, ends), columns]
    predicted = [None] * len(moves) if values is None else [*np.split(values, ends), values]
    answers = zip([*sets, join_sets(sets)], moves, predicted, strict=True)
    return {part.name: judge(part, chosen, expected) for part, chosen, expected in answers}


def judge(positions: PositionSet, columns: Moves, values: Floats | None = None) -> Figures:
    """The figures of the moves [S] played in S positions, and of the values [S] predicted there.

    Raises:
        ValueError: for a move into a full column.
    """
    rows = np.arange(len(positions))
    for first in np.flatnonzero(~positions.legal[rows, columns])[:1]:
        after = positions.positions[first].moves
        raise ValueError(f"move {columns[first] + 1} after {after!r}: the column is full")
    scores = positions.scores[rows, columns].astype(np.float64)
    is_mistake = positions.outcomes[rows, columns] < positions.best_outcome
    return Figures(
        mistakes=proportion(is_mistake),
        decisive=proportion(is_mistake[positions.decisive]),
        fastest=proportion(scores == positions.best_score),
        score_loss=mean(positions.best_score - scores),
        value=None if values is None else judge_values(values, positions.best_outcome.astype(np.float64)),
    )


def judge_values(predicted: Floats, outcomes: Floats) -> ValueFigures:
    """The figures of predicted values [S] against exact outcomes [S]."""
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
    return ValueFigures(
        error=mean(np.abs(predicted - outcomes)),
        calibration_error=sum(b.count * abs(b.predicted - b.outcome) for b in bins) / max(len(predicted), 1),
        bins=bins,
    )


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
    average = float(values.mean()) if n else math.nan
    error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Estimate(value=average, error=error, low=average - Z95 * error, high=average + Z95 * error, count=n)

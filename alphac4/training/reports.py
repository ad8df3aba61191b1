"""Reports of self-play and learning."""

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from alphac4.compute.cores import Actors
from alphac4.game import Board
from alphac4.selfplay.games import Games, move_string
from alphac4.selfplay.samples import Block, Samples, recorded_plies

OPENING_LENGTH = 4  # plies by which openings are distinguished
CALIBRATION_BINS = 10
MAX_SAMPLE_GAMES = 3  # per iteration


@dataclass(frozen=True, kw_only=True)
class GameRecord:
    """A game of self-play with the search's value and policy at each move."""

    moves: str  # from the empty board, random opening included
    opening_plies: int  # number of random opening moves
    values: list[float]  # root value for the side to move, at each move after the opening
    policies: list[list[float]]  # policy target [A] at each of these moves
    outcome: int  # +1 the first player won, 0 draw, -1 lost


@dataclass(frozen=True, kw_only=True)
class SelfPlayReport:
    """Figures of one iteration's self-play."""

    games: int
    samples: int  # recorded positions
    simulations: int
    evaluations: int  # evaluations by the network
    cached_evaluations: int  # found in a cache
    seconds: float  # wall time in which actors played; those on other machines also play during learning and matches
    network_share: float  # share of the actors' time in the evaluator
    tree_share: float  # share of the actors' time in compiled search and game code
    mean_plies: float
    first_player_win_share: float  # share of games
    draw_share: float  # share of games
    first_moves: list[int]  # [A] games by first column, of those without a random opening
    openings: dict[str, int]  # games from the empty board by their first four moves, the 200 most frequent
    distinct_openings: int  # different first four moves, of all games from the empty board
    target_entropy: float  # nats, mean over recorded policy targets
    policy_surprise: float  # nats, mean KL(policy target || network policy)
    value_calibration: list[tuple[float, float, int]]  # (mean root value, mean outcome, samples) by bin of root value
    backend: str  # of the network
    sample_games: list[GameRecord]
    seconds_waited: float | None = None  # part of `seconds` that the run spent waiting for actors on other machines
    statistics: dict[str, float] = field(default_factory=dict)  # figures of actors elsewhere, by name

    @property
    def cache_hit_share(self) -> float:
        """Share of evaluations that were found in a cache."""
        return self.cached_evaluations / max(self.cached_evaluations + self.evaluations, 1)

    @property
    def calibration_error(self) -> float:
        """Mean over positions of ``|mean root value - mean outcome|`` in the position's bin of root values."""
        positions = sum(count for _, _, count in self.value_calibration)
        gaps = sum(count * abs(value - outcome) for value, outcome, count in self.value_calibration)
        return gaps / max(positions, 1)

    @property
    def simulations_per_second(self) -> float:
        """Simulations per second of wall time."""
        return self.simulations / max(self.seconds, 1e-9)

    @property
    def evaluations_per_second(self) -> float:
        """Network evaluations per second of wall time."""
        return self.evaluations / max(self.seconds, 1e-9)


@dataclass(frozen=True, kw_only=True)
class LearningReport:
    """Figures of one iteration's gradient steps, means over those that were not skipped."""

    steps: int
    losses: dict[str, float]  # by name, with their weights: "policy", "value", "ownership", or a user's
    policy_entropy: float | None  # nats, of the network's policy on training positions; None if all steps were skipped
    gradient_norm: float | None  # before clipping; None if all steps were skipped
    learning_rate: float  # of AdamW, or of a user's first parameter group, at the last step
    window: int  # positions in the replay window
    seconds: float
    skipped_steps: int = 0  # steps with a loss or gradient that was not finite
    rolled_back: bool = False  # whether the earlier weights were restored, because the new ones were not finite

    @property
    def policy_loss(self) -> float:
        """Cross-entropy of the policy, in nats; NaN if no loss is named "policy"."""
        return self.losses.get("policy", math.nan)

    @property
    def value_loss(self) -> float:
        """Cross-entropy of win, draw and loss, in nats; NaN if no loss is named "value"."""
        return self.losses.get("value", math.nan)


def selfplay_report(board: Board, played: Block, samples: Samples, started: float, actors: Actors) -> SelfPlayReport:
    """Return the report of self-play since ``started``; ``played`` is sorted by content."""
    waited = time.perf_counter() - started
    seconds = actors.play_seconds or waited
    games, stats = played.games, played.stats
    moves = [move_string(games, row) for row in range(len(games.plies))]
    outcomes = games.outcome.tolist()
    firsts = games.moves[games.opening_plies == 0, 0].tolist()
    openings = Counter(text[:OPENING_LENGTH] for text in moves if "?" not in text[:OPENING_LENGTH])
    policy = samples.policy_target.astype(np.float64)
    surprise = math.fsum(games.surprise[recorded_plies(games)].tolist())
    shown = (row for row, text in enumerate(moves) if games.opening_plies[row] <= 2 and "?" not in text)
    count, positions = max(len(moves), 1), max(len(samples), 1)
    return SelfPlayReport(
        games=len(moves),
        samples=len(samples),
        simulations=stats.simulations,
        evaluations=stats.evaluations,
        cached_evaluations=stats.cached,
        seconds=seconds,
        network_share=stats.network_seconds / len(actors) / seconds,
        tree_share=stats.tree_seconds / len(actors) / seconds,
        mean_plies=sum(map(len, moves)) / count,
        first_player_win_share=outcomes.count(1) / count,
        draw_share=outcomes.count(0) / count,
        first_moves=[firsts.count(column) for column in range(board.columns)],
        openings=dict(openings.most_common(200)),
        distinct_openings=len(openings),
        target_entropy=-float((policy * np.log(np.maximum(policy, 1e-12))).sum()) / positions,
        policy_surprise=surprise / positions,
        value_calibration=_calibration(samples),
        backend=actors.backend,
        sample_games=[_record(games, row) for row in islice(shown, MAX_SAMPLE_GAMES)],
        seconds_waited=waited if actors.play_seconds else None,
        statistics=dict(actors.statistics),
    )


def _calibration(samples: Samples) -> list[tuple[float, float, int]]:
    """Return mean root value, mean outcome and number of samples for each bin of root values with samples."""
    values, outcomes = samples.value, samples.outcome
    bins = np.clip(((values + 1) / 2 * CALIBRATION_BINS).astype(int), 0, CALIBRATION_BINS - 1)
    chosen = [bins == index for index in np.unique(bins)]
    return [(float(values[rows].mean()), float(outcomes[rows].mean()), int(rows.sum())) for rows in chosen]


def _record(games: Games, row: int) -> GameRecord:
    first, last = int(games.opening_plies[row]), int(games.plies[row])
    return GameRecord(
        moves=move_string(games, row),
        opening_plies=first,
        values=[round(float(value), 4) for value in games.value[row, first:last]],
        policies=[[round(float(p), 4) for p in policy] for policy in games.policy_target[row, first:last]],
        outcome=int(games.outcome[row]),
    )

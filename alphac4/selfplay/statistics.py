"""Figures of self-play, gathered block by block."""

import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from alphac4.game import Geometry, column_name
from alphac4.selfplay.games import Finished
from alphac4.selfplay.samples import Block, Work

OPENING_LENGTH = 4  # plies that tell openings apart
CALIBRATION_BINS = 10
EXAMPLES = 3  # games of an iteration that are shown


@dataclass(frozen=True, kw_only=True)
class GameRecord:
    """A game of self-play with the search's opinion at every move."""

    moves: str  # from the empty board, openings included
    opening: int  # how many of them were random opening moves
    values: list[float]  # the root value to the side to move, for each move after the opening
    policies: list[list[float]]  # the policy target at each of those moves, [A]
    outcome: int  # +1 the first player won, 0 draw, -1 lost


@dataclass
class SelfPlayStatistics:
    """Sums over the blocks of one iteration."""

    geometry: Geometry
    work: Work = field(default_factory=Work)
    games: int = 0
    samples: int = 0
    plies: int = 0
    first_wins: int = 0
    draws: int = 0
    entropy: float = 0.0
    surprise: float = 0.0
    surprise_count: int = 0
    examples: list[GameRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        self.first_moves = np.zeros(self.geometry.columns, int)
        self.openings: Counter[str] = Counter()
        self.bin_value = np.zeros(CALIBRATION_BINS)
        self.bin_outcome = np.zeros(CALIBRATION_BINS)
        self.bin_count = np.zeros(CALIBRATION_BINS, int)

    def add(self, block: Block) -> None:
        """Take in one block."""
        games, samples = block.games, block.samples
        self.work.add(block.work)
        self.games += len(games.plies)
        self.samples += len(samples)
        self.plies += int(games.plies.sum())
        self.first_wins += int((games.outcome == 1).sum())
        self.draws += int((games.outcome == 0).sum())
        policy = samples.policy.astype(np.float64)
        self.entropy -= float((policy * np.log(np.maximum(policy, 1e-12))).sum())
        played = np.arange(self.geometry.cells) < games.plies[:, None]
        searched = played & (np.arange(self.geometry.cells) >= games.opening[:, None])
        self.surprise += float(games.surprise[searched].sum())
        self.surprise_count += int(searched.sum())
        bins = np.clip(((samples.value + 1) / 2 * CALIBRATION_BINS).astype(int), 0, CALIBRATION_BINS - 1)
        self.bin_value += np.bincount(bins, samples.value, CALIBRATION_BINS)
        self.bin_outcome += np.bincount(bins, samples.outcome, CALIBRATION_BINS)
        self.bin_count += np.bincount(bins, minlength=CALIBRATION_BINS)
        for row in range(len(games.plies)):
            moves = move_string(games, row)
            self.openings[moves[:OPENING_LENGTH]] += 1
            if games.opening[row] == 0:
                self.first_moves[games.moves[row, 0]] += 1
            if len(self.examples) < EXAMPLES and games.opening[row] <= 2:
                self.examples.append(_example(games, row, moves))

    def calibration(self) -> list[tuple[float, float, int]]:
        """``(mean root value, mean outcome, samples)`` of every bin of root values that has samples."""
        return [
            (float(value / count), float(outcome / count), int(count))
            for value, outcome, count in zip(self.bin_value, self.bin_outcome, self.bin_count, strict=True)
            if count
        ]


def move_string(games: Finished, row: int) -> str:
    """The moves of one game, its random opening included."""
    return "".join(column_name(int(column)) for column in games.moves[row, : games.plies[row]])


def _example(games: Finished, row: int, moves: str) -> GameRecord:
    first, last = int(games.opening[row]), int(games.plies[row])
    return GameRecord(
        moves=moves,
        opening=first,
        values=[round(float(value), 4) for value in games.value[row, first:last]],
        policies=[[round(float(p), 4) for p in policy] for policy in games.policy[row, first:last]],
        outcome=int(games.outcome[row]),
    )

"""Random games from a leaf to the end, or to a given depth: classic MCTS's evaluation."""

import math
from typing import NamedTuple

import numpy as np

from alphac4.compiled import compiled, inlined
from alphac4.game.rules import U64_0, Geometry, column_cells, has_run, legal_cells, winning_cells
from alphac4.mcts import random_state
from alphac4.mcts.heuristics import NO_EVALUATION, evaluate
from alphac4.mcts.random_state import States

GUIDE_SHARPNESS = 5.0  # a guided rollout's moves weigh exp(5 times their evaluation)


class Rollout(NamedTuple):
    """How rollouts are played, for compiled code; see `UctConfig`."""

    centre: bool = False
    guards: bool = False
    depth: int = -1  # plies after which the position is evaluated; negative: play to the end
    evaluation: int = NO_EVALUATION  # what evaluates a position that is cut off
    guide: int = NO_EVALUATION  # what weighs the moves


@compiled
def rollout(geometry: Geometry, own: np.uint64, occupied: np.uint64, states: States, t: int) -> float:
    """Play uniformly random moves to the end of an unfinished game: +1 if the side to move wins, 0 for a draw."""
    sign = 1.0
    while True:
        legal = legal_cells(geometry, occupied)
        if legal == U64_0:
            return 0.0
        # Drop into a random column until one is open: cheaper than counting the open ones.
        cell = U64_0
        while cell == U64_0:
            cell = legal & column_cells(geometry, random_state.below(states, t, geometry.columns))
        own |= cell
        if has_run(geometry, own):
            return sign
        occupied |= cell
        own ^= occupied
        sign = -sign


@inlined
def centre_weight(geometry: Geometry, column: int) -> float:
    """1 at the edge, 2 beside it, and so on to the middle."""
    return 1.0 + min(column, geometry.columns - 1 - column)


@compiled
def move_weight(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, cell: np.uint64, column: int, style: Rollout
) -> float:
    """How much a rollout prefers this move of the side to move."""
    weight = centre_weight(geometry, column) if style.centre else 1.0
    if style.guide != NO_EVALUATION:
        weight *= math.exp(GUIDE_SHARPNESS * evaluate(geometry, style.guide, own | cell, own ^ occupied))
    return weight


@compiled
def draw_cell(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, legal: np.uint64, style: Rollout, states: States, t: int
) -> np.uint64:
    """A random one of the ``legal`` cells, by `move_weight`; there must be one."""
    total = 0.0
    for column in range(geometry.columns):
        cell = legal & column_cells(geometry, column)
        if cell != U64_0:
            total += move_weight(geometry, own, occupied, cell, column, style)
    left = random_state.uniform(states, t) * total
    chosen = U64_0
    for column in range(geometry.columns):
        cell = legal & column_cells(geometry, column)
        if cell != U64_0:
            chosen = cell  # the last one if rounding leaves something over
            left -= move_weight(geometry, own, occupied, cell, column, style)
            if left < 0.0:
                break
    return chosen


@compiled
def styled_rollout(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, states: States, t: int, style: Rollout
) -> float:
    """`rollout` with preferences, guards, or a limit: the value in [-1, 1] to the side to move."""
    sign = 1.0
    ply = 0
    while True:
        legal = legal_cells(geometry, occupied)
        if legal == U64_0:
            return 0.0
        if ply == style.depth:
            return sign * evaluate(geometry, style.evaluation, own, own ^ occupied)
        if style.guards:
            if winning_cells(geometry, own, occupied) & legal != U64_0:
                return sign
            threats = winning_cells(geometry, own ^ occupied, occupied) & legal
            if threats != U64_0:
                legal = threats
        cell = draw_cell(geometry, own, occupied, legal, style, states, t)
        own |= cell
        if has_run(geometry, own):
            return sign
        occupied |= cell
        own ^= occupied
        sign = -sign
        ply += 1


@compiled
def run_rollouts(geometry: Geometry, own: np.uint64, occupied: np.uint64, count: int, states: States) -> float:
    """The mean result of ``count`` rollouts for the side to move; ``states`` [1] is the random state."""
    total = 0.0
    for _ in range(count):
        total += rollout(geometry, own, occupied, states, 0)
    return total / count

"""The evaluations of classic search: random games from a leaf, and hand-written values of a position.

Each hand-written one compares the two sides' stones and returns a value in [-1, 1] for the side given first. A line is
a place on the board where a winning run could lie.
"""

import math
from typing import NamedTuple

import numpy as np

from alphac4.compiled import compiled, inlined
from alphac4.game.rules import U64_0, U64_1, Geometry, column_cells, count_stones, has_run, legal_cells, winning_cells
from alphac4.mcts import random_state
from alphac4.mcts.random_state import States

NO_HEURISTIC = 0
LINES = 1
LONGEST = 2
CHAINS = 3

ONE_SHORT, TWO_SHORT, THREE_SHORT = 10.0, 5.0, 2.0  # of a line with only own stones, by how many are missing
CHAINS_SCALE = 30.0  # a difference of this much is worth tanh(1)
LONGEST_SCALE = 6.0
GUIDE_SHARPNESS = 5.0  # a guided rollout's moves weigh exp(5 times their value)


@inlined
def line_starts(geometry: Geometry, cells: np.uint64, shift: np.uint64) -> np.uint64:
    """The first cells of all lines along ``shift`` that lie wholly in ``cells``."""
    starts = cells
    for _ in range(geometry.run_length - 1):
        cells = cells >> shift
        starts &= cells
    return starts


@inlined
def line_from(geometry: Geometry, start: np.uint64, shift: np.uint64) -> np.uint64:
    """The cells of the line that begins at ``start``."""
    line = start
    for _ in range(geometry.run_length - 1):
        start = start << shift
        line |= start
    return line


@inlined
def direction(geometry: Geometry, number: int) -> np.uint64:
    """The shift of direction 0 to 3: up, across, and both diagonals; 0 where no line lies that way."""
    if number == 0:
        return U64_1 if geometry.run_length <= geometry.rows else U64_0
    if number == 1:
        return geometry.height if geometry.run_length <= geometry.columns else U64_0
    if not geometry.diagonals:
        return U64_0
    return geometry.height - U64_1 if number == 2 else geometry.height + U64_1


@compiled
def lines_value(geometry: Geometry, own: np.uint64, other: np.uint64) -> float:
    """The lines through each cell, summed over own stones less the other's, as a share of all stones' sums.

    The static table of many beginners' programs: on the standard board 3 lines go through a corner, 13 through a
    centre cell.
    """
    ours, theirs = 0, 0
    for number in range(4):
        shift = direction(geometry, number)
        if shift == U64_0:
            continue
        starts = line_starts(geometry, geometry.board, shift)
        while starts != U64_0:
            line = line_from(geometry, starts & (~starts + U64_1), shift)
            starts &= starts - U64_1
            ours += count_stones(line & own)
            theirs += count_stones(line & other)
    return (ours - theirs) / max(ours + theirs, 1)


@compiled
def longest_run(geometry: Geometry, stones: np.uint64) -> float:
    """The longest run of stones short of a win, times how many of that length there are (overlaps count apart)."""
    longest, count = 0, 0
    for number in range(4):
        shift = direction(geometry, number)
        if shift == U64_0:
            continue
        runs, length = stones, 1
        while runs != U64_0 and length < geometry.run_length:
            if length > longest:
                longest, count = length, 0
            if length == longest:
                count += count_stones(runs)
            runs &= stones >> (shift * np.uint64(length))
            length += 1
    return float(longest * count)


@compiled
def longest_value(geometry: Geometry, own: np.uint64, other: np.uint64) -> float:
    """``tanh`` of the difference of both sides' `longest_run`."""
    return math.tanh((longest_run(geometry, own) - longest_run(geometry, other)) / LONGEST_SCALE)


@compiled
def chain_points(geometry: Geometry, own: np.uint64, other: np.uint64) -> float:
    """10, 5 or 2 points for each line without a stone of the other side in which 1, 2 or 3 own stones are missing."""
    points = 0.0
    for number in range(4):
        shift = direction(geometry, number)
        if shift == U64_0:
            continue
        starts = line_starts(geometry, geometry.board & ~other, shift)
        while starts != U64_0:
            line = line_from(geometry, starts & (~starts + U64_1), shift)
            starts &= starts - U64_1
            held = count_stones(line & own)
            missing = geometry.run_length - held
            if held == 0:
                continue
            if missing == 1:
                points += ONE_SHORT
            elif missing == 2:
                points += TWO_SHORT
            elif missing == 3:
                points += THREE_SHORT
    return points


@compiled
def chains_value(geometry: Geometry, own: np.uint64, other: np.uint64) -> float:
    """``tanh`` of the difference of both sides' `chain_points`."""
    return math.tanh((chain_points(geometry, own, other) - chain_points(geometry, other, own)) / CHAINS_SCALE)


@compiled
def heuristic_value(geometry: Geometry, kind: int, own: np.uint64, other: np.uint64) -> float:
    """The value in [-1, 1] by the heuristic ``kind`` for the side with the stones ``own``; 0 for `NO_HEURISTIC`."""
    if kind == LINES:
        return lines_value(geometry, own, other)
    if kind == LONGEST:
        return longest_value(geometry, own, other)
    if kind == CHAINS:
        return chains_value(geometry, own, other)
    return 0.0


class Rollout(NamedTuple):
    """Settings of rollouts, for compiled code; see `UctConfig`."""

    centre: bool = False
    decisive_moves: bool = False
    depth: int = -1  # plies after which the position is evaluated; negative: play to the end
    heuristic: int = NO_HEURISTIC  # what evaluates a position that is cut off
    guide: int = NO_HEURISTIC  # what weighs the moves


@compiled
def move_weight(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, cell: np.uint64, column: int, style: Rollout
) -> float:
    """Weight of this move of the side to move in a rollout."""
    weight = 1.0
    if style.centre:  # 1 at the edge, 2 beside it, and so on to the middle
        weight += min(column, geometry.columns - 1 - column)
    if style.guide != NO_HEURISTIC:
        weight *= math.exp(GUIDE_SHARPNESS * heuristic_value(geometry, style.guide, own | cell, own ^ occupied))
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
def rollout(geometry: Geometry, own: np.uint64, occupied: np.uint64, states: States, t: int, style: Rollout) -> float:
    """Play random moves on from an unfinished game; returns the value in [-1, 1] to the side to move."""
    plain = not (style.centre or style.decisive_moves or style.depth >= 0 or style.guide != NO_HEURISTIC)
    sign = 1.0
    ply = 0
    while True:
        legal = legal_cells(geometry, occupied)
        if legal == U64_0:
            return 0.0
        cell = U64_0
        if plain:  # drop into a random column until one is open: cheaper than counting the open ones
            while cell == U64_0:
                cell = legal & column_cells(geometry, random_state.below(states, t, geometry.columns))
        else:
            if ply == style.depth:
                return sign * heuristic_value(geometry, style.heuristic, own, own ^ occupied)
            if style.decisive_moves:
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
def run_rollouts(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, count: int, states: States, style: Rollout
) -> float:
    """The mean result of ``count`` rollouts for the side to move; ``states`` [1] is the random state."""
    total = 0.0
    for _ in range(count):
        total += rollout(geometry, own, occupied, states, 0, style)
    return total / count

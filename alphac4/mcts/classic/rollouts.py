"""Evaluations of classic search: random games from a leaf, and hand-written evaluations of a position.

A hand-written evaluation compares the stones of both sides and returns a value in [-1, 1] for the side with the stones
``own``. A line is a set of adjacent cells that would be a winning run.
"""

import math
from typing import Any

import numpy as np

from alphac4.compiled import compiled, inlined
from alphac4.game.rules import U64_0, U64_1, Board, column_cells, count_stones, has_run, legal_cells, winning_cells
from alphac4.mcts import random_state
from alphac4.mcts.random_state import States

NO_HEURISTIC, LINES, LONGEST, CHAINS = range(4)  # indices of the choices of `UctConfig.evaluation`
IN_ROLLOUTS = 2  # index of the choice "rollout" of `UctConfig.evaluation_use`
CENTRE = 1  # index of the choice "centre" of `UctConfig.rollout`
MAX_CELLS = 64  # of any board: a rollout of this depth is never cut off

ONE_SHORT, TWO_SHORT, THREE_SHORT = 10.0, 5.0, 2.0  # points of a line with only own stones, by the number that it lacks
CHAINS_SCALE = 30.0  # a difference of this many points has the value tanh(1)
LONGEST_SCALE = 6.0
GUIDE_SHARPNESS = 5.0  # the weight of a move in a guided rollout is exp(5 times its value)


@inlined
def line_starts(board: Board, cells: np.uint64, shift: np.uint64) -> np.uint64:
    """Return the first cells of all lines along ``shift`` that consist of ``cells`` only."""
    starts = cells
    for _ in range(board.run_length - 1):
        cells = cells >> shift
        starts &= cells
    return starts


@inlined
def line_from(board: Board, start: np.uint64, shift: np.uint64) -> np.uint64:
    """Return the cells of the line that begins at ``start``."""
    line = start
    for _ in range(board.run_length - 1):
        start = start << shift
        line |= start
    return line


@inlined
def direction(board: Board, number: int) -> np.uint64:
    """Return the shift of direction 0 to 3: up, right, and both diagonals; 0 if the board has no lines along it."""
    if number == 0:
        return U64_1 if board.run_length <= board.rows else U64_0
    if number == 1:
        return board.column_bits if board.run_length <= board.columns else U64_0
    if not board.diagonals:
        return U64_0
    return board.column_bits - U64_1 if number == 2 else board.column_bits + U64_1


@compiled
def lines_value(board: Board, own: np.uint64, other: np.uint64) -> float:
    """Return ``(ours - theirs) / (ours + theirs)``, each the number of lines through a side's stones.

    This is the static table of many beginners' programs. On the standard board 3 lines go through a corner and 13
    through a centre cell.
    """
    ours, theirs = 0, 0
    for number in range(4):
        shift = direction(board, number)
        if shift == U64_0:
            continue
        starts = line_starts(board, board.playable, shift)
        while starts != U64_0:
            line = line_from(board, starts & (~starts + U64_1), shift)
            starts &= starts - U64_1
            ours += count_stones(line & own)
            theirs += count_stones(line & other)
    return (ours - theirs) / max(ours + theirs, 1)


@compiled
def longest_run_points(board: Board, stones: np.uint64) -> float:
    """Return the length of the longest run short of a win times the number of such runs, which may overlap."""
    longest, count = 0, 0
    for number in range(4):
        shift = direction(board, number)
        if shift == U64_0:
            continue
        runs, length = stones, 1
        while runs != U64_0 and length < board.run_length:
            if length > longest:
                longest, count = length, 0
            if length == longest:
                count += count_stones(runs)
            runs &= stones >> (shift * np.uint64(length))
            length += 1
    return float(longest * count)


@compiled
def longest_value(board: Board, own: np.uint64, other: np.uint64) -> float:
    """Return ``tanh(d / LONGEST_SCALE)``; d is the difference between both sides' `longest_run_points`."""
    return math.tanh((longest_run_points(board, own) - longest_run_points(board, other)) / LONGEST_SCALE)


@compiled
def chain_points(board: Board, own: np.uint64, other: np.uint64) -> float:
    """Return the sum of 10, 5 or 2 points for each line that lacks 1, 2 or 3 own stones and has none of the other's."""
    points = 0.0
    for number in range(4):
        shift = direction(board, number)
        if shift == U64_0:
            continue
        starts = line_starts(board, board.playable & ~other, shift)
        while starts != U64_0:
            line = line_from(board, starts & (~starts + U64_1), shift)
            starts &= starts - U64_1
            held = count_stones(line & own)
            missing = board.run_length - held
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
def chains_value(board: Board, own: np.uint64, other: np.uint64) -> float:
    """Return ``tanh(d / CHAINS_SCALE)``; d is the difference between both sides' `chain_points`."""
    return math.tanh((chain_points(board, own, other) - chain_points(board, other, own)) / CHAINS_SCALE)


@compiled
def heuristic_value(board: Board, kind: int, own: np.uint64, other: np.uint64) -> float:
    """Return the heuristic's value in [-1, 1] for the side with the stones ``own``; 0 for `NO_HEURISTIC`."""
    if kind == LINES:
        return lines_value(board, own, other)
    if kind == LONGEST:
        return longest_value(board, own, other)
    if kind == CHAINS:
        return chains_value(board, own, other)
    return 0.0


@compiled
def move_weight(
    board: Board, own: np.uint64, occupied: np.uint64, cell: np.uint64, column: int, selection: Any
) -> float:
    """Return the weight with which a rollout draws a move of the side to move."""
    weight = 1.0
    if selection.rollout == CENTRE:  # 1 at the edge, 2 in the next column, and so on to the centre
        weight += min(column, board.columns - 1 - column)
    if selection.evaluation_use == IN_ROLLOUTS:
        value = heuristic_value(board, selection.evaluation, own | cell, own ^ occupied)
        weight *= math.exp(GUIDE_SHARPNESS * value)
    return weight


@compiled
def draw_cell(
    board: Board, own: np.uint64, occupied: np.uint64, legal: np.uint64, selection: Any, states: States, t: int
) -> np.uint64:
    """Draw one of the ``legal`` cells, of which there is at least one, in proportion to `move_weight`."""
    total = 0.0
    for column in range(board.columns):
        cell = legal & column_cells(board, column)
        if cell != U64_0:
            total += move_weight(board, own, occupied, cell, column, selection)
    left = random_state.uniform(states, t) * total
    chosen = U64_0
    for column in range(board.columns):
        cell = legal & column_cells(board, column)
        if cell != U64_0:
            chosen = cell  # the last cell, if rounding leaves a remainder
            left -= move_weight(board, own, occupied, cell, column, selection)
            if left < 0.0:
                break
    return chosen


@compiled
def rollout(board: Board, own: np.uint64, occupied: np.uint64, states: States, t: int, selection: Any) -> float:
    """Play random moves from an unfinished position; return the result in [-1, 1] for the side to move."""
    is_guided = selection.evaluation != NO_HEURISTIC and selection.evaluation_use == IN_ROLLOUTS
    is_cut_off = selection.rollout_depth < MAX_CELLS
    plain = not (selection.rollout == CENTRE or selection.rollout_decisive_moves or is_cut_off or is_guided)
    sign = 1.0
    ply = 0
    while True:
        legal = legal_cells(board, occupied)
        if legal == U64_0:
            return 0.0
        cell = U64_0
        if plain:  # redraw full columns, which is faster than counting the open ones
            while cell == U64_0:
                cell = legal & column_cells(board, random_state.below(states, t, board.columns))
        else:
            if ply == selection.rollout_depth:
                return sign * heuristic_value(board, selection.evaluation, own, own ^ occupied)
            if selection.rollout_decisive_moves:
                if winning_cells(board, own, occupied) & legal != U64_0:
                    return sign
                threats = winning_cells(board, own ^ occupied, occupied) & legal
                if threats != U64_0:
                    legal = threats
            cell = draw_cell(board, own, occupied, legal, selection, states, t)
        own |= cell
        if has_run(board, own):
            return sign
        occupied |= cell
        own ^= occupied
        sign = -sign
        ply += 1

"""Fixed-depth alpha-beta with a hand-written evaluation: a transparent opponent without search statistics."""

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game.rules import U64_0, Geometry, column_cells, count_stones, legal_cells, play, winning_cells

WIN = 10_000  # a win in d plies scores WIN - d, above any evaluation
NO_MOVE = -(2 * WIN)  # the score of a full column
THREAT = 8  # worth of an empty cell that completes a run, reachable now or not


@compiled
def evaluate(geometry: Geometry, own: np.uint64, occupied: np.uint64) -> int:
    """Threats and closeness to the middle column, for the side to move; far below `WIN`."""
    opponent = own ^ occupied
    score = THREAT * count_stones(winning_cells(geometry, own, occupied))
    score -= THREAT * count_stones(winning_cells(geometry, opponent, occupied))
    for column in range(geometry.columns):
        cells = column_cells(geometry, column)
        worth = min(column, geometry.columns - 1 - column)
        score += worth * (count_stones(own & cells) - count_stones(opponent & cells))
    return score


@compiled
def negamax(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, depth: int, ply: int, alpha: int, beta: int
) -> int:
    """The score of an unfinished position or full board for the side to move, looking ``depth`` plies ahead.

    Exact within (alpha, beta), else a bound. ``ply`` counts the moves made since the root.
    """
    legal = legal_cells(geometry, occupied)
    if legal == U64_0:
        return 0
    if depth == 0:
        return evaluate(geometry, own, occupied)
    if winning_cells(geometry, own, occupied) & legal != U64_0:
        return WIN - ply - 1
    middle = geometry.columns // 2
    for step in range(geometry.columns):  # from the middle outwards: the better moves are found first
        column = middle + (step + 1) // 2 * (1 if step % 2 == 0 else -1)
        if column < 0 or column >= geometry.columns or legal & column_cells(geometry, column) == U64_0:
            continue
        next_own, next_occupied = play(geometry, own, occupied, column)
        score = -negamax(geometry, next_own, next_occupied, depth - 1, ply + 1, -beta, -alpha)
        if score >= beta:
            return score
        alpha = max(alpha, score)
    return alpha


@compiled
def score_moves(
    geometry: Geometry, own: np.uint64, occupied: np.uint64, depth: int, scores: npt.NDArray[np.int64]
) -> None:
    """Write each column's score into ``scores`` [A]: exact for the best moves, a bound below them for the others."""
    best = NO_MOVE
    wins = winning_cells(geometry, own, occupied)
    for column in range(geometry.columns):
        cell = legal_cells(geometry, occupied) & column_cells(geometry, column)
        if cell == U64_0:
            scores[column] = NO_MOVE
            continue
        if cell & wins != U64_0:
            scores[column] = WIN - 1
        else:
            next_own, next_occupied = play(geometry, own, occupied, column)
            # One below the best so far: a move that equals it must get its exact score too.
            scores[column] = -negamax(geometry, next_own, next_occupied, depth - 1, 1, NO_MOVE, -(best - 1))
        best = max(best, scores[column])

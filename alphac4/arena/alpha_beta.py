"""Players that use alpha-beta search: the exact solver, and one of fixed depth with a hand-written evaluation."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from alphac4.compiled import compiled, inlined
from alphac4.game import Outcome, Position
from alphac4.game.rules import (
    STANDARD,
    U64_0,
    Board,
    column_cells,
    count_stones,
    legal_cells,
    play,
    winning_cells,
)
from alphac4.machine import check_block, cores, worker_threads
from alphac4.solver import best_columns, shared_solver

MAX_CACHED_POSITIONS = 100_000  # positions whose scores the solver's player keeps
WIN_SCORE = 10_000  # a win in d plies scores WIN_SCORE - d, above any evaluation
THREAT_SCORE = 8  # score of an empty cell that completes a run, reachable now or not


class SolverPlayer:
    """Perfect player that draws one of the equally good moves at random and caches the scores of positions.

    If ``fastest``, it compares moves by their exact scores. Otherwise all moves with the best outcome are equally good,
    and games vary more.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        board: Board = STANDARD,
        *,
        fastest: bool = True,
        threads: int | None = None,
    ) -> None:
        self.name = "solver" if fastest else "solver:outcome"
        self._rng = rng
        self._threads = threads or cores()
        self._analyze = partial(shared_solver(board).analyze, on_poll=check_block, weak=not fastest)
        self._scores: dict[Position, list[int | None]] = {}

    def choose(self, positions: Sequence[Position]) -> list[int]:
        if len(self._scores) > MAX_CACHED_POSITIONS:
            self._scores.clear()
        # The games of a match share early positions, which cost the most.
        unknown = [position for position in dict.fromkeys(positions) if position not in self._scores]
        with worker_threads(self._threads) as pool:
            self._scores.update(zip(unknown, pool.map(self._analyze, unknown), strict=True))
        return [int(self._rng.choice(best_columns(self._scores[position]))) for position in positions]


class NegamaxPlayer:
    """Player that searches by alpha-beta to a fixed depth in plies, and samples one of the equally good moves."""

    def __init__(self, depth: int, rng: np.random.Generator) -> None:
        self.name = f"negamax:{depth}"
        self.depth = depth
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        return [int(self._rng.choice(self.best_moves(position))) for position in positions]

    def best_moves(self, position: Position) -> list[int]:
        best, columns = -WIN_SCORE, list[int]()
        for column in position.legal_columns():
            after = position.play(column)
            if after.outcome() == Outcome.LOSS:
                score = WIN_SCORE - 1
            else:
                beta = 1 - best  # 1 more than a cutoff needs, so that a move equal to the best gets its exact score
                score = -negamax(after.board, after.own, after.occupied, self.depth - 1, 1, -WIN_SCORE, beta)
            if score > best:
                best, columns = score, []
            if score == best:
                columns.append(column)
        return columns


@compiled
def static_value(board: Board, own: np.uint64, occupied: np.uint64) -> int:
    """Return a score for threats and closeness to the middle column, for the side to move; far below `WIN_SCORE`."""
    opponent = own ^ occupied
    score = THREAT_SCORE * count_stones(winning_cells(board, own, occupied))
    score -= THREAT_SCORE * count_stones(winning_cells(board, opponent, occupied))
    for column in range(board.columns):
        cells = column_cells(board, column)
        worth = min(column, board.columns - 1 - column)
        score += worth * (count_stones(own & cells) - count_stones(opponent & cells))
    return score


@inlined
def column_from_middle(step: int, columns: int) -> int:
    """Return the ``step``-th column from the middle outwards (3, 2, 4, 1, 5, 0, 6): middle moves are usually better."""
    distance = (step + 1) // 2
    return columns // 2 + (distance if step % 2 == 0 else -distance)


@compiled
def negamax(board: Board, own: np.uint64, occupied: np.uint64, depth: int, ply: int, alpha: int, beta: int) -> int:
    """Score an unfinished position or a full board for the side to move by a search of ``depth`` plies.

    The score is exact within (alpha, beta), else a bound. ``ply`` is the number of moves since the root.

    Call it from Python only: it is recursive, and Numba crashes when it loads such a function from disk for another
    compiled function.
    """
    legal = legal_cells(board, occupied)
    if legal == U64_0:
        return 0
    if depth == 0:
        return static_value(board, own, occupied)
    if winning_cells(board, own, occupied) & legal != U64_0:
        return WIN_SCORE - ply - 1
    for step in range(board.columns):
        column = column_from_middle(step, board.columns)
        if legal & column_cells(board, column) != U64_0:
            next_own, next_occupied = play(board, own, occupied, column)
            alpha = max(alpha, -negamax(board, next_own, next_occupied, depth - 1, ply + 1, -beta, -alpha))
            if alpha >= beta:
                break
    return alpha

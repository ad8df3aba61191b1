"""Slow, plain implementations that share nothing with the code under test."""

import random
from functools import cache

Board = tuple[str, ...]  # a string of "x" and "o" for each column, bottom first


def drop(board: Board, column: int, side: str) -> Board:
    """The board with one more stone."""
    return (*board[:column], board[column] + side, *board[column + 1 :])


def wins(board: Board, side: str, rows: int, run: int, diagonals: bool = True) -> bool:
    """Whether a side has a run, by looking at every cell in every direction."""
    columns = len(board)

    def cell(column: int, row: int) -> str:
        return board[column][row] if 0 <= column < columns and 0 <= row < len(board[column]) else "."

    directions = [(1, 0), (0, 1)] + ([(1, 1), (1, -1)] if diagonals else [])
    return any(
        all(cell(column + i * dx, row + i * dy) == side for i in range(run))
        for column in range(columns)
        for row in range(rows)
        for dx, dy in directions
    )


def random_board(rng: random.Random, rows: int, columns: int, plies: int) -> tuple[Board, str]:
    """A board after random moves, wins ignored, and its move string."""
    board: Board = ("",) * columns
    moves = ""
    for ply in range(plies):
        column = rng.choice([c for c in range(columns) if len(board[c]) < rows])
        board = drop(board, column, "xo"[ply % 2])
        moves += str(column + 1)
    return board, moves


@cache
def minimax(board: Board, rows: int, run: int, diagonals: bool = True) -> tuple[int, int]:
    """``(outcome, plies to the end)`` for the side to move under perfect play: fastest wins, slowest losses."""
    side, other = ("x", "o") if sum(map(len, board)) % 2 == 0 else ("o", "x")
    if wins(board, other, rows, run, diagonals):
        return -1, 0
    legal = [column for column in range(len(board)) if len(board[column]) < rows]
    if not legal:
        return 0, 0
    results = []
    for column in legal:
        outcome, plies = minimax(drop(board, column, side), rows, run, diagonals)
        results.append((-outcome, plies + 1))
    best = max(outcome for outcome, _ in results)
    distances = [plies for outcome, plies in results if outcome == best]
    return best, max(distances) if best == -1 else min(distances)

"""Slow, plain implementations that share nothing with the code under test."""

import itertools
import random
from functools import cache

from alphac4.game import Board

Stacks = tuple[str, ...]  # a string of "x" and "o" for each column, bottom first


def drop(stacks: Stacks, column: int, side: str) -> Stacks:
    return (*stacks[:column], stacks[column] + side, *stacks[column + 1 :])


def wins(stacks: Stacks, side: str, rows: int, run: int, diagonals: bool = True) -> bool:
    """Return whether a side has a run, by checking every cell in every direction."""
    columns = len(stacks)

    def cell(column: int, row: int) -> str:
        return stacks[column][row] if 0 <= column < columns and 0 <= row < len(stacks[column]) else "."

    directions = [(1, 0), (0, 1)] + ([(1, 1), (1, -1)] if diagonals else [])
    return any(
        all(cell(column + i * dx, row + i * dy) == side for i in range(run))
        for column in range(columns)
        for row in range(rows)
        for dx, dy in directions
    )


def board_of(moves: str, columns: int = 7) -> Stacks:
    stacks: Stacks = ("",) * columns
    for ply, move in enumerate(moves):
        stacks = drop(stacks, int(move) - 1, "xo"[ply % 2])
    return stacks


def bits(stacks: Stacks, side: str, rows: int) -> int:
    """Return a side's stones as an integer: column by column, each with an empty cell on top."""
    return sum(
        1 << (c * (rows + 1) + r) for c, stack in enumerate(stacks) for r, stone in enumerate(stack) if stone == side
    )


def random_board(rng: random.Random, rows: int, columns: int, plies: int) -> tuple[Stacks, str]:
    """Return a board after random moves that ignore wins, and its move string."""
    stacks: Stacks = ("",) * columns
    moves = ""
    for ply in range(plies):
        column = rng.choice([c for c in range(columns) if len(stacks[c]) < rows])
        stacks = drop(stacks, column, "xo"[ply % 2])
        moves += str(column + 1)
    return stacks, moves


def naive_planes(stacks: Stacks, rows: int, run: int, diagonals: bool = True) -> list[list[list[float]]]:
    """Return all eight planes [8, rows, columns] for the side to move, X, by checking every line."""
    columns, plies = len(stacks), sum(map(len, stacks))
    cells = {(row, column): (stacks[column] + "." * rows)[row] for row in range(rows) for column in range(columns)}
    planes = [dict.fromkeys(cells, 0.0) for _ in range(8)]
    for (row, column), stone in cells.items():
        planes[0][row, column] = float(stone == "x")
        planes[1][row, column] = float(stone == "o")
        planes[4][row, column] = float(row == len(stacks[column]))
        planes[5][row, column] = float(row % 2 == plies % 2)
        for down, right in [(1, 0), (0, 1)] + [(1, 1), (1, -1)] * diagonals:
            line = [(row + i * down, column + i * right) for i in range(run)]
            if not all(cell in cells for cell in line):
                continue
            empty = [cell for cell in line if cells[cell] == "."]
            sides = {cells[cell] for cell in line} - {"."}
            for side, (completing, open_) in (("x", (2, 6)), ("o", (3, 7))):
                if len(empty) in (1, 2) and sides <= {side}:
                    planes[completing if len(empty) == 1 else open_] |= dict.fromkeys(empty, 1.0)
    return [[[plane[row, column] for column in range(columns)] for row in range(rows)] for plane in planes]


@cache
def minimax(stacks: Stacks, rows: int, run: int, diagonals: bool = True) -> tuple[int, int]:
    """Return ``(outcome, plies to the end)`` for the side to move with perfect play: fastest wins, slowest losses."""
    side, other = ("x", "o") if sum(map(len, stacks)) % 2 == 0 else ("o", "x")
    if wins(stacks, other, rows, run, diagonals):
        return -1, 0
    legal = [column for column in range(len(stacks)) if len(stacks[column]) < rows]
    if not legal:
        return 0, 0
    results = []
    for column in legal:
        outcome, plies = minimax(drop(stacks, column, side), rows, run, diagonals)
        results.append((-outcome, plies + 1))
    best = max(outcome for outcome, _ in results)
    distances = [plies for outcome, plies in results if outcome == best]
    return best, max(distances) if best == -1 else min(distances)


def naive_lines(board: Board) -> list[list[tuple[int, int]]]:
    """Return every line as a list of its cells (row, column)."""
    directions = [(1, 0), (0, 1)] + ([(1, 1), (-1, 1)] if board.diagonals else [])
    lines = []
    for row, column, (down, right) in itertools.product(range(board.rows), range(board.columns), directions):
        cells = [(row + i * down, column + i * right) for i in range(board.run_length)]
        if all(0 <= r < board.rows and 0 <= c < board.columns for r, c in cells):
            lines.append(cells)
    return lines

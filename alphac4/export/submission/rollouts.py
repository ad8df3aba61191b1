"""Search by UCB1 with random games."""

import math
import random

from alphac4.export.submission.board import Board
from alphac4.export.submission.tree import Node

EXPLORATION = math.sqrt(2.0)  # UCB1 on values in [-1, 1], Kocsis and Szepesvari 2006


class Rollouts:
    """Search by UCB1 with random games, on any board."""

    def __init__(self, board: Board, rng: random.Random) -> None:
        self.board = board
        self.rng = rng

    def evaluate(self, node: Node) -> None:
        """See `Guide`; the value is the result of one game of uniformly random moves."""
        board, own, occupied = self.board, node.own, node.occupied
        node.value, result = 0.0, 1.0
        while legal := board.legal(occupied):
            cell = 0
            while not cell:  # draw a column until one is open
                cell = legal & board.column_cells[int(self.rng.random() * board.columns)]
            if board.has_run(own | cell):
                node.value = result
                return
            own, occupied = own ^ occupied, occupied | cell
            result = -result

    def select(self, node: Node, is_root: bool) -> int:  # noqa: ARG002 - the root is a node like any other
        """A random untried move, or else the highest ``Q + c sqrt(log(N) / n)``."""
        moves = node.open_moves()
        untried = [i for i in moves if not node.visits[i]]
        if untried:
            return self.rng.choice(untried)
        log_total = math.log(sum(node.visits))
        return max(moves, key=lambda i: node.mean(i) + EXPLORATION * math.sqrt(log_total / node.visits[i]))

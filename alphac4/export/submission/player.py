"""Chooses moves by tree search until a deadline, led by a network or by random games."""

import time
from typing import Protocol

from alphac4.export.submission.board import Board
from alphac4.export.submission.tree import Node, as_value

MAX_SIMULATIONS = 200_000  # a move; bounds the memory where time does not


class Guide(Protocol):
    """What leads a search: an opinion of new nodes, and the choice of the move to try next."""

    def evaluate(self, node: Node) -> None:
        """Set the node's value and priors."""

    def select(self, node: Node, is_root: bool) -> int:
        """The index of the move to try in an unproven node."""


class SubmissionPlayer:
    """Chooses moves on one board; keeps the part of its tree that the next position follows from."""

    def __init__(self, board: Board, guide: Guide) -> None:
        self.board = board
        self.guide = guide
        self.root: Node | None = None

    def choose(self, own: int, occupied: int, deadline: float) -> int:
        """Search until the deadline on `time.perf_counter`; the column to play."""
        root = self.root = self._known(own, occupied) or self._new_node(own, occupied)
        if len(root.actions) > 1:
            for _ in range(MAX_SIMULATIONS):
                if root.outcome() is not None or time.perf_counter() > deadline:
                    break
                self.simulate(root)
        return root.best_action()

    def simulate(self, root: Node) -> None:
        """One walk to a new node or a proven move, and the backup of its value and proof."""
        path: list[tuple[Node, int]] = []
        node: Node | None = root
        while node is not None:
            i = self.guide.select(node, is_root=node is root)
            path.append((node, i))
            node = node.children[i] if node.proofs[i] is None else None
        node, i = path[-1]
        proof = node.proofs[i]
        if proof is None:
            cell = self.board.legal(node.occupied) & self.board.column_cells[node.actions[i]]
            node.children[i] = child = self._new_node(node.own ^ node.occupied, node.occupied | cell)
            value = -child.value
        else:
            value = as_value(proof)
        for node, i in reversed(path):
            node.visits[i] += 1
            node.value_sums[i] += value
            value = -value
            below = node.children[i]
            outcome = below.outcome() if below is not None and node.proofs[i] is None else None
            if outcome is not None:
                node.proofs[i] = -outcome + (outcome > 0) - (outcome < 0)  # one ply further from the end

    def _new_node(self, own: int, occupied: int) -> Node:
        node = Node(self.board, own, occupied)
        outcome = node.outcome()
        if outcome is None:
            self.guide.evaluate(node)
        else:
            node.value = as_value(outcome)
        return node

    def _known(self, own: int, occupied: int) -> Node | None:
        """The node of a position that is at most two moves below the last root."""
        nodes = [] if self.root is None else [self.root]
        for _ in range(3):
            for node in nodes:
                if (node.own, node.occupied) == (own, occupied):
                    return node
            nodes = [child for node in nodes for child in node.children if child is not None]
        return None

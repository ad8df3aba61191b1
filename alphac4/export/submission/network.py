"""Search by PUCT with a network, computed by numpy."""

import math

import numpy as np
import numpy.typing as npt

from alphac4.export.submission.board import Board
from alphac4.export.submission.tree import Node

# The settings of the search with a network, filled in from `alphac4.mcts.PuctConfig`, which explains them.
C_INIT = 1.25
C_BASE = 19652.0
FPU_REDUCTION = 0.25
ROOT_FPU_REDUCTION = 0.0
PRIOR_TEMPERATURE = 1.4

Array = npt.NDArray[np.float32]


class Network:
    """Search by PUCT with a policy/value network, computed by matrix products."""

    def __init__(self, board: Board, weights: dict[str, Array]) -> None:
        self.board = board
        self.bits = board.bits
        self.weights = weights
        self.blocks = sum(name.endswith("first.weight") for name in weights)
        rows, columns, outside = board.rows, board.columns, board.rows * board.columns
        # [cells, 9] the cells under a 3 x 3 kernel; those beyond the edge are the row of zeros after the last cell.
        self.neighbours = np.array(
            [
                [
                    r * columns + c if 0 <= r < rows and 0 <= c < columns else outside
                    for r in (row - 1, row, row + 1)
                    for c in (column - 1, column, column + 1)
                ]
                for row in range(rows)
                for column in range(columns)
            ]
        )

    def evaluate(self, node: Node) -> None:
        """See `Guide`."""
        # The network is asked about the canonical orientation, so that mirror images are searched alike.
        image = self.board.mirror(node.own), self.board.mirror(node.occupied)
        mirrored = sum(image) < node.own + node.occupied
        logits, wdl = self.predict(*image if mirrored else (node.own, node.occupied))
        logits = logits[::-1] if mirrored else logits
        # Illegal moves are left out before the softmax: a full column would otherwise absorb prior mass.
        weights = np.exp((logits[node.actions] - logits[node.actions].max()) / PRIOR_TEMPERATURE)
        node.priors = (weights / weights.sum()).tolist()
        node.value = float(wdl[0] - wdl[2])

    def predict(self, own: int, occupied: int) -> tuple[Array, Array]:
        """Policy logits [C] and win/draw/loss probabilities [3] for the side to move."""
        logits, wdl_logits = self.forward(own, occupied)
        wdl = np.exp(wdl_logits - wdl_logits.max())
        return logits, wdl / wdl.sum()

    def forward(self, own: int, occupied: int) -> tuple[Array, Array]:
        """Policy logits [C] and win/draw/loss logits [3] for the side to move."""
        seen = len(self.weights["stem.weight"]) // 9
        planes = self.board.planes(own, occupied)[:seen]
        cells = [[plane >> bit & 1 for plane in planes] for bit in self.bits]
        x = np.maximum(self._convolve("stem", np.array(cells, np.float32)), 0)
        for block in range(self.blocks):
            inner = np.maximum(self._convolve(f"tower.{block}.first", x), 0)
            x = np.maximum(x + self._convolve(f"tower.{block}.second", inner), 0)
        x = np.maximum(self._linear("heads", x), 0)  # both heads' channels side by side
        policy, value = np.split(x.T, 2)
        hidden = np.maximum(self._linear("value_hidden", value.ravel()), 0)
        return self._linear("policy", policy.ravel()), self._linear("value", hidden)

    def _convolve(self, name: str, x: Array) -> Array:
        """A 3 x 3 convolution of ``x`` [cells, inputs] as one product of [cells, 9 * inputs] and the weights."""
        padded = np.concatenate([x, np.zeros((1, x.shape[1]), np.float32)])
        return self._linear(name, padded[self.neighbours].reshape(len(x), -1))

    def _linear(self, name: str, x: Array) -> Array:
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]  # type: ignore[no-any-return]

    def select(self, node: Node, is_root: bool) -> int:
        """The highest ``Q + c(N) P sqrt(N + 1) / (1 + n)`` (Silver et al. 2018; N + 1 lets priors rank first visits).

        A move without a visit is taken to be worse than its parent by the reduction times the root of the visited
        priors (Wu 2019).
        """
        total = sum(node.visits)
        visited = sum(prior for prior, visits in zip(node.priors, node.visits, strict=True) if visits)
        reduction = ROOT_FPU_REDUCTION if is_root else FPU_REDUCTION
        unvisited_value = (node.value + sum(node.value_sums)) / (1 + total) - reduction * math.sqrt(visited)
        scale = (C_INIT + math.log((1 + total + C_BASE) / C_BASE)) * math.sqrt(total + 1)

        def score(i: int) -> float:
            value = node.mean(i) if node.visits[i] else unvisited_value
            return value + scale * node.priors[i] / (1 + node.visits[i])

        return max(node.open_moves(), key=score)

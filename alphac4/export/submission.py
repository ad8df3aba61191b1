"""An agent for Kaggle's ConnectX that needs nothing but numpy.

`alphac4 export --kaggle` copies this file with a network's weights filled in at the end; the copy is the submission.
Without weights, or on a board that they are not for, the agent is a classic tree search with random rollouts.

A position is two integers of any size: ``own``, the stones of the side to move, and ``occupied``, all stones. Each
column takes ``rows + 1`` bits, lowest cell first; the extra bit stays empty, so that shifted stones never wrap.
Values are from the side to move, everywhere. The sign flips in the backup only.
"""

import base64
import functools
import io
import math
import random
import time
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

SHARE_OF_TIME = 0.85  # of the act timeout; a slow moment beyond it comes off the game's bank of extra time
MOST_SIMULATIONS = 200_000  # a move; bounds the memory where time does not

# The settings of the search with a network, filled in from `alphac4.mcts.PuctConfig`, which explains them.
C_INIT = 1.25
C_BASE = 19652.0
FPU_REDUCTION = 0.25
ROOT_FPU_REDUCTION = 0.0
PRIOR_TEMPERATURE = 1.4
EXPLORATION = math.sqrt(2.0)  # UCB1 on values in [-1, 1], Kocsis and Szepesvari 2006

# A win in d plies is PROVEN_WIN - d, a loss in d plies d - PROVEN_WIN: the order of integers is that of preference.
PROVEN_WIN = 1_000_000

Array = npt.NDArray[np.float32]


class Board:
    """The rules on a board of any size."""

    def __init__(self, rows: int, columns: int, run_length: int) -> None:
        height = rows + 1
        self.rows = rows
        self.columns = columns
        self.run_length = run_length
        self.bottom = sum(1 << column * height for column in range(columns))
        self.cells = self.bottom * ((1 << rows) - 1)
        self.column_cells = [((1 << rows) - 1) << column * height for column in range(columns)]
        self.directions = (1, height, height - 1, height + 1)
        self.bits = [column * height + row for row in range(rows) for column in range(columns)]  # bottom row first

    def read(self, cells: list[int], mark: int) -> tuple[int, int]:
        """``own, occupied`` from Kaggle's flat board: row-major from the top, 0 empty, else the player's mark."""
        own = occupied = 0
        for row in range(self.rows):
            for column in range(self.columns):
                cell = cells[(self.rows - 1 - row) * self.columns + column]
                stone = 1 << self.bits[row * self.columns + column]
                own |= stone if cell == mark else 0
                occupied |= stone if cell else 0
        return own, occupied

    def mirror(self, stones: int) -> int:
        """The stones with the columns in reverse order."""
        height = self.rows + 1
        columns = (stones >> column * height & (1 << height) - 1 for column in range(self.columns))
        return sum(cells << (self.columns - 1 - column) * height for column, cells in enumerate(columns))

    def legal(self, occupied: int) -> int:
        """The cells where a stone can land, at most one a column."""
        return (occupied + self.bottom) & self.cells

    def has_run(self, stones: int) -> bool:
        """Whether these stones of one side hold a winning run."""
        for shift in self.directions:
            run = stones
            for _ in range(self.run_length - 1):
                run &= run >> shift
            if run:
                return True
        return False

    def winning_cells(self, stones: int, occupied: int) -> int:
        """Empty cells, reachable now or not, where one more of these stones completes a run."""
        found = 0
        others = self.run_length - 1
        for shift in self.directions:
            before, after = [self.cells], [self.cells]  # cells that follow, or precede, a run of 0, 1, 2, ... stones
            for _ in range(others):
                before.append((before[-1] & stones) << shift)
                after.append((after[-1] & stones) >> shift)
            for count in range(self.run_length):
                found |= before[count] & after[others - count]
        return found & self.cells & ~occupied


class Node:
    """An unfinished position with what is known of its legal moves; all lists are in the order of ``actions``."""

    __slots__ = ("actions", "children", "occupied", "own", "priors", "proofs", "value", "value_sums", "visits")

    def __init__(self, board: Board, own: int, occupied: int) -> None:
        self.own = own
        self.occupied = occupied
        self.value = 0.0  # the evaluation, or the proven outcome
        self.actions: list[int] = []
        self.proofs: list[int | None] = []
        legal = board.legal(occupied)
        wins = board.winning_cells(own, occupied)
        threats = board.winning_cells(own ^ occupied, occupied)
        for action, cells in enumerate(board.column_cells):
            cell = legal & cells
            if not cell:
                continue
            self.actions.append(action)
            if wins & cell:
                self.proofs.append(PROVEN_WIN - 1)
            elif occupied | cell == board.cells:
                self.proofs.append(0)
            elif threats & (legal & ~cell | cell << 1):  # the opponent's run is left open, or made possible
                self.proofs.append(2 - PROVEN_WIN)
            else:
                self.proofs.append(None)
        self.priors = [0.0] * len(self.actions)
        self.visits = [0] * len(self.actions)
        self.value_sums = [0.0] * len(self.actions)
        self.children: list[Node | None] = [None] * len(self.actions)

    def outcome(self) -> int | None:
        """The proven outcome for the side to move, if there is one (MCTS-Solver, Winands et al. 2008)."""
        best = max((proof for proof in self.proofs if proof is not None), default=-PROVEN_WIN)
        return None if best <= 0 and None in self.proofs else best

    def open_moves(self) -> list[int]:
        """The indices of the moves that are not proven to lose."""
        return [i for i, proof in enumerate(self.proofs) if proof is None or proof >= 0]

    def mean(self, i: int) -> float:
        """The mean value of a visited move."""
        return 0.0 if self.proofs[i] == 0 else self.value_sums[i] / self.visits[i]

    def best_action(self) -> int:
        """The proven best move, else the most visited one that is not proven to lose, else the one of the best value.

        Before the first visit, the move with the highest prior.
        """
        outcome = self.outcome()
        moves = self.open_moves()
        if outcome is not None:
            moves = [i for i, proof in enumerate(self.proofs) if proof == outcome]

        def rank(i: int) -> tuple[int, float]:
            visits = self.visits[i]
            if visits == 0:
                return 0, self.priors[i] if outcome is None else 0.0
            return visits, self.value_sums[i] / visits

        return self.actions[max(moves, key=rank)]


class Guide(Protocol):
    """What leads a search: an opinion of new nodes, and the choice of the move to try next."""

    def evaluate(self, node: Node) -> None:
        """Set the node's value and priors."""

    def select(self, node: Node, is_root: bool) -> int:
        """The index of the move to try in an unproven node."""


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
        theirs = own ^ occupied
        stones = [[own >> bit & 1, theirs >> bit & 1] for bit in self.bits]
        x = np.maximum(self._convolve("stem", np.array(stones, np.float32)), 0)
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
            for _ in range(MOST_SIMULATIONS):
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
            value = _value(proof)
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
            node.value = _value(outcome)
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


def _value(outcome: int) -> float:
    """A proven outcome as +1, 0 or -1."""
    return float((outcome > 0) - (outcome < 0))


@functools.cache
def player_for(rows: int, columns: int, run_length: int) -> SubmissionPlayer:
    """The player for a board: by the network if it is for that board, else by random rollouts."""
    board = Board(rows, columns, run_length)
    if WEIGHTS:
        with np.load(io.BytesIO(base64.b64decode(WEIGHTS))) as file:
            weights = {name: file[name].astype(np.float32) for name in file.files}
        if weights.pop("board").tolist() == [rows, columns, run_length]:
            return SubmissionPlayer(board, Network(board, weights))
    return SubmissionPlayer(board, Rollouts(board, random.Random()))


# The network as base64 of a compressed .npz file; empty for none.
WEIGHTS = ""


def agent(obs: Any, config: Any) -> int:
    """The column to play, as Kaggle asks for it: it takes the last function of this file."""
    deadline = time.perf_counter() + SHARE_OF_TIME * getattr(config, "actTimeout", 2.0)
    player = player_for(config.rows, config.columns, config.inarow)
    return player.choose(*player.board.read(obs.board, obs.mark), deadline)

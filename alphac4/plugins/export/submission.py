"""An agent for Kaggle's ConnectX that needs only numpy.

`alphac4 export --kaggle` writes this file with a network's weights. Without weights, or on another board than theirs,
the agent is a classic tree search with random games. The code has the structure of examples/alphazero.py, with proofs
in addition: wins in one ply, losses in two, and everything that follows from them.

Values are for the side to move, in [-1, 1]; +1 is a win. Columns are 0-based.
"""

import base64
import functools
import io
import math
import random
import time
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Position = tuple[int, int]  # own stones (those of the side to move) and all stones, as the bits of two integers

TIME_FRACTION = 0.85  # fraction of the act timeout; delays beyond it use up the game's extra time
MAX_SIMULATIONS = 200_000  # per move; bounds the memory if the time limit does not
EXPLORATION = math.sqrt(2.0)  # exploration constant of UCB1 on values in [-1, 1] (Kocsis and Szepesvari 2006)

# Settings of the search with a network, explained in `alphac4.mcts.puct.Puct`.
C_INIT = 1.25
C_BASE = 19652.0
FPU_REDUCTION = 0.25
ROOT_FPU_REDUCTION = 0.0
PRIOR_TEMPERATURE = 1.4


class Game:
    """The rules, on a board of any size.

    A column has rows + 1 bits, lowest cell first. The top bit is always empty, so stones that are shifted by a row, a
    column or a diagonal never wrap into the next column.
    """

    def __init__(self, rows: int, columns: int, run: int) -> None:
        self.rows, self.columns, self.run = rows, columns, run
        self.height = height = rows + 1
        self.directions = (1, height, height - 1, height + 1)  # up, right, and the two diagonals
        self.bits = [column * height + row for row in range(rows) for column in range(columns)]  # bottom row first
        self.bottom = sum(1 << column * height for column in range(columns))
        self.column_cells = [((1 << rows) - 1) << column * height for column in range(columns)]
        self.full = sum(self.column_cells)
        self.even_rows = sum(self.bottom << row for row in range(0, rows, 2))

    def read(self, cells: list[int], mark: int) -> Position:
        """Read Kaggle's flat board: rows from the top, 0 for an empty cell, else the player's mark."""
        own = occupied = 0
        for row in range(self.rows):
            for column in range(self.columns):
                cell = cells[(self.rows - 1 - row) * self.columns + column]
                stone = 1 << self.bits[row * self.columns + column]
                own |= stone if cell == mark else 0
                occupied |= stone if cell else 0
        return own, occupied

    def landing(self, occupied: int) -> int:
        """Return the cells where a stone can land, at most one per column."""
        return (occupied + self.bottom) & self.full

    def has_run(self, stones: int) -> bool:
        """Return whether the stones of one side contain a winning run."""
        for shift in self.directions:
            run = stones
            for _ in range(self.run - 1):
                run &= run >> shift
            if run:
                return True
        return False

    def mirror(self, stones: int) -> int:
        """Return the stones with the columns in reverse order."""
        columns = (stones >> column * self.height & (1 << self.height) - 1 for column in range(self.columns))
        return sum(cells << (self.columns - 1 - column) * self.height for column, cells in enumerate(columns))

    def completing(self, stones: int, occupied: int) -> int:
        """Return the empty cells, reachable or not, where another of these stones completes a run."""
        cells = 0
        for shift in self.directions:
            before, after = [self.full], [self.full]  # by k: cells with k stones directly before, or after, them
            for _ in range(self.run - 1):
                before.append((before[-1] & stones) << shift)
                after.append((after[-1] & stones) >> shift)
            for count in range(self.run):
                cells |= before[count] & after[self.run - 1 - count]
        return cells & self.full & ~occupied

    def cells_lacking_two(self, stones: int, occupied: int) -> int:
        """Return the empty cells of lines in which two cells are empty and all others hold these stones."""
        empty, cells = self.full & ~occupied, 0
        for shift in self.directions:
            lines = [-1, 0, 0]  # lowest cells of lines with no, one and two empty cells so far
            for step in range(self.run):
                here, gap = stones >> shift * step, empty >> shift * step
                lines = [lines[0] & here, lines[1] & here | lines[0] & gap, lines[2] & here | lines[1] & gap]
            for step in range(self.run):
                cells |= lines[2] << shift * step
        return cells & empty

    def planes(self, position: Position) -> list[int]:
        """Return the cells of each input plane; a network that sees only the stones uses the first two."""
        own, occupied = position
        even = occupied.bit_count() % 2 == 0
        sides = own, own ^ occupied
        completing, open_ = (
            [find(side, occupied) for side in sides] for find in (self.completing, self.cells_lacking_two)
        )
        rows = self.even_rows if even else self.full ^ self.even_rows
        return [*sides, *completing, self.landing(occupied), rows, *open_]


# A win in d plies is PROVEN_WIN - d, a loss in d plies d - PROVEN_WIN: larger is better for the side to move.
PROVEN_WIN = 1_000_000


class Node:
    """An unfinished position. Its lists have an entry per legal move, for the side to move."""

    def __init__(self, game: Game, position: Position) -> None:
        own, occupied = self.position = position
        self.value = 0.0  # the evaluation, or the proven outcome
        self.moves: list[int] = []
        self.proofs: list[int | None] = []
        landing = game.landing(occupied)
        wins, threats = game.completing(own, occupied), game.completing(own ^ occupied, occupied)
        for column, cells in enumerate(game.column_cells):
            cell = landing & cells
            if not cell:
                continue
            self.moves.append(column)
            if wins & cell:
                self.proofs.append(PROVEN_WIN - 1)
            elif occupied | cell == game.full:
                self.proofs.append(0)
            elif threats & (landing & ~cell | cell << 1):  # the opponent can complete a run
                self.proofs.append(2 - PROVEN_WIN)
            else:
                self.proofs.append(None)
        self.prior = [0.0] * len(self.moves)
        self.visits = [0] * len(self.moves)
        self.value_sum = [0.0] * len(self.moves)
        self.children: list[Node | None] = [None] * len(self.moves)

    def outcome(self) -> int | None:
        """Return the proven outcome for the side to move, or None (MCTS-Solver, Winands et al. 2008)."""
        best = max((proof for proof in self.proofs if proof is not None), default=-PROVEN_WIN)
        return None if best <= 0 and None in self.proofs else best

    def open_moves(self) -> list[int]:
        """Return the indices of the moves that are not proven losses."""
        return [i for i, proof in enumerate(self.proofs) if proof is None or proof >= 0]

    def mean(self, i: int) -> float:
        """Return the mean value of a visited move; 0 for a proven draw."""
        return 0.0 if self.proofs[i] == 0 else self.value_sum[i] / self.visits[i]

    def best_move(self) -> int:
        """Return the proven best move, otherwise the most visited one that is not a proven loss.

        Ties are broken by value, and before the first visit by prior.
        """
        outcome = self.outcome()
        candidates = self.open_moves()
        if outcome is not None:
            candidates = [i for i, proof in enumerate(self.proofs) if proof == outcome]

        def rank(i: int) -> tuple[int, float]:
            visits = self.visits[i]
            if visits == 0:
                return 0, self.prior[i] if outcome is None else 0.0
            return visits, self.value_sum[i] / visits

        return self.moves[max(candidates, key=rank)]


def as_value(outcome: int) -> float:
    """Convert a proven outcome to +1, 0 or -1."""
    return float((outcome > 0) - (outcome < 0))


class Network:
    """PUCT with a policy/value network, which is computed by matrix products."""

    def __init__(self, game: Game, weights: dict[str, Array]) -> None:
        self.game, self.weights = game, weights
        self.blocks = sum(name.endswith("first.weight") for name in weights)
        numbers = np.pad(np.arange(game.rows * game.columns).reshape(game.rows, game.columns), 1, constant_values=-1)
        windows = np.lib.stride_tricks.sliding_window_view(numbers, (3, 3))
        # [cells, 9]: the cells under a 3 x 3 kernel; -1 beyond the edge, for the row of zeros after the last cell.
        self.neighbours = windows.reshape(-1, 9)

    def evaluate(self, node: Node) -> None:
        """Set the node's value and priors."""
        # Mirror images share one evaluation, that of the canonical orientation.
        own, occupied = node.position
        image = self.game.mirror(own), self.game.mirror(occupied)
        mirrored = sum(image) < own + occupied
        logits, wdl = self.predict(image if mirrored else node.position)
        logits = logits[::-1] if mirrored else logits
        # Only legal moves enter the softmax, so that full columns get no prior.
        weights = np.exp((logits[node.moves] - logits[node.moves].max()) / PRIOR_TEMPERATURE)
        node.prior = (weights / weights.sum()).tolist()
        node.value = float(wdl[0] - wdl[2])

    def predict(self, position: Position) -> tuple[Array, Array]:
        """Compute policy logits [C] and win/draw/loss probabilities [3] for the side to move."""
        planes = self.game.planes(position)[: len(self.weights["stem.weight"]) // 9]
        x = np.array([[plane >> bit & 1 for plane in planes] for bit in self.game.bits], np.float32)
        x = np.maximum(self._convolve("stem", x), 0)
        for block in range(self.blocks):
            inner = np.maximum(self._convolve(f"tower.{block}.first", x), 0)
            x = np.maximum(x + self._convolve(f"tower.{block}.second", inner), 0)
        x = np.maximum(self._linear("heads", x), 0)  # both heads' channels side by side
        policy, value = np.split(x.T, 2)
        hidden = np.maximum(self._linear("value_hidden", value.ravel()), 0)
        wdl = self._linear("value", hidden)
        wdl = np.exp(wdl - wdl.max())
        return self._linear("policy", policy.ravel()), wdl / wdl.sum()

    def _convolve(self, name: str, x: Array) -> Array:
        """Compute a 3 x 3 convolution of ``x`` [cells, inputs] as a product of [cells, 9 * inputs] and the weights."""
        padded = np.concatenate([x, np.zeros((1, x.shape[1]), np.float32)])
        return self._linear(name, padded[self.neighbours].reshape(len(x), -1))

    def _linear(self, name: str, x: Array) -> Array:
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]  # type: ignore[no-any-return]

    def select(self, node: Node, is_root: bool) -> int:
        """Return the index of the move with the highest ``Q + c(N) P sqrt(N + 1) / (1 + n)`` (Silver et al. 2018).

        With N + 1, priors also rank the first visits. The value of an unvisited move is that of its parent, less the
        reduction times the square root of the sum of visited priors (Wu 2019).
        """
        total = sum(node.visits)
        visited = sum(prior for prior, visits in zip(node.prior, node.visits, strict=True) if visits)
        reduction = ROOT_FPU_REDUCTION if is_root else FPU_REDUCTION
        unvisited = (node.value + sum(node.value_sum)) / (1 + total) - reduction * math.sqrt(visited)
        weight = (C_INIT + math.log((1 + total + C_BASE) / C_BASE)) * math.sqrt(total + 1)

        def score(i: int) -> float:
            value = node.mean(i) if node.visits[i] else unvisited
            return value + weight * node.prior[i] / (1 + node.visits[i])

        return max(node.open_moves(), key=score)


class Rollouts:
    """UCB1 with random games."""

    def __init__(self, game: Game, rng: random.Random) -> None:
        self.game, self.rng = game, rng

    def evaluate(self, node: Node) -> None:
        """Set the node's value to the result of one game of uniformly random moves."""
        game, (own, occupied) = self.game, node.position
        node.value, result = 0.0, 1.0
        while landing := game.landing(occupied):
            cell = 0
            while not cell:  # draw a column until one is open
                cell = landing & game.column_cells[int(self.rng.random() * game.columns)]
            if game.has_run(own | cell):
                node.value = result
                return
            own, occupied = own ^ occupied, occupied | cell
            result = -result

    def select(self, node: Node, is_root: bool) -> int:  # noqa: ARG002 - of the common interface
        """Return the index of a random untried move, otherwise of that with the highest ``Q + c sqrt(log(N) / n)``."""
        moves = node.open_moves()
        untried = [i for i in moves if not node.visits[i]]
        if untried:
            return self.rng.choice(untried)
        log_total = math.log(sum(node.visits))
        return max(moves, key=lambda i: node.mean(i) + EXPLORATION * math.sqrt(log_total / node.visits[i]))


class Searcher:
    """Search on one board, which reuses its tree for the next position of a game."""

    def __init__(self, game: Game, guide: "Network | Rollouts") -> None:
        self.game, self.guide = game, guide
        self.root: Node | None = None

    def choose(self, position: Position, deadline: float) -> int:
        """Search until the deadline on `time.perf_counter`; return the column to play."""
        root = self.root = self._find_node(position) or self.new_node(position)
        if len(root.moves) > 1:
            for _ in range(MAX_SIMULATIONS):
                if root.outcome() is not None or time.perf_counter() > deadline:
                    break
                self.simulate(root)
        return root.best_move()

    def simulate(self, root: Node) -> None:
        """Walk to a new node or a proven move, and back up its value and proof."""
        path: list[tuple[Node, int]] = []
        node: Node | None = root
        while node is not None:
            i = self.guide.select(node, is_root=node is root)
            path.append((node, i))
            node = node.children[i] if node.proofs[i] is None else None
        node, i = path[-1]
        proof = node.proofs[i]
        if proof is None:
            own, occupied = node.position
            cell = self.game.landing(occupied) & self.game.column_cells[node.moves[i]]
            node.children[i] = child = self.new_node((own ^ occupied, occupied | cell))
            value = -child.value
        else:
            value = as_value(proof)
        for node, i in reversed(path):
            node.visits[i] += 1
            node.value_sum[i] += value
            value = -value  # for the other side
            below = node.children[i]
            outcome = below.outcome() if below is not None and node.proofs[i] is None else None
            if outcome is not None:
                node.proofs[i] = -outcome + (outcome > 0) - (outcome < 0)  # one ply further from the end

    def new_node(self, position: Position) -> Node:
        """Create a node with its value: the proven outcome, or the guide's evaluation."""
        node = Node(self.game, position)
        outcome = node.outcome()
        if outcome is None:
            self.guide.evaluate(node)
        else:
            node.value = as_value(outcome)
        return node

    def _find_node(self, position: Position) -> Node | None:
        """Return the node of a position at most two moves below the last root, or None."""
        nodes = [] if self.root is None else [self.root]
        for _ in range(3):
            for node in nodes:
                if node.position == position:
                    return node
            nodes = [child for node in nodes for child in node.children if child is not None]
        return None


@functools.cache
def player_for(rows: int, columns: int, run: int) -> Searcher:
    """Return the player for a board: with the network if it is for that board, else with random games."""
    game = Game(rows, columns, run)
    if WEIGHTS:
        with np.load(io.BytesIO(base64.b64decode(WEIGHTS))) as file:
            weights = {name: file[name].astype(np.float32) for name in file.files}
        if weights.pop("board").tolist() == [rows, columns, run]:
            return Searcher(game, Network(game, weights))
    return Searcher(game, Rollouts(game, random.Random()))


def entry(record: Any, name: str, default: Any = None) -> Any:
    """Return an entry of Kaggle's observation or configuration, which is a dictionary or an object."""
    return record.get(name, default) if isinstance(record, dict) else getattr(record, name, default)


# A compressed .npz file with the network as base64, or "" for no network.
WEIGHTS = ""


def agent(obs: Any, config: Any) -> int:
    """Return the column to play. Kaggle calls the last function of the file."""
    deadline = time.perf_counter() + TIME_FRACTION * entry(config, "actTimeout", 2.0)
    board = {"rows": 6, "columns": 7, "inarow": 4}  # ConnectX's defaults
    player = player_for(*(entry(config, name, default) for name, default in board.items()))
    return player.choose(player.game.read(entry(obs, "board"), entry(obs, "mark")), deadline)

"""Search a batch of positions to a budget of simulations or time, by either kind of tree search."""

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.game import Geometry, Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.game.rules import STANDARD
from alphac4.mcts.puct import PuctConfig, expand, write_leaf
from alphac4.mcts.results import NodeView, SearchResult, principal_variation, root_wdl
from alphac4.mcts.selection import Selection, action_scores
from alphac4.mcts.simulation import simulate
from alphac4.mcts.tree import (
    NO_NODE,
    PROVEN_DRAW,
    ROOT,
    UNPROVEN,
    Trees,
    advance_root,
    best_action,
    make_trees,
    node_proof,
    plant,
    proof_value,
    root_value,
    root_visits,
)

Planes = npt.NDArray[np.float32]

Reuse = Literal["nothing", "proofs", "trees"]
"""What a search keeps for positions that follow: nothing, trees whose root is proven, so that they need no second
search, or every tree."""

NODES_A_SECOND = 1_500_000  # more than classic search makes on one core


class Evaluate(Protocol):
    """What a network-guided search asks of a network."""

    def evaluate(self, planes: Planes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """``planes`` [B, 2, R, C] to policy logits [B, C] and win/draw/loss probabilities [B, 3]."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """When a search stops: after so many simulations, or so many seconds, whichever comes first.

    No simulations at all ask a network for its raw policy; a tree search needs at least one.
    """

    simulations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.simulations is None and self.seconds is None:
            raise ValueError("a search needs a budget: simulations, seconds or both")
        if (self.simulations is not None and self.simulations < 0) or (self.seconds is not None and self.seconds <= 0):
            raise ValueError("a search's budget must be positive")


@inlined
def walk_to_leaf(geometry: Geometry, trees: Trees, t: int, target: int, selection: Selection) -> bool:
    """Simulate until a leaf waits for its evaluation; False once the root has ``target`` visits or is proven."""
    while (
        trees.leaf[t] == NO_NODE
        and root_visits(trees, t) < target
        and trees.size[t] < trees.parent.shape[1]
        and node_proof(trees, t, ROOT) == UNPROVEN
    ):
        simulate(geometry, trees, t, selection, NO_NODE)
    return bool(trees.leaf[t] != NO_NODE)


@compiled
def step(
    geometry: Geometry,
    trees: Trees,
    count: int,
    targets: npt.NDArray[np.int64],
    selection: Selection,
    logits: npt.NDArray[np.float32],
    wdl: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int32],
    evaluated: int,
    planes: Planes,
) -> int:
    """Give the last step's leaves their evaluations, then walk each tree to its next leaf.

    ``targets`` [T] are the root visits to reach. ``rows`` [T] holds the tree of each row of the batch: of the
    ``evaluated`` rows coming in, of the returned number of rows going out in ``planes``.
    """
    for row in range(evaluated):
        expand(geometry, trees, rows[row], logits[row], wdl[row], selection)
    waiting = 0
    for t in range(count):
        if walk_to_leaf(geometry, trees, t, targets[t], selection):
            rows[waiting] = t
            write_leaf(geometry, trees, t, planes[waiting], np.float32(1))
            waiting += 1
    return waiting


class TreeSearch(ABC):
    """Keeps the trees of a batch of positions between calls; the two kinds of search differ in `_run`."""

    roots = 1  # trees of each position

    def __init__(self, geometry: Geometry, rng: np.random.Generator, reuse: Reuse, selection: Selection) -> None:
        self.geometry = geometry
        self.selection = selection
        self.reuse = reuse
        self._rng = rng
        self._trees: Trees | None = None
        self._positions: list[Position] = []

    def search(self, positions: Sequence[Position], budget: Budget, nodes: int = 200_000) -> SearchResult:
        """Search every position, none of which may be finished, for ``budget`` each.

        Time is spent on one position after the other. What ``reuse`` names is kept for positions that follow from
        those of the last call, wherever they stand in the batch, if their moves are known.
        ``nodes`` bounds a tree's memory when only time bounds the search; about 130 bytes each.
        """
        if budget.simulations == 0:
            raise ValueError("a tree search needs at least one simulation")
        for position in positions:
            if position.geometry != self.geometry:
                raise ValueError("this search was made for a board of another shape")
            if position.outcome() is not None:
                raise ValueError(f"the game is over, there is nothing to search:\n{position}")
        capacity = nodes if budget.simulations is None else budget.simulations + 1
        started = time.perf_counter()
        trees = self._prepare(positions, capacity)
        count = len(positions)
        before = np.array([root_visits(trees, t) for t in range(count)], dtype=np.int64)
        targets = before + (budget.simulations or 2**30)
        if budget.seconds is None:
            self._run(trees, count, targets, None)
        else:
            for first in range(0, count, self.roots):
                turn = np.zeros_like(targets)
                turn[first : first + self.roots] = targets[first : first + self.roots]
                begun = time.perf_counter() if first else started
                self._run(trees, count, turn, begun + budget.seconds)
        return self._result(trees, count, before, time.perf_counter() - started)

    def forget(self) -> None:
        """Keep nothing of the searches so far, as for a network with other weights; the memory stays."""
        self._positions = []

    def _prepare(self, positions: Sequence[Position], capacity: int) -> Trees:
        """Trees whose roots are these positions, with room for ``capacity`` more nodes each."""
        trees = self._trees
        sources = [None] * len(positions) if self.reuse == "nothing" else self._sources(positions)
        kept = max((int(trees.size[row]) for row in sources if row is not None and trees is not None), default=0)
        room = capacity + kept if self.reuse == "trees" else max(capacity, kept)  # proven trees grow no more
        if trees is None or len(trees.size) < len(positions) or trees.parent.shape[1] < room:
            trees = self._enlarged(trees, len(positions), room)
            self._trees = trees
        _gather(trees, sources, kept)
        for t, (position, row) in enumerate(zip(positions, sources, strict=True)):
            if row is None:
                plant(self.geometry, trees, t, position.own, position.occupied, self.selection.look_ahead)
            else:
                for name in (position.moves or "")[len(self._positions[row].moves or "") :]:
                    advance_root(self.geometry, trees, t, COLUMN_NAMES.index(name), self.selection.look_ahead)
        self._positions = list(positions)
        return trees

    def _sources(self, positions: Sequence[Position]) -> list[int | None]:
        """The tree of the last call from whose position each follows; one tree for one position, None without."""
        rows: dict[str, list[int]] = {}
        for row, position in enumerate(self._positions):
            if position.moves is not None and (self.reuse == "trees" or self._is_proven(row)):
                rows.setdefault(position.moves, []).append(row)
        sources = []
        for position in positions:
            moves = position.moves
            starts = () if moves is None else (moves[:ply] for ply in range(len(moves), -1, -1))
            found = next((rows[start] for start in starts if rows.get(start)), [])
            sources.append(found.pop(0) if found else None)
        return sources

    def _is_proven(self, row: int) -> bool:
        return self._trees is not None and node_proof(self._trees, row, ROOT) != UNPROVEN

    def _enlarged(self, old: Trees | None, count: int, nodes: int) -> Trees:
        """New trees with more room that hold what the old ones did."""
        new = make_trees(max(count, 0 if old is None else len(old.size)), nodes, self.geometry, self._rng)
        if old is not None:
            for name in Trees._fields:
                source, target = getattr(old, name), getattr(new, name)
                if name != "rng":
                    part = tuple(slice(0, min(n, m)) for n, m in zip(source.shape, target.shape, strict=True))
                    target[part] = source[part]
        return new

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """The node that the 0-based columns ``path`` lead to in the tree of the ``index``-th position searched last.

        Raises:
            ValueError: if there is no such tree, or it does not reach that far.
        """
        if self._trees is None or not 0 <= index < len(self._positions):
            raise ValueError(f"there is no tree {index}")
        trees, node, position = self._trees, ROOT, self._positions[index]
        for depth, column in enumerate(path):
            child = int(trees.child[index, node, column]) if 0 <= column < self.geometry.columns else NO_NODE
            if child == NO_NODE:
                line = " ".join(str(c + 1) for c in path[: depth + 1])
                raise ValueError(f"the search has not looked beyond {line}")
            node, position = child, position.play(column)
        return self._view(trees, index, node, position)

    def detach(self) -> Self:
        """The trees searched last, in a search of their own; this one begins anew with the next positions."""
        detached = copy.copy(self)
        self._trees, self._positions = None, []
        return detached

    def _view(self, trees: Trees, t: int, node: int, position: Position) -> NodeView:
        visits = trees.visits[t, node].astype(np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = trees.value_sum[t, node] / visits.astype(np.float64)
        total = int(visits.sum())
        proof = node_proof(trees, t, node) if self.selection.proofs else UNPROVEN
        value = (float(trees.value[t, node]) + float(trees.value_sum[t, node].sum())) / (1 + total)
        return NodeView(
            position=position,
            visits=visits,
            values=np.where(visits > 0, values, np.nan),
            priors=trees.prior[t, node].astype(np.float64),
            scores=self._scores(trees, t, node),
            proofs=trees.proof[t, node].astype(np.int64),
            value=value if proof == UNPROVEN else float(proof_value(proof)),
            total_visits=total,
        )

    def _scores(self, trees: Trees, t: int, node: int) -> npt.NDArray[np.float64]:
        scores = np.empty(self.geometry.columns)
        action_scores(trees, t, node, self.selection, scores)
        return scores

    @abstractmethod
    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        """Simulate in the first ``count`` trees until their root visits reach ``targets`` or time is up."""

    def _result(self, trees: Trees, count: int, before: npt.NDArray[np.int64], seconds: float) -> SearchResult:
        visits = trees.visits[:count, ROOT].astype(np.int64)
        proofs = trees.proof[:count, ROOT].astype(np.int64)
        value = np.array([root_value(trees, t) for t in range(count)])
        proven = np.array([node_proof(trees, t, ROOT) for t in range(count)])
        draw = trees.draw_sum[:count] / np.maximum(trees.draw_count[:count], 1)
        draw = np.where(proven == UNPROVEN, draw, proven == PROVEN_DRAW)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = trees.value_sum[:count, ROOT] / visits.astype(np.float64)
        return SearchResult(
            moves=np.array([best_action(trees, t) for t in range(count)], dtype=np.int64),
            visits=visits,
            values=np.where(visits > 0, values, np.nan),
            priors=trees.prior[:count, ROOT].astype(np.float64),
            scores=np.array([self._scores(trees, t, ROOT) for t in range(count)]),
            proofs=proofs,
            value=value,
            wdl=root_wdl(value, draw),
            simulations=visits.sum(axis=1) - before,
            seconds=seconds,
            variations=[principal_variation(trees, t) for t in range(count)],
        )


class NetworkSearch(TreeSearch):
    """PUCT guided by a network: one evaluator call a step for the whole batch."""

    def __init__(
        self,
        evaluator: Evaluate,
        config: PuctConfig | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator,
        reuse: Reuse = "nothing",
    ) -> None:
        super().__init__(geometry, rng, reuse, (config or PuctConfig()).selection())
        self.evaluator = evaluator

    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        geometry = self.geometry
        planes = np.zeros((count, 2, geometry.rows, geometry.columns), np.float32)
        rows = np.zeros(count, np.int32)
        logits, wdl = np.zeros((count, geometry.columns), np.float32), np.zeros((count, 3), np.float32)
        waiting = 0
        while True:
            waiting = step(geometry, trees, count, targets, self.selection, logits, wdl, rows, waiting, planes)
            if waiting == 0:
                return
            logits, wdl = self.evaluator.evaluate(planes[:waiting])
            if deadline is not None and time.perf_counter() > deadline:
                targets = np.zeros_like(targets)  # take in this last evaluation, then stop


def _gather(trees: Trees, sources: Sequence[int | None], nodes: int) -> None:
    """Bring the first ``nodes`` nodes of tree ``sources[t]`` into tree t, wherever that is another."""
    moved = [(t, row) for t, row in enumerate(sources) if row not in (None, t)]
    if moved:
        to, out_of = (np.array(column) for column in zip(*moved, strict=True))
        for name in set(Trees._fields) - {"rng"}:
            array = getattr(trees, name)
            if array.ndim == 1:
                array[to] = array[out_of]
            else:
                array[to, :nodes] = array[out_of, :nodes]

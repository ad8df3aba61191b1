"""Search a batch of positions to a budget of simulations or time, by either kind of tree search."""

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled
from alphac4.game import Geometry, Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.game.rules import STANDARD
from alphac4.mcts.puct import PuctConfig, expand, write_planes
from alphac4.mcts.selection import Selection, action_scores
from alphac4.mcts.simulation import simulate
from alphac4.mcts.tree import (
    ILLEGAL,
    NO_NODE,
    PROVEN_DRAW,
    PROVEN_WIN,
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
from alphac4.mcts.uct import UctConfig, final_move, run_uct

Planes = npt.NDArray[np.float32]

NODES_A_SECOND = 1_500_000  # more than classic search makes on one core


class Evaluate(Protocol):
    """What a network-guided search asks of a network."""

    def evaluate(self, planes: Planes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """``planes`` [B, 2, R, C] to policy logits [B, C] and win/draw/loss probabilities [B, 3]."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """When a search stops: after so many simulations, or so many seconds, whichever comes first."""

    simulations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.simulations is None and self.seconds is None:
            raise ValueError("a search needs a budget: simulations, seconds or both")
        if (self.simulations is not None and self.simulations < 1) or (self.seconds is not None and self.seconds <= 0):
            raise ValueError("a search's budget must be positive")


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What the searches of B positions saw at their roots."""

    moves: npt.NDArray[np.int64]  # [B] the move to play, 0-based column
    visits: npt.NDArray[np.int64]  # [B, A]
    values: npt.NDArray[np.float64]  # [B, A] mean value to the side to move in [-1, 1]; NaN where unvisited
    priors: npt.NDArray[np.float64]  # [B, A]
    scores: npt.NDArray[np.float64]  # [B, A] the selection rule's, as the next simulation sees them; NaN if full
    proofs: npt.NDArray[np.int64]  # [B, A] see `alphac4.mcts.tree`: UNPROVEN, ILLEGAL or a proven outcome
    value: npt.NDArray[np.float64]  # [B] the root's value to the side to move
    wdl: npt.NDArray[np.float64]  # [B, 3] its win/draw/loss shares; exact where the root is proven
    simulations: npt.NDArray[np.int64]  # [B] simulations run for this call
    seconds: float  # wall time of the whole batch
    variations: list[list[int]]  # [B] principal variations, 0-based columns

    def describe_proof(self, index: int, column: int) -> str:
        """What is proven of a move, such as "wins in 3", "draws" or "loses in 4"; empty where nothing is."""
        return describe_proof(int(self.proofs[index, column]))


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """What a search knows of one node of its tree."""

    position: Position
    visits: npt.NDArray[np.int64]  # [A]
    values: npt.NDArray[np.float64]  # [A] mean value to the side to move; NaN where unvisited
    priors: npt.NDArray[np.float64]  # [A]
    scores: npt.NDArray[np.float64]  # [A]
    proofs: npt.NDArray[np.int64]  # [A]
    value: float  # the node's own, to its side to move
    total_visits: int  # of its moves

    def describe_proof(self, column: int) -> str:
        """What is proven of a move; see `SearchResult.describe_proof`."""
        return describe_proof(int(self.proofs[column]))


def describe_proof(proof: int) -> str:
    """A proven outcome in words, such as "wins in 3" plies; empty for none."""
    if proof in (ILLEGAL, UNPROVEN):
        return ""
    if proof == PROVEN_DRAW:
        return "draws"
    return f"wins in {PROVEN_WIN - proof}" if proof > 0 else f"loses in {PROVEN_WIN + proof}"


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
        expand(trees, rows[row], logits[row], wdl[row], selection)
    waiting = 0
    capacity = trees.parent.shape[1]
    for t in range(count):
        while (
            trees.leaf[t] == NO_NODE
            and root_visits(trees, t) < targets[t]
            and trees.size[t] < capacity
            and node_proof(trees, t, ROOT) == UNPROVEN
        ):
            simulate(geometry, trees, t, selection, NO_NODE)
        if trees.leaf[t] != NO_NODE:
            rows[waiting] = t
            write_planes(geometry, trees.leaf_own[t], trees.leaf_occupied[t], planes[waiting])
            waiting += 1
    return waiting


class TreeSearch(ABC):
    """Keeps the trees of a batch of positions between calls; the two kinds of search differ in `_run`."""

    def __init__(self, geometry: Geometry, rng: np.random.Generator, reuse: bool, selection: Selection) -> None:
        self.geometry = geometry
        self.selection = selection
        self.reuse = reuse
        self._rng = rng
        self._trees: Trees | None = None
        self._positions: list[Position] = []

    def search(self, positions: Sequence[Position], budget: Budget, nodes: int = 200_000) -> SearchResult:
        """Search every position, none of which may be finished, for ``budget`` each.

        With ``reuse``, the i-th tree is kept if the i-th position follows from the one searched before.
        ``nodes`` bounds a tree's memory when only time bounds the search; about 130 bytes each.
        """
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
        deadline = None if budget.seconds is None else started + budget.seconds
        self._run(trees, count, before + (budget.simulations or 2**30), deadline)
        return self._result(trees, count, before, time.perf_counter() - started)

    def _prepare(self, positions: Sequence[Position], capacity: int) -> Trees:
        """Trees whose roots are these positions, with room for ``capacity`` more nodes each."""
        trees = self._trees
        followed = self._follow(trees, positions) if self.reuse and trees is not None else [False] * len(positions)
        kept = int(trees.size[: len(positions)].max()) if trees is not None and any(followed) else 0
        if trees is None or len(trees.size) < len(positions) or trees.parent.shape[1] < capacity + kept:
            trees = self._enlarged(trees, len(positions), capacity + kept)
            self._trees = trees
        for t, position in enumerate(positions):
            if not followed[t]:
                plant(self.geometry, trees, t, position.own, position.occupied, self.selection.look_ahead)
        self._positions = list(positions)
        return trees

    def _follow(self, trees: Trees, positions: Sequence[Position]) -> list[bool]:
        """Move each kept root along the moves played since; False where a position does not follow from the last."""
        followed = []
        for t, now in enumerate(positions):
            before = self._positions[t] if t < len(self._positions) else None
            follows = (
                before is not None
                and before.moves is not None
                and now.moves is not None
                and now.moves.startswith(before.moves)
            )
            if follows and before is not None and now.moves is not None:
                for name in now.moves[len(before.moves or "") :]:
                    advance_root(self.geometry, trees, t, COLUMN_NAMES.index(name), self.selection.look_ahead)
            followed.append(follows)
        return followed

    def _enlarged(self, old: Trees | None, count: int, nodes: int) -> Trees:
        """New trees with more room that hold what the old ones did."""
        new = make_trees(count, nodes, self.geometry, self._rng)
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
            wdl=_win_draw_loss(trees, count, value),
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
        reuse: bool = False,
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


class UctSearch(TreeSearch):
    """Classic MCTS with random rollouts; ``threads`` trees are searched at a time.

    With ``roots`` above 1 every position gets that many trees, which share its simulations out and whose root
    statistics are added up: root parallelisation (Chaslot et al. 2008), which pays on as many threads. Given time
    instead, every tree has all of it.
    """

    def __init__(
        self,
        config: UctConfig | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator,
        reuse: bool = False,
        threads: int = 1,
        roots: int = 1,
    ) -> None:
        if threads < 1 or roots < 1:
            raise ValueError("threads and roots must be at least 1")
        self.config = config or UctConfig()
        super().__init__(geometry, rng, reuse, self.config.selection())
        self.threads = threads
        self.roots = roots
        self._pool = ThreadPoolExecutor(threads)

    def search(self, positions: Sequence[Position], budget: Budget, nodes: int | None = None) -> SearchResult:
        """See `TreeSearch.search`; by default there is room for what a fast core can do in the time given."""
        if nodes is None:
            nodes = min(4_000_000, int(200_000 + NODES_A_SECOND * (budget.seconds or 0.0)))
        if self.roots == 1:
            return super().search(positions, budget, nodes)
        share = None if budget.simulations is None else -(-budget.simulations // self.roots)
        each = Budget(simulations=share, seconds=budget.seconds)
        return self._merged(super().search([p for p in positions for _ in range(self.roots)], each, nodes))

    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        if deadline is None:
            list(self._pool.map(lambda t: self._simulate(trees, t, int(targets[t])), range(count)))
            return
        chunk = max(1, 256 // count)
        left = list(range(count))
        while left:  # a chunk each in turn, so that all get their share, and at least one
            goals = [min(root_visits(trees, t) + chunk, int(targets[t])) for t in left]
            before = time.perf_counter()
            list(self._pool.map(lambda t, goal: self._simulate(trees, t, goal), left, goals))
            spent = time.perf_counter() - before  # a look at the clock every millisecond or so
            chunk = chunk * 2 if spent < 0.0005 else max(1, chunk // 2) if spent > 0.002 else chunk
            left = [  # the others are proven, out of memory, or done
                t for t, goal in zip(left, goals, strict=True) if goal <= root_visits(trees, t) < targets[t]
            ]
            if time.perf_counter() > deadline:
                return

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `TreeSearch.node`; of several roots the first."""
        return super().node(index * self.roots, path)

    def _simulate(self, trees: Trees, t: int, target: int) -> None:
        config = self.config
        run_uct(
            self.geometry,
            trees,
            t,
            t + 1,
            target,
            self.selection,
            config.rollouts(),
            config.plain_rollouts,
            config.expansion == "all",
        )

    def _result(self, trees: Trees, count: int, before: npt.NDArray[np.int64], seconds: float) -> SearchResult:
        result = super()._result(trees, count, before, seconds)
        if self.roots > 1 or (self.config.final == "visits" and self.config.proofs):
            return result
        return dataclasses.replace(result, moves=self._final_moves(result))

    def _final_moves(self, result: SearchResult) -> npt.NDArray[np.int64]:
        rows = zip(result.visits, result.values, result.scores, result.proofs, strict=True)
        return np.array([final_move(*row, rule=self.config.final) for row in rows], np.int64)

    def _merged(self, parts: SearchResult) -> SearchResult:
        """The searches of each position's trees as one."""
        shape = (-1, self.roots, self.geometry.columns)
        visits = parts.visits.reshape(shape)
        weights = np.where(visits > 0, visits, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = np.nansum(parts.values.reshape(shape) * weights, axis=1)
            values = sums / visits.sum(axis=1)
        proofs = parts.proofs.reshape(shape)
        proven = np.where(proofs == UNPROVEN, -129, proofs).max(axis=1)  # what one tree has proven holds for all
        proven = np.where(proven == -129, UNPROVEN, proven)
        per_tree = visits.sum(axis=2) + 1
        value = (parts.value.reshape(-1, self.roots) * per_tree).sum(axis=1) / per_tree.sum(axis=1)
        wdl = (parts.wdl.reshape(-1, self.roots, 3) * per_tree[:, :, None]).sum(axis=1) / per_tree.sum(axis=1)[:, None]
        with np.errstate(invalid="ignore"):
            known = np.isfinite(parts.scores).reshape(shape)
            scores = np.where(known, parts.scores.reshape(shape), 0.0).sum(axis=1) / known.sum(axis=1)
        merged = dataclasses.replace(
            parts,
            moves=parts.moves[:: self.roots],
            visits=visits.sum(axis=1),
            values=values,
            priors=parts.priors.reshape(shape).mean(axis=1),
            scores=scores,
            proofs=proven,
            value=value,
            wdl=wdl,
            simulations=parts.simulations.reshape(-1, self.roots).sum(axis=1),
        )
        moves = self._final_moves(merged)
        variations = []
        for index, move in enumerate(moves):
            lines = parts.variations[index * self.roots : (index + 1) * self.roots]
            variations.append(max((line for line in lines if line[:1] == [move]), key=len, default=[int(move)]))
        return dataclasses.replace(merged, moves=moves, variations=variations)


def _win_draw_loss(trees: Trees, count: int, value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Win/draw/loss shares [B, 3] from the roots' values and the share of draws among all that was evaluated."""
    draw = trees.draw_sum[:count] / np.maximum(trees.draw_count[:count], 1)
    proofs = np.array([node_proof(trees, t, ROOT) for t in range(count)])
    draw = np.where(proofs == UNPROVEN, draw, proofs == PROVEN_DRAW)
    draw = np.clip(draw, 0.0, 1.0 - np.abs(value))
    return np.clip(np.stack([(1 - draw + value) / 2, draw, (1 - draw - value) / 2], axis=-1), 0.0, 1.0)


def principal_variation(trees: Trees, t: int, length: int = 20) -> list[int]:
    """The moves both sides would play as far as the tree goes: the proven best, else the most visited."""
    line: list[int] = []
    node = ROOT
    while node != NO_NODE and len(line) < length:
        proof = node_proof(trees, t, node)
        edges, visits = trees.proof[t, node], trees.visits[t, node]
        candidates = edges == proof if proof != UNPROVEN else (edges != ILLEGAL) & (visits > 0)
        if not candidates.any():
            break
        action = int(np.argmax(np.where(candidates, visits, -1)))
        line.append(action)
        node = int(trees.child[t, node, action])
    return line

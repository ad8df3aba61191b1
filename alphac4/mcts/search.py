"""Search a batch of positions within a budget of simulations or time, and reuse trees for positions that follow.

`TreeSearch` is the base class of the network-guided and the classic search, which implement `_run`.
"""

import copy
import functools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self, get_args

import numba
import numpy as np
import numpy.typing as npt

from alphac4.game import Board, Position, column_name
from alphac4.game.position import COLUMN_NAMES
from alphac4.game.rules import Words
from alphac4.mcts.results import NodeView, SearchResults, describe_columns, join_results, principal_variations, root_wdl
from alphac4.mcts.simulation import action_scores, summarize_roots
from alphac4.mcts.tree import (
    ARRAYS,
    ILLEGAL,
    NO_NODE,
    PROVEN_DRAW,
    ROOT,
    UNPROVEN,
    Trees,
    advance_root,
    make_trees,
    node_proof,
    proof_value,
    proven_moves,
    reset_tree,
)
from alphac4.storage.records import quote

MAX_SECONDS = 1e9  # of a search
MAX_VISITS = 2**24  # visits of a root: beyond that, float32 sums of results cannot grow by 1
TIMED_NODES = 200_000  # nodes of a tree whose search is limited by time

Reuse = Literal["nothing", "proofs", "trees"]
"""Trees that a search keeps for positions that follow. "proofs" keeps those with a proven root, which need no second
search."""

REUSES: tuple[Reuse, ...] = get_args(Reuse)
_COMPILED = set[tuple[type, Any]]()  # searches compiled in this process, with Numba's types of their selections


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limit of a search: a number of simulations, a time, or both, whichever is reached first.

    A budget of 0 simulations selects a network's raw policy; a tree search needs at least 1. A search ends earlier if
    its root is proven or its tree is full. No root gets more than `MAX_VISITS` visits.

    Args:
        simulations: simulations per position.
        seconds: wall time per position.

    Raises:
        TypeError: for a limit that is not a number.
        ValueError: if neither is given, ``simulations`` is not a whole number from 0 to `MAX_VISITS`, or ``seconds`` is
            not above 0 and at most `MAX_SECONDS`.
    """

    simulations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        simulations, seconds = self.simulations, self.seconds
        if simulations is None and seconds is None:
            raise ValueError("a search needs a budget: give simulations, seconds or both")
        for name, number in vars(self).items():
            if number is not None and (not isinstance(number, Real) or isinstance(number, bool)):
                raise TypeError(f"{name} must be a number, not {quote(number)}")
        if simulations is not None:
            if not 0 <= simulations < math.inf or simulations % 1:
                raise ValueError(f"simulations must be a whole number of at least 0, not {quote(simulations)}")
            if simulations > MAX_VISITS:
                raise ValueError(f"simulations must be at most {MAX_VISITS:,}, not {quote(simulations)}")
            object.__setattr__(self, "simulations", int(simulations))  # accepts 1e3
        if seconds is not None and not 0 < seconds <= MAX_SECONDS:
            raise ValueError(f"seconds must be a positive number of at most {MAX_SECONDS:g}, not {quote(seconds)}")

    def __str__(self) -> str:
        """Return the budget as in a player's specification, such as "600" or "1.5s"."""
        return str(self.simulations) if self.simulations is not None else f"{self.seconds:g}s"


class TreeSearch(ABC):
    """Search of batches of positions that reuses their trees; subclasses implement `_run`."""

    roots = 1  # trees per position
    selection: Any  # a NamedTuple for compiled code

    def __init__(
        self,
        board: Board,
        rng: np.random.Generator | None,
        reuse: Reuse,
        **options: bool,
    ) -> None:
        self.board = board
        self.reuse = reuse
        self.options = options  # of the trees; see `make_trees`
        self._is_compiled = False  # finding the signature takes a tenth of a small search
        rng = rng or np.random.default_rng(0)
        self._kept = TreeReuse(functools.partial(make_trees, board=board, rng=rng, **options))

    def search(self, positions: Sequence[Position], budget: Budget) -> SearchResults:
        """Search each position within ``budget``; raise ValueError if a game is over.

        A time budget applies to one position after the other; they use one tree in turn, unless all trees are kept. The
        time of `compile` does not count. If a position follows from any position of the last call, it reuses that
        position's tree as far as ``reuse`` allows. Both must have their moves; without, only equal positions match.
        """
        if budget.simulations == 0:
            raise ValueError("a tree search needs at least one simulation")
        for position in positions:
            if position.board != self.board:
                raise ValueError("the position is on another board than the search's; make a search for its board")
            if position.outcome() is not None:
                game = "" if position.moves is None else f" after {position.moves}"
                raise ValueError(f"the game is over{game}: there is nothing to search")
        self.compile()
        try:
            if budget.seconds is None or self.reuse == "trees" or len(positions) <= self.roots:
                return self._search(positions, budget)
            starts = range(0, len(positions), self.roots)
            results = [self._search(positions[start : start + self.roots], budget) for start in starts]
            self.drop_trees()
            return join_results(results)
        except BaseException:  # after an interruption, a thread may still write to the trees
            self._kept = self._kept.without_trees()
            raise

    def compile(self) -> None:
        """Compile the search's code, or load it from the cache; the first time takes up to 45 seconds."""
        if self._is_compiled:
            return
        signature = type(self), numba.typeof(self.selection)  # type: ignore[no-untyped-call]
        if signature not in _COMPILED:
            start, example = Position(board=self.board), self._example()
            for reuse in REUSES:
                example.reuse = reuse
                for position in (start, start.play(0)):
                    example._search([position], Budget(simulations=2))
            _COMPILED.add(signature)
        self._is_compiled = True

    @abstractmethod
    def _example(self) -> "TreeSearch":
        """Return a new search that runs the same compiled code, for `compile`."""

    def _search(self, positions: Sequence[Position], budget: Budget) -> SearchResults:
        started = time.perf_counter()
        capacity = self._timed_nodes(budget) if budget.simulations is None else budget.simulations + 1
        trees = self._kept.prepare(positions, capacity, self.reuse)
        count = len(positions)
        before = trees.visits[:count, ROOT].sum(axis=1, dtype=np.int64)
        visits = np.minimum(before + (budget.simulations or MAX_VISITS), MAX_VISITS)
        if budget.seconds is None:
            trees.budget[:count] = visits
            self._run(trees, count, None)
        else:
            for first in range(0, count, self.roots):
                turn = slice(first, first + self.roots)
                trees.budget.fill(0)
                trees.budget[turn] = visits[turn]
                turn_started = time.perf_counter() if first else started
                self._run(trees, count, turn_started + budget.seconds)
        return self._result(trees, count, before, time.perf_counter() - started)

    def _timed_nodes(self, budget: Budget) -> int:  # noqa: ARG002
        """Return the maximum size of a tree if only time limits the search; a node takes about 130 bytes."""
        return TIMED_NODES

    @abstractmethod
    def _run(self, trees: Trees, count: int, deadline: float | None) -> None:
        """Simulate in the first ``count`` trees until their budgets are spent or `perf_counter` is at ``deadline``."""

    def drop_trees(self) -> None:
        """Discard all trees, but keep their memory."""
        self._kept.positions = []

    def detach(self) -> Self:
        """Move the trees of the last call to a new search, which is returned; this search starts without trees."""
        detached = copy.copy(self)
        self._kept = self._kept.without_trees()
        return detached

    def proven_moves(self, index: int, min_proof: int) -> tuple[Words, npt.NDArray[np.int8]]:
        """Return `alphac4.mcts.tree.proven_moves` of the ``index``-th position in the last batch."""
        return proven_moves(*self._tree(index), min_proof)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """Return the node to which a path of 0-based columns leads; raise ValueError if there is none.

        The tree is the first of the ``index``-th position in the last batch.
        """
        trees, t = self._tree(index)
        node, position = ROOT, self._kept.positions[t]
        for depth, column in enumerate(path):
            child = int(trees.child[t, node, column]) if 0 <= column < self.board.columns else NO_NODE
            if child == NO_NODE:
                line = " ".join(column_name(c) for c in path[: depth + 1])
                raise ValueError(f"the search tree has no node after {line}; search longer or choose another path")
            node, position = child, position.play(column)
        statistics = self._statistics(trees, t, 1, node)
        total = int(statistics["visits"].sum())
        value = (float(trees.value[t, node]) + float(trees.value_sum[t, node].sum())) / (1 + total)
        proof = node_proof(trees, t, node) if trees.proofs else UNPROVEN
        if proof != UNPROVEN:
            value = float(proof_value(proof))
        return NodeView(position=position, value=value, visits=total, columns=describe_columns(statistics, 0))

    def _tree(self, index: int) -> tuple[Trees, int]:
        """Return the trees and the number of the first tree of the ``index``-th position."""
        t = index * self.roots
        if not 0 <= t < len(self._kept.positions):
            raise ValueError(f"there is no tree of position {index}: search it first")
        return self._kept.trees, t

    def _statistics(self, trees: Trees, first: int, count: int, node: int) -> dict[str, npt.NDArray[Any]]:
        """Return the statistics [count, A] of a node's actions in ``count`` trees, named as in `SearchResults`."""
        rows = slice(first, first + count)
        visits = trees.visits[rows, node].astype(np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = trees.value_sum[rows, node] / visits.astype(np.float64)
        scores = np.empty(visits.shape)
        action_scores(trees, first, node, self.selection, scores)
        if np.isnan(scores[trees.proof[rows, node] != ILLEGAL]).any():
            raise ValueError(f"{type(self.selection).__name__}.score returned a score that is not a number")
        return {
            "visits": visits,
            "values": np.where(visits > 0, values, np.nan),
            "priors": trees.priors[rows, node].astype(np.float64),
            "scores": scores,
            "proofs": trees.proof[rows, node].astype(np.int64),
        }

    def _result(self, trees: Trees, count: int, before: npt.NDArray[np.int64], seconds: float) -> SearchResults:
        statistics = self._statistics(trees, 0, count, ROOT)
        value, proven, moves = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
        summarize_roots(trees, self.selection, value, proven, moves)
        moves = self._moves(moves, statistics)
        draw = trees.draw_sum[:count] / np.maximum(trees.draw_count[:count], 1)
        draw = np.where(proven == UNPROVEN, draw, proven == PROVEN_DRAW)
        return SearchResults(
            moves=moves,
            value=value,
            wdl=root_wdl(value, draw),
            simulations=statistics["visits"].sum(axis=1) - before,
            seconds=seconds,
            variations=principal_variations(trees, moves),
            **statistics,
        )

    def _moves(self, moves: npt.NDArray[np.int64], statistics: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:  # noqa: ARG002
        """Return the moves to play [B]; subclasses may replace the choice of `best_action` by another rule."""
        return moves


class TreeReuse:
    """Trees of a batch of positions, reused for positions that follow from them."""

    def __init__(self, make: Callable[[int, int], Trees]) -> None:
        self.trees = make(0, 0)
        self.positions: list[Position] = []  # the roots of the trees
        self._make = make  # called with the number of trees and the nodes of each

    def without_trees(self) -> "TreeReuse":
        """Return a new instance without trees, which shares no memory with this one."""
        return TreeReuse(self._make)

    def prepare(self, positions: Sequence[Position], capacity: int, reuse: Reuse) -> Trees:
        """Return trees with these positions as roots, and room for ``capacity`` more nodes in unproven ones."""
        old = trees = self.trees
        sources = [None] * len(positions) if reuse == "nothing" else self._sources(positions, reuse)
        kept = max((int(old.size[row]) for row in sources if row is not None), default=0)
        room = capacity + kept if reuse == "trees" else max(capacity, kept)  # proven trees no longer grow
        if len(old.size) < len(positions) or old.parent.shape[1] < room:
            if reuse == "trees" and old.parent.shape[1] < room:
                room = max(room, 2 * old.parent.shape[1])  # doubled, so that a growing tree is not copied each time
            self.trees = trees = self._make(len(positions), room)
        _copy(old, trees, sources, kept)
        for t, (position, row) in enumerate(zip(positions, sources, strict=True)):
            if row is not None:
                for name in (position.moves or "")[len(self.positions[row].moves or "") :]:
                    advance_root(trees, t, COLUMN_NAMES.index(name))
            # With "proofs", the game may have left the proven line.
            if row is None or (reuse == "proofs" and node_proof(trees, t, ROOT) == UNPROVEN):
                reset_tree(trees, t, position.own, position.occupied)
        self.positions = list(positions)
        return trees

    def _sources(self, positions: Sequence[Position], reuse: Reuse) -> list[int | None]:
        """Return for each position the row of the tree that it can reuse, or None; no tree is reused twice."""
        rows: dict[str | tuple[int, int], list[int]] = {}
        for row, position in enumerate(self.positions):
            if reuse == "trees" or node_proof(self.trees, row, ROOT) != UNPROVEN:
                rows.setdefault(_name(position), []).append(row)
        sources = []
        for position in positions:
            moves = position.moves
            # A position without moves can only reuse the tree of the same position.
            starts = [_name(position)] if moves is None else [moves[:ply] for ply in range(len(moves), -1, -1)]
            matching = next((rows[start] for start in starts if rows.get(start)), [])
            sources.append(matching.pop(0) if matching else None)
        return sources


def _name(position: Position) -> str | tuple[int, int]:
    return (int(position.own), int(position.occupied)) if position.moves is None else position.moves


def _copy(old: Trees, new: Trees, sources: Sequence[int | None], nodes: int) -> None:
    """Copy the first ``nodes`` nodes of the old tree ``sources[t]`` to the new tree t, unless they are the same."""
    moved = [(t, row) for t, row in enumerate(sources) if row is not None and (row != t or old is not new)]
    if moved:
        to, out_of = np.array(moved).T
        for name in set(ARRAYS) - {"rng"}:
            source, target = getattr(old, name), getattr(new, name)
            if source.ndim == 1:
                target[to] = source[out_of]
            else:
                target[to, :nodes] = source[out_of, :nodes]

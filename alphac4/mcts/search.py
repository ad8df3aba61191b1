"""Search a batch of positions to a budget of simulations or time, and keep trees for those that follow.

`TreeSearch` is the base of both kinds of search, which implement `_run`.
"""

import copy
import functools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, ParamSpec, Self, TypeVar

import numpy as np
import numpy.typing as npt

from alphac4.compiled import recompiled
from alphac4.game import Geometry, Position, column_name
from alphac4.game.position import COLUMN_NAMES
from alphac4.game.rules import Words
from alphac4.mcts.results import NodeView, SearchResult, principal_variations, root_wdl
from alphac4.mcts.simulation import action_scores, is_own
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
    summarize_roots,
)

MAX_VISITS = 2**24  # of a tree: the sums of results are 32-bit numbers, which could not grow by one beyond

Reuse = Literal["nothing", "proofs", "trees"]
"""Trees that a search keeps for positions that follow: nothing, trees whose root is proven, so that they need no second
search, or every tree."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limit of a search: so many simulations, or so many seconds, whichever comes first.

    No simulations at all ask a network for its raw policy; a tree search needs at least one. A search for seconds alone
    ends sooner where its tree is proven or has no more room; see `TreeSearch.search`. No tree is visited more often
    than `MAX_VISITS` times.

    Raises:
        ValueError: if a limit is negative, fractional, more than `MAX_VISITS`, or not a number.
    """

    simulations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        simulations, seconds = self.simulations, self.seconds
        if simulations is None and seconds is None:
            raise ValueError("a search needs a budget: simulations, seconds or both")
        if simulations is not None:
            if not isinstance(simulations, Real) or not 0 <= simulations < math.inf or simulations % 1:
                raise ValueError(f"a search makes a whole number of simulations, not {simulations!r}")
            if simulations > MAX_VISITS:
                raise ValueError(f"a search makes {MAX_VISITS:,} simulations at most, not {simulations}")
            object.__setattr__(self, "simulations", int(simulations))  # 1e3 is one, too
        if seconds is not None and not (isinstance(seconds, Real) and 0 < seconds < math.inf):
            raise ValueError(f"a search's seconds are a positive number, not {seconds!r}")


class TreeSearch(ABC):
    """Keeps the trees of a batch of positions between calls; the two kinds of search differ in `_run`.

    The type of ``parameters`` decides the rule of selection; for ``proofs``, ``look_ahead`` and ``heuristics`` see
    `alphac4.mcts.tree.make_trees`.
    """

    roots = 1  # trees of each position

    def __init__(
        self,
        geometry: Geometry,
        rng: np.random.Generator | None,
        reuse: Reuse,
        parameters: Any,
        *,
        proofs: bool = True,
        look_ahead: bool = True,
        heuristics: bool = False,
    ) -> None:
        self.geometry = geometry
        self.parameters = parameters
        self.reuse = reuse
        self._kept = TreeReuse(
            functools.partial(
                make_trees,
                geometry=geometry,
                rng=rng or np.random.default_rng(0),
                proofs=proofs,
                look_ahead=look_ahead,
                heuristics=heuristics,
            )
        )

    def search(self, positions: Sequence[Position], budget: Budget, nodes: int = 200_000) -> SearchResult:
        """Search every position, none of which may be finished, for ``budget`` each.

        Time is spent on one position after the other. What ``reuse`` names is kept for positions that follow from
        those of the last call, wherever they stand in the batch, if their moves are known.
        ``nodes`` bounds a tree's memory when only time bounds the search; about 130 bytes each.

        Raises:
            ValueError: for a budget of no simulations, a finished position, or one of another board.
        """
        if budget.simulations == 0:
            raise ValueError("a tree search needs at least one simulation")
        for position in positions:
            if position.geometry != self.geometry:
                raise ValueError("this search was made for a board of another shape")
            if position.outcome() is not None:
                game = "" if position.moves is None else f" after {position.moves}"
                raise ValueError(f"the game is over{game}: there is nothing to search")
        capacity = nodes if budget.simulations is None else budget.simulations + 1
        try:
            return self._search(positions, budget, capacity)
        except BaseException:  # of a search that was interrupted, a thread may still be in the trees
            self._kept = self._kept.empty()
            raise

    def _search(self, positions: Sequence[Position], budget: Budget, capacity: int) -> SearchResult:
        started = time.perf_counter()
        trees = self._kept.prepare(positions, capacity, self.reuse)
        count = len(positions)
        before = trees.visits[:count, ROOT].sum(axis=1, dtype=np.int64)
        targets = np.minimum(before + (budget.simulations or MAX_VISITS), MAX_VISITS)
        if budget.seconds is None:
            self._run(trees, count, targets, None)
        else:
            for first in range(0, count, self.roots):
                turn = np.zeros_like(targets)
                turn[first : first + self.roots] = targets[first : first + self.roots]
                turn_started = time.perf_counter() if first else started
                self._run(trees, count, turn, turn_started + budget.seconds)
        return self._result(trees, count, before, time.perf_counter() - started)

    @abstractmethod
    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        """Simulate in the first ``count`` trees until their root visits reach ``targets`` or time is up."""

    def drop_trees(self) -> None:
        """Let no tree be kept for the positions that follow; the memory stays."""
        self._kept.positions = []

    def detach(self) -> Self:
        """The trees searched last, in a search of their own; this one begins anew with the next positions."""
        detached = copy.copy(self)
        self._kept = self._kept.empty()
        return detached

    def proven_moves(self, index: int, least: int) -> tuple[Words, npt.NDArray[np.int8]]:
        """The moves that prove a result in the ``index``-th position; see `alphac4.mcts.tree.proven_moves`.

        Raises:
            ValueError: if there is no such tree.
        """
        return proven_moves(*self._tree(index), least)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """The node that the 0-based columns ``path`` lead to in the tree of the ``index``-th position searched last.

        If the position has several trees, that is the first of them.

        Raises:
            ValueError: if there is no such tree, or it does not reach that far.
        """
        trees, t = self._tree(index)
        node, position = ROOT, self._kept.positions[t]
        for depth, column in enumerate(path):
            child = int(trees.child[t, node, column]) if 0 <= column < self.geometry.columns else NO_NODE
            if child == NO_NODE:
                line = " ".join(column_name(c) for c in path[: depth + 1])
                raise ValueError(f"the search has not looked beyond {line}")
            node, position = child, position.play(column)
        statistics = {name: array[0] for name, array in self._statistics(trees, t, 1, node).items()}
        total = int(statistics["visits"].sum())
        value = (float(trees.value[t, node]) + float(trees.value_sum[t, node].sum())) / (1 + total)
        proof = node_proof(trees, t, node) if trees.proofs else UNPROVEN
        if proof != UNPROVEN:
            value = float(proof_value(proof))
        return NodeView(position=position, value=value, total_visits=total, **statistics)

    def _tree(self, index: int) -> tuple[Trees, int]:
        """The trees, and which of them is the first of the ``index``-th position searched last."""
        t = index * self.roots
        if not 0 <= t < len(self._kept.positions):
            raise ValueError(f"there is no tree {index}")
        return self._kept.trees, t

    def _statistics(self, trees: Trees, first: int, count: int, node: int) -> dict[str, npt.NDArray[Any]]:
        """Statistics of a node's actions in ``count`` trees, as results name them: [count, A] each."""
        rows = slice(first, first + count)
        visits = trees.visits[rows, node].astype(np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = trees.value_sum[rows, node] / visits.astype(np.float64)
        scores = np.empty(visits.shape)
        compiled_for(self.parameters, action_scores)(trees, first, node, self.parameters, scores)
        if not is_own(self.parameters) and np.isnan(scores[trees.proof[rows, node] != ILLEGAL]).any():
            raise ValueError(f"the rule for {type(self.parameters).__name__} gives a score that is not a number (NaN)")
        return {
            "visits": visits,
            "values": np.where(visits > 0, values, np.nan),
            "priors": trees.priors[rows, node].astype(np.float64),
            "scores": scores,
            "proofs": trees.proof[rows, node].astype(np.int64),
        }

    def _result(self, trees: Trees, count: int, before: npt.NDArray[np.int64], seconds: float) -> SearchResult:
        statistics = self._statistics(trees, 0, count, ROOT)
        value, proven, moves = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
        summarize_roots(trees, value, proven, moves)
        moves = self._moves(moves, statistics)
        draw = trees.draw_sum[:count] / np.maximum(trees.draw_count[:count], 1)
        draw = np.where(proven == UNPROVEN, draw, proven == PROVEN_DRAW)
        return SearchResult(
            moves=moves,
            value=value,
            wdl=root_wdl(value, draw),
            simulations=statistics["visits"].sum(axis=1) - before,
            seconds=seconds,
            variations=principal_variations(trees, moves),
            **statistics,
        )

    def _moves(self, moves: npt.NDArray[np.int64], statistics: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:  # noqa: ARG002
        """The moves to play [B], where another rule than `best_action` may decide by what `_statistics` says."""
        return moves


def compiled_for(parameters: Any, function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The compiled function for these parameters; only the package's own rules are kept on disk."""
    return function if is_own(parameters) else recompiled(function)


class TreeReuse:
    """The trees of a batch of positions, kept for positions which follow from those.

    ``make`` makes trees from their number and the nodes of each.
    """

    def __init__(self, make: Callable[[int, int], Trees]) -> None:
        self.trees = make(0, 0)
        self.positions: list[Position] = []  # whose trees they are
        self._make = make

    def empty(self) -> "TreeReuse":
        """The same without any trees, for which it makes new memory."""
        return TreeReuse(self._make)

    def prepare(self, positions: Sequence[Position], capacity: int, reuse: Reuse) -> Trees:
        """Trees whose roots are these positions, with room for ``capacity`` more nodes each."""
        old = trees = self.trees
        sources = [None] * len(positions) if reuse == "nothing" else self._sources(positions, reuse)
        kept = max((int(old.size[row]) for row in sources if row is not None), default=0)
        room = capacity + kept if reuse == "trees" else max(capacity, kept)  # proven trees grow no more
        if len(old.size) < len(positions) or old.parent.shape[1] < room:
            if reuse == "trees" and old.parent.shape[1] < room:
                room = max(room, 2 * old.parent.shape[1])  # or a tree that grows and grows would be copied each time
            self.trees = trees = self._make(len(positions), room)  # and not more trees: they would grow as well
        _copy(old, trees, sources, kept)
        for t, (position, row) in enumerate(zip(positions, sources, strict=True)):
            if row is not None:
                for name in (position.moves or "")[len(self.positions[row].moves or "") :]:
                    advance_root(trees, t, COLUMN_NAMES.index(name))
            # With proofs alone a game may have left the proven line.
            if row is None or (reuse == "proofs" and node_proof(trees, t, ROOT) == UNPROVEN):
                reset_tree(trees, t, position.own, position.occupied)
        self.positions = list(positions)
        return trees

    def _sources(self, positions: Sequence[Position], reuse: Reuse) -> list[int | None]:
        """The tree of the last call from whose position each follows; one tree for one position, None without."""
        rows: dict[str | tuple[int, int], list[int]] = {}
        for row, position in enumerate(self.positions):
            if reuse == "trees" or node_proof(self.trees, row, ROOT) != UNPROVEN:
                rows.setdefault(_name(position), []).append(row)
        sources = []
        for position in positions:
            moves = position.moves
            # Without its moves nobody knows what a position follows from; the very same one is found.
            starts = [_name(position)] if moves is None else [moves[:ply] for ply in range(len(moves), -1, -1)]
            found = next((rows[start] for start in starts if rows.get(start)), [])
            sources.append(found.pop(0) if found else None)
        return sources


def _name(position: Position) -> str | tuple[int, int]:
    """A position's moves, or its stones where they are not known."""
    return (int(position.own), int(position.occupied)) if position.moves is None else position.moves


def _copy(old: Trees, new: Trees, sources: Sequence[int | None], nodes: int) -> None:
    """Bring the first ``nodes`` nodes of the old tree ``sources[t]`` into the new tree t, wherever that is another."""
    moved = [(t, row) for t, row in enumerate(sources) if row is not None and (row != t or old is not new)]
    if moved:
        to, out_of = np.array(moved).T
        for name in set(ARRAYS) - {"rng"}:
            source, target = getattr(old, name), getattr(new, name)
            if source.ndim == 1:
                target[to] = source[out_of]
            else:
                target[to, :nodes] = source[out_of, :nodes]

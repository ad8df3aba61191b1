"""Search a batch of positions to a budget of simulations or time: what both kinds of tree search share."""

import copy
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
import numpy.typing as npt

from alphac4.compiled import recompiled
from alphac4.game import Geometry, Position, column_name
from alphac4.mcts.kept_trees import KeptTrees, Reuse
from alphac4.mcts.proof_tree import winning_moves
from alphac4.mcts.puct import PuctParameters
from alphac4.mcts.results import NodeView, SearchResult, principal_variation, root_wdl
from alphac4.mcts.selection import action_scores
from alphac4.mcts.tree import (
    NO_NODE,
    PROVEN_DRAW,
    ROOT,
    UNPROVEN,
    Trees,
    best_action,
    node_proof,
    proof_value,
    root_value,
    root_visits,
)
from alphac4.mcts.ucb1 import UctParameters

MOST_SIMULATIONS = 10_000_000  # that commands take, of about 130 bytes each
MOST_BUDGET = 2**30  # more than any memory holds
MOST_VISITS = 2**24  # of a tree: the sums of results are 32-bit numbers, which could not grow by one beyond

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """When a search stops: after so many simulations, or so many seconds, whichever comes first.

    No simulations at all ask a network for its raw policy; a tree search needs at least one. A search for seconds alone
    ends sooner where its tree is proven or has no more room; see `TreeSearch.search`. No tree is visited more often
    than `MOST_VISITS` times.

    Raises:
        ValueError: for less than nothing, a part of a simulation, more than `MOST_BUDGET`, or no number.
    """

    simulations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.simulations is None and self.seconds is None:
            raise ValueError("a search needs a budget: simulations, seconds or both")
        simulations, seconds = self.simulations, self.seconds
        if simulations is not None:
            if not is_number(simulations) or simulations != int(simulations):
                raise ValueError(f"a search makes a whole number of simulations, not {simulations!r}")
            if simulations > MOST_BUDGET:
                raise ValueError(f"a search makes {MOST_BUDGET:,} simulations at most, not {simulations}")
            object.__setattr__(self, "simulations", int(simulations))  # 1e3 is one, too
        if seconds is not None and not is_number(seconds):
            raise ValueError(f"a search's seconds are a positive number, not {seconds!r}")
        if (simulations is not None and simulations < 0) or (seconds is not None and seconds <= 0):
            raise ValueError("a search's simulations must not be negative, and its seconds must be positive")


def is_number(value: object) -> bool:
    """Whether this is a finite number, and no text or the like."""
    return isinstance(value, Real) and math.isfinite(value)


class TreeSearch(ABC):
    """Keeps the trees of a batch of positions between calls; the two kinds of search differ in `_run`."""

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
        evaluations: bool = False,
    ) -> None:
        self.geometry = geometry
        self.parameters = parameters  # their type decides the rule of selection
        self.proofs = proofs  # whether proven outcomes spread
        self.reuse = reuse
        self._kept = KeptTrees(
            geometry, rng or np.random.default_rng(0), look_ahead=look_ahead, evaluations=evaluations
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
        before = np.array([root_visits(trees, t) for t in range(count)], dtype=np.int64)
        targets = np.minimum(before + (budget.simulations or MOST_VISITS), MOST_VISITS)
        if budget.seconds is None:
            self._run(trees, count, targets, None)
        else:
            for first in range(0, count, self.roots):
                turn = np.zeros_like(targets)
                turn[first : first + self.roots] = targets[first : first + self.roots]
                turn_started = time.perf_counter() if first else started
                self._run(trees, count, turn, turn_started + budget.seconds)
        return self._result(trees, count, before, time.perf_counter() - started)

    def drop_trees(self) -> None:
        """Let no tree be kept for the positions that follow; the memory stays."""
        self._kept.positions = []

    def forget(self) -> None:
        """Keep nothing of the searches so far, as for a network with other weights; the memory stays."""
        self.drop_trees()

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
        return self._view(trees, t, node, position)

    def winning_moves(self, index: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int8]]:
        """The winner's moves in the proof found for the ``index``-th position; see `alphac4.mcts.proof_tree`.

        Raises:
            ValueError: if there is no such tree.
        """
        trees, t = self._tree(index)
        return winning_moves(self.geometry, trees, t)

    def _tree(self, index: int) -> tuple[Trees, int]:
        """The trees, and which of them is the first of the ``index``-th position searched last."""
        trees, t = self._kept.trees, index * self.roots
        if trees is None or not 0 <= t < len(self._kept.positions):
            raise ValueError(f"there is no tree {index}")
        return trees, t

    def detach(self) -> Self:
        """The trees searched last, in a search of their own; this one begins anew with the next positions."""
        detached = copy.copy(self)
        self._kept = self._kept.empty()
        return detached

    def _view(self, trees: Trees, t: int, node: int, position: Position) -> NodeView:
        visits = trees.visits[t, node].astype(np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = trees.value_sum[t, node] / visits.astype(np.float64)
        total = int(visits.sum())
        proof = node_proof(trees, t, node) if self.proofs else UNPROVEN
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
        compiled_for(self.parameters, action_scores)(trees, t, node, self.parameters, scores)
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
        moves = np.array([best_action(trees, t) for t in range(count)], dtype=np.int64)
        return SearchResult(
            moves=moves,
            visits=visits,
            values=np.where(visits > 0, values, np.nan),
            priors=trees.prior[:count, ROOT].astype(np.float64),
            scores=np.array([self._scores(trees, t, ROOT) for t in range(count)]).reshape(visits.shape),
            proofs=proofs,
            value=value,
            wdl=root_wdl(value, draw),
            simulations=visits.sum(axis=1) - before,
            seconds=seconds,
            variations=[principal_variation(trees, t, int(moves[t])) for t in range(count)],
        )


def compiled_for(parameters: Any, function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The compiled function for these parameters; only the package's own rules are kept on disk."""
    return function if isinstance(parameters, PuctParameters | UctParameters) else recompiled(function)

"""One simulation of a search: select a leaf and, after its evaluation, back its value up.

A selection is a NamedTuple of numbers with a method that scores an action, such as `alphac4.mcts.puct.Puct`. The walk
down a tree is compiled for each type of selection together with its method, so that calling the method costs no time.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba.extending import overload

from alphac4.compiled import compiled, inlined, users_compiled
from alphac4.game.rules import play
from alphac4.mcts.tree import (
    ILLEGAL,
    NO_ACTION,
    NO_NODE,
    PROVEN_DRAW,
    ROOT,
    UNPROVEN,
    Trees,
    add_node,
    best_action,
    node_proof,
    parent_proof,
    proof_value,
    root_value,
)

MAX_SIMULATIONS_PER_STEP = 256  # simulations of a tree before the caller reads the clock: well under a millisecond

Scores = npt.NDArray[np.float64]


class NodeTotals(NamedTuple):
    """Sums over a node's actions, and the search's budget, for scores."""

    visits: int  # visits of all actions
    value_sum: float  # sum of the values of all visits and of the node's own evaluation, for the side to move
    visited_prior: float  # sum of the priors of visited actions
    budget: int  # visits of the root at which the search ends


class Selection(Protocol):
    """How a network-guided search selects moves: a NamedTuple of numbers with these members.

    Two more are optional. ``final_score`` takes the arguments of ``score`` and scores the moves of a searched root; the
    move with the highest score is played. If the attribute ``reuse_tree`` is False, every search begins a new tree.
    """

    @property
    def prior_temperature(self) -> float:
        """Divisor of the policy logits."""

    def score(self, trees: Trees, t: int, node: int, action: int, totals: NodeTotals) -> float:
        """Return the score of a legal action, for the side to move. Numba compiles this method.

        A simulation tries the action with the highest score among those that are not proven to lose.
        """


@inlined
def select_leaf(trees: Trees, t: int, selection: Any) -> bool:
    """Walk from the root to a new node or a proven edge; return whether `trees.leaf` now awaits an evaluation.

    If it does not, the simulation ended in a proven outcome, which has been backed up. The root must be evaluated and
    unproven.
    """
    node = ROOT
    own, occupied = trees.own[t], trees.occupied[t]
    while True:
        action = select_action(selection, trees, t, node)
        proof = trees.proof[t, node, action]
        if proof != UNPROVEN:
            value = proof_value(proof)
            trees.visits[t, node, action] += 1
            trees.value_sum[t, node, action] += value
            trees.draw_sum[t] += 1.0 if proof == PROVEN_DRAW else 0.0
            trees.draw_count[t] += 1
            backup(trees, t, node, value)
            return False
        own, occupied = play(trees.board, own, occupied, action)
        child = trees.child[t, node, action]
        if child == NO_NODE:
            leaf = add_node(trees, t, node, action, own, occupied)
            proof = node_proof(trees, t, leaf) if trees.proofs else UNPROVEN
            if proof == UNPROVEN:
                trees.leaf[t] = leaf
                trees.leaf_own[t] = own
                trees.leaf_occupied[t] = occupied
                return True
            trees.value[t, leaf] = proof_value(proof)
            trees.draw[t, leaf] = 1.0 if proof == PROVEN_DRAW else 0.0
            trees.draw_sum[t] += trees.draw[t, leaf]
            trees.draw_count[t] += 1
            backup(trees, t, leaf, proof_value(proof))
            propagate_proof(trees, t, leaf)
            return False
        node = child


@inlined
def backup(trees: Trees, t: int, node: int, value_to_move: float) -> None:
    """Add a value, for the side to move in ``node``, to every edge up to the root; its sign flips at each."""
    while node != ROOT:
        value_to_move = -value_to_move
        action = trees.parent_action[t, node]
        node = trees.parent[t, node]
        trees.visits[t, node, action] += 1
        trees.value_sum[t, node, action] += value_to_move


@inlined
def propagate_proof(trees: Trees, t: int, node: int) -> None:
    """Propagate a proven node's outcome to its ancestors, up to the first that it does not prove."""
    while node != ROOT:
        proof = node_proof(trees, t, node)
        if proof == UNPROVEN:
            return
        action = trees.parent_action[t, node]
        node = trees.parent[t, node]
        trees.proof[t, node, action] = parent_proof(proof)


def reuses_tree(selection: Any) -> bool:
    """Return whether a search may continue in the tree of an earlier one."""
    return bool(getattr(selection, "reuse_tree", True))


class _Functions(NamedTuple):
    """Implementations of the functions below for a type of selection."""

    select_action: Callable[..., int]
    users_final_action: Callable[..., int]
    write_scores: Callable[..., None]


@functools.cache
def _functions(kind: Any) -> _Functions:
    if hasattr(kind, "select"):  # classic search, whose choice among unvisited actions is random
        return _Functions(kind.select, _no_action, kind.write_scores)
    score, final_score = kind.score, getattr(kind, "final_score", None)
    if not kind.__module__.startswith("alphac4."):
        score = users_compiled(score)
    users_final_action = _no_action if final_score is None else _highest(users_compiled(final_score))

    def write(selection: Any, trees: Trees, t: int, node: int, scores: Scores) -> None:
        totals = node_totals(trees, t, node)
        for a in range(trees.visits.shape[2]):
            scores[a] = math.nan
            if trees.proof[t, node, a] != ILLEGAL:
                scores[a] = score(selection, trees, t, node, a, totals)

    return _Functions(_highest(score), users_final_action, write)


def _highest(score: Callable[..., float]) -> Callable[..., int]:
    """Return a function that chooses, in an unproven node, the highest-scored action that is not proven to lose."""

    def choose(selection: Any, trees: Trees, t: int, node: int) -> int:
        totals = node_totals(trees, t, node)
        best, best_score = NO_ACTION, -math.inf
        for a in range(trees.visits.shape[2]):
            if trees.proof[t, node, a] < PROVEN_DRAW:  # a loss, or ILLEGAL
                continue
            action_score = score(selection, trees, t, node, a, totals)
            if best == NO_ACTION or action_score > best_score:  # the first action, even if all scores are NaN
                best, best_score = a, action_score
        return best

    return choose


def _no_action(selection: Any, trees: Trees, t: int, node: int) -> int:  # noqa: ARG001
    return NO_ACTION


def select_action(selection: Any, trees: Trees, t: int, node: int) -> int:
    """Return the action that is selected in an unproven node."""
    return _functions(selection.__class__).select_action(selection, trees, t, node)


def users_final_action(selection: Any, trees: Trees, t: int, node: int) -> int:
    """Return the action that a user's selection plays in an unproven node; NO_ACTION if it has no ``final_score``."""
    return _functions(selection.__class__).users_final_action(selection, trees, t, node)


@inlined
def users_move(selection: Any, trees: Trees, t: int) -> int:
    """Return the root's action that a user's ``final_score`` plays; NO_ACTION without one, or if the root is proven."""
    return users_final_action(selection, trees, t, ROOT) if node_proof(trees, t, ROOT) == UNPROVEN else NO_ACTION


def write_scores(selection: Any, trees: Trees, t: int, node: int, scores: Scores) -> None:
    """Write the score of each action for the next simulation into ``scores`` [A]; NaN for a full column."""
    _functions(selection.__class__).write_scores(selection, trees, t, node, scores)


@overload(select_action, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_select(selection: Any, trees: Any, t: Any, node: Any) -> Any:  # noqa: ARG001 - the types of arguments
    return _functions(selection.instance_class).select_action


@overload(users_final_action, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_final(selection: Any, trees: Any, t: Any, node: Any) -> Any:  # noqa: ARG001
    return _functions(selection.instance_class).users_final_action


@overload(write_scores, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_write_scores(selection: Any, trees: Any, t: Any, node: Any, scores: Any) -> Any:  # noqa: ARG001
    return _functions(selection.instance_class).write_scores


@compiled
def action_scores(trees: Trees, first: int, node: int, selection: Any, scores: Scores) -> None:
    """Call `write_scores` for a node of B trees, beginning with tree ``first``; ``scores`` are [B, A]."""
    for row in range(len(scores)):
        write_scores(selection, trees, first + row, node, scores[row])


@compiled
def summarize_roots(
    trees: Trees,
    selection: Any,
    values: npt.NDArray[np.float64],
    proofs: npt.NDArray[np.int64],
    moves: npt.NDArray[np.int64],
) -> None:
    """Write the values, the proofs and the moves to play of the first B trees' roots into arrays [B]."""
    for t in range(len(moves)):
        values[t] = root_value(trees, t)
        proofs[t] = node_proof(trees, t, ROOT)
        moves[t] = users_move(selection, trees, t)
        if moves[t] == NO_ACTION:
            moves[t] = best_action(trees, t)


@inlined
def node_totals(trees: Trees, t: int, node: int) -> NodeTotals:
    visits = 0
    value_sum = float(trees.value[t, node])
    visited_prior = 0.0
    for a in range(trees.visits.shape[2]):
        if trees.visits[t, node, a] > 0:
            visits += trees.visits[t, node, a]
            value_sum += trees.value_sum[t, node, a]
            visited_prior += trees.priors[t, node, a]
    return NodeTotals(visits, value_sum, visited_prior, trees.budget[t])


@inlined
def action_value(trees: Trees, t: int, node: int, action: int, unvisited: float) -> float:
    """Return an action's mean value, 0 if it is a proven draw, or ``unvisited`` before its first visit."""
    if trees.proof[t, node, action] == PROVEN_DRAW:
        return 0.0
    visits = trees.visits[t, node, action]
    return trees.value_sum[t, node, action] / visits if visits > 0 else unvisited

"""One simulation of a search: select a leaf and, after its evaluation, back its value up.

The type of the parameters determines the selection rule. The walk down a tree is compiled for each type together with
its rule, so that the choice of a rule costs no time. `alphac4.mcts.puct` registers its rule by
`register_selection_rule`, which users can call as well; `alphac4.mcts.classic.uct` adds its own to `selection_rules`.
"""

import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core.errors import NumbaError
from numba.extending import overload

from alphac4.compiled import compiled, compiled_rule, inlined
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
    node_proof,
    parent_proof,
    proof_value,
)

MAX_SIMULATIONS_PER_STEP = 256  # simulations of a tree before the caller reads the clock: well under a millisecond

AWAITING_EVALUATION = 2.0  # value of a node that awaits its evaluation; other values are at most 1

RULE_ARGUMENTS = ("trees", "t", "node", "action", "totals", "parameters")

Scores = npt.NDArray[np.float64]
Score = TypeVar("Score", bound=Callable[..., float])


@inlined
def select_leaf(trees: Trees, t: int, parameters: Any) -> bool:
    """Walk from the root to a new node or a proven edge; return whether `trees.leaf` now awaits an evaluation.

    If it does not, the simulation ended in a proven outcome, which has been backed up. The root must be evaluated and
    unproven. In a search of several leaves, the walk may end at a leaf that is already waiting.
    """
    node = ROOT
    own, occupied = trees.own[t], trees.occupied[t]
    while True:
        action = select_action(trees, t, node, parameters)
        proof = trees.proof[t, node, action]
        if proof != UNPROVEN:
            value = proof_value(proof)
            trees.visits[t, node, action] += 1
            trees.value_sum[t, node, action] += value
            trees.draw_sum[t] += 1.0 if proof == PROVEN_DRAW else 0.0
            trees.draw_count[t] += 1
            backup(trees, t, node, value)
            return False
        own, occupied = play(trees.geometry, own, occupied, action)
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
        if trees.value[t, node] == AWAITING_EVALUATION:
            trees.leaf[t] = node
            trees.leaf_own[t] = own
            trees.leaf_occupied[t] = occupied
            return True


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


class SelectionRule(NamedTuple):
    """Functions of a selection rule, uncompiled, for one type of parameters."""

    select: Callable[[Trees, int, int, Any], int]  # implements `select_action`
    write_scores: Callable[[Trees, int, int, Any, Scores], None]  # implements `write_scores`
    score: Callable[..., float] | None = None  # the function given to `register_selection_rule`


selection_rules: dict[type, SelectionRule] = {}  # by type of the parameters, a NamedTuple


def select_action(trees: Trees, t: int, node: int, parameters: Any) -> int:
    """Return the action that the rule of ``parameters`` selects in an unproven node."""
    return selection_rules[type(parameters)].select(trees, t, node, parameters)


def write_scores(trees: Trees, t: int, node: int, parameters: Any, scores: Scores) -> None:
    """Write the score of each action for the next simulation into ``scores`` [A]; NaN for a full column."""
    selection_rules[type(parameters)].write_scores(trees, t, node, parameters, scores)


@overload(select_action, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_select(trees: Any, t: Any, node: Any, parameters: Any) -> Any:  # noqa: ARG001 - the types of arguments
    return selection_rules[parameters.instance_class].select


@overload(write_scores, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_write_scores(trees: Any, t: Any, node: Any, parameters: Any, scores: Any) -> Any:  # noqa: ARG001
    return selection_rules[parameters.instance_class].write_scores


@compiled
def action_scores(trees: Trees, first: int, node: int, parameters: Any, scores: Scores) -> None:
    """Call `write_scores` for a node of B trees, beginning with tree ``first``; ``scores`` are [B, A]."""
    for row in range(len(scores)):
        write_scores(trees, first + row, node, parameters, scores[row])


class NodeTotals(NamedTuple):
    """Sums over a node's actions, for scores."""

    visits: int  # visits of all actions
    value_sum: float  # sum over all visits and the node's own evaluation, for the side to move
    visited_prior: float  # sum of the priors of visited actions


def register_selection_rule(parameters: type) -> Callable[[Score], Score]:
    """Register the decorated function as the selection rule of network-guided searches with ``parameters``.

    The function ``score(trees, t, node, action, totals, parameters)`` is compiled by Numba. A simulation tries the
    action with the highest score among those that are not proven to lose. Pass an instance of ``parameters`` to
    `alphac4.mcts.network_search.NetworkSearch` instead of a `PuctConfig`. A type's rule cannot be replaced, because
    searches may already be compiled with it.

    Args:
        parameters: a NamedTuple type of numbers, with a field ``prior_temperature`` as in
            `alphac4.mcts.config.PuctConfig`. ``totals`` of the function are `NodeTotals`.

    Raises:
        ValueError: if the type has a rule or is not such a NamedTuple, or the function takes other arguments.
    """
    if parameters in selection_rules:
        raise ValueError(f"{parameters.__name__} already has a selection rule: define another type for another rule")
    if "prior_temperature" not in getattr(parameters, "_fields", ()):
        raise ValueError(f"{parameters!r:.80} is not a NamedTuple with a field prior_temperature: add that field")

    def register(score: Score) -> Score:
        source = getattr(score, "py_func", score)  # of a function that the user has compiled
        actual = list(inspect.signature(source).parameters)
        if len(actual) != len(RULE_ARGUMENTS):
            raise ValueError(f"{score.__name__} takes ({', '.join(actual)}); expected ({', '.join(RULE_ARGUMENTS)})")
        function: Any = score if _is_builtin(parameters) else compiled_rule(source)

        def select(trees: Trees, t: int, node: int, parameters: Any) -> int:
            totals = node_totals(trees, t, node)
            best, best_score = NO_ACTION, -math.inf
            for a in range(trees.visits.shape[2]):
                if trees.proof[t, node, a] < PROVEN_DRAW:  # or ILLEGAL
                    continue
                action_score = function(trees, t, node, a, totals, parameters)
                if best == NO_ACTION or action_score > best_score:  # the first action, even if all scores are NaN
                    best, best_score = a, action_score
            return best

        def write(trees: Trees, t: int, node: int, parameters: Any, scores: Scores) -> None:
            totals = node_totals(trees, t, node)
            for a in range(trees.visits.shape[2]):
                scores[a] = math.nan
                if trees.proof[t, node, a] != ILLEGAL:
                    scores[a] = function(trees, t, node, a, totals, parameters)

        selection_rules[parameters] = SelectionRule(select, write, source)
        return score

    return register


def check_rule(parameters: Any, trees: Trees) -> None:
    """Compile a user's scoring function separately, so that errors in it are reported without the search around it."""
    kind = type(parameters)
    if isinstance(parameters, type):
        raise ValueError(f"a selection rule takes an instance: write {parameters.__name__}()")
    rule = selection_rules.get(kind)
    if rule is None or rule.score is None:
        raise ValueError(
            f"no selection rule is registered for {kind.__name__}: use alphac4.register_selection_rule({kind.__name__})"
        )
    if is_builtin_rule(parameters):
        return
    for name, value in parameters._asdict().items():
        if not isinstance(value, Real):
            raise ValueError(f"{kind.__name__}.{name} must be a number, not {value!r:.80}")
    function: Any = compiled_rule(rule.score)
    arguments = (trees, 0, 0, 0, NodeTotals(0, 0.0, 0.0), parameters)
    name = f"the rule {function.__name__}"
    try:
        function.compile(tuple(map(numba.typeof, arguments)))  # type: ignore[attr-defined]
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        problem = next(line for line in [*lines, "unknown"] if not line.startswith("Failed in"))
        place = next((f" ({line.rstrip(':')})" for line in lines if line.startswith("File ")), "")
        raise ValueError(f"{name} cannot be compiled by Numba: {problem}{place}") from error
    (returned,) = function.nopython_signatures
    if not isinstance(returned.return_type, numba.types.Number | numba.types.Boolean):
        raise ValueError(f"{name} returns {returned.return_type}; expected a number in every case")


def is_builtin_rule(parameters: Any) -> bool:
    return _is_builtin(type(parameters))


def _is_builtin(parameters: type) -> bool:
    return parameters.__module__.startswith("alphac4.")


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
    return NodeTotals(visits, value_sum, visited_prior)


@inlined
def action_value(trees: Trees, t: int, node: int, action: int, unvisited: float) -> float:
    """Return an action's mean value, 0 if it is a proven draw, or ``unvisited`` before its first visit."""
    if trees.proof[t, node, action] == PROVEN_DRAW:
        return 0.0
    visits = trees.visits[t, node, action]
    return trees.value_sum[t, node, action] / visits if visits > 0 else unvisited

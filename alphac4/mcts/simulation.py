"""One simulation of any search: select a leaf, and, once it has been evaluated, back its value up.

The parameters' type brings the rule by which actions are selected. The walk down a tree is compiled anew for each such
type, with its rule inside, so a rule costs no test at run time and knows no numbers but its own. `alphac4.mcts.puct`
and `alphac4.mcts.classic.uct` register the two rules of this package in the same way as others can, see
`register_selection_rule`.
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

from alphac4.compiled import compiled, inlined
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

MAX_SIMULATIONS_PER_STEP = 256  # of a tree, at most, before the caller can look at the clock: well under a millisecond

AWAITING_EVALUATION = 2.0  # in place of the value of a node, which is at most 1: the node waits for its evaluation

RULE_ARGUMENTS = ("trees", "t", "node", "action", "totals", "parameters")

Scores = npt.NDArray[np.float64]
Score = TypeVar("Score", bound=Callable[..., float])


@inlined
def select_leaf(trees: Trees, t: int, parameters: Any) -> bool:
    """Walk down to a new node or a proven edge; True if `trees.leaf` now waits for an evaluation.

    Otherwise the simulation ended in a proven outcome, which has been backed up. The root must be evaluated and
    unproven. A leaf that waits already, which only a search of several leaves can meet, is returned again.
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
    """Add a value, seen by the side to move in ``node``, to every edge on the way up, turned round at each."""
    while node != ROOT:
        value_to_move = -value_to_move
        action = trees.parent_action[t, node]
        node = trees.parent[t, node]
        trees.visits[t, node, action] += 1
        trees.value_sum[t, node, action] += value_to_move


@inlined
def propagate_proof(trees: Trees, t: int, node: int) -> None:
    """Carry a proven node's outcome up for as long as it proves the parents."""
    while node != ROOT:
        proof = node_proof(trees, t, node)
        if proof == UNPROVEN:
            return
        action = trees.parent_action[t, node]
        node = trees.parent[t, node]
        trees.proof[t, node, action] = parent_proof(proof)


class Rule(NamedTuple):
    """Two functions of Python that Numba can compile, for one type of parameters."""

    select: Callable[[Trees, int, int, Any], int]  # see `select_action`
    write_scores: Callable[[Trees, int, int, Any, Scores], None]  # see `write_scores`
    score: Callable[..., float] | None = None  # what `register_selection_rule` was given


rules: dict[type, Rule] = {}  # by the type of parameters, which is a NamedTuple


def select_action(trees: Trees, t: int, node: int, parameters: Any) -> int:
    """The action that the rule of the parameters prefers in an unproven node."""
    return rules[type(parameters)].select(trees, t, node, parameters)


def write_scores(trees: Trees, t: int, node: int, parameters: Any, scores: Scores) -> None:
    """Write the score of each action as the next simulation sees it into ``scores`` [A]; NaN for a full column."""
    rules[type(parameters)].write_scores(trees, t, node, parameters, scores)


@overload(select_action, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_select(trees: Any, t: Any, node: Any, parameters: Any) -> Any:  # noqa: ARG001 - the types of arguments
    return rules[parameters.instance_class].select


@overload(write_scores, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_write_scores(trees: Any, t: Any, node: Any, parameters: Any, scores: Any) -> Any:  # noqa: ARG001
    return rules[parameters.instance_class].write_scores


@compiled
def action_scores(trees: Trees, first: int, node: int, parameters: Any, scores: Scores) -> None:
    """`write_scores` of the same node in B trees, from the ``first`` on, into ``scores`` [B, A]."""
    for row in range(len(scores)):
        write_scores(trees, first + row, node, parameters, scores[row])


class NodeTotals(NamedTuple):
    """Facts about a node as a whole that a score may need."""

    visits: int  # of all actions
    value_sum: float  # of the visits and of the node's own evaluation, to the side to move
    visited_prior: float  # the priors of the actions that have been visited


def register_selection_rule(parameters: type) -> Callable[[Score], Score]:
    """Register the decorated function as the rule of network-guided searches with ``parameters``.

    ``score(trees, t, node, action, totals, parameters)`` is compiled; among the actions that are not proven to lose,
    the one with the highest score is tried next. ``parameters`` is a NamedTuple of numbers, one of which is
    ``prior_temperature`` (see `alphac4.mcts.config.PuctConfig`); ``totals`` are `NodeTotals`. Give an instance of it to
    `alphac4.mcts.network_search.NetworkSearch` in place of a `PuctConfig`. A type has one rule for good, as searches
    with it may be compiled already.

    Raises:
        ValueError: if the type has a rule or is no such NamedTuple, or the function takes other arguments.
    """
    if parameters in rules:
        raise ValueError(f"{parameters.__name__} has a rule already: make a new type for another one")
    if "prior_temperature" not in getattr(parameters, "_fields", ()):
        raise ValueError(f"{parameters!r:.80} is no NamedTuple with a field prior_temperature, which every rule needs")

    def register(score: Score) -> Score:
        given = list(inspect.signature(getattr(score, "py_func", score)).parameters)
        if len(given) != len(RULE_ARGUMENTS):
            raise ValueError(f"{score.__name__} takes ({', '.join(given)}); expected ({', '.join(RULE_ARGUMENTS)})")
        function: Any = score
        if not hasattr(score, "py_func"):
            function = numba.njit(error_model="numpy", inline="always")(score)

        def select(trees: Trees, t: int, node: int, parameters: Any) -> int:
            totals = node_totals(trees, t, node)
            best, best_score = NO_ACTION, -math.inf
            for a in range(trees.visits.shape[2]):
                if trees.proof[t, node, a] < PROVEN_DRAW:  # ILLEGAL too
                    continue
                action_score = function(trees, t, node, a, totals, parameters)
                if (
                    best == NO_ACTION or action_score > best_score
                ):  # NaN is above nothing, and some action must be taken
                    best, best_score = a, action_score
            return best

        def write(trees: Trees, t: int, node: int, parameters: Any, scores: Scores) -> None:
            totals = node_totals(trees, t, node)
            for a in range(trees.visits.shape[2]):
                scores[a] = math.nan
                if trees.proof[t, node, a] != ILLEGAL:
                    scores[a] = function(trees, t, node, a, totals, parameters)

        rules[parameters] = Rule(select, write, score)
        return score

    return register


def check_rule(parameters: Any, trees: Trees) -> None:
    """Compile the function that scores actions by itself, so that an error in it is reported in its own terms.

    Raises:
        ValueError: for parameters without a rule or with a field that is no number, for a function that Numba cannot
            compile, or for one that does not return a number.
    """
    kind = type(parameters)
    if isinstance(parameters, type):
        raise ValueError(f"a rule of selection takes an instance: write {parameters.__name__}()")
    rule = rules.get(kind)
    if rule is None or rule.score is None:
        raise ValueError(f"no rule of selection is registered for {kind.__name__}: see alphac4.register_selection_rule")
    if is_own(parameters):
        return
    for name, value in parameters._asdict().items():
        if not isinstance(value, Real):
            raise ValueError(f"{kind.__name__}.{name} must be a number, not {value!r:.80}")
    function: Any = numba.njit(error_model="numpy")(getattr(rule.score, "py_func", rule.score))
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


def is_own(parameters: Any) -> bool:
    """Return whether the rule for these parameters is a part of this package."""
    return type(parameters).__module__.startswith("alphac4.")


@inlined
def node_totals(trees: Trees, t: int, node: int) -> NodeTotals:
    """The totals of a node that has been evaluated."""
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
def known_value(trees: Trees, t: int, node: int, action: int, unvisited: float) -> float:
    """An action's mean value, 0 if it is a proven draw, ``unvisited`` before the first visit."""
    if trees.proof[t, node, action] == PROVEN_DRAW:
        return 0.0
    visits = trees.visits[t, node, action]
    return trees.value_sum[t, node, action] / visits if visits > 0 else unvisited

"""Which action a simulation tries next: every type of parameters brings its own rule.

The walk down a tree is compiled anew for each type of parameters that it is given, with the rule of that type inside,
so a rule costs no test at run time and knows no numbers but its own. `alphac4.mcts.puct` and `alphac4.mcts.ucb1`
register the two rules of this package in the same way as others can (see `scores_actions`).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import overload

from alphac4.compiled import compiled, inlined
from alphac4.mcts.tree import ILLEGAL, NO_ACTION, PROVEN_DRAW, Trees

Scores = npt.NDArray[np.float64]
Select = Callable[[Trees, int, int, Any], int]  # trees, t, node, parameters -> action
WriteScores = Callable[[Trees, int, int, Any, Scores], None]  # the same, and [A] to write into
Score = TypeVar("Score", bound=Callable[..., float])


class Rule(NamedTuple):
    """Two functions of Python that Numba can compile; see `select_action` and `write_scores`."""

    select: Select
    write_scores: WriteScores


_rules: dict[type, Rule] = {}


def register_rule(parameters: type, rule: Rule) -> None:
    """Select by ``rule`` in every search that is given ``parameters``, which is a type of NamedTuple."""
    _rules[parameters] = rule


def has_rule(parameters: object) -> bool:
    """Whether a rule is registered for the type of these parameters."""
    return type(parameters) in _rules


class NodeTotals(NamedTuple):
    """What a score may need of a node as a whole."""

    visits: int  # of all actions
    value_sum: float  # of the visits and of the node's own evaluation, to the side to move
    visited_prior: float  # the priors of the actions that have been visited


def scores_actions(parameters: type) -> Callable[[Score], Score]:
    """Register the decorated function as the rule of network-guided searches with ``parameters``.

    ``score(trees, t, node, action, totals, parameters)`` is compiled; among the actions that are not proven to lose,
    the one with the highest score is tried next. ``parameters`` is a NamedTuple of numbers, one of which is
    ``prior_temperature`` (see `alphac4.mcts.puct.PuctConfig`); ``totals`` are `NodeTotals`. Give an instance of it to
    `alphac4.mcts.NetworkSearch` in place of a `PuctConfig`.
    """

    def register(score: Score) -> Score:
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
                if action_score > best_score:
                    best, best_score = a, action_score
            return best

        def write(trees: Trees, t: int, node: int, parameters: Any, scores: Scores) -> None:
            totals = node_totals(trees, t, node)
            for a in range(trees.visits.shape[2]):
                scores[a] = math.nan
                if trees.proof[t, node, a] != ILLEGAL:
                    scores[a] = function(trees, t, node, a, totals, parameters)

        register_rule(parameters, Rule(select, write))
        return score

    return register


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
            visited_prior += trees.prior[t, node, a]
    return NodeTotals(visits, value_sum, visited_prior)


@inlined
def known_value(trees: Trees, t: int, node: int, action: int, unvisited: float) -> float:
    """An action's mean value, 0 if it is a proven draw, ``unvisited`` before the first visit."""
    if trees.proof[t, node, action] == PROVEN_DRAW:
        return 0.0
    visits = trees.visits[t, node, action]
    return trees.value_sum[t, node, action] / visits if visits > 0 else unvisited


def select_action(trees: Trees, t: int, node: int, parameters: Any) -> int:
    """The action that the rule of the parameters prefers in an unproven node."""
    return _rules[type(parameters)].select(trees, t, node, parameters)


def write_scores(trees: Trees, t: int, node: int, parameters: Any, scores: Scores) -> None:
    """Write the score of each action as the next simulation sees it into ``scores`` [A]; NaN for a full column."""
    _rules[type(parameters)].write_scores(trees, t, node, parameters, scores)


@overload(select_action, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_select(trees: Any, t: Any, node: Any, parameters: Any) -> Select:  # noqa: ARG001 - the types of arguments
    return _rules[parameters.instance_class].select


@overload(write_scores, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _compile_write_scores(trees: Any, t: Any, node: Any, parameters: Any, scores: Any) -> WriteScores:  # noqa: ARG001
    return _rules[parameters.instance_class].write_scores


@compiled
def action_scores(trees: Trees, t: int, node: int, parameters: Any, scores: Scores) -> None:
    """`write_scores`, compiled."""
    write_scores(trees, t, node, parameters, scores)

"""Which action a simulation tries next: PUCT for network-guided search, UCB1 for the classic one."""

import math
from typing import NamedTuple

from alphac4.compiled import inlined
from alphac4.mcts import random_state
from alphac4.mcts.tree import NO_NODE, PROVEN_DRAW, ROOT, Trees

PUCT = 0
UCB1 = 1


class Selection(NamedTuple):
    """The rule and its numbers, for compiled code; see `PuctConfig` and `UctConfig`."""

    rule: int
    c_init: float  # PUCT's weight of the prior; UCB1's exploration constant
    c_base: float = 1.0
    fpu_reduction: float = 0.0
    root_fpu_reduction: float = 0.0
    prior_temperature: float = 1.0


@inlined
def exploration_weight(selection: Selection, visits: int) -> float:
    """``c_init + log((1 + N + c_base) / c_base)``, Silver et al. 2018, supplementary pseudocode."""
    return selection.c_init + math.log((1.0 + visits + selection.c_base) / selection.c_base)


@inlined
def puct_score(value: float, prior: float, visits: int, scale: float) -> float:
    """``Q + c(N) P sqrt(N + 1) / (1 + n)``; sqrt(N + 1), not sqrt(N), so that priors rank the first visit.

    ``scale`` is ``c(N) sqrt(N + 1)``, the same for all actions of a node.
    """
    return value + scale * prior / (1.0 + visits)


@inlined
def select_puct(trees: Trees, t: int, node: int, selection: Selection) -> int:
    """The action with the highest PUCT score among those not proven to lose."""
    total = 0
    sum_of_values = float(trees.value[t, node])
    visited_prior = 0.0
    for a in range(trees.visits.shape[2]):
        if trees.visits[t, node, a] > 0:
            total += trees.visits[t, node, a]
            sum_of_values += trees.value_sum[t, node, a]
            visited_prior += trees.prior[t, node, a]
    reduction = selection.root_fpu_reduction if node == ROOT else selection.fpu_reduction
    unvisited_value = sum_of_values / (1.0 + total) - reduction * math.sqrt(visited_prior)
    scale = exploration_weight(selection, total) * math.sqrt(total + 1.0)
    best, best_score = NO_NODE, -math.inf
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, node, a] < PROVEN_DRAW:  # ILLEGAL too
            continue
        value = unvisited_value
        if trees.proof[t, node, a] == PROVEN_DRAW:
            value = 0.0
        elif trees.visits[t, node, a] > 0:
            value = trees.value_sum[t, node, a] / trees.visits[t, node, a]
        score = puct_score(value, trees.prior[t, node, a], trees.visits[t, node, a], scale)
        if score > best_score:
            best, best_score = a, score
    return best


@inlined
def ucb1_score(value: float, visits: int, log_parent: float, exploration: float) -> float:
    """``Q + c sqrt(log(N) / n)``, Kocsis and Szepesvari 2006; in UCB1 (Auer et al. 2002) c = sqrt(2) on [0, 1]."""
    return value + exploration * math.sqrt(log_parent / visits)


@inlined
def select_ucb1(trees: Trees, t: int, node: int, selection: Selection) -> int:
    """A random untried action, or else the one with the highest UCB1 score; none that is proven to lose."""
    total = 0
    untried = 0
    for a in range(trees.visits.shape[2]):
        total += trees.visits[t, node, a]
        untried += (trees.visits[t, node, a] == 0) & (trees.proof[t, node, a] >= PROVEN_DRAW)
    if untried > 0:
        skip = random_state.below(trees.rng, t, untried)
        for a in range(trees.visits.shape[2]):
            if trees.visits[t, node, a] == 0 and trees.proof[t, node, a] >= PROVEN_DRAW:
                if skip == 0:
                    return a
                skip -= 1
    log_parent = math.log(total)
    best, best_score = NO_NODE, -math.inf
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, node, a] < PROVEN_DRAW:  # ILLEGAL too
            continue
        value = 0.0
        if trees.proof[t, node, a] != PROVEN_DRAW:
            value = trees.value_sum[t, node, a] / trees.visits[t, node, a]
        score = ucb1_score(value, trees.visits[t, node, a], log_parent, selection.c_init)
        if score > best_score:
            best, best_score = a, score
    return best


@inlined
def select_action(trees: Trees, t: int, node: int, selection: Selection) -> int:
    """The action that the rule prefers in an unproven node."""
    if selection.rule == PUCT:
        return select_puct(trees, t, node, selection)
    return select_ucb1(trees, t, node, selection)

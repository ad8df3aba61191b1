"""Which action a simulation tries next: PUCT for network-guided search, UCB1 for the classic one."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.mcts import random_state
from alphac4.mcts.heuristics import NO_EVALUATION
from alphac4.mcts.tree import ILLEGAL, NO_NODE, PROVEN_DRAW, PROVEN_WIN, ROOT, Trees, root_visits

PUCT = 0
UCB1 = 1

# What a hand-written evaluation does in UCB1's score.
BIAS = 0
INSTEAD = 1


class Selection(NamedTuple):
    """The rule and its numbers, for compiled code; see `PuctConfig` and `UctConfig`."""

    rule: int
    c_init: float  # PUCT's weight of the prior; UCB1's exploration constant
    c_base: float = 1.0
    fpu_reduction: float = 0.0
    root_fpu_reduction: float = 0.0
    prior_temperature: float = 1.0
    proofs: bool = True  # whether proven outcomes spread through the tree (MCTS-Solver)
    look_ahead: bool = True  # whether a new node marks moves that lose at once
    root_count: bool = False  # UCB1 with the root's count in place of the parent's
    reward_scale: float = 1.0  # UCB1: what a win is worth more than a draw
    evaluation: int = NO_EVALUATION  # UCB1: a hand-written evaluation, kept as the nodes' priors
    evaluation_use: int = BIAS
    evaluation_weight: float = 0.0


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
def first_play_value(sum_of_values: float, visits: int, visited_prior: float, node: int, selection: Selection) -> float:
    """What an unvisited move is taken to be worth: the mean so far, less ``f sqrt(sum of visited priors)`` (KataGo).

    ``sum_of_values`` holds the node's own evaluation and those of its ``visits``.
    """
    reduction = selection.root_fpu_reduction if node == ROOT else selection.fpu_reduction
    return sum_of_values / (1.0 + visits) - reduction * math.sqrt(visited_prior)


@inlined
def known_value(trees: Trees, t: int, node: int, action: int, unvisited: float) -> float:
    """An action's mean value, 0 if it is a proven draw, ``unvisited`` before the first visit."""
    if trees.proof[t, node, action] == PROVEN_DRAW:
        return 0.0
    visits = trees.visits[t, node, action]
    return trees.value_sum[t, node, action] / visits if visits > 0 else unvisited


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
    unvisited_value = first_play_value(sum_of_values, total, visited_prior, node, selection)
    scale = exploration_weight(selection, total) * math.sqrt(total + 1.0)
    best, best_score = NO_NODE, -math.inf
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, node, a] < PROVEN_DRAW:  # ILLEGAL too
            continue
        value = known_value(trees, t, node, a, unvisited_value)
        score = puct_score(value, trees.prior[t, node, a], trees.visits[t, node, a], scale)
        if score > best_score:
            best, best_score = a, score
    return best


@inlined
def ucb1_score(value: float, visits: int, log_parent: float, exploration: float) -> float:
    """``Q + c sqrt(log(N) / n)``, Kocsis and Szepesvari 2006; in UCB1 (Auer et al. 2002) c = sqrt(2) on [0, 1]."""
    return value + exploration * math.sqrt(log_parent / visits)


@inlined
def progressive_bias(evaluation: float, weight: float, visits: int) -> float:
    """``w h / (1 + n)``, Chaslot et al. 2008: an evaluation that counts less the more the move has been tried."""
    return weight * evaluation / (1.0 + visits)


@inlined
def ucb1_action_score(trees: Trees, t: int, node: int, action: int, log_parent: float, selection: Selection) -> float:
    """The score of an action that has been tried."""
    visits = trees.visits[t, node, action]
    value = 0.0
    if trees.proof[t, node, action] != PROVEN_DRAW:
        value = selection.reward_scale * trees.value_sum[t, node, action] / visits
    if selection.evaluation == NO_EVALUATION:
        return ucb1_score(value, visits, log_parent, selection.c_init)
    evaluation = trees.prior[t, node, action]
    if selection.evaluation_use == INSTEAD:
        return ucb1_score(evaluation, visits, log_parent, selection.c_init)
    bias = progressive_bias(evaluation, selection.evaluation_weight, visits)
    return ucb1_score(value, visits, log_parent, selection.c_init) + bias


@inlined
def select_ucb1(trees: Trees, t: int, node: int, selection: Selection) -> int:
    """A random untried action, or else the one with the highest UCB1 score.

    None that is known to lose as long as another is open. A known win is only met where proofs do not spread, and is
    taken at once if nodes look ahead; in plain UCT it is an action like any other.
    """
    total = 0
    untried = 0
    open_actions = 0
    for a in range(trees.visits.shape[2]):
        proof = trees.proof[t, node, a]
        total += trees.visits[t, node, a]
        if proof >= PROVEN_DRAW:
            open_actions += 1
            untried += trees.visits[t, node, a] == 0
            if not selection.proofs and selection.look_ahead and proof > PROVEN_DRAW and proof <= PROVEN_WIN:
                return a
    lowest = PROVEN_DRAW if open_actions > 0 else ILLEGAL + 1
    if open_actions == 0:
        for a in range(trees.visits.shape[2]):
            untried += (trees.visits[t, node, a] == 0) & (trees.proof[t, node, a] >= lowest)
    if untried > 0:
        skip = random_state.below(trees.rng, t, untried)
        for a in range(trees.visits.shape[2]):
            if trees.visits[t, node, a] == 0 and trees.proof[t, node, a] >= lowest:
                if skip == 0:
                    return a
                skip -= 1
    log_parent = math.log(root_visits(trees, t) if selection.root_count else total)
    best, best_score = NO_NODE, -math.inf
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, node, a] < lowest:
            continue
        score = ucb1_action_score(trees, t, node, a, log_parent, selection)
        if score > best_score:
            best, best_score = a, score
    return best


@inlined
def select_action(trees: Trees, t: int, node: int, selection: Selection) -> int:
    """The action that the rule prefers in an unproven node."""
    if selection.rule == PUCT:
        return select_puct(trees, t, node, selection)
    return select_ucb1(trees, t, node, selection)


@compiled
def action_scores(trees: Trees, t: int, node: int, selection: Selection, scores: npt.NDArray[np.float64]) -> None:
    """Write each action's score as the next simulation sees it into ``scores`` [A].

    NaN for a full column; infinity for an action that UCB1 has yet to try.
    """
    total = 0
    sum_of_values = float(trees.value[t, node])
    visited_prior = 0.0
    for a in range(trees.visits.shape[2]):
        visits = trees.visits[t, node, a]
        total += visits
        if visits > 0:
            sum_of_values += trees.value_sum[t, node, a]
            visited_prior += trees.prior[t, node, a]
    unvisited_value = first_play_value(sum_of_values, total, visited_prior, node, selection)
    scale = exploration_weight(selection, total) * math.sqrt(total + 1.0)
    log_parent = math.log(max(root_visits(trees, t) if selection.root_count else total, 1))
    for a in range(trees.visits.shape[2]):
        visits = trees.visits[t, node, a]
        scores[a] = math.nan
        if trees.proof[t, node, a] == ILLEGAL:
            continue
        if selection.rule == PUCT:
            value = known_value(trees, t, node, a, unvisited_value)
            scores[a] = puct_score(value, trees.prior[t, node, a], visits, scale)
        else:
            scores[a] = math.inf
            if visits > 0:
                scores[a] = ucb1_action_score(trees, t, node, a, log_parent, selection)

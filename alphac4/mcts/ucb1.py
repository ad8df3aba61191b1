"""The rule of classic search: UCB1, with a hand-written evaluation where there is one."""

import math
from typing import NamedTuple

from alphac4.compiled import inlined
from alphac4.mcts import random_state
from alphac4.mcts.heuristics import NO_EVALUATION
from alphac4.mcts.selection import Rule, Scores, register_rule
from alphac4.mcts.tree import ILLEGAL, NO_ACTION, PROVEN_DRAW, PROVEN_WIN, Trees, root_visits

# What a hand-written evaluation does in the score.
BIAS = 0
INSTEAD = 1


class UctParameters(NamedTuple):
    """The tree's part of `UctConfig` for compiled code."""

    exploration: float
    proofs: bool = True  # whether proven outcomes spread through the tree (MCTS-Solver)
    look_ahead: bool = True  # whether a new node marks moves that lose at once
    root_count: bool = False  # the root's count of visits under the logarithm in place of the parent's
    reward_scale: float = 1.0  # what a win is worth more than a draw
    evaluation: int = NO_EVALUATION  # which one; `Trees.evaluation` holds what it says
    evaluation_use: int = BIAS
    evaluation_weight: float = 0.0


@inlined
def ucb1_score(value: float, visits: int, log_parent: float, exploration: float) -> float:
    """``Q + c sqrt(log(N) / n)``, Kocsis and Szepesvari 2006; in UCB1 (Auer et al. 2002) c = sqrt(2) on [0, 1]."""
    return value + exploration * math.sqrt(log_parent / visits)


@inlined
def progressive_bias(evaluation: float, weight: float, visits: int) -> float:
    """``w h / (1 + n)``, Chaslot et al. 2008: an evaluation that counts less the more the move has been tried."""
    return weight * evaluation / (1.0 + visits)


@inlined
def ucb1_action_score(
    trees: Trees, t: int, node: int, action: int, log_parent: float, parameters: UctParameters
) -> float:
    """The score of an action that has been tried."""
    visits = trees.visits[t, node, action]
    value = 0.0
    if trees.proof[t, node, action] != PROVEN_DRAW:
        value = parameters.reward_scale * trees.value_sum[t, node, action] / visits
    if parameters.evaluation == NO_EVALUATION:
        return ucb1_score(value, visits, log_parent, parameters.exploration)
    evaluation = trees.evaluation[t, node, action]
    if parameters.evaluation_use == INSTEAD:
        return ucb1_score(evaluation, visits, log_parent, parameters.exploration)
    bias = progressive_bias(evaluation, parameters.evaluation_weight, visits)
    return ucb1_score(value, visits, log_parent, parameters.exploration) + bias


def select_ucb1(trees: Trees, t: int, node: int, parameters: UctParameters) -> int:
    """A random untried action, or else the one with the highest UCB1 score.

    An action that is known to lose is only taken if all are. A known win is only met where proofs do not spread, and
    is taken at once if nodes look ahead; in plain UCT it is an action like any other.
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
            if not parameters.proofs and parameters.look_ahead and proof > PROVEN_DRAW and proof <= PROVEN_WIN:
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
    log_parent = math.log(root_visits(trees, t) if parameters.root_count else total)
    best, best_score = NO_ACTION, -math.inf
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, node, a] < lowest:
            continue
        score = ucb1_action_score(trees, t, node, a, log_parent, parameters)
        if score > best_score:
            best, best_score = a, score
    return best


def write_ucb1_scores(trees: Trees, t: int, node: int, parameters: UctParameters, scores: Scores) -> None:
    """See `alphac4.mcts.selection.write_scores`; an action that has not been tried scores infinity."""
    total = 0
    for a in range(trees.visits.shape[2]):
        total += trees.visits[t, node, a]
    log_parent = math.log(max(root_visits(trees, t) if parameters.root_count else total, 1))
    for a in range(trees.visits.shape[2]):
        scores[a] = math.nan
        if trees.proof[t, node, a] != ILLEGAL:
            scores[a] = math.inf
            if trees.visits[t, node, a] > 0:
                scores[a] = ucb1_action_score(trees, t, node, a, log_parent, parameters)


register_rule(UctParameters, Rule(select_ucb1, write_ucb1_scores))

"""Policy targets from a finished search: the shares of its visits, or the prior improved by its values.

The equations are numbered as in Danihelka et al. 2022, "Policy improvement by planning with Gumbel".
"""

import math

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.mcts.tree import PROVEN_DRAW, ROOT, UNPROVEN, Trees, node_proof, proof_value

Row = npt.NDArray[np.float32]

C_VISIT = 50.0  # visits that are added to the maximum (Gumbel AlphaZero: 50)
C_SCALE = 0.1  # weight of the values in self-play's targets (Gumbel AlphaZero: 1.0 for board games, 0.1 for others)


@inlined
def value_bonus(value: float, max_visits: int, c_scale: float) -> float:
    """Return ``sigma(q) = (c_visit + max N) c_scale q`` with q rescaled from [-1, 1] to [0, 1], equation 8."""
    return (C_VISIT + max_visits) * c_scale * 0.5 * (value + 1.0)


@compiled
def mixed_value(trees: Trees, t: int, prior: Row) -> float:
    """Return the value assumed for unvisited actions: the network's, mixed with those of visited actions.

    ``(v + N / sum(prior of visited) * sum(prior Q over visited)) / (1 + N)``, equation 33.
    """
    total = 0
    visited_prior = 0.0
    weighted = 0.0
    for a in range(len(prior)):
        visits = trees.visits[t, ROOT, a]
        if visits > 0:
            total += visits
            visited_prior += prior[a]
            weighted += prior[a] * trees.value_sum[t, ROOT, a] / visits
    if total == 0 or visited_prior <= 0.0:
        return float(trees.value[t, ROOT])
    return (float(trees.value[t, ROOT]) + total * weighted / visited_prior) / (1.0 + total)


@compiled
def completed_value(trees: Trees, t: int, action: int, unvisited: float) -> float:
    """Return the proven value of a root action or its mean value; ``unvisited`` if it has neither."""
    proof = trees.proof[t, ROOT, action]
    if proof != UNPROVEN:
        return proof_value(proof)
    visits = trees.visits[t, ROOT, action]
    return trees.value_sum[t, ROOT, action] / visits if visits > 0 else unvisited


@compiled
def improved_policy(trees: Trees, t: int, prior: Row, c_scale: float, policy: Row) -> None:
    """Write ``softmax(log prior + sigma(completed Q))`` over legal actions into ``policy`` [A], equation 11.

    ``prior`` [A] is the network's, without noise. Proven losses get 0. Proven roots get `proven_policy`.
    """
    proof = node_proof(trees, t, ROOT)
    if proof != UNPROVEN:
        proven_policy(trees, t, proof, policy)
        return
    most = 0
    for a in range(len(prior)):
        most = max(most, trees.visits[t, ROOT, a])
    unvisited = mixed_value(trees, t, prior)
    highest = -math.inf
    for a in range(len(prior)):
        policy[a] = -math.inf
        if trees.proof[t, ROOT, a] >= PROVEN_DRAW:
            value = completed_value(trees, t, a, unvisited)
            policy[a] = math.log(prior[a] + 1e-12) + value_bonus(value, most, c_scale)
            highest = max(highest, policy[a])
    total = 0.0
    for a in range(len(prior)):
        policy[a] = math.exp(policy[a] - highest)
        total += policy[a]
    for a in range(len(prior)):
        policy[a] /= total


@compiled
def visit_policy(trees: Trees, t: int, policy: Row) -> None:
    """Write the shares of root visits into ``policy`` [A]; proven losses get 0. Proven roots get `proven_policy`."""
    proof = node_proof(trees, t, ROOT)
    if proof != UNPROVEN:
        proven_policy(trees, t, proof, policy)
        return
    total = 0.0
    for a in range(len(policy)):
        policy[a] = trees.visits[t, ROOT, a] if trees.proof[t, ROOT, a] >= PROVEN_DRAW else 0.0
        total += policy[a]
    if total == 0.0:  # without simulations, use the prior
        for a in range(len(policy)):
            policy[a] = trees.priors[t, ROOT, a] if trees.proof[t, ROOT, a] >= PROVEN_DRAW else 0.0
            total += policy[a]
    for a in range(len(policy)):
        policy[a] /= total


@compiled
def proven_policy(trees: Trees, t: int, proof: int, policy: Row) -> None:
    """Divide the policy equally among a proven root's best actions: fastest wins, else draws, else slowest losses."""
    best = 0
    for a in range(len(policy)):
        best += trees.proof[t, ROOT, a] == proof
    for a in range(len(policy)):
        policy[a] = 1.0 / best if trees.proof[t, ROOT, a] == proof else 0.0

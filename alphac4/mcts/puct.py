"""Network-guided search in one tree: the PUCT rule, expansion by an evaluation, noise at the root.

A simulation calls `alphac4.mcts.simulation.select_leaf`, `write_leaf`, the network, and `expand`, which stores the
leaf's priors and backs its value up.
"""

import math

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, force_inlined, inlined
from alphac4.game.planes import write_planes
from alphac4.game.rules import canonical_key, mirror, mirror_is_canonical
from alphac4.mcts import random_state
from alphac4.mcts.config import PuctConfig
from alphac4.mcts.simulation import NodeTotals, action_value, backup, register_selection_rule
from alphac4.mcts.tree import ILLEGAL, NO_NODE, ROOT, Trees


@inlined
def exploration_weight(parameters: PuctConfig, visits: int) -> float:
    """Return ``c_init + log((1 + N + c_base) / c_base)``, Silver et al. 2018, supplementary pseudocode."""
    return parameters.c_init + math.log((1.0 + visits + parameters.c_base) / parameters.c_base)


@inlined
def puct_score(value: float, prior: float, visits: int, scale: float) -> float:
    """Return ``Q + c(N) P sqrt(N + 1) / (1 + n)``.

    Q, in [-1, 1], is for the side to move. ``scale`` is ``c(N) sqrt(N + 1)``, the same for all actions of a node.
    AlphaZero has sqrt(N); with N + 1, priors decide the first visit.
    """
    return value + scale * prior / (1.0 + visits)


@inlined
def first_play_value(totals: NodeTotals, node: int, parameters: PuctConfig) -> float:
    """Return the value of an unvisited move: the node's mean minus ``f * sqrt(sum of visited priors)`` (KataGo)."""
    reduction = parameters.root_fpu_reduction if node == ROOT else parameters.fpu_reduction
    return totals.value_sum / (1.0 + totals.visits) - reduction * math.sqrt(totals.visited_prior)


@register_selection_rule(PuctConfig)
@inlined
def puct_action_score(
    trees: Trees, t: int, node: int, action: int, totals: NodeTotals, parameters: PuctConfig
) -> float:
    """Return the `puct_score` of an action; the compiler moves the terms of the node out of the loop over actions."""
    scale = exploration_weight(parameters, totals.visits) * math.sqrt(totals.visits + 1.0)
    value = action_value(trees, t, node, action, first_play_value(totals, node, parameters))
    return puct_score(value, trees.priors[t, node, action], trees.visits[t, node, action], scale)


@inlined
def leaf_key(trees: Trees, t: int) -> np.uint64:
    return canonical_key(trees.geometry, trees.leaf_own[t], trees.leaf_occupied[t])


@force_inlined
def write_leaf(trees: Trees, t: int, planes: npt.NDArray[np.number], one: np.number) -> None:
    """Write the waiting leaf's planes, in the canonical orientation of its position.

    So the evaluations of a position and its mirror image are mirror images, even if the network is not symmetric.
    """
    geometry, own, occupied = trees.geometry, trees.leaf_own[t], trees.leaf_occupied[t]
    if mirror_is_canonical(geometry, own, occupied):
        own, occupied = mirror(geometry, own), mirror(geometry, occupied)
    write_planes(geometry, own, occupied, planes, one)


@force_inlined
def expand(
    trees: Trees, t: int, logits: npt.NDArray[np.float32], wdl: npt.NDArray[np.float32], prior_temperature: float
) -> None:
    """Store the waiting leaf's evaluation, if a leaf waits, and back its value up.

    ``logits`` [A] are those of the canonical orientation; ``wdl`` [3] are probabilities for the side to move.
    """
    leaf = trees.leaf[t]
    if leaf == NO_NODE:
        return
    trees.leaf[t] = NO_NODE
    actions = trees.visits.shape[2]
    # Column a of the leaf is column first + step * a of the evaluated orientation.
    first, step = 0, 1
    if mirror_is_canonical(trees.geometry, trees.leaf_own[t], trees.leaf_occupied[t]):
        first, step = actions - 1, -1
    highest = -math.inf
    for a in range(actions):
        if trees.proof[t, leaf, a] != ILLEGAL and logits[first + step * a] > highest:
            highest = float(logits[first + step * a])
    total = 0.0
    for a in range(actions):
        # Mask before the softmax: a full column would otherwise absorb prior mass.
        if trees.proof[t, leaf, a] != ILLEGAL:
            weight = math.exp((logits[first + step * a] - highest) / prior_temperature)
            trees.priors[t, leaf, a] = weight
            total += weight
    for a in range(actions):
        trees.priors[t, leaf, a] /= total
    value_to_move = float(wdl[0] - wdl[2])
    trees.value[t, leaf] = value_to_move
    trees.draw[t, leaf] = wdl[1]
    trees.draw_sum[t] += wdl[1]
    trees.draw_count[t] += 1
    backup(trees, t, leaf, value_to_move)


@compiled
def add_root_noise(trees: Trees, t: int, concentration: float, fraction: float) -> None:
    """Mix ``Dirichlet(concentration / legal actions)`` into the root's priors (AlphaZero 2018; KataGo's scaling)."""
    actions = trees.visits.shape[2]
    legal = 0
    for a in range(actions):
        if trees.proof[t, ROOT, a] != ILLEGAL:
            legal += 1
    # Draw twice from the same random state, first to get the sum: this needs no scratch memory.
    before = trees.rng[t]
    total = 0.0
    for _ in range(legal):
        total += random_state.gamma(trees.rng, t, concentration / legal)
    if total <= 0.0:  # every draw underflowed, which a tiny concentration can do
        return
    trees.rng[t] = before
    for a in range(actions):
        if trees.proof[t, ROOT, a] != ILLEGAL:
            noise = random_state.gamma(trees.rng, t, concentration / legal) / total
            trees.priors[t, ROOT, a] = (1.0 - fraction) * trees.priors[t, ROOT, a] + fraction * noise

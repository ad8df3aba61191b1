"""One simulation: the walk from the root to a new node, shared by every search."""

from typing import Any

from alphac4.compiled import inlined
from alphac4.game.rules import Geometry, play
from alphac4.mcts.selection import select_action
from alphac4.mcts.tree import (
    NO_ACTION,
    NO_NODE,
    PROVEN_DRAW,
    ROOT,
    UNPROVEN,
    Trees,
    add_node,
    backup,
    node_proof,
    proof_value,
    propagate_proof,
)

SIMULATIONS_A_STEP = 256  # of a tree, at most, before the caller can look at the clock: well under a millisecond


@inlined
def simulate(
    geometry: Geometry, trees: Trees, t: int, parameters: Any, proofs: bool, look_ahead: bool, root_action: int
) -> bool:
    """Walk down to a new node or a proven edge; True if `trees.leaf` now waits for an evaluation.

    Otherwise the simulation ended in a proven outcome, which has been backed up. The type of ``parameters`` decides
    the rule of selection. With ``proofs`` proven outcomes spread through the tree (MCTS-Solver); for ``look_ahead``
    see `add_node`. ``root_action`` forces the first action; NO_ACTION leaves it to the rule. The root must be evaluated
    and unproven.
    """
    node = ROOT
    own, occupied = trees.own[t], trees.occupied[t]
    action = root_action
    while True:
        if action == NO_ACTION:
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
        own, occupied = play(geometry, own, occupied, action)
        child = trees.child[t, node, action]
        if child == NO_NODE:
            leaf = add_node(geometry, trees, t, node, action, own, occupied, look_ahead)
            proof = node_proof(trees, t, leaf) if proofs else UNPROVEN
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
        action = NO_ACTION

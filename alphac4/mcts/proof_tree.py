"""The part of a search tree that proves a win: one move for the winner, every reply of the other side."""

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating
from alphac4.game.rules import Geometry, play
from alphac4.game.symmetry import canonical_key, mirror_is_canonical
from alphac4.mcts.tree import ILLEGAL, NO_ACTION, NO_NODE, PROVEN_DRAW, PROVEN_WIN, ROOT, UNPROVEN, Trees, node_proof


@allocating
def winning_moves(geometry: Geometry, trees: Trees, t: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int8]]:
    """The winner's move in every position of the proof: canonical keys [P] and columns [P] as they see them.

    Nothing unless tree ``t`` proves that the side to move at its root wins. Positions in which it completes a run at
    once are left out, as are those after a reply that allows one.
    """
    size = max(1, int(trees.size[t]))
    keys, columns = np.empty(size, np.uint64), np.empty(size, np.int8)
    nodes = np.empty(size, np.int32)
    owns, occupieds = np.empty(size, np.uint64), np.empty(size, np.uint64)
    count, waiting = 0, 0
    proof = node_proof(trees, t, ROOT)
    if proof != UNPROVEN and proof > PROVEN_DRAW:
        nodes[0], owns[0], occupieds[0] = ROOT, trees.own[t], trees.occupied[t]
        waiting = 1
    while waiting > 0:
        waiting -= 1
        node, own, occupied = nodes[waiting], owns[waiting], occupieds[waiting]
        proof = node_proof(trees, t, node)
        if proof == PROVEN_WIN - 1:
            continue
        move = NO_ACTION
        for a in range(geometry.columns):
            if trees.proof[t, node, a] == proof and move == NO_ACTION:
                move = a
        keys[count] = canonical_key(geometry, own, occupied)
        columns[count] = geometry.columns - 1 - move if mirror_is_canonical(geometry, own, occupied) else move
        count += 1
        child = trees.child[t, node, move]
        theirs, then = play(geometry, own, occupied, move)
        for a in range(geometry.columns):
            if trees.proof[t, child, a] == ILLEGAL or trees.child[t, child, a] == NO_NODE:
                continue
            nodes[waiting] = trees.child[t, child, a]
            owns[waiting], occupieds[waiting] = play(geometry, theirs, then, a)
            waiting += 1
    return keys[:count], columns[:count]

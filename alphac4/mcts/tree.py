"""Search trees stored as arrays, with proven outcomes (MCTS-Solver).

A compiled function that takes the arrays and the index of a tree accesses only that tree, so that several threads can
search different trees. Statistics are stored per edge: ``visits[t, n, a]`` is the number of visits of action ``a`` in
node ``n`` of tree ``t``. Values are for the side to move in ``n``.

Proofs follow Winands et al. 2008, "Monte-Carlo Tree Search Solver", and include an upper bound on the distance to the
end of the game: a win within ``d`` plies is ``PROVEN_WIN - d``, a loss within ``d`` plies ``d - PROVEN_WIN``, a draw 0.
So a greater number is a better outcome: a fast win before a slow win, a slow loss before a fast loss.
"""

from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating, compiled, force_inlined, inlined
from alphac4.game.rules import (
    U64_0,
    U64_1,
    Board,
    Words,
    canonical_key,
    column_cells,
    legal_cells,
    mirror_is_canonical,
    play,
    winning_cells,
)

ROOT = 0
NO_NODE = -1
NO_ACTION = -1
PROVEN_WIN = 100  # above any game's length in plies (at most 64)
PROVEN_DRAW = 0
ILLEGAL = -128  # the column is full; below every proof
UNPROVEN = 127  # above every proof, so that a move is not proven to lose if its proof is at least PROVEN_DRAW


class Trees(NamedTuple):
    """T trees of at most N nodes with A actions (columns) each. Make them with `make_trees`.

    Annotations have the dimensions of arrays.
    """

    # Constant.
    board: Board
    proofs: bool  # whether proven outcomes propagate to parents
    look_ahead: bool  # whether a new node marks the moves after which the opponent wins immediately
    mirror: bool  # whether the network evaluates positions in canonical orientation: mirror images share an evaluation
    reuse: bool  # whether the next search in a game of self-play continues in the subtree of the move played
    # Constant during a search.
    own: Annotated[npt.NDArray[np.uint64], "T"]  # the root's position
    occupied: Annotated[npt.NDArray[np.uint64], "T"]
    # Nodes: written when a node is added or evaluated.
    size: Annotated[npt.NDArray[np.int32], "T"]  # nodes in use; 0 before the root is added
    parent: Annotated[npt.NDArray[np.int32], "T N"]
    parent_action: Annotated[npt.NDArray[np.int8], "T N"]
    value: Annotated[npt.NDArray[np.float32], "T N"]  # the evaluation in [-1, 1]
    draw: Annotated[npt.NDArray[np.float32], "T N"]  # the evaluation's probability of a draw
    # Edges: updated by simulations; priors and heuristics only at the node's expansion, and by noise at the root.
    visits: Annotated[npt.NDArray[np.int32], "T N A"]
    value_sum: Annotated[npt.NDArray[np.float32], "T N A"]
    priors: Annotated[npt.NDArray[np.float32], "T N A"]  # sum to 1 over legal actions; 0 without a network
    heuristics: Annotated[npt.NDArray[np.float32], "T H A"]  # a hand-written value in [-1, 1]; H = N, or 1 if unused
    child: Annotated[npt.NDArray[np.int32], "T N A"]
    proof: Annotated[npt.NDArray[np.int8], "T N A"]  # UNPROVEN, ILLEGAL or a proven outcome
    # State of the search.
    budget: Annotated[npt.NDArray[np.int64], "T"]  # visits of the root at which the search ends
    uniform: Annotated[npt.NDArray[np.float64], "T A"]  # random numbers for users' selections; 1/2 except in self-play
    leaf: Annotated[npt.NDArray[np.int32], "T"]  # the node that awaits its evaluation, or NO_NODE
    leaf_own: Annotated[npt.NDArray[np.uint64], "T"]  # that node's position
    leaf_occupied: Annotated[npt.NDArray[np.uint64], "T"]
    draw_sum: Annotated[npt.NDArray[np.float32], "T"]  # draw probabilities of all leaves since the search began
    draw_count: Annotated[npt.NDArray[np.int32], "T"]  # number of these leaves
    rng: Annotated[npt.NDArray[np.uint64], "T"]  # random state, see `alphac4.mcts.random_state`


ARRAYS = Trees._fields[5:]  # names of the arrays with a row per tree


def make_trees(
    trees: int,
    nodes: int,  # of a tree: one per simulation, and the root
    board: Board,
    rng: np.random.Generator,  # seeds each tree's random state
    *,
    proofs: bool = True,  # whether proven outcomes propagate to parents
    look_ahead: bool = True,  # whether a new node marks moves after which the opponent wins immediately
    mirror: bool = True,  # whether the network evaluates positions in canonical orientation
    reuse: bool = True,  # whether the next search of self-play continues in the subtree of the move played
    heuristics: bool = False,  # whether to allocate memory for a hand-written value of each move
) -> Trees:
    sizes = {"T": trees, "N": nodes, "H": nodes if heuristics else 1, "A": board.columns}
    arrays = zeros(Trees, **sizes) | {"rng": rng.integers(1, 2**63, trees, dtype=np.uint64)}
    arrays["leaf"].fill(NO_NODE)
    arrays["uniform"].fill(0.5)
    return Trees(board=board, proofs=proofs, look_ahead=look_ahead, mirror=mirror, reuse=reuse, **arrays)


def zeros(record: type, **sizes: int) -> dict[str, npt.NDArray[Any]]:
    """Return zeros for the fields of a NamedTuple that are annotated with an array type and names of dimensions."""
    arrays = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        if get_origin(hint) is Annotated:
            array, dimensions = get_args(hint)
            (dtype,) = get_args(get_args(array)[1])
            arrays[name] = np.zeros([sizes[dimension] for dimension in dimensions.split()], dtype)
    return arrays


@inlined
def proof_value(proof: int) -> float:
    """Return the value of a proven outcome: +1, 0 or -1."""
    return 1.0 if proof > PROVEN_DRAW else (-1.0 if proof < PROVEN_DRAW else 0.0)


@inlined
def parent_proof(proof: int) -> int:
    """Return a node's proven outcome for its parent: for the other side and one ply further from the end."""
    if proof == PROVEN_DRAW:
        return PROVEN_DRAW
    return 1 - proof if proof > 0 else -proof - 1


@force_inlined
def node_proof(trees: Trees, t: int, node: int) -> int:
    """Return the best action's proven outcome if that action wins or all actions are proven, else UNPROVEN."""
    best = ILLEGAL
    open_actions = False
    for action in range(trees.proof.shape[2]):
        proof = trees.proof[t, node, action]
        if proof == UNPROVEN:
            open_actions = True
        elif proof > best:
            best = proof
    return UNPROVEN if open_actions and best <= PROVEN_DRAW else best


@force_inlined
def add_node(trees: Trees, t: int, parent: int, action: int, own: np.uint64, occupied: np.uint64) -> int:
    """Append the node of an unfinished position, mark its actions that end the game, and return its index.

    An action is a proven win in 1 ply if it completes a run, and a proven draw if it fills the board. If the trees look
    ahead, it is a proven loss in 2 plies if the opponent can complete a run right after it.
    """
    board = trees.board
    node = int(trees.size[t])
    trees.size[t] = node + 1
    trees.parent[t, node] = parent
    trees.parent_action[t, node] = action
    if parent != NO_NODE:
        trees.child[t, parent, action] = node
    legal = legal_cells(board, occupied)
    wins = winning_cells(board, own, occupied) & legal
    threats = winning_cells(board, own ^ occupied, occupied)
    open_threats = threats & legal
    for a in range(board.columns):
        cell = legal & column_cells(board, a)
        proof = UNPROVEN
        if cell == U64_0:
            proof = ILLEGAL
        elif wins & cell != U64_0:
            proof = PROVEN_WIN - 1
        elif (occupied | cell) == board.playable:
            proof = PROVEN_DRAW
        elif trees.look_ahead and ((open_threats & ~cell) != U64_0 or (threats & (cell << U64_1)) != U64_0):
            proof = 2 - PROVEN_WIN
        trees.proof[t, node, a] = proof
        trees.visits[t, node, a] = 0
        trees.value_sum[t, node, a] = 0.0
        trees.priors[t, node, a] = 0.0
        trees.child[t, node, a] = NO_NODE
    return node


@compiled
def reset_tree(trees: Trees, t: int, own: np.uint64, occupied: np.uint64) -> None:
    """Reset tree ``t`` to an unfinished position; its root awaits an evaluation unless it is proven."""
    trees.own[t] = own
    trees.occupied[t] = occupied
    trees.size[t] = 0
    add_node(trees, t, NO_NODE, 0, own, occupied)
    trees.value[t, ROOT] = 0.0
    trees.draw[t, ROOT] = 0.0
    trees.draw_sum[t] = 0.0
    trees.draw_count[t] = 0
    trees.leaf[t] = NO_NODE
    if node_proof(trees, t, ROOT) == UNPROVEN:
        trees.leaf[t] = ROOT
        trees.leaf_own[t] = own
        trees.leaf_occupied[t] = occupied


@inlined
def root_visits(trees: Trees, t: int) -> int:
    total = 0
    for action in range(trees.visits.shape[2]):
        total += trees.visits[t, ROOT, action]
    return total


@inlined
def is_searched(trees: Trees, t: int) -> bool:
    """Return whether the search's budget is spent, its root is proven, or the tree is full."""
    return bool(
        root_visits(trees, t) >= trees.budget[t]
        or trees.size[t] >= trees.parent.shape[1]
        or node_proof(trees, t, ROOT) != UNPROVEN
    )


@compiled
def root_value(trees: Trees, t: int) -> float:
    """Return the root's value for its side to move: the proven one, or the mean of all evaluations."""
    proof = node_proof(trees, t, ROOT)
    if proof != UNPROVEN:
        return proof_value(proof)
    total = float(trees.value[t, ROOT])
    count = 1
    for action in range(trees.visits.shape[2]):
        total += trees.value_sum[t, ROOT, action]
        count += trees.visits[t, ROOT, action]
    return total / count


@compiled
def best_action(trees: Trees, t: int) -> int:
    """Return the move to play: the fastest proven win, or the most visited move that is not proven to lose.

    Ties go to the higher mean value or, before the first visit, to the higher prior. If every move is proven to lose,
    the slowest loss is returned.
    """
    proof = node_proof(trees, t, ROOT)
    best = NO_ACTION
    best_visits = -1
    best_value = 0.0
    for action in range(trees.visits.shape[2]):
        edge = trees.proof[t, ROOT, action]
        if (proof != UNPROVEN and edge != proof) or (proof == UNPROVEN and edge < PROVEN_DRAW):
            continue
        visits = trees.visits[t, ROOT, action]
        value = trees.value_sum[t, ROOT, action] / max(visits, 1)
        if visits == 0 and proof == UNPROVEN:
            value = trees.priors[t, ROOT, action]
        if visits > best_visits or (visits == best_visits and value > best_value):
            best, best_visits, best_value = action, visits, value
    return best


@compiled
def write_variations(
    trees: Trees, moves: npt.NDArray[np.int64], lines: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> None:
    """Write the principal variations that begin with ``moves`` [B] into ``lines`` [B, L], and their ``lengths`` [B].

    They continue with the best proven move or, in unproven nodes, with the most visited one, up to the end of the tree
    or L moves.
    """
    for t in range(len(moves)):
        lines[t, 0], length = moves[t], 1
        node = trees.child[t, ROOT, moves[t]]
        while node != NO_NODE and length < lines.shape[1]:
            proof = node_proof(trees, t, node)
            best, most = NO_ACTION, -1
            for a in range(trees.visits.shape[2]):
                edge, visits = trees.proof[t, node, a], trees.visits[t, node, a]
                candidate = edge == proof if proof != UNPROVEN else edge >= PROVEN_DRAW and visits > 0
                if candidate and visits > most:
                    best, most = a, visits
            if best == NO_ACTION:
                break
            lines[t, length] = best
            length += 1
            node = trees.child[t, node, best]
        lengths[t] = length


@compiled
def advance_root(trees: Trees, t: int, action: int) -> None:
    """Make the child after ``action`` the root and keep its subtree. The game must not be over after the move.

    Children have greater indices than their parents, so one pass in order moves the kept rows to the front in place:
    each node's new index, or NO_NODE if it is removed, is written to its children's ``parent``.
    """
    own, occupied = play(trees.board, trees.own[t], trees.occupied[t], action)
    new_root = trees.child[t, ROOT, action]
    if new_root == NO_NODE:
        reset_tree(trees, t, own, occupied)
        return
    trees.own[t] = own
    trees.occupied[t] = occupied
    trees.leaf[t] = NO_NODE
    kept = 0
    for node in range(trees.size[t]):
        parent = NO_NODE if node <= new_root else trees.parent[t, node]
        keeps = node == new_root or parent != NO_NODE
        for a in range(trees.child.shape[2]):
            child = trees.child[t, node, a]
            if child != NO_NODE:
                trees.parent[t, child] = kept if keeps else NO_NODE
        if keeps:
            _move_node(trees, t, node, kept, parent)
            kept += 1
    trees.size[t] = kept
    trees.draw_sum[t] = trees.draw[t, ROOT]
    trees.draw_count[t] = 1


@force_inlined
def _move_node(trees: Trees, t: int, source: int, target: int, parent: int) -> None:
    """Copy a node's row towards the front; its children correct its ``child`` when they are moved themselves."""
    action = trees.parent_action[t, source]
    trees.parent[t, target] = parent
    trees.parent_action[t, target] = action
    trees.value[t, target] = trees.value[t, source]
    trees.draw[t, target] = trees.draw[t, source]
    for a in range(trees.visits.shape[2]):
        trees.visits[t, target, a] = trees.visits[t, source, a]
        trees.value_sum[t, target, a] = trees.value_sum[t, source, a]
        trees.priors[t, target, a] = trees.priors[t, source, a]
        if trees.heuristics.shape[1] > 1:
            trees.heuristics[t, target, a] = trees.heuristics[t, source, a]
        trees.child[t, target, a] = trees.child[t, source, a]
        trees.proof[t, target, a] = trees.proof[t, source, a]
    if parent != NO_NODE:
        trees.child[t, parent, action] = target


@allocating
def proven_moves(trees: Trees, t: int, min_proof: int) -> tuple[Words, npt.NDArray[np.int8]]:
    """Return keys [P] and moves [P], both in canonical orientation, that secure a result of at least ``min_proof``.

    There is one entry for every position that the opponent's replies lead to, unless the root's side can complete a run
    there at once. P is 0 without such a proof. For a win, ``min_proof`` is PROVEN_DRAW + 1.
    """
    board = trees.board
    size = max(1, int(trees.size[t]))
    keys, columns = np.empty(size, np.uint64), np.empty(size, np.int8)
    nodes = np.empty(size, np.int32)
    owns, occupieds = np.empty(size, np.uint64), np.empty(size, np.uint64)
    nodes[0], owns[0], occupieds[0] = ROOT, trees.own[t], trees.occupied[t]
    count, waiting = 0, 1
    while waiting > 0:
        waiting -= 1
        node, own, occupied = nodes[waiting], owns[waiting], occupieds[waiting]
        move, proof = NO_ACTION, min_proof - 1
        for a in range(board.columns):
            if trees.proof[t, node, a] != UNPROVEN and trees.proof[t, node, a] > proof:
                move, proof = a, int(trees.proof[t, node, a])
        if move == NO_ACTION or proof == PROVEN_WIN - 1:
            continue
        keys[count] = canonical_key(board, own, occupied)
        columns[count] = board.columns - 1 - move if mirror_is_canonical(board, own, occupied) else move
        count += 1
        child = trees.child[t, node, move]
        if child == NO_NODE:  # the move fills the board
            continue
        theirs, then = play(board, own, occupied, move)
        for a in range(board.columns):
            if trees.proof[t, child, a] == ILLEGAL or trees.child[t, child, a] == NO_NODE:
                continue
            nodes[waiting] = trees.child[t, child, a]
            owns[waiting], occupieds[waiting] = play(board, theirs, then, a)
            waiting += 1
    return keys[:count], columns[:count]

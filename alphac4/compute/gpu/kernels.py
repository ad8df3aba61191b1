"""The kernels: one thread for each tree, which runs the same functions as a core does."""

from typing import Any

from numba import cuda as numba_cuda

from alphac4.compute.gpu.network import Exchange
from alphac4.mcts.network_search import goes_on, walk_to_leaf
from alphac4.mcts.puct import PuctParameters, expand, write_leaf
from alphac4.mcts.tree import NO_NODE, Trees
from alphac4.selfplay.games import GAME_OVER, Finished, Games, SelfPlayParameters, hand_over, restart_search, walk

cuda: Any = numba_cuda  # its functions are made at run time

SIMULATIONS_A_STEP = 32  # fewer than on the CPU: a thread here is slower than a core, and the others wait for it


@cuda.jit
def advance(
    trees: Trees,
    games: Games,
    finished: Finished,
    parameters: SelfPlayParameters,
    puct: PuctParameters,
    exchange: Exchange,
) -> None:
    """`alphac4.selfplay.games.advance`; threads take rows of ``finished`` in no particular order.

    The count in ``finished.rows`` runs past the rows there are while slots wait for the host to take them.
    """
    t = cuda.grid(1)
    if t >= trees.size.shape[0]:
        return
    expand(trees, t, exchange.logits[t], exchange.wdl[t], puct.prior_temperature)
    left = SIMULATIONS_A_STEP
    while True:
        left = walk(trees, games, t, parameters, puct, left)
        if games.stage[t] != GAME_OVER:
            break
        row = cuda.atomic.add(finished.rows, 0, 1)
        if row >= finished.outcome.shape[0]:
            break
        hand_over(games, finished, t, row)
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)


@cuda.jit
def restart(trees: Trees, games: Games) -> None:
    """`alphac4.selfplay.games.restart_search` in every slot; `write_leaves` has to follow."""
    t = cuda.grid(1)
    if t < trees.size.shape[0]:
        restart_search(trees, games, t)


@cuda.jit
def write_leaves(trees: Trees, exchange: Exchange) -> None:
    """Write the planes of every leaf that waits for its evaluation."""
    t = cuda.grid(1)
    if t < trees.size.shape[0] and trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)


@cuda.jit
def search_step(trees: Trees, targets: Any, parameters: Any, exchange: Exchange, going_on: Any) -> None:
    """`alphac4.mcts.network_search.step`, with a row of the batch for every tree.

    ``going_on`` [T] says which trees go on.
    """
    t = cuda.grid(1)
    if t >= trees.size.shape[0]:
        return
    expand(trees, t, exchange.logits[t], exchange.wdl[t], parameters.prior_temperature)
    left = walk_to_leaf(trees, t, targets[t], parameters, SIMULATIONS_A_STEP)
    going_on[t] = goes_on(trees, t, left)
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)

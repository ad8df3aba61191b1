"""Classic Monte Carlo tree search: UCB1 selection with random rollouts in place of a network."""

import math
from dataclasses import dataclass

import numpy as np

from alphac4.compiled import compiled
from alphac4.game.rules import U64_0, U64_1, Geometry, has_run, legal_cells
from alphac4.mcts import random_state
from alphac4.mcts.random_state import States
from alphac4.mcts.selection import UCB1, Selection
from alphac4.mcts.simulation import simulate
from alphac4.mcts.tree import NO_NODE, ROOT, UNPROVEN, Trees, backup, node_proof, root_visits


@dataclass(frozen=True, kw_only=True)
class UctConfig:
    """How the classic search explores."""

    exploration: float = math.sqrt(2.0)
    """UCB1's constant on values in [-1, 1] (Kocsis and Szepesvari 2006)."""

    def __post_init__(self) -> None:
        if self.exploration < 0:
            raise ValueError("exploration must not be negative")

    def selection(self) -> Selection:
        """The numbers as compiled code takes them."""
        return Selection(UCB1, self.exploration)


@compiled
def rollout(geometry: Geometry, own: np.uint64, occupied: np.uint64, states: States, t: int) -> float:
    """Play uniformly random moves to the end of an unfinished game: +1 if the side to move wins, 0 for a draw."""
    sign = 1.0
    while True:
        legal = legal_cells(geometry, occupied)
        if legal == U64_0:
            return 0.0
        # Drop into a random column until one is open: cheaper than counting the open ones.
        cell = U64_0
        while cell == U64_0:
            column = random_state.below(states, t, geometry.columns)
            first = np.uint64(column) * geometry.height
            cell = legal & (((U64_1 << geometry.height) - U64_1) << first)
        own |= cell
        if has_run(geometry, own):
            return sign
        occupied |= cell
        own ^= occupied
        sign = -sign


@compiled
def run_rollouts(geometry: Geometry, own: np.uint64, occupied: np.uint64, count: int, states: States) -> float:
    """The mean result of ``count`` rollouts for the side to move; ``states`` [1] is the random state."""
    total = 0.0
    for _ in range(count):
        total += rollout(geometry, own, occupied, states, 0)
    return total / count


@compiled
def run_uct(geometry: Geometry, trees: Trees, first: int, last: int, target: int, selection: Selection) -> int:
    """Simulate in each tree of [first, last) until its root has ``target`` visits; returns the simulations run.

    A tree stops early once its root is proven or its memory is full.
    """
    run = 0
    capacity = trees.parent.shape[1]
    for t in range(first, last):
        trees.leaf[t] = NO_NODE
        for _ in range(target - root_visits(trees, t)):
            if trees.size[t] >= capacity or node_proof(trees, t, ROOT) != UNPROVEN:
                break
            run += 1
            if simulate(geometry, trees, t, selection, NO_NODE):
                leaf = trees.leaf[t]
                trees.leaf[t] = NO_NODE
                backup(trees, t, leaf, rollout(geometry, trees.leaf_own[t], trees.leaf_occupied[t], trees.rng, t))
    return run

"""Compare the mistakes of a search in a graph of positions with those of the tree search.

    python experiments/graph_search.py best --searches tree@600 graph@600 --positions Test_L1_R3.columns

In the graph of Czech, Korus and Kersting 2020, "Monte-Carlo Graph Search for AlphaZero" (arXiv 2012.11045), positions
after different orders of moves share one node, and so do mirror images. Visits are counted per edge, all other
statistics per node. After each simulation, the values on its path are recomputed from the children (KataGo,
``docs/GraphSearch.md``)::

    Q(n) = (U(n) + sum_a N(n, a) * -Q(child(n, a))) / (1 + sum_a N(n, a))

U is the network's value. The nodes are rows of the package's `Trees`, so that the package's selection can be used.
The graph has no cycles, because every move adds a stone.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.arena.kinds import CACHE
from alphac4.compiled import compiled, inlined
from alphac4.evaluation.positions import PositionSet, choose_sets
from alphac4.game.rules import canonical_key, mirror, mirror_is_canonical, play
from alphac4.mcts.network_search import (
    EvaluationCache,
    Leaves,
    NetworkSearch,
    SupportsEvaluate,
    evaluate_checked,
    expand_from_cache,
    input_planes,
    make_leaves,
    store_evaluation,
)
from alphac4.mcts.puct import expand, leaf_key, write_leaf
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget
from alphac4.mcts.simulation import MAX_SIMULATIONS_PER_STEP, select_action
from alphac4.mcts.tree import (
    NO_NODE,
    PROVEN_DRAW,
    ROOT,
    UNPROVEN,
    Trees,
    add_node,
    is_searched,
    node_proof,
    parent_proof,
    proof_value,
)
from alphac4.nn.evaluator import Evaluator
from alphac4.storage.checkpoints import load_checkpoint

BATCH_SIZE = 128  # positions searched in lockstep
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing


class Graphs(NamedTuple):
    """Data of T graphs of at most N nodes, in addition to `Trees`."""

    # Constant during a search.
    shares: bool  # whether equal positions share a node; if not, the graph is a tree
    stops: bool  # whether a simulation ends at a child with more visits than the edge to it
    shift: np.uint64  # 64 - log2(H)
    # Updated by simulations.
    table: npt.NDArray[np.int32]  # [T, H] nodes by the hash of their keys; NO_NODE if empty
    key: npt.NDArray[np.uint64]  # [T, N] `canonical_key`
    mean: npt.NDArray[np.float64]  # [T, N] Q, for the side to move
    visits: npt.NDArray[np.int32]  # [T, N] 1 + the visits of all edges
    outcome: npt.NDArray[np.int8]  # [T, N] `node_proof`
    path: npt.NDArray[np.int32]  # [T, cells] nodes on the path of the last simulation, the root first
    length: npt.NDArray[np.int32]  # [T] number of them


def make_graphs(trees: Trees, shares: bool, stops: bool) -> Graphs:
    """Return graphs without nodes."""
    count, nodes = trees.parent.shape
    bits = (2 * nodes).bit_length()
    return Graphs(
        shares=shares,
        stops=stops,
        shift=np.uint64(64 - bits),
        table=np.full((count, 2**bits), NO_NODE, np.int32),
        key=np.zeros((count, nodes), np.uint64),
        mean=np.zeros((count, nodes)),
        visits=np.ones((count, nodes), np.int32),
        outcome=np.full((count, nodes), UNPROVEN, np.int8),
        path=np.zeros((count, trees.geometry.cells), np.int32),
        length=np.ones(count, np.int32),
    )


@inlined
def find_slot(graphs: Graphs, t: int, key: np.uint64) -> int:
    """Return the slot of the node with this key, or the empty slot for it."""
    slot = np.int64((key * SPREAD) >> graphs.shift)
    while graphs.table[t, slot] != NO_NODE and graphs.key[t, graphs.table[t, slot]] != key:
        slot = (slot + 1) % graphs.table.shape[1]
    return slot  # type: ignore[return-value]


@inlined
def refresh(trees: Trees, graphs: Graphs, t: int, node: int) -> None:
    """Recompute a node's value and proof from its children.

    As in the tree, proven children keep the mean of their evaluations, and proven draws have the value 0.
    """
    total, count = float(trees.value[t, node]), 1
    for a in range(trees.visits.shape[2]):
        child, visits = trees.child[t, node, a], trees.visits[t, node, a]
        if child != NO_NODE and trees.proof[t, node, a] == UNPROVEN and graphs.outcome[t, child] != UNPROVEN:
            trees.proof[t, node, a] = parent_proof(graphs.outcome[t, child])
        is_draw = trees.proof[t, node, a] == PROVEN_DRAW
        value = 0.0 if is_draw or child == NO_NODE else -graphs.mean[t, child]
        trees.value_sum[t, node, a] = visits * value
        total += visits * value
        count += visits
    graphs.mean[t, node], graphs.visits[t, node] = total / count, count
    graphs.outcome[t, node] = node_proof(trees, t, node)


@inlined
def back_up(trees: Trees, graphs: Graphs, t: int) -> None:
    """Refresh the nodes on the path of the simulation, the last one first."""
    for depth in range(graphs.length[t] - 1, -1, -1):
        refresh(trees, graphs, t, graphs.path[t, depth])


@inlined
def simulate(trees: Trees, graphs: Graphs, t: int, selection: Any) -> None:
    """Run a simulation to its end, or until `trees.leaf` awaits an evaluation; the root must be evaluated."""
    geometry = trees.geometry
    node, own, occupied = ROOT, trees.own[t], trees.occupied[t]
    length, first_action = 0, -1
    while True:
        refresh(trees, graphs, t, node)  # other simulations may have changed the children
        if graphs.outcome[t, node] != UNPROVEN:
            break
        graphs.path[t, length] = node
        length += 1
        action = select_action(selection, trees, t, node)
        if node == ROOT:
            first_action = action
        else:
            trees.visits[t, node, action] += 1
        if trees.proof[t, node, action] != UNPROVEN:
            break
        own, occupied = play(geometry, own, occupied, action)
        if graphs.shares and mirror_is_canonical(geometry, own, occupied):
            own, occupied = mirror(geometry, own), mirror(geometry, occupied)
        child = trees.child[t, node, action]
        if child == NO_NODE:
            key = canonical_key(geometry, own, occupied)
            slot = find_slot(graphs, t, key)
            if graphs.shares:
                child = graphs.table[t, slot]
            if child == NO_NODE:
                # `expand` adds a visit to the edge from a node's parent, which is the root here.
                child = add_node(trees, t, NO_NODE, first_action, own, occupied)
                trees.parent[t, child] = ROOT
                trees.child[t, node, action] = child
                graphs.key[t, child] = key
                graphs.table[t, slot] = child
                graphs.path[t, length] = child
                length += 1
                if node_proof(trees, t, child) != UNPROVEN:
                    trees.value[t, child] = proof_value(node_proof(trees, t, child))
                    break
                trees.leaf[t], trees.leaf_own[t], trees.leaf_occupied[t] = child, own, occupied
                graphs.length[t] = length
                return
            trees.child[t, node, action] = child
        edge_visits = trees.visits[t, node, action] - (1 if node != ROOT else 0)  # before this simulation
        if graphs.stops and graphs.visits[t, child] > edge_visits:
            break
        node = child
    if first_action >= 0:
        trees.visits[t, ROOT, first_action] += 1
    graphs.length[t] = length
    back_up(trees, graphs, t)


@compiled
def step(
    trees: Trees,
    graphs: Graphs,
    count: int,
    selection: Any,
    leaves: Leaves,
    evaluated: int,
    cache: EvaluationCache,
) -> tuple[int, int]:
    """Expand and select leaves as `alphac4.mcts.network_search.step` does, with one leaf per graph."""
    temperature = selection.prior_temperature
    for row in range(evaluated):
        t = leaves.tree[row]
        store_evaluation(cache, leaf_key(trees, t), leaves.logits[row], leaves.wdl[row])
        expand(trees, t, leaves.logits[row], leaves.wdl[row], temperature)
        back_up(trees, graphs, t)
    waiting, unfinished = 0, 0
    for t in range(count):
        left, first = MAX_SIMULATIONS_PER_STEP, waiting
        while left > 0 and waiting == first:
            if trees.leaf[t] == NO_NODE:
                if is_searched(trees, t):
                    break
                left -= 1
                simulate(trees, graphs, t, selection)
            if trees.leaf[t] != NO_NODE:
                if expand_from_cache(trees, t, cache, temperature):
                    back_up(trees, graphs, t)
                else:
                    leaves.tree[waiting] = t
                    write_leaf(trees, t, leaves.planes[waiting], np.float32(1))
                    waiting += 1
        unfinished += waiting > first or left == 0
    return waiting, unfinished


class TreeSearch(NetworkSearch):
    """Tree search of the package that also counts nodes."""

    nodes = 0

    def _result(self, trees: Trees, count: int, before: npt.NDArray[np.int64], seconds: float) -> SearchResult:
        self.nodes += int(trees.size[:count].sum())
        return super()._result(trees, count, before, seconds)


class GraphSearch(TreeSearch):
    """Search in graphs."""

    def __init__(self, evaluator: SupportsEvaluate, shares: bool, stops: bool) -> None:
        super().__init__(evaluator, cache=CACHE)
        self.settings = shares, stops

    def _run(self, trees: Trees, count: int, deadline: float | None) -> None:
        assert deadline is None, "graph search does not support time budgets"
        graphs = make_graphs(trees, *self.settings)
        leaves = make_leaves(count, input_planes(self.evaluator), self.geometry)
        waiting = 0
        while True:
            waiting, unfinished = step(trees, graphs, count, self.selection, leaves, waiting, self._cache)
            if unfinished == 0:
                return
            if waiting > 0:
                leaves.logits[:waiting], leaves.wdl[:waiting] = evaluate_checked(
                    self.evaluator, leaves.planes[:waiting]
                )


GRAPHS = {  # shares, stops
    "unshared": (False, False),  # has the results of the tree, as a check of this file
    "graph": (True, True),
    "graph-descending": (True, False),
}


class CountingEvaluator:
    """Evaluator that counts evaluated positions."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator, self.input_planes, self.count = evaluator, evaluator.input_planes, 0

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Evaluate ``planes``."""
        self.count += len(planes)
        return self.evaluator.evaluate(planes)


class Tally:
    """One search and its totals over the positions of a set."""

    def __init__(self, name: str, simulations: int, evaluator: CountingEvaluator) -> None:
        kind, _, limit = name.partition("@")
        self.name = name
        self.budget = Budget(simulations=int(limit or simulations))
        self.search = TreeSearch(evaluator, cache=CACHE) if kind == "tree" else GraphSearch(evaluator, *GRAPHS[kind])
        self.evaluator = evaluator
        self.moves = np.zeros(0, np.int64)  # [S]
        self.totals = np.zeros(6)  # |value - outcome|, simulations, evaluations, nodes, processor seconds, seconds

    def search_batch(self, part: PositionSet, first: int) -> None:
        """Search a batch that begins at position ``first``, and add to the totals."""
        rows = slice(first, first + BATCH_SIZE)
        before = np.array([self.evaluator.count, self.search.nodes, time.process_time(), time.perf_counter()])
        result = self.search.search(part.positions[rows], self.budget)
        after = np.array([self.evaluator.count, self.search.nodes, time.process_time(), time.perf_counter()])
        error = np.abs(result.value - part.best_outcome[rows]).sum()
        self.totals += [error, result.simulations.sum(), *(after - before)]
        self.moves = np.concatenate([self.moves, result.moves])

    def report(self, part: PositionSet, reference: "Tally") -> str:
        """Return a row of the table, which compares mistakes and moves with those of the reference."""
        rows = np.arange(len(part))
        other, mine = (part.outcomes[rows, each.moves] < part.best_outcome for each in (reference, self))
        same = 100 * float((self.moves == reference.moves).mean())
        error, *counts = self.totals[:4] / len(part)
        cells = " ".join(f"{count:6.1f}" for count in counts)
        return (
            f"{self.name:22s} {mine.sum():8d} {(other & ~mine).sum():6d} {(mine & ~other).sum():6d} {same:7.1f}"
            f" {error:7.4f} {cells} {self.totals[4]:7.1f} {self.totals[5]:7.1f}"
        )


HEADER = "                       mistakes only A only B same, % |error|   sims  evals  nodes   CPU s  wall s"


def main() -> None:
    """Search every batch of positions by each search in turn, so that other load on the machine affects all equally."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--positions", type=Path, nargs="+", default=[], help=".columns files (default: the package's)")
    parser.add_argument("--count", type=int, help="positions per set")
    parser.add_argument("--simulations", type=int, default=600, help="simulations of searches that name no budget")
    parser.add_argument(
        "--searches",
        nargs="+",
        default=["tree", "graph"],
        help=f"searches to compare: tree, {', '.join(GRAPHS)}, or any of them with its own budget, such as graph@1000",
    )
    options = parser.parse_args()
    evaluator = CountingEvaluator(Evaluator(load_checkpoint(Path(options.network)).network, batch_size=BATCH_SIZE))
    sets = choose_sets(files=options.positions, count=options.count)
    for name in options.searches:  # compile
        Tally(name, 20, evaluator).search_batch(sets[0].head(2), 0)
    print(
        f"A: {options.searches[0]}, B: the row's search; errors of values, sims, evals, nodes: per position\n{HEADER}"
    )
    for part in sets:
        tallies = [Tally(name, options.simulations, evaluator) for name in options.searches]
        for first in range(0, len(part), BATCH_SIZE):
            for tally in tallies:
                tally.search_batch(part, first)
        print(f"{part.name}, {len(part)} positions", flush=True)
        print(*(tally.report(part, tallies[0]) for tally in tallies), sep="\n", flush=True)


if __name__ == "__main__":
    main()

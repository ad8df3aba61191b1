"""Tree search guided by a network, which evaluates the leaves of all trees in one batch.

An iteration consists of one call of the network and one of `step`, which expands the evaluated leaves, backs their
values up, and selects the next leaf of every tree. `NetworkSearch` repeats both.

If the leaves do not fill a batch, `prefetch` adds positions that the next simulations will probably need: it continues
the search as if the waiting leaves had the expected values, and then restores the tree. A cache keeps the evaluations.
So the search of a single position can use all cores. Except for rounding in larger batches, its result is the same as
if leaves were evaluated one by one.
"""

import time
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, force_inlined, inlined
from alphac4.game import Board, Position
from alphac4.game.planes import PLANES
from alphac4.game.rules import STANDARD, U64_0, U64_1, play
from alphac4.machine import check_block
from alphac4.mcts.puct import Puct, check_selection, evaluation_key, expand_and_back_up, leaf_key, write_leaf
from alphac4.mcts.results import SearchResults
from alphac4.mcts.search import Budget, Reuse, TreeSearch
from alphac4.mcts.simulation import (
    MAX_SIMULATIONS_PER_STEP,
    Selection,
    backup,
    node_totals,
    reuses_tree,
    select_action,
    select_leaf,
)
from alphac4.mcts.tree import NO_NODE, ROOT, UNPROVEN, Trees, add_node, is_searched, node_proof, proof_value, zeros

Planes = npt.NDArray[np.float32]

PREFETCH = 16  # size up to which a player fills the batches of one tree
PREFETCH_SIMULATIONS = 8  # most simulations per position that is evaluated in advance
NO_TREE = -1
AWAITING_EVALUATION = 2.0  # value of a node that awaits its evaluation while `prefetch` runs; others are at most 1


class SupportsEvaluate(Protocol):
    """Interface of a network for searches."""

    def evaluate(self, planes: Planes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return policy logits [B, C] and win/draw/loss probabilities [B, 3] for the side to move.

        ``planes`` [B, P, R, C] are the stones of the side to move and its opponent's (P = 2), or the ``input_planes``
        that the evaluator declares; `alphac4.game.planes` describes them.
        """


class UniformEvaluator:
    """Evaluator with the same uniform outputs for all positions: for tests, benchmarks and search without a network."""

    def evaluate(self, planes: Planes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return equal logits [B, C] and equal win/draw/loss probabilities [B, 3]."""
        batch, _, _, columns = planes.shape
        return np.zeros((batch, columns), np.float32), np.full((batch, 3), 1 / 3, np.float32)


def input_planes(evaluator: SupportsEvaluate) -> int:
    return int(getattr(evaluator, "input_planes", PLANES["stones"]))


class NotFiniteError(ValueError):
    """Error for NaN, infinite probabilities, or logits whose maximum is infinite."""


def evaluate_checked(
    evaluator: SupportsEvaluate, planes: Planes
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    logits, wdl = evaluator.evaluate(planes)
    if not (np.isfinite(logits.max(axis=1)).all() and np.isfinite(wdl).all()):  # the maximum of NaN is NaN
        raise NotFiniteError("the network returned numbers that are not finite")
    return logits, wdl


_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth, volume 3, 6.4)


class EvaluationCache(NamedTuple):
    """N evaluations, a power of two, that searches share; an entry is replaced by one that collides with it.

    The cache holds answers of one set of weights; `refresh_cache` clears it when they change. Keys are those of
    `alphac4.mcts.puct.evaluation_key`. The parts of an entry are adjacent in memory: on the standard board an entry is
    one cache line.

    Threads read and write without locks, each through its own `share_cache`. An entry that two threads wrote at
    the same time is detected: its key is stored combined with a digest of the answers, which are copied before the
    comparison (Hyatt and Mann 2002, "A lock-less transposition table implementation for parallel search chess
    engines").
    """

    # Shared by all threads.
    checks: npt.NDArray[np.uint64]  # [N] the position's key plus one, xor the digest of the answers; 0 if empty
    answers: npt.NDArray[np.uint32]  # [N, A + 3] bits of the policy logits and of win/draw/loss
    # One per thread.
    found: npt.NDArray[np.uint32]  # [A + 3] the entry found last
    logits: npt.NDArray[np.float32]  # [A] view of it
    wdl: npt.NDArray[np.float32]  # [3] view of it
    hits: npt.NDArray[np.int64]  # [1] number of entries found since the caller reset it
    # Constant during a search.
    version: npt.NDArray[np.int64]  # [1] of the evaluator that gave these answers
    shift: np.uint64  # 64 - log2(N)
    keeps: bool  # whether evaluations are stored at all


def make_cache(entries: int, board: Board) -> EvaluationCache:
    """Return an empty cache of ``entries`` evaluations, rounded to a power of two; 0 stores nothing."""
    bits = max(entries.bit_length() - 1, 1)  # a shift by 64 bits would be undefined
    line = 64  # bytes of a cache line
    numbers = board.columns + 3
    width = -(-(8 + 4 * numbers) // line) * line
    memory = np.zeros(2**bits * width + line, np.uint8)
    start = -memory.ctypes.data % line
    rows = memory[start : start + 2**bits * width].reshape(-1, width)
    found = np.zeros(numbers, np.uint32)
    return EvaluationCache(
        checks=rows.view(np.uint64)[:, 0],
        answers=rows.view(np.uint32)[:, 2 : 2 + numbers],
        found=found,
        logits=found[:-3].view(np.float32),
        wdl=found[-3:].view(np.float32),
        hits=np.zeros(1, np.int64),
        version=np.full(1, -1, np.int64),
        shift=np.uint64(64 - bits),
        keeps=entries > 0,
    )


def share_cache(cache: EvaluationCache) -> EvaluationCache:
    """Return a view of the same evaluations for another thread."""
    found = np.zeros_like(cache.found)
    return cache._replace(
        found=found, logits=found[:-3].view(np.float32), wdl=found[-3:].view(np.float32), hits=np.zeros(1, np.int64)
    )


def refresh_cache(cache: EvaluationCache, evaluator: SupportsEvaluate) -> bool:
    """Clear the cache if ``evaluator.version``, which counts changes of weights, has changed; return whether it has.

    The cache is also cleared for an evaluator without a version, which does not report such changes: then return False.
    """
    version: int | None = getattr(evaluator, "version", None)
    if version is not None and cache.version[0] == version:
        return False
    cache.checks.fill(0)
    cache.version[0] = -1 if version is None else version
    return version is not None


@inlined
def _row_of(cache: EvaluationCache, key: np.uint64) -> int:
    """Return the row of a position's evaluation."""
    return np.int64((key * _SPREAD) >> cache.shift)  # type: ignore[return-value]


@inlined
def _digest(answers: npt.NDArray[np.uint32]) -> np.uint64:
    digest = U64_0
    for bits in answers:
        digest = (digest ^ np.uint64(bits)) * _SPREAD
    return digest


@force_inlined
def store_evaluation(
    cache: EvaluationCache, key: np.uint64, logits: npt.NDArray[np.float32], wdl: npt.NDArray[np.float32]
) -> None:
    """Store the evaluation (``logits`` [A], ``wdl`` [3]) of the position with this key."""
    row = _row_of(cache, key)
    if cache.keeps:
        for a in range(len(logits)):
            cache.logits[a] = logits[a]
        for outcome in range(3):
            cache.wdl[outcome] = wdl[outcome]
        for number in range(len(cache.found)):
            cache.answers[row, number] = cache.found[number]
        cache.checks[row] = (key + U64_1) ^ _digest(cache.found)


@force_inlined
def find_evaluation(cache: EvaluationCache, key: np.uint64) -> bool:
    """Copy the evaluation of a position to ``cache.logits`` and ``cache.wdl``; return whether the cache has one."""
    if not cache.keeps:
        return False
    row = _row_of(cache, key)
    check = cache.checks[row]
    for number in range(len(cache.found)):
        cache.found[number] = cache.answers[row, number]
    if check ^ _digest(cache.found) != key + U64_1:
        return False
    cache.hits[0] += 1
    return True


@force_inlined
def expand_from_cache(trees: Trees, t: int, cache: EvaluationCache, prior_temperature: float) -> bool:
    """Expand the waiting leaf by a cached evaluation; return False if no leaf waits or the cache has none."""
    if trees.leaf[t] == NO_NODE or not find_evaluation(cache, leaf_key(trees, t)):
        return False
    expand_and_back_up(trees, t, cache.logits, cache.wdl, prior_temperature)
    return True


@inlined
def walk_to_leaf(trees: Trees, t: int, selection: Any, simulations: int) -> int:
    """Simulate until a leaf awaits its evaluation, the search is over, or ``simulations`` have run; return those left.

    Any number of simulations may end in proven outcomes, which need no evaluation. The limit lets a search with a time
    budget read the clock.
    """
    while simulations > 0 and trees.leaf[t] == NO_NODE and not is_searched(trees, t):
        simulations -= 1
        select_leaf(trees, t, selection)
    return simulations


class Batch(NamedTuple):
    """At most B positions that the network evaluates together; W is win, draw, loss."""

    tree: Annotated[npt.NDArray[np.int32], "B"]  # the tree whose leaf it is; NO_TREE if it is evaluated in advance
    own: Annotated[npt.NDArray[np.uint64], "B"]  # the position
    occupied: Annotated[npt.NDArray[np.uint64], "B"]
    planes: Annotated[Planes, "B P R A"]
    logits: Annotated[npt.NDArray[np.float32], "B A"]  # the network's answers
    wdl: Annotated[npt.NDArray[np.float32], "B W"]


class EdgeLog(NamedTuple):
    """Undo log of `prefetch`: at most E edges that it changed, with their earlier sums of values."""

    node: Annotated[npt.NDArray[np.int32], "E"]
    action: Annotated[npt.NDArray[np.int8], "E"]
    value_sum: Annotated[npt.NDArray[np.float32], "E"]


def make_batch(size: int, planes: int, board: Board) -> Batch:
    """Return arrays for ``size`` positions and a network with P = ``planes`` input planes."""
    return Batch(**zeros(Batch, B=size, P=planes, R=board.rows, A=board.columns, W=3))


def make_log(prefetch: int, board: Board) -> EdgeLog:
    """Return a log for batches that are filled up to ``prefetch`` positions."""
    return EdgeLog(**zeros(EdgeLog, E=prefetch * PREFETCH_SIMULATIONS * board.cells))


@force_inlined
def add_waiting_leaf(trees: Trees, t: int, owner: int, batch: Batch, size: int) -> int:
    """Append the waiting leaf of tree ``t`` to the batch; return the new size.

    ``owner`` is ``t``, or NO_TREE if the position is evaluated in advance.
    """
    batch.tree[size] = owner
    batch.own[size], batch.occupied[size] = trees.leaf_own[t], trees.leaf_occupied[t]
    write_leaf(trees, t, batch.planes[size], np.float32(1))
    return size + 1


@force_inlined
def prefetch(
    trees: Trees,
    t: int,  # a tree whose leaf waits for its evaluation
    selection: Any,
    batch: Batch,
    size: int,  # of the batch so far
    target: int,  # size of the batch to reach
    cache: EvaluationCache,
    log: EdgeLog,
) -> int:
    """Append to the batch positions that the tree's next simulations will probably need; return its new size.

    The search continues as if every position that awaits its evaluation had the mean value of its parent. Afterwards
    the tree is as before, except in rows that no node uses and in the waiting leaf's value, which is not yet valid.
    """
    leaf, leaf_own, leaf_occupied = trees.leaf[t], trees.leaf_own[t], trees.leaf_occupied[t]
    nodes, draw_sum, draw_count, random = trees.size[t], trees.draw_sum[t], trees.draw_count[t], trees.rng[t]
    trees.value[t, leaf] = AWAITING_EVALUATION
    trees.leaf[t] = NO_NODE
    edges, simulations = 0, (target - size) * PREFETCH_SIMULATIONS
    while size < target and simulations > 0 and trees.size[t] < trees.parent.shape[1]:
        simulations -= 1
        node, own, occupied = ROOT, trees.own[t], trees.occupied[t]
        while True:
            action = select_action(selection, trees, t, node)
            proof, child = trees.proof[t, node, action], trees.child[t, node, action]
            if proof != UNPROVEN:
                break
            own, occupied = play(trees.board, own, occupied, action)
            if child == NO_NODE or trees.value[t, child] == AWAITING_EVALUATION:
                break
            node = child
        totals = node_totals(trees, t, node)
        value = totals.value_sum / (1.0 + totals.visits)
        if proof != UNPROVEN:
            value = proof_value(proof)
        elif child == NO_NODE:
            child = add_node(trees, t, node, action, own, occupied)
            trees.value[t, child] = AWAITING_EVALUATION
            proof = node_proof(trees, t, child) if trees.proofs else UNPROVEN
            if proof == UNPROVEN:
                trees.leaf[t], trees.leaf_own[t], trees.leaf_occupied[t] = child, own, occupied
            else:
                value = -proof_value(proof)
        edges = log_path(trees, t, node, action, log, edges)
        if not expand_from_cache(trees, t, cache, selection.prior_temperature):
            if trees.leaf[t] != NO_NODE:
                size = add_waiting_leaf(trees, t, NO_TREE, batch, size)
                trees.leaf[t] = NO_NODE
            trees.visits[t, node, action] += 1
            trees.value_sum[t, node, action] += value
            backup(trees, t, node, value)
    while edges > 0:
        edges -= 1
        node, action = log.node[edges], log.action[edges]
        trees.visits[t, node, action] -= 1
        trees.value_sum[t, node, action] = log.value_sum[edges]
        if trees.child[t, node, action] >= nodes:
            trees.child[t, node, action] = NO_NODE
    trees.leaf[t], trees.leaf_own[t], trees.leaf_occupied[t] = leaf, leaf_own, leaf_occupied
    trees.size[t], trees.draw_sum[t], trees.draw_count[t], trees.rng[t] = nodes, draw_sum, draw_count, random
    return size


@inlined
def log_path(trees: Trees, t: int, node: int, action: int, log: EdgeLog, edges: int) -> int:
    """Append an edge and those from the root to it to the log; return the log's new length."""
    while True:
        log.node[edges], log.action[edges] = node, action
        log.value_sum[edges] = trees.value_sum[t, node, action]
        edges += 1
        if node == ROOT:
            return edges
        action = trees.parent_action[t, node]
        node = trees.parent[t, node]


@compiled
def step(
    trees: Trees,
    count: int,  # search the first ``count`` trees
    selection: Any,
    batch: Batch,  # with the network's answers; overwritten with the next positions
    size: int,  # of the batch
    fill: int,  # size up to which `prefetch` fills the next batch
    cache: EvaluationCache,
    log: EdgeLog,
) -> tuple[int, int]:
    """Expand the leaves whose evaluations have arrived, and select the next leaf of each tree.

    Returns the size of the next batch, and the number of unfinished trees.
    """
    temperature = selection.prior_temperature
    for row in range(size):
        store_evaluation(
            cache, evaluation_key(trees, batch.own[row], batch.occupied[row]), batch.logits[row], batch.wdl[row]
        )
        if batch.tree[row] != NO_TREE:
            expand_and_back_up(trees, batch.tree[row], batch.logits[row], batch.wdl[row], temperature)
    size, unfinished = 0 * count, 0  # Numba would compile `prefetch` once more for the literal 0
    for t in range(count):
        left = MAX_SIMULATIONS_PER_STEP
        while True:
            left = walk_to_leaf(trees, t, selection, left)
            if not expand_from_cache(trees, t, cache, temperature):
                break
        if trees.leaf[t] != NO_NODE:
            size = add_waiting_leaf(trees, t, t, batch, size)
        unfinished += trees.leaf[t] != NO_NODE or left == 0
    leaves = size
    for row in range(leaves if cache.keeps and leaves < fill else 0):
        t = np.int64(batch.tree[row])  # type: ignore[assignment] # selection is compiled for one type of index
        if trees.leaf[t] != ROOT:  # selection needs the root's priors
            target = size + (fill - size) // (leaves - row)  # an equal share for each tree
            size = prefetch(trees, t, selection, batch, size, target, cache, log)
    return size, unfinished


class NetworkSearch(TreeSearch):
    """Search guided by a network, with one evaluator call per step for all trees.

    Trees and evaluations are discarded when ``evaluator.version`` changes.
    """

    def __init__(
        self,
        evaluator: SupportsEvaluate,
        selection: Selection | None = None,  # by default `Puct`
        *,
        board: Board = STANDARD,
        rng: np.random.Generator | None = None,  # for selections that draw numbers; PUCT draws none
        reuse: Reuse = "nothing",
        cache: int = 0,  # evaluations to cache, of 64 bytes on the standard board; changes the speed, not the result
        prefetch: int = 0,  # with a cache, size up to which batches are filled in advance; changes only the speed
        proofs: bool = True,  # whether proven outcomes propagate; if not, the end of a game is a value like any other
        mirror: bool = True,  # whether a position and its mirror image share one evaluation
    ) -> None:
        self.selection = check_selection(selection or Puct())
        reuse = reuse if reuses_tree(self.selection) else "nothing"
        super().__init__(board, rng, reuse, proofs=proofs, look_ahead=proofs, mirror=mirror)
        self.evaluator = evaluator
        self._prefetch = prefetch
        self._cache = make_cache(cache, board)

    def _example(self) -> "NetworkSearch":
        return NetworkSearch(UniformEvaluator(), self.selection, board=self.board)

    def _search(self, positions: Sequence[Position], budget: Budget) -> SearchResults:
        if refresh_cache(self._cache, self.evaluator):
            self.drop_trees()
        return super()._search(positions, budget)

    def _run(self, trees: Trees, count: int, deadline: float | None) -> None:
        batch = make_batch(max(count, self._prefetch), input_planes(self.evaluator), self.board)
        log, size = make_log(self._prefetch, self.board), 0
        while True:
            check_block()
            size, unfinished = step(trees, count, self.selection, batch, size, self._prefetch, self._cache, log)
            if unfinished == 0:
                return
            if size > 0:
                logits, wdl = evaluate_checked(self.evaluator, batch.planes[:size])
                batch.logits[:size], batch.wdl[:size] = logits, wdl  # `step` is compiled for one memory layout
            if deadline is not None and time.perf_counter() > deadline:
                trees.budget.fill(0)  # expand the leaves of this last evaluation, then stop

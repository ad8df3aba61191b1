"""Tree search guided by a network, which evaluates the leaves of all trees in one batch.

An iteration consists of one call of the network and of `step`, which expands the evaluated leaves, backs their values
up, and selects the next leaves of every tree. `NetworkSearch` repeats both.

Several leaves of a tree may await their evaluation at the same time, so that the search of a single position fills a
batch, which all cores evaluate. Until then each of them counts as a lost game on its path from the root, for either
side: a virtual loss (Chaslot et al. 2008, "Parallel Monte-Carlo Tree Search"), which makes the next selections try
other moves. The result depends on the number of leaves, but not on the number of cores or on timing.
"""

import time
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, force_inlined, inlined
from alphac4.game import Geometry, Position
from alphac4.game.planes import PLANES
from alphac4.game.rules import STANDARD, U64_0, U64_1
from alphac4.machine import check_block
from alphac4.mcts.puct import Puct, check_selection, expand, leaf_key, write_leaf
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget, Reuse, TreeSearch
from alphac4.mcts.simulation import AWAITING_EVALUATION, MAX_SIMULATIONS_PER_STEP, Selection, reuses_tree, select_leaf
from alphac4.mcts.tree import NO_NODE, ROOT, Trees, is_searched, root_visits, zeros

Planes = npt.NDArray[np.float32]

VISITS_PER_LEAF = 64  # root visits per additional leaf: few leaves of a small tree are worth an evaluation


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

    The cache holds answers of one set of weights; `refresh_cache` clears it when they change. Keys are those of a
    position's canonical orientation, which is what the network evaluates. The parts of an entry are adjacent in memory:
    on the standard board an entry is one cache line.

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


def make_cache(entries: int, geometry: Geometry) -> EvaluationCache:
    """Return an empty cache of ``entries`` evaluations, rounded down to a power of two; 0 stores nothing."""
    bits = max(entries.bit_length() - 1, 1)  # a shift by 64 bits would be undefined
    line = 64  # bytes of a cache line
    numbers = geometry.columns + 3
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
    """Clear the cache if ``evaluator.version``, which counts changes of weights, has changed; return whether it has."""
    version = int(getattr(evaluator, "version", 0))
    if cache.version[0] == version:
        return False
    cache.checks.fill(0)
    cache.version[0] = version
    return True


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
    expand(trees, t, cache.logits, cache.wdl, prior_temperature)
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


class Leaves(NamedTuple):
    """At most B leaves that await their evaluation, by the network or from the cache; W is win, draw, loss."""

    tree: Annotated[npt.NDArray[np.int32], "B"]
    node: Annotated[npt.NDArray[np.int32], "B"]
    own: Annotated[npt.NDArray[np.uint64], "B"]  # the leaf's position
    occupied: Annotated[npt.NDArray[np.uint64], "B"]
    is_virtual: Annotated[npt.NDArray[np.bool_], "B"]  # whether it counts as a lost game on its path from the root
    batch_row: Annotated[npt.NDArray[np.int32], "B"]  # row in the network's batch; -1 if the evaluation is cached
    cached_logits: Annotated[npt.NDArray[np.float32], "B A"]
    cached_wdl: Annotated[npt.NDArray[np.float32], "B W"]
    planes: Annotated[Planes, "B P R A"]  # the network's batch
    logits: Annotated[npt.NDArray[np.float32], "B A"]  # the network's answers
    wdl: Annotated[npt.NDArray[np.float32], "B W"]


def make_leaves(count: int, planes: int, geometry: Geometry) -> Leaves:
    """Return arrays for ``count`` leaves and a network that takes P = ``planes``."""
    return Leaves(**zeros(Leaves, B=count, P=planes, R=geometry.rows, A=geometry.columns, W=3))


@inlined
def add_virtual_visits(trees: Trees, t: int, node: int, visits: int) -> None:
    """Add a lost game to every edge from the root to a node, or remove it: ``visits`` is 1 or -1."""
    while node != ROOT:
        action = trees.parent_action[t, node]
        node = trees.parent[t, node]
        trees.visits[t, node, action] += visits
        trees.value_sum[t, node, action] -= visits


@inlined
def leaf_limit(trees: Trees, t: int, most: int) -> int:
    """Return the number of leaves that may wait at the same time in a tree of this size: 1 to ``most``."""
    return min(most, 1 + root_visits(trees, t) // VISITS_PER_LEAF)


@compiled
def step(
    trees: Trees,
    count: int,  # search the first ``count`` trees
    selection: Any,
    leaves: Leaves,  # with the network's answers; overwritten with the next leaves
    waiting: int,  # leaves of the last step
    most: int,  # leaves of a tree that may wait at the same time
    cache: EvaluationCache,
) -> tuple[int, int, int]:
    """Expand the leaves of the last step, whose evaluations have arrived, and select the next ones.

    Returns the number of leaves selected, the size of the network's next batch, and the number of unfinished trees.
    """
    temperature = selection.prior_temperature
    for row in range(waiting):
        t, node, batch_row = leaves.tree[row], leaves.node[row], leaves.batch_row[row]
        if leaves.is_virtual[row]:
            add_virtual_visits(trees, t, node, -1)
        trees.leaf[t] = node
        trees.leaf_own[t], trees.leaf_occupied[t] = leaves.own[row], leaves.occupied[row]
        if batch_row >= 0:
            store_evaluation(cache, leaf_key(trees, t), leaves.logits[batch_row], leaves.wdl[batch_row])
            expand(trees, t, leaves.logits[batch_row], leaves.wdl[batch_row], temperature)
        else:
            expand(trees, t, leaves.cached_logits[row], leaves.cached_wdl[row], temperature)
    waiting, batch, unfinished = 0, 0, 0
    for t in range(count):
        left = MAX_SIMULATIONS_PER_STEP
        first = waiting
        wide = leaf_limit(trees, t, most)
        while waiting - first < wide:
            left = walk_to_leaf(trees, t, selection, left)
            leaf = trees.leaf[t]
            if leaf == NO_NODE:
                break
            if waiting > first and trees.value[t, leaf] == AWAITING_EVALUATION:  # already selected in this step
                trees.leaf[t] = NO_NODE
                break
            if wide == 1 and expand_from_cache(trees, t, cache, temperature):
                wide = leaf_limit(trees, t, most)
                continue
            leaves.tree[waiting], leaves.node[waiting] = t, leaf
            leaves.own[waiting], leaves.occupied[waiting] = trees.leaf_own[t], trees.leaf_occupied[t]
            if wide > 1 and find_evaluation(cache, leaf_key(trees, t)):
                # It waits like the others, so that the search does not depend on the content of the cache.
                leaves.batch_row[waiting] = -1
                for a in range(len(cache.logits)):
                    leaves.cached_logits[waiting, a] = cache.logits[a]
                for outcome in range(3):
                    leaves.cached_wdl[waiting, outcome] = cache.wdl[outcome]
            else:
                leaves.batch_row[waiting] = batch
                write_leaf(trees, t, leaves.planes[batch], np.float32(1))
                batch += 1
            trees.leaf[t] = NO_NODE
            leaves.is_virtual[waiting] = wide > 1
            if wide > 1:  # a virtual loss for a single leaf would only round the sums of values
                trees.value[t, leaf] = AWAITING_EVALUATION
                add_virtual_visits(trees, t, leaf, 1)
            waiting += 1
            if leaf == ROOT:  # selection needs the root's priors
                break
        unfinished += waiting > first or left == 0
    return waiting, batch, unfinished


class NetworkSearch(TreeSearch):
    """Search guided by a network, with one evaluator call per step for all trees.

    Trees and evaluations are discarded when the evaluator's weights change. A tree starts with one leaf that awaits its
    evaluation and gets another one for every `VISITS_PER_LEAF` visits of the root, up to ``leaves``.
    """

    def __init__(
        self,
        evaluator: SupportsEvaluate,
        selection: Selection | None = None,  # by default `Puct`
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator | None = None,  # for selections that draw numbers; PUCT draws none
        reuse: Reuse = "nothing",
        cache: int = 0,  # evaluations to cache, of 64 bytes on the standard board; changes the speed, not the result
        leaves: int = 1,  # of a tree that await their evaluation at the same time
        proofs: bool = True,  # whether proven outcomes propagate; without, the end of a game is a value like others
        mirror: bool = True,  # whether a position and its mirror image share one evaluation
    ) -> None:
        self.selection = check_selection(selection or Puct())
        reuse = reuse if reuses_tree(self.selection) else "nothing"
        super().__init__(geometry, rng, reuse, proofs=proofs, look_ahead=proofs, mirror=mirror)
        self.evaluator = evaluator
        self.leaves = leaves
        self._cache = make_cache(cache, geometry)

    def _example(self) -> "NetworkSearch":
        return NetworkSearch(UniformEvaluator(), self.selection, geometry=self.geometry)

    def _search(self, positions: Sequence[Position], budget: Budget) -> SearchResult:
        if refresh_cache(self._cache, self.evaluator):
            self.drop_trees()
        return super()._search(positions, budget)

    def _run(self, trees: Trees, count: int, deadline: float | None) -> None:
        leaves = make_leaves(count * self.leaves, input_planes(self.evaluator), self.geometry)
        waiting = 0
        while True:
            check_block()
            waiting, batch, unfinished = step(trees, count, self.selection, leaves, waiting, self.leaves, self._cache)
            if unfinished == 0:
                return
            if batch > 0:
                logits, wdl = evaluate_checked(self.evaluator, leaves.planes[:batch])
                leaves.logits[:batch], leaves.wdl[:batch] = logits, wdl  # `step` is compiled for one memory layout
            if deadline is not None and time.perf_counter() > deadline:
                trees.budget.fill(0)  # expand the leaves of this last evaluation, then stop

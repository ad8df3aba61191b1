"""Tree search guided by a network, which evaluates the leaves of all trees in one call.

An iteration is one call of the network, then `step`: every leaf that was evaluated is expanded and its value backed
up, and in every tree the next leaves are selected. `NetworkSearch` repeats both.

A tree may have several leaves that wait for the network at the same time, so that the search of a single position
fills a batch, which all cores evaluate. Until its answer is there, each of them counts as one lost game on its way from
the root, for either side: a virtual loss (Chaslot et al. 2008, "Parallel Monte-Carlo Tree Search"). It makes the next
selections try other moves. The result depends on the number of leaves, but not on the number of cores or on timing.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.game import Geometry, Position
from alphac4.game.planes import PLANES
from alphac4.game.rules import STANDARD, U64_0, U64_1
from alphac4.machine import check_block
from alphac4.mcts.config import PuctConfig, check_puct
from alphac4.mcts.puct import expand, leaf_key, write_leaf
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget, Reuse, TreeSearch, compiled_for
from alphac4.mcts.simulation import AWAITING_EVALUATION, MAX_SIMULATIONS_PER_STEP, check_rule, select_leaf
from alphac4.mcts.tree import NO_NODE, ROOT, Trees, is_searched, root_visits

Planes = npt.NDArray[np.float32]

VISITS_PER_LEAF = 64  # of the root for each further leaf: a small tree has few leaves that are worth an evaluation


class Evaluate(Protocol):
    """The interface of a network to a search."""

    def evaluate(self, planes: Planes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """``planes`` [B, P, R, C] to policy logits [B, C] and win/draw/loss probabilities [B, 3], to the side to move.

        P is 2 (the stones of the side to move, its opponent's), or the ``input_planes`` that the evaluator names; see
        `alphac4.game.planes`.
        """


def input_planes(evaluator: Evaluate) -> int:
    """Number of planes that an evaluator sees."""
    return int(getattr(evaluator, "input_planes", PLANES["stones"]))


class NotFiniteError(ValueError):
    """A network returned numbers that no search can use."""


def evaluate_checked(evaluator: Evaluate, planes: Planes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Evaluate ``planes``; see `Evaluate`.

    Raises:
        NotFiniteError: for NaN, for infinite probabilities, or for logits without a largest finite one.
    """
    logits, wdl = evaluator.evaluate(planes)
    if not (np.isfinite(logits.max(axis=1)).all() and np.isfinite(wdl).all()):  # max returns NaN if there is one
        raise NotFiniteError("the network returned numbers that are not finite")
    return logits, wdl


class NetworkParameters(Protocol):
    """Parameters of a rule of selection: a NamedTuple of numbers, this one among them, such as `PuctConfig`."""

    @property
    def prior_temperature(self) -> float:
        """Divides the policy logits."""


_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth, volume 3, 6.4)


class EvaluationCache(NamedTuple):
    """N evaluations, a power of two, that searches share; a new one takes the place of one that it collides with.

    It holds the answers of one network's weights; `refresh_cache` clears it. Entries are keyed on the
    canonical orientation, which is the one that the network is asked about. The parts of an entry lie side by side, so
    that a look-up waits for memory once: on the standard board an entry is one cache line.

    Threads read and write without a lock, each with a `share_cache` of its own. An entry that two of them have mixed
    up is not found: its key is kept combined with a digest of the rest, which is copied before it is compared (Hyatt
    and Mann 2002, "A lock-less transposition table implementation for parallel search chess engines").
    """

    checks: npt.NDArray[np.uint64]  # [N] the position's key plus one, xor the digest of the answers; 0 for nothing
    answers: npt.NDArray[np.uint32]  # [N, A + 3] the bits of policy logits and win/draw/loss
    found: npt.NDArray[np.uint32]  # [A + 3] what was found last
    logits: npt.NDArray[np.float32]  # [A] of it
    wdl: npt.NDArray[np.float32]  # [3] of it
    hits: npt.NDArray[np.int64]  # [1] how often something was found since the host asked last
    version: npt.NDArray[np.int64]  # [1] of the evaluator whose answers these are
    shift: np.uint64  # 64 - log2(N)
    keeps: bool  # or else nothing is ever found


def make_cache(entries: int, geometry: Geometry) -> EvaluationCache:
    """An empty cache with room for ``entries`` evaluations, rounded down to a power of two, and at least 2.

    With 0 it keeps none. It is of the same type then, so that searches are not compiled a second time.
    """
    bits = max(entries.bit_length() - 1, 1)  # a shift by 64 bits would be undefined
    line = 64  # bytes
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
    """The same evaluations for another thread."""
    found = np.zeros_like(cache.found)
    return cache._replace(
        found=found, logits=found[:-3].view(np.float32), wdl=found[-3:].view(np.float32), hits=np.zeros(1, np.int64)
    )


def refresh_cache(cache: EvaluationCache, evaluator: Evaluate) -> bool:
    """Return whether the evaluator has got other weights since the last call; if so, clear the cache.

    An evaluator that changes counts its changes in ``version``.
    """
    version = int(getattr(evaluator, "version", 0))
    if cache.version[0] == version:
        return False
    cache.checks.fill(0)
    cache.version[0] = version
    return True


@inlined
def _row_of(cache: EvaluationCache, key: np.uint64) -> int:
    """The slot of a position's evaluation."""
    return np.int64((key * _SPREAD) >> cache.shift)  # type: ignore[return-value]


@inlined
def _digest(answers: npt.NDArray[np.uint32]) -> np.uint64:
    digest = U64_0
    for bits in answers:
        digest = (digest ^ np.uint64(bits)) * _SPREAD
    return digest


@inlined
def remember(
    cache: EvaluationCache, key: np.uint64, logits: npt.NDArray[np.float32], wdl: npt.NDArray[np.float32]
) -> None:
    """Keep the evaluation (``logits`` [A], ``wdl`` [3]) of the position with this key."""
    row = _row_of(cache, key)
    if cache.keeps:
        for a in range(len(logits)):
            cache.logits[a] = logits[a]
        for outcome in range(3):
            cache.wdl[outcome] = wdl[outcome]
        for number in range(len(cache.found)):
            cache.answers[row, number] = cache.found[number]
        cache.checks[row] = (key + U64_1) ^ _digest(cache.found)


@inlined
def look_up(cache: EvaluationCache, key: np.uint64) -> bool:
    """Write the evaluation of the position with this key into ``cache.logits`` and ``cache.wdl``; False without one."""
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


@inlined
def expand_from_cache(trees: Trees, t: int, cache: EvaluationCache, prior_temperature: float) -> bool:
    """Expand the leaf that waits, if any, by an evaluation that the cache holds; False if it holds none."""
    if trees.leaf[t] == NO_NODE or not look_up(cache, leaf_key(trees, t)):
        return False
    expand(trees, t, cache.logits, cache.wdl, prior_temperature)
    return True


@inlined
def walk_to_leaf(trees: Trees, t: int, target: int, parameters: Any, simulations: int) -> int:
    """Simulate until a leaf waits for its evaluation, or the search is over; returns how many ``simulations`` are left.

    Simulations that end in a proven outcome need no evaluation, and there may be any number of them. So that a search
    limited by time can look at the clock, this returns after so many, even without a leaf.
    """
    while simulations > 0 and trees.leaf[t] == NO_NODE and not is_searched(trees, t, target):
        simulations -= 1
        select_leaf(trees, t, parameters)
    return simulations


class Leaves(NamedTuple):
    """Leaves that wait for their evaluation, at most B. The network is asked about those that the cache lacks."""

    tree: npt.NDArray[np.int32]  # [B]
    node: npt.NDArray[np.int32]  # [B]
    own: npt.NDArray[np.uint64]  # [B] its position
    occupied: npt.NDArray[np.uint64]  # [B]
    is_virtual: npt.NDArray[np.bool_]  # [B] whether it counts as a lost game on its way from the root
    question: npt.NDArray[np.int32]  # [B] its row among the planes and answers; -1 if the cache had its evaluation
    cached_logits: npt.NDArray[np.float32]  # [B, A] from the cache
    cached_wdl: npt.NDArray[np.float32]  # [B, 3]
    planes: Planes  # [B, P, R, C] for the network
    logits: npt.NDArray[np.float32]  # [B, A] the network's answers
    wdl: npt.NDArray[np.float32]  # [B, 3]


def make_leaves(count: int, planes: int, geometry: Geometry) -> Leaves:
    """Room for ``count`` leaves."""
    return Leaves(
        tree=np.zeros(count, np.int32),
        node=np.zeros(count, np.int32),
        own=np.zeros(count, np.uint64),
        occupied=np.zeros(count, np.uint64),
        is_virtual=np.zeros(count, np.bool_),
        question=np.zeros(count, np.int32),
        cached_logits=np.zeros((count, geometry.columns), np.float32),
        cached_wdl=np.zeros((count, 3), np.float32),
        planes=np.zeros((count, planes, geometry.rows, geometry.columns), np.float32),
        logits=np.zeros((count, geometry.columns), np.float32),
        wdl=np.zeros((count, 3), np.float32),
    )


@inlined
def add_virtual_visits(trees: Trees, t: int, node: int, visits: int) -> None:
    """Count ``visits`` (1, or -1 to take it back) lost games on every edge from the root to a node."""
    while node != ROOT:
        action = trees.parent_action[t, node]
        node = trees.parent[t, node]
        trees.visits[t, node, action] += visits
        trees.value_sum[t, node, action] -= visits


@inlined
def leaf_limit(trees: Trees, t: int, most: int) -> int:
    """The number of leaves that may wait at the same time in a tree of its size, at least 1 and at most ``most``."""
    return min(most, 1 + root_visits(trees, t) // VISITS_PER_LEAF)


@compiled
def step(
    trees: Trees,
    count: int,
    targets: npt.NDArray[np.int64],
    parameters: Any,
    leaves: Leaves,
    waiting: int,
    most: int,
    cache: EvaluationCache,
) -> tuple[int, int, int]:
    """Expand the leaves that wait and have their evaluations by now, then select the next ones.

    Args:
        trees: [T].
        count: only the first ``count`` trees are searched.
        targets: [T] the root visits to reach.
        parameters: of the rule by which actions are selected.
        leaves: those selected in the last step, with the network's answers; replaced by the next.
        waiting: the number of leaves selected in the last step.
        most: the most leaves of a tree that may wait at the same time.
        cache: of evaluations.

    Returns:
        The number of leaves selected, the number of them that the network must evaluate, and the number of trees whose
        search is not over.
    """
    temperature = parameters.prior_temperature
    for row in range(waiting):
        t, node, question = leaves.tree[row], leaves.node[row], leaves.question[row]
        if leaves.is_virtual[row]:
            add_virtual_visits(trees, t, node, -1)
        trees.leaf[t] = node
        trees.leaf_own[t], trees.leaf_occupied[t] = leaves.own[row], leaves.occupied[row]
        if question >= 0:
            remember(cache, leaf_key(trees, t), leaves.logits[question], leaves.wdl[question])
            expand(trees, t, leaves.logits[question], leaves.wdl[question], temperature)
        else:
            expand(trees, t, leaves.cached_logits[row], leaves.cached_wdl[row], temperature)
    waiting, asked, going_on = 0, 0, 0
    for t in range(count):
        left = MAX_SIMULATIONS_PER_STEP
        first = waiting
        wide = leaf_limit(trees, t, most)
        while waiting - first < wide:
            left = walk_to_leaf(trees, t, targets[t], parameters, left)
            leaf = trees.leaf[t]
            if leaf == NO_NODE:
                break
            if waiting > first and trees.value[t, leaf] == AWAITING_EVALUATION:  # selected before in this step
                trees.leaf[t] = NO_NODE
                break
            if wide == 1 and expand_from_cache(trees, t, cache, temperature):
                wide = leaf_limit(trees, t, most)
                continue
            leaves.tree[waiting], leaves.node[waiting] = t, leaf
            leaves.own[waiting], leaves.occupied[waiting] = trees.leaf_own[t], trees.leaf_occupied[t]
            if wide > 1 and look_up(cache, leaf_key(trees, t)):
                # It waits like the others, so that the search does not depend on what the cache holds.
                leaves.question[waiting] = -1
                for a in range(len(cache.logits)):
                    leaves.cached_logits[waiting, a] = cache.logits[a]
                for outcome in range(3):
                    leaves.cached_wdl[waiting, outcome] = cache.wdl[outcome]
            else:
                leaves.question[waiting] = asked
                write_leaf(trees, t, leaves.planes[asked], np.float32(1))
                asked += 1
            trees.leaf[t] = NO_NODE
            leaves.is_virtual[waiting] = wide > 1
            if wide > 1:  # for a single leaf it would only round the sums of values
                trees.value[t, leaf] = AWAITING_EVALUATION
                add_virtual_visits(trees, t, leaf, 1)
            waiting += 1
            if leaf == ROOT:  # there are no priors to select by
                break
        going_on += waiting > first or left == 0
    return waiting, asked, going_on


class NetworkSearch(TreeSearch):
    """PUCT guided by a network: one evaluator call per step for the whole batch.

    Kept trees and evaluations are dropped when the evaluator gets other weights.

    Args:
        evaluator: the network.
        rule: the parameters of PUCT, or those of a rule of one's own; see `alphac4.mcts.simulation.register_selection_rule`.
        geometry: the board.
        rng: for rules that draw numbers, which PUCT does not.
        reuse: the trees that are kept for positions that follow.
        cache: the number of evaluations to keep, of 64 bytes each on the standard board. A new evaluation takes the
            place of one that it collides with.
        leaves: the most leaves of a tree that wait for the network at the same time. The number grows by one for every
            `VISITS_PER_LEAF` visits of the root.

    Raises:
        ValueError: for parameters without a rule that can be compiled; see `alphac4.mcts.simulation.check_rule`.
    """

    def __init__(
        self,
        evaluator: Evaluate,
        rule: NetworkParameters | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator | None = None,
        reuse: Reuse = "nothing",
        cache: int = 0,
        leaves: int = 1,
    ) -> None:
        parameters = rule or PuctConfig()
        if isinstance(parameters, PuctConfig):
            parameters = check_puct(parameters)
        super().__init__(geometry, rng, reuse, parameters)
        check_rule(parameters, self._kept.trees)
        self.evaluator = evaluator
        self.leaves = leaves
        self._cache = make_cache(cache, geometry)

    def _search(self, positions: Sequence[Position], budget: Budget, capacity: int) -> SearchResult:
        if refresh_cache(self._cache, self.evaluator):
            self.drop_trees()
        return super()._search(positions, budget, capacity)

    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        leaves = make_leaves(count * self.leaves, input_planes(self.evaluator), self.geometry)
        expand_and_select = compiled_for(self.parameters, step)
        waiting = 0
        while True:
            check_block()
            waiting, asked, going_on = expand_and_select(
                trees, count, targets, self.parameters, leaves, waiting, self.leaves, self._cache
            )
            if going_on == 0:
                return
            if asked > 0:
                logits, wdl = evaluate_checked(self.evaluator, leaves.planes[:asked])
                leaves.logits[:asked], leaves.wdl[:asked] = logits, wdl  # `step` knows one memory layout
            if deadline is not None and time.perf_counter() > deadline:
                targets = np.zeros_like(targets)  # take in this last evaluation, then stop

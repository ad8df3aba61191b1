"""Tree search guided by a network, which evaluates the leaves of all trees in one call."""

import time
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.game import Geometry
from alphac4.game.planes import PLANES
from alphac4.game.rules import STANDARD
from alphac4.machine import check_block
from alphac4.mcts.evaluation_cache import NO_ROW, EvaluationCache, find, forget, make_cache, remember
from alphac4.mcts.kept_trees import Reuse
from alphac4.mcts.puct import PuctConfig, expand, write_leaf
from alphac4.mcts.search import TreeSearch, compiled_for
from alphac4.mcts.selection import has_rule
from alphac4.mcts.simulation import SIMULATIONS_A_STEP, simulate
from alphac4.mcts.tree import NO_ACTION, NO_NODE, Trees, is_searched, leaf_key

Planes = npt.NDArray[np.float32]


class Evaluate(Protocol):
    """What a network-guided search asks of a network."""

    def evaluate(self, planes: Planes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """``planes`` [B, P, R, C] to policy logits [B, C] and win/draw/loss probabilities [B, 3].

        P is 2 (the stones of the side to move, its opponent's), or the ``input_planes`` that the evaluator names; see
        `alphac4.game.planes`.
        """


def input_planes(evaluator: Evaluate) -> int:
    """How many planes an evaluator sees."""
    return int(getattr(evaluator, "input_planes", PLANES["stones"]))


class NetworkParameters(Protocol):
    """What a rule's parameters must have for a network-guided search: a NamedTuple of numbers, this one among them."""

    @property
    def prior_temperature(self) -> float:
        """Divides the policy logits."""


@inlined
def walk_to_leaf(geometry: Geometry, trees: Trees, t: int, target: int, parameters: Any, most: int) -> int:
    """Simulate until a leaf waits for its evaluation, or the search is over; returns what is left of ``most``.

    Simulations that end in a proven outcome need no evaluation, and there may be any number of them. So that a search
    limited by time can look at the clock, this returns after ``most`` simulations, even without a leaf.
    """
    while most > 0 and trees.leaf[t] == NO_NODE and not is_searched(trees, t, target):
        most -= 1
        simulate(geometry, trees, t, parameters, True, True, NO_ACTION)
    return most


@inlined
def goes_on(trees: Trees, t: int, left: int) -> bool:
    """Whether a tree's search goes on after `walk_to_leaf` left so many: with a leaf, or with simulations to make."""
    return trees.leaf[t] != NO_NODE or left == 0


@compiled
def step(
    geometry: Geometry,
    trees: Trees,
    count: int,
    targets: npt.NDArray[np.int64],
    parameters: Any,
    logits: npt.NDArray[np.float32],
    wdl: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int32],
    evaluated: int,
    planes: Planes,
    cache: EvaluationCache,
) -> tuple[int, int]:
    """Give the last step's leaves their evaluations, then walk each tree to its next leaf that the cache lacks.

    ``targets`` [T] are the root visits to reach. ``rows`` [T] holds the tree of each row of the batch: of the
    ``evaluated`` rows coming in, of the rows going out in ``planes``. Returns how many go out, and how many trees go
    on, with a leaf or without.
    """
    for row in range(evaluated):
        t = rows[row]
        remember(cache, leaf_key(geometry, trees, t), logits[row], wdl[row])
        expand(geometry, trees, t, logits[row], wdl[row], parameters.prior_temperature)
    waiting, going_on = 0, 0
    for t in range(count):
        left = SIMULATIONS_A_STEP
        while True:
            left = walk_to_leaf(geometry, trees, t, targets[t], parameters, left)
            if trees.leaf[t] == NO_NODE:
                break
            known = find(cache, leaf_key(geometry, trees, t))
            if known == NO_ROW:
                break
            expand(geometry, trees, t, cache.logits[known], cache.wdl[known], parameters.prior_temperature)
        going_on += goes_on(trees, t, left)
        if trees.leaf[t] != NO_NODE:
            rows[waiting] = t
            write_leaf(geometry, trees, t, planes[waiting], np.float32(1))
            waiting += 1
    return waiting, going_on


class NetworkSearch(TreeSearch):
    """PUCT guided by a network: one evaluator call a step for the whole batch.

    For another rule than PUCT give the parameters of one's own in place of ``config``; see
    `alphac4.mcts.selection.scores_actions`. ``rng`` is for rules that draw numbers, which PUCT does not. With a
    ``cache`` for so many evaluations, of 64 bytes each on the standard board, most positions go through the network
    once until `forget`: a new evaluation takes the place of one that it collides with, and trees that wait for the
    same position in one step all ask for it.
    """

    def __init__(
        self,
        evaluator: Evaluate,
        config: PuctConfig | NetworkParameters | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator | None = None,
        reuse: Reuse = "nothing",
        cache: int = 0,
    ) -> None:
        super().__init__(geometry, rng, reuse, network_parameters(config))
        self.evaluator = evaluator
        self._cache = make_cache(cache, geometry)

    def forget(self) -> None:
        """See `TreeSearch.forget`."""
        super().forget()
        forget(self._cache)

    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        geometry = self.geometry
        planes = np.zeros((count, input_planes(self.evaluator), geometry.rows, geometry.columns), np.float32)
        rows = np.zeros(count, np.int32)
        logits, wdl = np.zeros((count, geometry.columns), np.float32), np.zeros((count, 3), np.float32)
        take_step = compiled_for(self.parameters, step)
        waiting = 0
        while True:
            check_block()
            waiting, going_on = take_step(
                geometry, trees, count, targets, self.parameters, logits, wdl, rows, waiting, planes, self._cache
            )
            if going_on == 0:
                return
            if waiting > 0:
                logits, wdl = self.evaluator.evaluate(planes[:waiting])
            if deadline is not None and time.perf_counter() > deadline:
                targets = np.zeros_like(targets)  # take in this last evaluation, then stop


def network_parameters(config: PuctConfig | NetworkParameters | None) -> NetworkParameters:
    """The numbers for compiled code: those of PUCT, with its defaults where none are given, or of another rule.

    Raises:
        ValueError: for parameters without a rule.
    """
    config = config or PuctConfig()
    parameters = config.parameters() if isinstance(config, PuctConfig) else config
    if not has_rule(parameters):
        raise ValueError(f"no rule of selection is registered for {type(parameters).__name__}: see scores_actions")
    return parameters

"""Network-guided search in one tree: PUCT, expansion by an evaluation, noise at the root.

A simulation calls `alphac4.mcts.simulation.select_leaf`, `write_leaf`, the network, and `expand_and_back_up`, which
stores the leaf's priors and backs its value up.
"""

import functools
import inspect
import math
from numbers import Real
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba.core.errors import NumbaError

from alphac4.compiled import compiled, force_inlined, inlined, users_compiled
from alphac4.game.planes import write_planes
from alphac4.game.rules import STANDARD, canonical_key, mirror, mirror_is_canonical, position_key
from alphac4.mcts import random_state
from alphac4.mcts.simulation import NodeTotals, Selection, action_value, backup
from alphac4.mcts.tree import ILLEGAL, NO_NODE, ROOT, Trees, make_trees
from alphac4.storage.records import MAX_NUMBER, MIN_POSITIVE, Range, quote

SCORE_ARGUMENTS = ("self", "trees", "t", "node", "action", "totals")


class Puct(NamedTuple):
    """The package's selection, PUCT (Silver et al. 2018): its parameters and the score of an action."""

    c_init: float = 1.25
    """Weight of the prior against the mean value (AlphaZero 2018: 1.25). Retune it together with
    ``prior_temperature``: both decide how far a search departs from the policy."""
    c_base: float = 19652.0
    """Visits of a node at which the prior's weight has grown by ``log(2)`` (AlphaZero 2018: 19652); it hardly affects
    searches of a few hundred simulations."""
    fpu_reduction: float = 0.25
    """First-play urgency: the value of an unvisited move is its parent's mean, less this times the square root of the
    sum of the visited moves' priors (KataGo: 0.2)."""
    root_fpu_reduction: float = 0.0
    """``fpu_reduction`` at the root: with 0, moves that noise favours are tried sooner (KataGo: 0 with noise)."""
    prior_temperature: float = 1.4
    """Divisor of the policy logits: above 1 the search trusts the policy less (Leela Chess Zero: 1.4). Self-play
    by a run's settings uses 1, because it learns from its own priors; a given ``selection_rule`` is used unchanged."""

    @inlined
    def score(self, trees: Trees, t: int, node: int, action: int, totals: NodeTotals) -> float:
        """Return the `puct_score` of an action; the compiler moves a node's terms out of the loop over actions."""
        scale = exploration_weight(self, totals.visits) * math.sqrt(totals.visits + 1.0)
        value = action_value(trees, t, node, action, first_play_value(totals, node, self))
        return puct_score(value, trees.priors[t, node, action], trees.visits[t, node, action], scale)


@inlined
def exploration_weight(parameters: Puct, visits: int) -> float:
    """Return ``c_init + log((1 + N + c_base) / c_base)``, Silver et al. 2018, supplementary pseudocode."""
    return parameters.c_init + math.log((1.0 + visits + parameters.c_base) / parameters.c_base)


@inlined
def puct_score(value: float, prior: float, visits: int, scale: float) -> float:
    """Return ``Q + c(N) P sqrt(N + 1) / (1 + n)``.

    Q, in [-1, 1], is for the side to move. ``scale`` is ``c(N) sqrt(N + 1)``, the same for all actions of a node.
    AlphaZero has sqrt(N); with N + 1, priors decide the first visit.
    """
    return value + scale * prior / (1.0 + visits)


@inlined
def first_play_value(totals: NodeTotals, node: int, parameters: Puct) -> float:
    """Return the value of an unvisited move: the node's mean minus ``f * sqrt(sum of visited priors)`` (KataGo)."""
    reduction = parameters.root_fpu_reduction if node == ROOT else parameters.fpu_reduction
    return totals.value_sum / (1.0 + totals.visits) - reduction * math.sqrt(totals.visited_prior)


def check_selection(selection: Any) -> Selection:
    """Return the selection, with a `Puct`'s numbers as floats; raise TypeError or ValueError if it cannot be used."""
    kind = type(selection)
    if isinstance(selection, type):
        raise TypeError(f"a selection is an instance: write {selection.__name__}()")
    if "prior_temperature" not in getattr(kind, "_fields", ()) or not hasattr(kind, "score"):
        raise TypeError(f"a selection is a NamedTuple with a field prior_temperature and a method score, not {kind}")
    for name, number in selection._asdict().items():
        if not isinstance(number, Real) or (kind is Puct and isinstance(number, bool)):
            raise TypeError(f"{kind.__name__}.{name} must be a number, not {quote(number)}")
        if kind is Puct:
            is_signed = name in ("fpu_reduction", "root_fpu_reduction")
            Range(-MAX_NUMBER if is_signed else MIN_POSITIVE, MAX_NUMBER).check(name, number)
    if kind is Puct:
        return Puct(*map(float, selection))  # so that a search is compiled once
    for method in ("score", "final_score"):
        if hasattr(kind, method):
            _check_score(numba.typeof(selection), method)  # type: ignore[no-untyped-call]
    return selection  # type: ignore[no-any-return]


@functools.cache
def _check_score(selection: Any, method: str) -> None:
    """Raise ValueError for an unsuitable method of a user's selection; ``selection`` is its type in Numba.

    The method is compiled separately, so that errors in it are reported without the search around it.
    """
    kind = selection.instance_class
    function, name = users_compiled(getattr(kind, method)), f"{kind.__name__}.{method}"
    arguments = tuple(inspect.signature(function.py_func).parameters)
    if len(arguments) != len(SCORE_ARGUMENTS):
        raise ValueError(f"{name} takes ({', '.join(arguments)}); expected ({', '.join(SCORE_ARGUMENTS)})")
    examples = make_trees(0, 0, STANDARD, np.random.default_rng(0)), 0, 0, 0, NodeTotals(0, 0.0, 0.0, 0)
    try:
        function.compile((selection, *map(numba.typeof, examples)))
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        problem = next(line for line in [*lines, "unknown"] if not line.startswith("Failed in"))
        place = next((f" ({line.rstrip(':')})" for line in lines if line.startswith("File ")), "")
        raise ValueError(f"{name} cannot be compiled by Numba: {problem}{place}") from error
    (returned,) = function.nopython_signatures
    if not isinstance(returned.return_type, numba.types.Number | numba.types.Boolean):
        raise ValueError(f"{name} returns {returned.return_type}; expected a number in every case")


@inlined
def evaluation_key(trees: Trees, own: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the key of a position in the orientation that the network evaluates."""
    return canonical_key(trees.board, own, occupied) if trees.mirror else position_key(own, occupied)


@inlined
def leaf_key(trees: Trees, t: int) -> np.uint64:
    return evaluation_key(trees, trees.leaf_own[t], trees.leaf_occupied[t])


@inlined
def is_leaf_mirrored(trees: Trees, t: int) -> bool:
    """Return whether the network evaluates the mirror image of the waiting leaf."""
    return trees.mirror and mirror_is_canonical(trees.board, trees.leaf_own[t], trees.leaf_occupied[t])


@force_inlined
def write_leaf(trees: Trees, t: int, planes: npt.NDArray[np.number], one: np.number) -> None:
    """Write the waiting leaf's planes, by default in the canonical orientation of its position.

    So the evaluations of a position and its mirror image are mirror images, even if the network is not symmetric.
    """
    board, own, occupied = trees.board, trees.leaf_own[t], trees.leaf_occupied[t]
    if is_leaf_mirrored(trees, t):
        own, occupied = mirror(board, own), mirror(board, occupied)
    write_planes(board, own, occupied, planes, one)


@force_inlined
def expand_and_back_up(
    trees: Trees, t: int, logits: npt.NDArray[np.float32], wdl: npt.NDArray[np.float32], prior_temperature: float
) -> None:
    """Store the waiting leaf's evaluation, if a leaf waits, and back its value up.

    ``logits`` [A] are those of the evaluated orientation; ``wdl`` [3] are probabilities for the side to move.
    """
    leaf = trees.leaf[t]
    if leaf == NO_NODE:
        return
    trees.leaf[t] = NO_NODE
    actions = trees.visits.shape[2]
    # Column a of the leaf is column first + step * a of the evaluated orientation.
    first, step = 0, 1
    if is_leaf_mirrored(trees, t):
        first, step = actions - 1, -1
    highest = -math.inf
    for a in range(actions):
        if trees.proof[t, leaf, a] != ILLEGAL and logits[first + step * a] > highest:
            highest = float(logits[first + step * a])
    total = 0.0
    for a in range(actions):
        # Mask before the softmax: a full column would otherwise absorb prior mass.
        if trees.proof[t, leaf, a] != ILLEGAL:
            weight = math.exp((logits[first + step * a] - highest) / prior_temperature)
            trees.priors[t, leaf, a] = weight
            total += weight
    for a in range(actions):
        trees.priors[t, leaf, a] /= total
    value_to_move = float(wdl[0] - wdl[2])
    trees.value[t, leaf] = value_to_move
    trees.draw[t, leaf] = wdl[1]
    trees.draw_sum[t] += wdl[1]
    trees.draw_count[t] += 1
    backup(trees, t, leaf, value_to_move)


@inlined
def draw_uniform(trees: Trees, t: int) -> None:
    """Fill ``trees.uniform`` with numbers derived from the tree's random state, which stays as it was."""
    state = trees.rng[t]
    trees.rng[t] = ~state  # another stream of random numbers
    for a in range(trees.uniform.shape[1]):
        trees.uniform[t, a] = random_state.uniform(trees.rng, t)
    trees.rng[t] = state


@compiled
def add_root_noise(trees: Trees, t: int, concentration: float, fraction: float) -> None:
    """Mix a ``fraction`` of ``Dirichlet(concentration / legal actions)`` into the root's priors.

    The noise is that of AlphaZero 2018, with KataGo's scaling.
    """
    actions = trees.visits.shape[2]
    legal = 0
    for a in range(actions):
        if trees.proof[t, ROOT, a] != ILLEGAL:
            legal += 1
    # Draw twice from the same random state, first to get the sum: this needs no scratch memory.
    before = trees.rng[t]
    total = 0.0
    for _ in range(legal):
        total += random_state.gamma(trees.rng, t, concentration / legal)
    if total <= 0.0:  # every draw underflowed, which a tiny concentration can do
        return
    trees.rng[t] = before
    for a in range(actions):
        if trees.proof[t, ROOT, a] != ILLEGAL:
            noise = random_state.gamma(trees.rng, t, concentration / legal) / total
            trees.priors[t, ROOT, a] = (1.0 - fraction) * trees.priors[t, ROOT, a] + fraction * noise

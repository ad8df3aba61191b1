"""Classic Monte Carlo tree search: UCB1 selection with random rollouts in place of a network."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.game.rules import U64_0, Geometry, column_cells, legal_cells, play
from alphac4.mcts.heuristics import CHAINS, LINES, LONGEST, NO_EVALUATION, evaluate
from alphac4.mcts.rollouts import Rollout, rollout, styled_rollout
from alphac4.mcts.simulation import simulate
from alphac4.mcts.tree import (
    ILLEGAL,
    NO_ACTION,
    NO_NODE,
    PROVEN_DRAW,
    PROVEN_WIN,
    ROOT,
    UNPROVEN,
    Trees,
    backup,
    node_proof,
    proof_value,
    root_visits,
)
from alphac4.mcts.ucb1 import BIAS, INSTEAD, UctParameters
from alphac4.storage.records import check_finite

EVALUATIONS = {"none": NO_EVALUATION, "lines": LINES, "longest": LONGEST, "chains": CHAINS}
REWARD_SCALES = {"1/0/-1": 1.0, "1/0.5/0": 0.5, "2/1/0": 1.0}


@dataclass(frozen=True, kw_only=True)
class UctConfig:
    """Every classic variant; the default proves what it can and looks ahead, the strongest of the plain ones."""

    exploration: float = math.sqrt(2.0)
    """Weight of UCB1's exploration term, for values in [-1, 1]. UCB1 (Auer et al. 2002) has sqrt(2) for rewards in
    [0, 1], which would be 2 sqrt(2) here, so this explores half as much; with ``reward`` 1/0.5/0 it is UCB1's."""
    count: Literal["parent", "root"] = "parent"
    """Whose visits stand under UCB1's logarithm: the parent's (UCT), or the root's in the whole tree."""
    expansion: Literal["one", "all"] = "one"
    """A leaf gets one rollout, or at once one for each of its moves."""
    reward: Literal["1/0/-1", "1/0.5/0", "2/1/0"] = "1/0/-1"
    """What a win, a draw and a loss are worth in UCB1's score; 2/1/0 only shifts 1/0/-1, and plays the same."""
    final: Literal["visits", "rate", "ucb"] = "visits"
    """The move played: the most visited one, the one with the best mean value, or the one with the best UCB1 score.
    A proven win comes first, the fastest of several; ties go to the better mean value."""
    proofs: bool = True
    """Carry proven wins, losses and draws up the tree (MCTS-Solver, Winands et al. 2008)."""
    guards: bool = True
    """In the tree, take an immediate win and block an immediate loss: a new node looks two plies ahead."""
    rollout: Literal["uniform", "centre"] = "uniform"
    """Rollouts prefer no move, or in proportion the columns nearer to the centre: 1, 2, 3, 4, 3, 2, 1."""
    rollout_guards: bool = False
    """Rollouts, too, take an immediate win and block an immediate loss."""
    depth: int | None = None
    """Plies after which a rollout is cut off and evaluated (a draw without an evaluation); 0 evaluates leaves alone."""
    evaluation: Literal["none", "lines", "longest", "chains"] = "none"
    """A hand-written evaluation (see `alphac4.mcts.heuristics`); it also evaluates rollouts that are cut off."""
    use: Literal["bias", "instead", "rollout"] = "bias"
    """The evaluation is added to UCB1's score with a weight that fades with visits (Chaslot et al. 2008), stands in
    place of the mean value in it, or weighs the moves of rollouts."""
    weight: float = 1.0
    """Weight of the evaluation as a bias."""

    def __post_init__(self) -> None:
        check_finite(self)
        if self.exploration < 0:
            raise ValueError("exploration must not be negative")
        if self.depth is not None and self.depth < 0:
            raise ValueError(f"depth must not be negative, but is {self.depth}")
        if self.weight < 0:
            raise ValueError("weight must not be negative")

    def parameters(self) -> UctParameters:
        """The tree's part of the numbers, as compiled code takes them."""
        scored = self.use != "rollout"
        return UctParameters(
            exploration=self.exploration,
            proofs=self.proofs,
            look_ahead=self.guards,
            root_count=self.count == "root",
            reward_scale=REWARD_SCALES[self.reward],
            evaluation=EVALUATIONS[self.evaluation] if scored else NO_EVALUATION,
            evaluation_use=INSTEAD if self.use == "instead" else BIAS,
            evaluation_weight=self.weight,
        )

    def rollouts(self) -> Rollout:
        """The rollouts' part."""
        return Rollout(
            centre=self.rollout == "centre",
            guards=self.rollout_guards,
            depth=-1 if self.depth is None else self.depth,
            evaluation=EVALUATIONS[self.evaluation],
            guide=EVALUATIONS[self.evaluation] if self.use == "rollout" else NO_EVALUATION,
        )

    @property
    def plain_rollouts(self) -> bool:
        """Whether rollouts are uniform and played to the end, for which there is a faster function."""
        return self.rollouts()._replace(evaluation=NO_EVALUATION) == Rollout()


@inlined  # passing the trees to another function would cost as much as a short rollout
def rollout_value(
    geometry: Geometry, trees: Trees, t: int, own: np.uint64, occupied: np.uint64, style: Rollout, plain: bool
) -> float:
    """One rollout's value to the side to move; draws are counted for the report."""
    if plain:
        value = rollout(geometry, own, occupied, trees.rng, t)
    else:
        value = styled_rollout(geometry, own, occupied, trees.rng, t, style)
    trees.draw_sum[t] += 1.0 if value == 0.0 else 0.0
    trees.draw_count[t] += 1
    return value


@compiled
def evaluate_moves(
    geometry: Geometry, trees: Trees, t: int, leaf: int, own: np.uint64, occupied: np.uint64, kind: int
) -> None:
    """Write down the evaluation of each of the leaf's moves, for the side that makes it."""
    legal = legal_cells(geometry, occupied)
    for a in range(geometry.columns):
        cell = legal & column_cells(geometry, a)
        trees.evaluation[t, leaf, a] = evaluate(geometry, kind, own | cell, own ^ occupied) if cell != U64_0 else 0.0


@compiled
def try_all_moves(
    geometry: Geometry,
    trees: Trees,
    t: int,
    leaf: int,
    own: np.uint64,
    occupied: np.uint64,
    style: Rollout,
    plain: bool,
) -> int:
    """Give every move of a leaf one rollout, or its known value, and back all of them up; returns how many."""
    tried = 0
    for a in range(geometry.columns):
        proof = trees.proof[t, leaf, a]
        if proof == ILLEGAL:
            continue
        if proof != UNPROVEN:
            value = proof_value(proof)
        else:
            next_own, next_occupied = play(geometry, own, occupied, a)
            value = -rollout_value(geometry, trees, t, next_own, next_occupied, style, plain)
        trees.visits[t, leaf, a] += 1
        trees.value_sum[t, leaf, a] += value
        backup(trees, t, leaf, value)
        tried += 1
    return tried


@compiled
def run_uct(
    geometry: Geometry,
    trees: Trees,
    t: int,
    target: int,
    parameters: UctParameters,
    style: Rollout,
    plain: bool,
    all_moves: bool,
) -> None:
    """Simulate in tree ``t`` until its root has ``target`` visits, is proven (if proofs count), or memory is full."""
    capacity = trees.parent.shape[1]
    trees.leaf[t] = NO_NODE
    if root_visits(trees, t) == 0:
        if parameters.evaluation != NO_EVALUATION:
            evaluate_moves(geometry, trees, t, ROOT, trees.own[t], trees.occupied[t], parameters.evaluation)
        if all_moves:
            try_all_moves(geometry, trees, t, ROOT, trees.own[t], trees.occupied[t], style, plain)
    left = target - root_visits(trees, t)
    while left > 0:
        if trees.size[t] >= capacity or (parameters.proofs and node_proof(trees, t, ROOT) != UNPROVEN):
            break
        tried = 1
        if simulate(geometry, trees, t, parameters, parameters.proofs, parameters.look_ahead, NO_ACTION):
            leaf = trees.leaf[t]
            trees.leaf[t] = NO_NODE
            own, occupied = trees.leaf_own[t], trees.leaf_occupied[t]
            if parameters.evaluation != NO_EVALUATION:
                evaluate_moves(geometry, trees, t, leaf, own, occupied, parameters.evaluation)
            if all_moves:
                tried = try_all_moves(geometry, trees, t, leaf, own, occupied, style, plain)
                trees.value[t, leaf] = 0.0
            else:
                value = rollout_value(geometry, trees, t, own, occupied, style, plain)
                trees.value[t, leaf] = value
                backup(trees, t, leaf, value)
        left -= tried


Row = npt.NDArray[np.float64]


def final_move(
    visits: npt.NDArray[np.int64], values: Row, scores: Row, proofs: npt.NDArray[np.int64], rule: str
) -> int:
    """The move to play from a root's statistics by action [A], by ``UctConfig.final``.

    A proven win is taken, the fastest of several; of proven losses the slowest, and only if nothing else is left.
    """
    legal = proofs != ILLEGAL
    wins = legal & (proofs > PROVEN_DRAW) & (proofs <= PROVEN_WIN)
    if wins.any():
        return int(np.where(wins, proofs, ILLEGAL).argmax())
    open_moves = legal & (proofs >= PROVEN_DRAW)
    if not open_moves.any():
        return int(np.where(legal, proofs, ILLEGAL).argmax())
    means = np.where(visits > 0, values, -np.inf)
    means = np.where(proofs == PROVEN_DRAW, 0.0, means)
    tried_scores = np.where((visits > 0) & np.isfinite(scores), scores, -np.inf)  # an untried move's is infinite
    chosen: Row = {"visits": visits.astype(np.float64), "rate": means, "ucb": tried_scores}[rule]
    order = np.lexsort((means, chosen))  # ascending by the rule, then by the mean value
    return int(next(action for action in order[::-1] if open_moves[action]))

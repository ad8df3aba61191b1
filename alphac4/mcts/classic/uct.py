"""Classic Monte Carlo tree search in one tree: UCB1 selection, with random rollouts in place of a network."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.game.rules import U64_0, column_cells, legal_cells, play
from alphac4.mcts import random_state
from alphac4.mcts.classic.rollouts import (
    CHAINS,
    LINES,
    LONGEST,
    NO_HEURISTIC,
    Rollout,
    heuristic_value,
    rollout,
)
from alphac4.mcts.simulation import Scores, SelectionRule, backup, select_leaf, selection_rules
from alphac4.mcts.tree import (
    ILLEGAL,
    NO_ACTION,
    NO_NODE,
    PROVEN_DRAW,
    PROVEN_WIN,
    ROOT,
    UNPROVEN,
    Trees,
    node_proof,
    proof_value,
    root_visits,
)
from alphac4.storage.records import check_finite, check_ranges

HEURISTICS = {"none": NO_HEURISTIC, "lines": LINES, "longest": LONGEST, "chains": CHAINS}
REWARD_SCALES = {"1/0/-1": 1.0, "1/0.5/0": 0.5, "2/1/0": 1.0}


@dataclass(frozen=True, kw_only=True)
class UctConfig:
    """Every classic variant; the default proves what it can and looks ahead, the strongest of the plain ones."""

    exploration: float = math.sqrt(2.0)
    """Weight of UCB1's exploration term, for values in [-1, 1]. UCB1 (Auer et al. 2002) has sqrt(2) for rewards in
    [0, 1], which would be 2 sqrt(2) here, so this explores half as much; with ``reward`` 1/0.5/0 it is UCB1's."""
    ucb_visits: Literal["parent", "root"] = "parent"
    """Node whose visits stand under UCB1's logarithm: the parent (UCT), or the root's in the whole tree."""
    expansion: Literal["one", "all"] = "one"
    """A leaf gets one rollout, or at once one for each of its moves."""
    reward: Literal["1/0/-1", "1/0.5/0", "2/1/0"] = "1/0/-1"
    """Worth of a win, a draw and a loss in UCB1's score; 2/1/0 only shifts 1/0/-1, and plays the same."""
    final: Literal["visits", "rate", "ucb"] = "visits"
    """The move played: the most visited one, the one with the best mean value, or the one with the best UCB1 score.
    A proven win comes first, the fastest of several; ties go to the better mean value."""
    proofs: bool = True
    """Carry proven wins, losses and draws up the tree (MCTS-Solver, Winands et al. 2008)."""
    decisive_moves: bool = True
    """In the tree, take an immediate win and block an immediate loss: a new node looks two plies ahead."""
    rollout: Literal["uniform", "centre"] = "uniform"
    """Rollouts prefer no move, or in proportion the columns nearer to the centre: 1, 2, 3, 4, 3, 2, 1."""
    rollout_decisive_moves: bool = False
    """Rollouts, too, take an immediate win and block an immediate loss."""
    rollout_depth: int | None = None
    """Plies after which a rollout is cut off and evaluated (a draw without an evaluation); 0 evaluates leaves alone."""
    evaluation: Literal["none", "lines", "longest", "chains"] = "none"
    """A hand-written value (see `alphac4.mcts.classic.rollouts`); it also evaluates rollouts that are cut off."""
    evaluation_use: Literal["bias", "instead", "rollout"] = "bias"
    """The evaluation is added to UCB1's score with a weight that fades with visits (Chaslot et al. 2008), stands in
    place of the mean value in it, or weighs the moves of rollouts."""
    bias_weight: float = 1.0
    """Weight of the evaluation as a bias."""

    def __post_init__(self) -> None:
        check_finite(self)
        check_ranges(self, exploration=(0, math.inf), rollout_depth=(0, math.inf), bias_weight=(0, math.inf))

    def parameters(self) -> "UctParameters":
        """The parameters as compiled code takes them."""
        heuristic = HEURISTICS[self.evaluation]
        guides = self.evaluation_use == "rollout"
        return UctParameters(
            exploration=self.exploration,
            root_count=self.ucb_visits == "root",
            all_moves=self.expansion == "all",
            reward_scale=REWARD_SCALES[self.reward],
            heuristic=NO_HEURISTIC if guides else heuristic,
            replaces_value=self.evaluation_use == "instead",
            bias_weight=self.bias_weight,
            rollout=Rollout(
                centre=self.rollout == "centre",
                decisive_moves=self.rollout_decisive_moves,
                depth=-1 if self.rollout_depth is None else self.rollout_depth,
                heuristic=heuristic,
                guide=heuristic if guides else NO_HEURISTIC,
            ),
        )


class UctParameters(NamedTuple):
    """`UctConfig` for compiled code."""

    exploration: float
    root_count: bool  # the root's count of visits under the logarithm in place of the parent's
    all_moves: bool  # a leaf gets a rollout for each of its moves
    reward_scale: float  # what a win is worth more than a draw
    heuristic: int  # which hand-written value counts in the score; `Trees.heuristics` holds what it says
    replaces_value: bool  # it stands in place of the mean value, or else is added as a bias
    bias_weight: float
    rollout: Rollout


@inlined
def ucb1_score(value: float, visits: int, log_parent: float, exploration: float) -> float:
    """``Q + c sqrt(log(N) / n)``, Kocsis and Szepesvari 2006; in UCB1 (Auer et al. 2002) c = sqrt(2) on [0, 1].

    Q is seen by the side to move.
    """
    return value + exploration * math.sqrt(log_parent / visits)


@inlined
def progressive_bias(heuristic: float, weight: float, visits: int) -> float:
    """``w h / (1 + n)``, Chaslot et al. 2008: a hand-written value that counts less the more the move is tried."""
    return weight * heuristic / (1.0 + visits)


@inlined
def ucb1_action_score(
    trees: Trees, t: int, node: int, action: int, log_parent: float, parameters: UctParameters
) -> float:
    """The score of an action that has been tried."""
    visits = trees.visits[t, node, action]
    value = 0.0
    if trees.proof[t, node, action] != PROVEN_DRAW:
        value = parameters.reward_scale * trees.value_sum[t, node, action] / visits
    if parameters.heuristic == NO_HEURISTIC:
        return ucb1_score(value, visits, log_parent, parameters.exploration)
    heuristic = trees.heuristics[t, node, action]
    if parameters.replaces_value:
        return ucb1_score(heuristic, visits, log_parent, parameters.exploration)
    bias = progressive_bias(heuristic, parameters.bias_weight, visits)
    return ucb1_score(value, visits, log_parent, parameters.exploration) + bias


def select_ucb1(trees: Trees, t: int, node: int, parameters: UctParameters) -> int:
    """A random untried action, or else the one with the highest UCB1 score.

    An action that is known to lose is only taken if all are. A known win is only met where proofs do not spread, and
    is taken at once if nodes look ahead; in plain UCT it is an action like any other.
    """
    total = 0
    untried = 0
    open_actions = 0
    for a in range(trees.visits.shape[2]):
        proof = trees.proof[t, node, a]
        total += trees.visits[t, node, a]
        if proof >= PROVEN_DRAW:
            open_actions += 1
            untried += trees.visits[t, node, a] == 0
            if not trees.proofs and trees.look_ahead and proof > PROVEN_DRAW and proof <= PROVEN_WIN:
                return a
    lowest = PROVEN_DRAW if open_actions > 0 else ILLEGAL + 1
    if open_actions == 0:
        for a in range(trees.visits.shape[2]):
            untried += (trees.visits[t, node, a] == 0) & (trees.proof[t, node, a] >= lowest)
    if untried > 0:
        skip = random_state.below(trees.rng, t, untried)
        for a in range(trees.visits.shape[2]):
            if trees.visits[t, node, a] == 0 and trees.proof[t, node, a] >= lowest:
                if skip == 0:
                    return a
                skip -= 1
    log_parent = math.log(root_visits(trees, t) if parameters.root_count else total)
    best, best_score = NO_ACTION, -math.inf
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, node, a] < lowest:
            continue
        score = ucb1_action_score(trees, t, node, a, log_parent, parameters)
        if score > best_score:
            best, best_score = a, score
    return best


def write_ucb1_scores(trees: Trees, t: int, node: int, parameters: UctParameters, scores: Scores) -> None:
    """See `alphac4.mcts.simulation.write_scores`; an action that has not been tried scores infinity."""
    total = 0
    for a in range(trees.visits.shape[2]):
        total += trees.visits[t, node, a]
    log_parent = math.log(max(root_visits(trees, t) if parameters.root_count else total, 1))
    for a in range(trees.visits.shape[2]):
        scores[a] = math.nan
        if trees.proof[t, node, a] != ILLEGAL:
            scores[a] = math.inf
            if trees.visits[t, node, a] > 0:
                scores[a] = ucb1_action_score(trees, t, node, a, log_parent, parameters)


selection_rules[UctParameters] = SelectionRule(select_ucb1, write_ucb1_scores)


@compiled
def run_uct(trees: Trees, t: int, target: int, parameters: UctParameters) -> None:
    """Simulate in tree ``t`` until its root has ``target`` visits, is proven (if proofs spread), or memory is full."""
    trees.leaf[t] = NO_NODE
    if root_visits(trees, t) == 0:
        if parameters.heuristic != NO_HEURISTIC:
            write_heuristics(trees, t, ROOT, trees.own[t], trees.occupied[t], parameters.heuristic)
        if parameters.all_moves:
            try_all_moves(trees, t, ROOT, trees.own[t], trees.occupied[t], parameters.rollout)
    left = target - root_visits(trees, t)
    while left > 0 and trees.size[t] < trees.parent.shape[1]:
        if trees.proofs and node_proof(trees, t, ROOT) != UNPROVEN:
            break
        tried = 1
        if select_leaf(trees, t, parameters):
            leaf = trees.leaf[t]
            trees.leaf[t] = NO_NODE
            own, occupied = trees.leaf_own[t], trees.leaf_occupied[t]
            if parameters.heuristic != NO_HEURISTIC:
                write_heuristics(trees, t, leaf, own, occupied, parameters.heuristic)
            if parameters.all_moves:
                trees.value[t, leaf] = 0.0
                tried = try_all_moves(trees, t, leaf, own, occupied, parameters.rollout)
            else:
                value = rollout_value(trees, t, own, occupied, parameters.rollout)
                trees.value[t, leaf] = value
                backup(trees, t, leaf, value)
        left -= tried


@compiled
def write_heuristics(trees: Trees, t: int, leaf: int, own: np.uint64, occupied: np.uint64, kind: int) -> None:
    """Write down the hand-written value of each of the leaf's moves, for the side that makes it."""
    geometry = trees.geometry
    legal = legal_cells(geometry, occupied)
    for a in range(geometry.columns):
        cell = legal & column_cells(geometry, a)
        value = heuristic_value(geometry, kind, own | cell, own ^ occupied) if cell != U64_0 else 0.0
        trees.heuristics[t, leaf, a] = value


@inlined  # passing the trees to another function would cost as much as a short rollout
def rollout_value(trees: Trees, t: int, own: np.uint64, occupied: np.uint64, style: Rollout) -> float:
    """One rollout's value to the side to move; draws are counted for the report."""
    value = rollout(trees.geometry, own, occupied, trees.rng, t, style)
    trees.draw_sum[t] += 1.0 if value == 0.0 else 0.0
    trees.draw_count[t] += 1
    return value


@compiled
def try_all_moves(trees: Trees, t: int, leaf: int, own: np.uint64, occupied: np.uint64, style: Rollout) -> int:
    """Give every move of a leaf one rollout, or its known value, and back all of them up; returns how many."""
    tried = 0
    for a in range(trees.visits.shape[2]):
        proof = trees.proof[t, leaf, a]
        if proof == ILLEGAL:
            continue
        if proof != UNPROVEN:
            value = proof_value(proof)
        else:
            next_own, next_occupied = play(trees.geometry, own, occupied, a)
            value = -rollout_value(trees, t, next_own, next_occupied, style)
        trees.visits[t, leaf, a] += 1
        trees.value_sum[t, leaf, a] += value
        backup(trees, t, leaf, value)
        tried += 1
    return tried


Row = npt.NDArray[np.float64]


def final_move(
    visits: npt.NDArray[np.int64], values: Row, scores: Row, proofs: npt.NDArray[np.int64], rule: str
) -> int:
    """The move to play from a root's statistics by action [A], by ``UctConfig.final``.

    A proven win is taken, the fastest of several; of proven losses the slowest, and only if nothing else is left.
    """
    wins = (proofs > PROVEN_DRAW) & (proofs <= PROVEN_WIN)
    if wins.any():
        return int(np.where(wins, proofs, ILLEGAL).argmax())
    open_moves = proofs >= PROVEN_DRAW
    if not open_moves.any():
        return int(proofs.argmax())
    means = np.where(visits > 0, values, -np.inf)
    means = np.where(proofs == PROVEN_DRAW, 0.0, means)
    tried_scores = np.where((visits > 0) & np.isfinite(scores), scores, -np.inf)  # an untried move's is infinite
    chosen: Row = {"visits": visits.astype(np.float64), "rate": means, "ucb": tried_scores}[rule]
    order = np.lexsort((means, chosen))  # ascending by the rule, then by the mean value
    return int(next(action for action in order[::-1] if open_moves[action]))

"""Classic Monte Carlo tree search in one tree: UCB1 selection, with random rollouts instead of a network."""

import math
from collections import namedtuple
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.game.rules import U64_0, column_cells, legal_cells, play
from alphac4.mcts import random_state
from alphac4.mcts.classic.rollouts import IN_ROLLOUTS, MAX_CELLS, NO_HEURISTIC, heuristic_value, rollout
from alphac4.mcts.simulation import Scores, backup, select_leaf
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
from alphac4.storage.records import MAX_NUMBER, CheckedSettings, Range

MAX_ROOTS = 256  # more than the threads of any machine
REWARD_SCALES = (1.0, 0.5, 1.0)  # difference between the rewards of a win and a draw, by `UctConfig.reward`
ROOT_VISITS, ALL_MOVES, INSTEAD = 1, 1, 1  # indices of choices of ``ucb_visits``, ``expansion`` and ``evaluation_use``


@dataclass(frozen=True, kw_only=True)
class UctConfig(CheckedSettings):
    """Settings of classic search.

    The default is UCT with proofs and decisive moves. Rollouts with decisive moves are stronger
    (docs/experiments/2026-11-21-classic-variants.md).
    """

    exploration: Annotated[float, Range(0, MAX_NUMBER)] = 2**0.5
    """Weight of UCB1's exploration term, for values in [-1, 1]. UCB1 (Auer et al. 2002) has sqrt(2) for rewards in
    [0, 1], which is 2 sqrt(2) here, so the default explores half as much. With ``reward`` 1/0.5/0 the default is
    UCB1's. Retune it when ``reward``, ``evaluation`` or the number of simulations changes."""
    ucb_visits: Literal["parent", "root"] = "parent"
    """Visits N in UCB1's ``log(N)``: those of the parent (UCT) or those of the root."""
    expansion: Literal["one", "all"] = "one"
    """Rollouts from a new leaf: one, or one from each of its moves."""
    reward: Literal["1/0/-1", "1/0.5/0", "2/1/0"] = "1/0/-1"
    """Rewards of a win, a draw and a loss in UCB1's score. 2/1/0 shifts 1/0/-1 by a constant and plays the same
    moves."""
    final: Literal["visits", "rate", "ucb"] = "visits"
    """Rule for the move played: most visits, best mean value, or best UCB1 score. A proven win comes first, the fastest
    of several; ties go to the better mean value."""
    proofs: bool = True
    """Propagate proven wins, losses and draws up the tree (MCTS-Solver, Winands et al. 2008)."""
    decisive_moves: bool = True
    """In the tree, play an immediate win and block an immediate loss (Teytaud and Teytaud 2010): a new node looks two
    plies ahead."""
    rollout: Literal["uniform", "centre"] = "uniform"
    """Weights of the columns in rollouts: all equal, or 1, 2, 3, 4, 3, 2, 1 in favour of the centre."""
    rollout_decisive_moves: bool = False
    """Play an immediate win and block an immediate loss in rollouts."""
    rollout_depth: Annotated[int, Range(0, MAX_CELLS)] = MAX_CELLS
    """Plies after which a rollout is cut off and valued by ``evaluation``, or as a draw without one. With 0, leaves are
    valued without a rollout; by default rollouts are not cut off."""
    evaluation: Literal["none", "lines", "longest", "chains"] = "none"
    """Hand-written evaluation (`alphac4.mcts.classic.rollouts`), used as ``evaluation_use`` says and where
    ``rollout_depth`` cuts rollouts off."""
    evaluation_use: Literal["bias", "instead", "rollout"] = "bias"
    """Use of ``evaluation``. "bias" adds it to UCB1's score, less with more visits (Chaslot et al. 2008). "instead"
    replaces the mean value by it. "rollout" weights the moves of rollouts by it. Without an evaluation, the setting has
    no effect."""
    bias_weight: Annotated[float, Range(0, MAX_NUMBER)] = 1.0
    """Weight of the evaluation if ``evaluation_use`` is "bias"."""
    tree: Literal["new", "keep"] = "new"
    """Whether each move begins a new tree or reuses the subtree of the moves played."""
    roots: Annotated[int, Range(1, MAX_ROOTS)] = 1
    """Independent trees per position, whose statistics are added: root parallelisation (Chaslot et al. 2008). The trees
    share a budget of simulations. With as many threads as trees, each has all of a time budget."""

    def _check(self) -> None:
        super()._check()
        if self.tree == "keep" and self.roots > 1:
            raise ValueError("tree=keep needs roots=1: several roots begin new trees for each move")

    def selection(self) -> "Uct":
        """Return the settings for compiled code."""
        hints, values = get_type_hints(UctConfig), vars(self)
        choices = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
        numbers = {name: choices[name].index(value) if name in choices else value for name, value in values.items()}
        return Uct(**numbers)


@inlined
def scores_use_heuristics(selection: Any) -> bool:
    """Return whether the hand-written evaluation counts in the scores, so that the tree stores it for each move."""
    return bool(selection.evaluation != NO_HEURISTIC and selection.evaluation_use != IN_ROLLOUTS)


@inlined
def ucb1_score(value: float, visits: int, log_parent: float, exploration: float) -> float:
    """Return ``Q + c sqrt(log(N) / n)``, Kocsis and Szepesvari 2006.

    Q is for the side to move. In UCB1 (Auer et al. 2002) c = sqrt(2) for values in [0, 1].
    """
    return value + exploration * math.sqrt(log_parent / visits)


@inlined
def progressive_bias(heuristic: float, weight: float, visits: int) -> float:
    """Return ``w h / (1 + n)``, Chaslot et al. 2008: a hand-written value whose weight falls with the move's visits."""
    return weight * heuristic / (1.0 + visits)


@inlined
def ucb1_action_score(selection: Any, trees: Trees, t: int, node: int, action: int, log_parent: float) -> float:
    """Return the score of an action with at least one visit."""
    visits = trees.visits[t, node, action]
    value = 0.0
    if trees.proof[t, node, action] != PROVEN_DRAW:
        value = REWARD_SCALES[selection.reward] * trees.value_sum[t, node, action] / visits
    if not scores_use_heuristics(selection):
        return ucb1_score(value, visits, log_parent, selection.exploration)
    heuristic = trees.heuristics[t, node, action]
    if selection.evaluation_use == INSTEAD:
        return ucb1_score(heuristic, visits, log_parent, selection.exploration)
    bias = progressive_bias(heuristic, selection.bias_weight, visits)
    return ucb1_score(value, visits, log_parent, selection.exploration) + bias


class Uct(namedtuple("_Uct", [item.name for item in fields(UctConfig)])):  # type: ignore[misc]
    """`UctConfig` for compiled code, with the index of each choice in place of its text, and the selection by UCB1."""

    def select(self: Any, trees: Trees, t: int, node: int) -> int:
        """Return a random action without visits or, if there is none, the one with the highest UCB1 score.

        An action that is proven to lose is selected only if all are. Proven wins occur here only if proofs do not
        propagate. They are selected if nodes look ahead; plain UCT treats them like other actions.
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
        log_parent = math.log(root_visits(trees, t) if self.ucb_visits == ROOT_VISITS else total)
        best, best_score = NO_ACTION, -math.inf
        for a in range(trees.visits.shape[2]):
            if trees.proof[t, node, a] < lowest:
                continue
            score = ucb1_action_score(self, trees, t, node, a, log_parent)
            if score > best_score:
                best, best_score = a, score
        return best

    def write_scores(self: Any, trees: Trees, t: int, node: int, scores: Scores) -> None:
        """Write UCB1's scores into ``scores`` [A]: infinity for an action without visits, NaN for a full column."""
        total = 0
        for a in range(trees.visits.shape[2]):
            total += trees.visits[t, node, a]
        log_parent = math.log(max(root_visits(trees, t) if self.ucb_visits == ROOT_VISITS else total, 1))
        for a in range(trees.visits.shape[2]):
            scores[a] = math.nan
            if trees.proof[t, node, a] != ILLEGAL:
                scores[a] = math.inf
                if trees.visits[t, node, a] > 0:
                    scores[a] = ucb1_action_score(self, trees, t, node, a, log_parent)


@compiled
def run_uct(trees: Trees, t: int, target: int, selection: Any) -> None:
    """Simulate until the root has ``target`` visits, is proven (if proofs propagate), or the tree is full."""
    has_heuristics = scores_use_heuristics(selection)
    trees.leaf[t] = NO_NODE
    if root_visits(trees, t) == 0:
        if has_heuristics:
            write_heuristics(trees, t, ROOT, trees.own[t], trees.occupied[t], selection.evaluation)
        if selection.expansion == ALL_MOVES:
            try_all_moves(trees, t, ROOT, trees.own[t], trees.occupied[t], selection)
    left = target - root_visits(trees, t)
    while left > 0 and trees.size[t] < trees.parent.shape[1]:
        if trees.proofs and node_proof(trees, t, ROOT) != UNPROVEN:
            break
        tried = 1
        if select_leaf(trees, t, selection):
            leaf = trees.leaf[t]
            trees.leaf[t] = NO_NODE
            own, occupied = trees.leaf_own[t], trees.leaf_occupied[t]
            if has_heuristics:
                write_heuristics(trees, t, leaf, own, occupied, selection.evaluation)
            if selection.expansion == ALL_MOVES:
                trees.value[t, leaf] = 0.0
                tried = try_all_moves(trees, t, leaf, own, occupied, selection)
            else:
                value = rollout_value(trees, t, own, occupied, selection)
                trees.value[t, leaf] = value
                backup(trees, t, leaf, value)
        left -= tried


@compiled
def write_heuristics(trees: Trees, t: int, leaf: int, own: np.uint64, occupied: np.uint64, kind: int) -> None:
    """Store the hand-written value of each of the leaf's moves, for the side that makes it."""
    board = trees.board
    legal = legal_cells(board, occupied)
    for a in range(board.columns):
        cell = legal & column_cells(board, a)
        value = heuristic_value(board, kind, own | cell, own ^ occupied) if cell != U64_0 else 0.0
        trees.heuristics[t, leaf, a] = value


@inlined  # passing the trees to another function would cost as much as a short rollout
def rollout_value(trees: Trees, t: int, own: np.uint64, occupied: np.uint64, selection: Any) -> float:
    """Return one rollout's result for the side to move, and count draws for the tree's draw probability."""
    value = rollout(trees.board, own, occupied, trees.rng, t, selection)
    trees.draw_sum[t] += 1.0 if value == 0.0 else 0.0
    trees.draw_count[t] += 1
    return value


@compiled
def try_all_moves(trees: Trees, t: int, leaf: int, own: np.uint64, occupied: np.uint64, selection: Any) -> int:
    """Back up a rollout, or the proven value, of every move of a leaf; return the number of moves."""
    tried = 0
    for a in range(trees.visits.shape[2]):
        proof = trees.proof[t, leaf, a]
        if proof == ILLEGAL:
            continue
        if proof != UNPROVEN:
            value = proof_value(proof)
        else:
            next_own, next_occupied = play(trees.board, own, occupied, a)
            value = -rollout_value(trees, t, next_own, next_occupied, selection)
        trees.visits[t, leaf, a] += 1
        trees.value_sum[t, leaf, a] += value
        backup(trees, t, leaf, value)
        tried += 1
    return tried


Row = npt.NDArray[np.float64]


def final_move(
    visits: npt.NDArray[np.int64], values: Row, scores: Row, proofs: npt.NDArray[np.int64], rule: str
) -> int:
    """Return the move to play from a root's statistics by action [A]; ``rule`` is ``UctConfig.final``.

    The fastest proven win comes first. If all moves are proven to lose, the slowest loss is played.
    """
    wins = (proofs > PROVEN_DRAW) & (proofs <= PROVEN_WIN)
    if wins.any():
        return int(np.where(wins, proofs, ILLEGAL).argmax())
    open_moves = proofs >= PROVEN_DRAW
    if not open_moves.any():
        return int(proofs.argmax())
    means = np.where(visits > 0, values, -np.inf)
    means = np.where(proofs == PROVEN_DRAW, 0.0, means)
    tried_scores = np.where((visits > 0) & np.isfinite(scores), scores, -np.inf)  # infinite without visits
    chosen: Row = {"visits": visits.astype(np.float64), "rate": means, "ucb": tried_scores}[rule]
    order = np.lexsort((means, chosen))  # ascending by the rule, then by the mean value
    return int(next(action for action in order[::-1] if open_moves[action]))

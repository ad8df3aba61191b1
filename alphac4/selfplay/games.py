"""Games of self-play as arrays.

A slot has one game at a time, and advances from leaf (a position to evaluate) to leaf, move to move and game to game.
Slots do not wait for each other's searches: a slot whose search is done plays its move within the same step. So nearly
every slot has a leaf in each of the network's batches.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined
from alphac4.game.position import column_name
from alphac4.game.rules import U64_0, Board, count_stones, has_run, landing_cell, play
from alphac4.mcts import random_state
from alphac4.mcts.improvement import C_SCALE, completed_value, improved_policy, visit_policy
from alphac4.mcts.network_search import EvaluationCache, expand_from_cache, store_evaluation
from alphac4.mcts.puct import add_root_noise, draw_uniform, expand_and_back_up, leaf_key, write_leaf
from alphac4.mcts.simulation import MAX_SIMULATIONS_PER_STEP, select_leaf, users_move
from alphac4.mcts.tree import (
    NO_ACTION,
    NO_NODE,
    PROVEN_DRAW,
    ROOT,
    UNPROVEN,
    Trees,
    advance_root,
    best_action,
    is_searched,
    node_proof,
    proof_value,
    reset_tree,
    root_value,
    zeros,
)
from alphac4.selfplay.config import SelfPlayConfig

# Stages of a slot: what it does next.
NEW_GAME = 0
NEW_MOVE = 1  # start a search when the root has been evaluated
SEARCHING = 2
GAME_OVER = 3  # wait until the host has copied the game and sets NEW_GAME

MAX_STARTS = 1 << 14  # start positions of a plan


class Games(NamedTuple):
    """T games with their records; the board's C cells bound the plies of a game. Values are for the side to move."""

    # State of the slot.
    stage: Annotated[npt.NDArray[np.int8], "T"]
    left: Annotated[npt.NDArray[np.int64], "T"]  # moves that remain in this call of `play`
    full: Annotated[npt.NDArray[np.bool_], "T"]  # whether the current search is a full one
    plies: Annotated[npt.NDArray[np.int32], "T"]  # stones on the board, those of the opening included
    opening_plies: Annotated[npt.NDArray[np.int32], "T"]  # stones on the board before the first search
    outcome: Annotated[npt.NDArray[np.int8], "T"]  # of a finished game: +1 the first player won, 0 draw, -1 lost
    simulations: Annotated[npt.NDArray[np.int64], "T"]  # run in this slot since the host reset it
    prior: Annotated[npt.NDArray[np.float32], "T A"]  # the network's policy at the current root, without noise
    # Records, written once per move.
    moves: Annotated[npt.NDArray[np.int8], "T C"]  # columns played; -1 before a start position
    own: Annotated[npt.NDArray[np.uint64], "T C"]  # the position before each move
    occupied: Annotated[npt.NDArray[np.uint64], "T C"]
    policy_target: Annotated[npt.NDArray[np.float32], "T C A"]  # sums to 1
    surprise: Annotated[npt.NDArray[np.float32], "T C"]  # KL(policy target || network's policy), nats
    value: Annotated[npt.NDArray[np.float32], "T C"]  # the root's value in [-1, 1]
    draw: Annotated[npt.NDArray[np.float32], "T C"]  # the root's probability of a draw
    regret: Annotated[npt.NDArray[np.float32], "T C"]  # value of the best move less that of the move played, in [0, 2]
    is_full_search: Annotated[npt.NDArray[np.bool_], "T C"]  # whether the search was a full one
    priors: Annotated[npt.NDArray[np.float32], "T C A"]  # `prior` during the search; 0 if the root was proven before
    visits: Annotated[npt.NDArray[np.int32], "T C A"]  # of the root's moves
    values: Annotated[npt.NDArray[np.float32], "T C A"]  # of the root's moves; NaN without a visit or proof
    greedy_value: Annotated[npt.NDArray[np.float32], "T C"]  # value at the end of the most visited line
    greedy_draw: Annotated[npt.NDArray[np.float32], "T C"]  # its probability of a draw


class GamePlan(NamedTuple):
    """How games are played: `SelfPlayConfig` for compiled code. Each iteration may have another plan.

    Numbers are arrays, because a GPU's captured graph reads them again at every step.
    """

    visits: npt.NDArray[np.int64]  # [2, C] root visits of fast (0) and full (1) searches at each ply
    temperature: npt.NDArray[np.float64]  # [C] of the choice of each ply's move
    noise: npt.NDArray[np.float64]  # [C] share of noise in the root's priors of full searches at each ply
    starts: npt.NDArray[np.int64]  # [1] number of start positions, at most N
    start_own: npt.NDArray[np.uint64]  # [N] stones of the side to move in each start position
    start_occupied: npt.NDArray[np.uint64]  # [N]
    completed_q: npt.NDArray[np.bool_]  # [1] whether policy targets are improved by values
    # Settings of the same names.
    full_search_prob: npt.NDArray[np.float64]  # [1]
    dirichlet_concentration: npt.NDArray[np.float64]  # [1]
    max_opening_plies: npt.NDArray[np.int64]  # [1]
    opening_prob: npt.NDArray[np.float64]  # [1]


def make_plan(board: Board, config: SelfPlayConfig) -> GamePlan:
    """Return the plan of the settings; games start from the empty board, and the temperature falls with the plies."""
    cells, empty = board.cells, np.zeros(1, np.uint64)
    budgets = np.array([config.fast_visits, config.full_visits])
    first, last = config.temperature, config.temperature_end
    decays = [math.exp2(-ply / config.temperature_halflife) for ply in range(cells)]
    return GamePlan(
        visits=np.repeat(budgets[:, None], cells, axis=1),
        temperature=np.array([last + (first - last) * decay for decay in decays]),
        noise=np.full(cells, config.dirichlet_fraction),
        starts=np.ones(1, np.int64),
        start_own=empty,
        start_occupied=empty,
        completed_q=np.array([config.policy_target == "completed_q"]),
        full_search_prob=np.array([config.full_search_prob]),
        dirichlet_concentration=np.array([config.dirichlet_concentration]),
        max_opening_plies=np.array([config.max_opening_plies]),
        opening_prob=np.array([config.opening_prob]),
    )


def make_games(count: int, board: Board) -> Games:
    """Return ``count`` slots, each about to start a game."""
    return Games(**zeros(Games, T=count, C=board.cells, A=board.columns))


def join_finished(parts: Sequence[Games]) -> Games:
    return Games._make(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def move_string(games: Games, row: int) -> str:
    """Return the moves of one game, its random opening included, with "?" for those before a start position."""
    moves = games.moves[row, : games.plies[row]].tolist()
    return "".join("?" if column < 0 else column_name(column) for column in moves)


@compiled
def play_opening(trees: Trees, games: Games, t: int, plan: GamePlan) -> None:
    """Start a game in slot ``t`` from a start position of the plan, with or without random moves."""
    board = trees.board
    while True:
        start = np.int64(0)
        if plan.starts[0] > 1:
            start = np.int64(random_state.below(trees.rng, t, plan.starts[0]))
        random_plies = 0
        if random_state.uniform(trees.rng, t) < plan.opening_prob[0]:
            random_plies = random_state.below(trees.rng, t, plan.max_opening_plies[0] + 1)
        own, occupied = plan.start_own[start], plan.start_occupied[start]
        first = count_stones(occupied)
        for ply in range(first):
            games.moves[t, ply] = -1
        games.plies[t] = first
        for ply in range(first, first + random_plies):
            if occupied == board.playable or has_run(board, own ^ occupied):
                break
            column = random_state.below(trees.rng, t, board.columns)
            while landing_cell(board, occupied, column) == U64_0:  # the column is full
                column = random_state.below(trees.rng, t, board.columns)
            games.moves[t, ply] = column
            own, occupied = play(board, own, occupied, column)
            games.plies[t] = ply + 1
        if occupied != board.playable and not has_run(board, own ^ occupied):
            break  # if the opening has ended the game, draw another one
    games.opening_plies[t] = games.plies[t]
    games.stage[t] = NEW_MOVE
    reset_tree(trees, t, own, occupied)


@compiled
def begin_search(trees: Trees, games: Games, t: int, plan: GamePlan) -> None:
    """Choose a full or a fast search (playout-cap randomisation, Wu 2019), and add noise to the root of a full one."""
    games.full[t] = random_state.uniform(trees.rng, t) < plan.full_search_prob[0]
    draw_uniform(trees, t)
    trees.budget[t] = plan.visits[np.int64(games.full[t]), games.plies[t]]
    for a in range(games.prior.shape[1]):
        games.prior[t, a] = trees.priors[t, ROOT, a]
    if games.full[t]:
        add_root_noise(trees, t, plan.dirichlet_concentration[0], plan.noise[games.plies[t]])
    games.stage[t] = SEARCHING


@compiled
def choose_move(trees: Trees, games: Games, t: int, plan: GamePlan) -> int:
    """Draw the next move in proportion to visits to the power of 1/temperature, but no move that is proven to lose.

    If the temperature is below 0.05 or the root is proven, return the best move.
    """
    if node_proof(trees, t, ROOT) != UNPROVEN:
        return best_action(trees, t)
    temperature = plan.temperature[games.plies[t]]
    if temperature < 0.05:
        return best_action(trees, t)
    most = 0
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, ROOT, a] >= PROVEN_DRAW:
            most = max(most, trees.visits[t, ROOT, a])
    if most == 0:
        return best_action(trees, t)
    total = 0.0
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, ROOT, a] >= PROVEN_DRAW:
            total += (trees.visits[t, ROOT, a] / most) ** (1.0 / temperature)
    left = random_state.uniform(trees.rng, t) * total
    for a in range(trees.visits.shape[2]):
        if trees.proof[t, ROOT, a] >= PROVEN_DRAW:
            left -= (trees.visits[t, ROOT, a] / most) ** (1.0 / temperature)
            if left < 0.0:
                return a
    return best_action(trees, t)


@compiled
def regret(trees: Trees, t: int, column: int) -> float:
    """Return the value of the root's best move less that of ``column``, in [0, 2]."""
    best = best_action(trees, t)
    if best == column or node_proof(trees, t, ROOT) != UNPROVEN:
        return 0.0
    unvisited = float(trees.value[t, ROOT])
    return max(0.0, completed_value(trees, t, best, unvisited) - completed_value(trees, t, column, unvisited))


@compiled
def greedy_leaf(trees: Trees, t: int) -> tuple[float, float]:
    """Return value and draw probability at the end of the most visited line; the value is for the root's side to move.

    This is the greedy backup of Willemsen et al. 2020, "Value targets in off-policy AlphaZero".
    """
    node, sign = ROOT, 1.0
    while True:
        proof = node_proof(trees, t, node)
        action = NO_ACTION
        if proof == UNPROVEN:
            most = 0
            for a in range(trees.visits.shape[2]):
                if trees.visits[t, node, a] > most and trees.proof[t, node, a] >= PROVEN_DRAW:
                    action, most = a, trees.visits[t, node, a]
            if action == NO_ACTION:
                return sign * trees.value[t, node], float(trees.draw[t, node])
            if trees.proof[t, node, action] != UNPROVEN:
                proof = trees.proof[t, node, action]
        if proof != UNPROVEN:
            return sign * proof_value(proof), 1.0 if proof == PROVEN_DRAW else 0.0
        node, sign = trees.child[t, node, action], -sign


@compiled
def record_search(trees: Trees, games: Games, t: int, plan: GamePlan) -> None:
    ply = games.plies[t]
    games.own[t, ply] = trees.own[t]
    games.occupied[t, ply] = trees.occupied[t]
    proof = node_proof(trees, t, ROOT)
    games.is_full_search[t, ply] = games.full[t]
    games.value[t, ply] = root_value(trees, t)
    games.draw[t, ply] = trees.draw_sum[t] / max(trees.draw_count[t], 1)
    if proof != UNPROVEN:
        games.draw[t, ply] = 1.0 if proof == PROVEN_DRAW else 0.0
    policy = games.policy_target[t, ply]
    if plan.completed_q[0]:
        improved_policy(trees, t, games.prior[t], C_SCALE, policy)
    else:
        visit_policy(trees, t, policy)
    surprise = 0.0
    if proof == UNPROVEN:
        for a in range(len(policy)):
            if policy[a] > 0.0:
                surprise += policy[a] * np.log(policy[a] / (games.prior[t, a] + 1e-12))
    games.surprise[t, ply] = surprise
    for a in range(len(policy)):
        games.priors[t, ply, a] = games.prior[t, a]
        games.visits[t, ply, a] = trees.visits[t, ROOT, a]
        games.values[t, ply, a] = completed_value(trees, t, a, math.nan)
    games.greedy_value[t, ply], games.greedy_draw[t, ply] = greedy_leaf(trees, t)


@compiled
def play_move(trees: Trees, games: Games, t: int, plan: GamePlan, action: int) -> None:
    """Record the search and play ``action``, or the move of `choose_move` if it is NO_ACTION."""
    record_search(trees, games, t, plan)
    ply = games.plies[t]
    column = action if action != NO_ACTION else choose_move(trees, games, t, plan)
    games.regret[t, ply] = regret(trees, t, column)
    games.moves[t, ply] = column
    games.plies[t] = ply + 1
    games.left[t] -= 1
    own, occupied = play(trees.board, trees.own[t], trees.occupied[t], column)
    won = has_run(trees.board, own ^ occupied)
    if won or occupied == trees.board.playable:
        games.outcome[t] = 0 if not won else (1 if ply % 2 == 0 else -1)
        games.stage[t] = GAME_OVER
    else:
        if trees.reuse:
            advance_root(trees, t, column)
        else:
            reset_tree(trees, t, own, occupied)
        games.stage[t] = NEW_MOVE


@inlined
def advance_slot(
    trees: Trees,
    games: Games,
    t: int,
    plan: GamePlan,
    selection: Any,
    most: int,
) -> int:
    """Advance slot ``t`` until a leaf awaits an evaluation, the game is over, or no moves remain in this call.

    It also stops after ``most`` simulations that reach no new leaf, as happens late in drawn games. The slot then skips
    one call of the network, so that the other slots do not wait for it. Return the simulations left.
    """
    while trees.leaf[t] == NO_NODE and games.stage[t] != GAME_OVER and most > 0:
        if games.stage[t] == NEW_GAME:
            play_opening(trees, games, t, plan)
        elif games.stage[t] == NEW_MOVE:
            if games.left[t] == 0:
                break
            begin_search(trees, games, t, plan)
        elif is_searched(trees, t):
            play_move(trees, games, t, plan, users_move(selection, trees, t))
        else:
            most -= 1
            games.simulations[t] += 1
            select_leaf(trees, t, selection)
    return most


@compiled
def advance(
    trees: Trees,
    games: Games,
    plan: GamePlan,
    selection: Any,
    logits: npt.NDArray[np.float32],  # [T, A] of the leaves
    wdl: npt.NDArray[np.float32],  # [T, 3] probabilities
    planes: npt.NDArray[np.float32],  # overwritten with those [T, P, R, C] of the next leaves
    cache: EvaluationCache,  # a leaf with a cached evaluation does not wait for the network
) -> None:
    """Expand every slot's leaf by its evaluation, and advance the slot to its next leaf."""
    temperature = selection.prior_temperature
    for t in range(trees.size.shape[0]):
        if trees.leaf[t] != NO_NODE:
            store_evaluation(cache, leaf_key(trees, t), logits[t], wdl[t])
            expand_and_back_up(trees, t, logits[t], wdl[t], temperature)
        left = MAX_SIMULATIONS_PER_STEP
        while True:
            left = advance_slot(trees, games, t, plan, selection, left)
            if not expand_from_cache(trees, t, cache, temperature):
                break  # a leaf waits for the network, the game is over, or `left` is used up
        if trees.leaf[t] != NO_NODE:
            write_leaf(trees, t, planes[t], np.float32(1))


@compiled
def restart_search(trees: Trees, games: Games, t: int) -> None:
    """Restart the search of the game's current position, because the network may have changed."""
    trees.leaf[t] = NO_NODE
    if games.stage[t] != NEW_GAME and games.stage[t] != GAME_OVER:
        reset_tree(trees, t, trees.own[t], trees.occupied[t])
        games.stage[t] = NEW_MOVE


@compiled
def restart_searches(trees: Trees, games: Games, planes: npt.NDArray[np.float32]) -> None:
    """Call `restart_search` for every slot, and write the planes [T, P, R, C] of the roots."""
    for t in range(trees.size.shape[0]):
        restart_search(trees, games, t)
        if trees.leaf[t] != NO_NODE:
            write_leaf(trees, t, planes[t], np.float32(1))

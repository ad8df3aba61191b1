"""Formulas of search and self-play, compared with numbers worked out by hand and with mctx."""

import math
import random
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import random_positions, search_by_hand
from naive import drop, naive_lines, random_board, wins

import alphac4
from alphac4.game import Board, Position, make_board
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD
from alphac4.mcts.classic.uct import ucb1_score
from alphac4.mcts.improvement import improved_policy, mixed_value, visit_policy
from alphac4.mcts.puct import Puct, add_root_noise, expand_and_back_up, exploration_weight, puct_score
from alphac4.mcts.results import principal_variations
from alphac4.mcts.simulation import action_scores, select_action, users_final_action
from alphac4.mcts.tree import (
    ILLEGAL,
    NO_NODE,
    PROVEN_DRAW,
    PROVEN_WIN,
    ROOT,
    UNPROVEN,
    Trees,
    best_action,
    make_trees,
    parent_proof,
    reset_tree,
)
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import (
    begin_search,
    choose_move,
    greedy_leaf,
    make_games,
    make_plan,
    play_opening,
    record_search,
    regret,
)
from alphac4.selfplay.samples import lambda_returns
from alphac4.training.losses import ownership_loss, with_weights

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NARROW = make_board(5, 4, 4)  # four moves, which keeps calculations by hand short
PRIOR = np.array([0.4, 0.3, 0.2, 0.1], np.float32)
LOSS = 2 - PROVEN_WIN


def root(visits: list[int], values: list[float], *, value: float = 0.0, proofs: list[int] | None = None) -> Trees:
    """Return a tree whose root has four moves and the evaluation ``value``; ``values`` are the moves' means."""
    trees = make_trees(1, 2, NARROW, np.random.default_rng(0))
    trees.size[0], trees.value[0, ROOT], trees.child[0, ROOT] = 1, value, NO_NODE
    trees.priors[0, ROOT], trees.proof[0, ROOT] = PRIOR, proofs or [UNPROVEN] * 4
    trees.visits[0, ROOT], trees.value_sum[0, ROOT] = visits, np.multiply(visits, values)
    return trees


def test_puct_and_ucb1_scores_match_the_published_formulas() -> None:
    # c = 1.25 + log(19655 / 19652) = 1.2501526 for N = 2; sqrt(N + 1) = 1.7320508
    assert exploration_weight(Puct(), 2) == pytest.approx(1.2501526, abs=1e-7)
    assert puct_score(0.5, 0.2, 2, 1.2501526 * 1.7320508) == pytest.approx(0.5 + 1.2501526 * 1.7320508 * 0.2 / 3)
    assert ucb1_score(0.5, 4, math.log(16), 0.7) == pytest.approx(0.5 + 0.7 * math.sqrt(math.log(16) / 4))


@pytest.mark.parametrize(("node", "reduction"), [(ROOT, 0.3), (1, 0.2)])
def test_unvisited_move_has_the_node_mean_less_the_fpu_reduction(node: int, reduction: float) -> None:
    trees = root([3, 1, 0, 0], [0.5, -0.5, 0, 0], value=0.25, proofs=[UNPROVEN] * 3 + [PROVEN_DRAW])
    for array in (trees.value, trees.priors, trees.proof, trees.visits, trees.value_sum):
        array[0, node] = array[0, ROOT]
    scores = np.empty((1, 4))
    action_scores(trees, 0, node, Puct(root_fpu_reduction=0.3, fpu_reduction=0.2), scores)
    weight = (1.25 + math.log(19657 / 19652)) * math.sqrt(5)  # N = 4
    unvisited = (0.25 + 1.5 - 0.5) / 5 - reduction * math.sqrt(0.7)  # the priors of the visited moves sum to 0.7
    exploration = weight * np.array([0.4 / 4, 0.3 / 2, 0.2, 0.1])
    np.testing.assert_allclose(scores[0], np.add([0.5, -0.5, unvisited, 0.0], exploration), rtol=1e-6)


def evaluated_root(logits: list[float], moves: str = "") -> tuple[Trees, Puct]:
    """Return a tree whose root has been evaluated with these logits and the value 0."""
    parameters = Puct(fpu_reduction=0.0)
    trees = make_trees(1, 50, STANDARD, np.random.default_rng(0))
    position = Position.from_moves(moves)
    reset_tree(trees, 0, position.own, position.occupied)
    wdl = np.array([0.3, 0.4, 0.3], np.float32)
    expand_and_back_up(trees, 0, np.array(logits, np.float32), wdl, parameters.prior_temperature)
    return trees, parameters


def test_priors_decide_first_visits_and_are_zero_for_full_columns() -> None:
    trees, parameters = evaluated_root([9.0, 0, 0, 2.0, 0, 0, 0], moves="111111")
    priors = trees.priors[0, ROOT]
    weight = math.exp(2 / Puct().prior_temperature)
    np.testing.assert_allclose(priors, np.array([0, 1, 1, weight, 1, 1, 1]) / (weight + 5), rtol=1e-5)
    assert select_action(parameters, trees, 0, ROOT) == 3


def test_expanded_leaf_has_value_win_minus_loss_and_softmax_priors() -> None:
    trees = make_trees(1, 2, NARROW, np.random.default_rng(0))
    position = Position.from_moves("33", NARROW)  # its mirror image, "22", is evaluated
    reset_tree(trees, 0, position.own, position.occupied)
    logits = np.log(PRIOR)[::-1].copy()
    expand_and_back_up(trees, 0, logits, np.array([0.6, 0.3, 0.1], np.float32), 1.0)
    assert trees.value[0, ROOT] == pytest.approx(0.5)
    assert (trees.draw[0, ROOT], trees.draw_sum[0], trees.draw_count[0]) == (pytest.approx(0.3), pytest.approx(0.3), 1)
    assert trees.priors[0, ROOT].tolist() == pytest.approx(PRIOR.tolist())


@pytest.mark.parametrize("board", [STANDARD, NARROW], ids=["standard", "narrow"])
def test_moves_that_end_the_game_and_moves_that_lose_at_once_are_proven_in_a_new_node(board: Board) -> None:
    rng, trees, found = random.Random(0), make_trees(1, 1, board, np.random.default_rng(0)), set[int]()
    rows, columns = board.rows, board.columns
    for _ in range(300):
        stacks, moves = random_board(rng, rows, columns, rng.randrange(6, board.cells))
        if wins(stacks, "x", rows, 4) or wins(stacks, "o", rows, 4):
            continue
        own, other = "xo" if len(moves) % 2 == 0 else "ox"
        position = Position.from_moves(moves, board)
        reset_tree(trees, 0, position.own, position.occupied)
        for column in range(columns):
            expected = ILLEGAL
            if len(stacks[column]) < rows:
                after = drop(stacks, column, own)
                answers = [drop(after, answer, other) for answer in range(columns) if len(after[answer]) < rows]
                loses = any(wins(answer, other, rows, 4) for answer in answers)
                expected = LOSS if loses else UNPROVEN if answers else PROVEN_DRAW
                expected = PROVEN_WIN - 1 if wins(after, own, rows, 4) else expected
            assert trees.proof[0, ROOT, column] == expected, (moves, column)
            found.add(expected)
    assert found >= {ILLEGAL, LOSS, UNPROVEN, PROVEN_WIN - 1}
    assert PROVEN_DRAW in found or board is STANDARD


def test_proven_losses_are_not_selected() -> None:
    assert select_action(Puct(), root([0] * 4, [0] * 4, proofs=[LOSS, UNPROVEN, UNPROVEN, UNPROVEN]), 0, ROOT) == 1


@pytest.mark.parametrize("concentration", [10.0, 1.0])
def test_root_noise_is_dirichlet_over_legal_moves(concentration: float) -> None:
    trees, _ = evaluated_root([0.0] * 7, moves="111111")
    before = trees.priors[0, ROOT].copy()
    noisy = np.empty((4000, 7))
    for row in noisy:
        trees.priors[0, ROOT] = before
        add_root_noise(trees, 0, concentration, 0.25)
        row[:] = trees.priors[0, ROOT]
    assert (noisy[:, 0] == 0).all()
    np.testing.assert_allclose(noisy.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(noisy[:, 1:].mean(axis=0), 1 / 6, atol=0.003)
    add_root_noise(trees, 0, 1e-6, 0.25)  # all draws underflow
    assert trees.priors[0, ROOT].sum() == pytest.approx(1)
    # A share of Dirichlet(c / 6, ...) has the variance m (1 - m) / (c + 1), where m = 1 / 6.
    expected = 0.25 * math.sqrt(1 / 6 * 5 / 6 / (concentration + 1))
    np.testing.assert_allclose(noisy[:, 1:].std(axis=0), expected, rtol=0.05)


def test_games_start_from_every_position_of_the_plan() -> None:
    config = SelfPlayConfig(opening_prob=0.0)
    starts = [Position.from_moves(moves, NARROW) for moves in ("", "1", "22")]
    own, occupied = stones(starts)
    plan = make_plan(NARROW, config)._replace(starts=np.array([3]), start_own=own, start_occupied=occupied)
    trees, games = root([0] * 4, [0] * 4), make_games(1, NARROW)
    drawn = []
    for _ in range(300):
        play_opening(trees, games, 0, plan)
        drawn.append((int(trees.own[0]), int(trees.occupied[0])))
    counts = [drawn.count((start.own, start.occupied)) for start in starts]
    assert sum(counts) == 300
    assert min(counts) > 70


@pytest.mark.parametrize(("full_search_prob", "has_noise"), [(1e-9, False), (1.0, True)])
def test_only_full_searches_have_root_noise(full_search_prob: float, has_noise: bool) -> None:
    trees, games = root([0] * 4, [0] * 4), make_games(1, NARROW)
    plan = make_plan(NARROW, SelfPlayConfig(full_search_prob=full_search_prob, dirichlet_fraction=0.5))
    begin_search(trees, games, 0, plan)
    assert bool(games.full[0]) is has_noise
    assert (trees.priors[0, ROOT].tolist() != PRIOR.tolist()) is has_noise
    assert games.prior[0].tolist() == PRIOR.tolist()


def test_parent_proof_changes_sides_and_adds_one_ply() -> None:
    assert parent_proof(PROVEN_WIN - 1) == 2 - PROVEN_WIN
    assert parent_proof(2 - PROVEN_WIN) == PROVEN_WIN - 3
    assert parent_proof(PROVEN_DRAW) == PROVEN_DRAW


def test_mixed_value_weights_visited_values_by_priors() -> None:
    # N = 4; the visited moves' mean by prior is (0.4 * 0.5 - 0.3 * 0.5) / 0.7 = 1 / 14; (0.2 + 4 / 14) / 5 = 17 / 175
    assert mixed_value(root([3, 1, 0, 0], [0.5, -0.5, 0, 0], value=0.2), 0, PRIOR) == pytest.approx(17 / 175)
    assert mixed_value(root([0] * 4, [0] * 4, value=0.2), 0, PRIOR) == pytest.approx(0.2)


def test_improved_policy_reweights_priors_by_completed_values() -> None:
    policy = np.empty(4, np.float32)
    improved_policy(root([3, 1, 0, 0], [0.5, -0.5, 0, 0], value=0.2), 0, PRIOR, 0.1, policy)
    # sigma(q) = (50 + 3) * 0.1 * (q + 1) / 2 = 2.65 (q + 1), with the mixed value 17 / 175 for unvisited moves
    weights = PRIOR * np.exp(2.65 * np.array([0.5, -0.5, 17 / 175, 17 / 175]))
    np.testing.assert_allclose(policy, weights / weights.sum(), rtol=1e-5)

    proofs = [UNPROVEN, LOSS, PROVEN_DRAW, ILLEGAL]  # the draw's value is 0; the loss and the full column get 0
    improved_policy(root([3, 1, 0, 0], [0.5, -0.5, 0, 0], value=0.2, proofs=proofs), 0, PRIOR, 0.1, policy)
    weights = np.array([0.4 * math.exp(2.65 * 0.5), 0, 0.2, 0])
    np.testing.assert_allclose(policy, weights / weights.sum(), rtol=1e-5)


def test_visit_policy_is_zero_for_proven_losses() -> None:
    policy = np.empty(4, np.float32)
    visit_policy(root([3, 5, 1, 0], [0] * 4, proofs=[UNPROVEN, LOSS, UNPROVEN, UNPROVEN]), 0, policy)
    assert policy.tolist() == [0.75, 0, 0.25, 0]
    visit_policy(root([0] * 4, [0] * 4, proofs=[UNPROVEN, UNPROVEN, UNPROVEN, LOSS]), 0, policy)
    np.testing.assert_allclose(policy, PRIOR / 0.9 * [1, 1, 1, 0], rtol=1e-6)  # without visits, the priors


def test_best_action_is_the_most_visited_move_that_is_not_proven_to_lose() -> None:
    assert best_action(root([3, 5, 9, 0], [0.0] * 4, proofs=[UNPROVEN, PROVEN_DRAW, LOSS, UNPROVEN]), 0) == 1
    assert best_action(root([3, 3, 1, 0], [-0.5, 0.5, 0.9, 0]), 0) == 1  # among equally visited moves, by value


def test_policy_targets_of_a_proven_root_share_its_fastest_wins() -> None:
    trees = root([1, 9, 1, 1], [0] * 4, proofs=[PROVEN_WIN - 3, PROVEN_WIN - 5, PROVEN_WIN - 3, UNPROVEN])
    policies = np.empty((2, 4), np.float32)
    visit_policy(trees, 0, policies[0])
    improved_policy(trees, 0, PRIOR, 0.1, policies[1])
    assert policies.tolist() == [[0.5, 0, 0.5, 0]] * 2


def test_choose_move_draws_by_visits_to_the_power_of_inverse_temperature() -> None:
    config = SelfPlayConfig(temperature=2.0, temperature_end=0.0, temperature_halflife=4.0)
    plan, games = make_plan(NARROW, config), make_games(1, NARROW)
    trees = root([16, 4, 1, 50], [0] * 4, proofs=[UNPROVEN] * 3 + [LOSS])
    for ply, weights in ((0, [4, 2, 1, 0]), (4, [16, 4, 1, 0]), (8, [256, 16, 1, 0])):  # T = 2, 1, 1 / 2
        games.plies[0] = ply
        drawn = np.bincount([choose_move(trees, games, 0, plan) for _ in range(4000)], minlength=4)
        np.testing.assert_allclose(drawn / 4000, np.array(weights) / sum(weights), atol=0.025)  # three standard errors
        assert drawn[3] == 0
    games.plies[0] = 19  # T = 2 / 27
    assert {choose_move(trees, games, 0, plan) for _ in range(100)} == {0}


def test_choose_move_plays_the_fastest_proven_win() -> None:
    won = root([9, 9, 0, 0], [0] * 4, proofs=[UNPROVEN, PROVEN_WIN - 7, PROVEN_WIN - 5, UNPROVEN])
    plan, games = make_plan(NARROW, SelfPlayConfig()), make_games(1, NARROW)
    assert {choose_move(won, games, 0, plan) for _ in range(100)} == {2}


def test_regret_is_the_best_value_less_the_value_of_the_move() -> None:
    trees = root([5, 3, 1, 0], [0.25, -0.25, 0.5, 0.0], value=-0.5)  # the best move is the most visited one
    assert [regret(trees, 0, column) for column in range(4)] == [0.0, 0.5, 0.0, 0.75]
    trees.proof[0, ROOT, 1] = LOSS
    assert regret(trees, 0, 1) == 1.25
    trees.proof[0, ROOT, 0] = PROVEN_WIN - 3  # a proven position has no exploring moves
    assert regret(trees, 0, 1) == 0.0


@pytest.mark.parametrize(
    ("proof", "value", "draw"), [(UNPROVEN, 0.25, 0.375), (PROVEN_WIN - 3, 1.0, 0.0), (PROVEN_DRAW, 0.0, 1.0)]
)
def test_recorded_value_and_draw_are_means_of_the_search_or_the_proven_result(
    proof: int, value: float, draw: float
) -> None:
    trees, games = root([0] * 4, [0] * 4, value=0.25, proofs=[proof, LOSS, LOSS, LOSS]), make_games(1, NARROW)
    trees.draw_sum[0], trees.draw_count[0] = 1.5, 4
    record_search(trees, games, 0, make_plan(NARROW, SelfPlayConfig()))
    assert (games.value[0, 0], games.draw[0, 0]) == (value, draw)


def line_of_two_plies() -> Trees:
    """Return a tree in which each of three nodes is the most visited child of the node before."""
    trees = make_trees(1, 3, NARROW, np.random.default_rng(0))
    trees.size[0], trees.child[:], trees.proof[:] = 3, NO_NODE, UNPROVEN
    trees.visits[0] = [[3, 9, 5, 0], [0, 2, 0, 6], [0, 0, 0, 0]]
    trees.child[0, 0, 1], trees.child[0, 1, 3] = 1, 2
    trees.value[0], trees.draw[0] = [0.5, -0.25, 0.75], [0.0, 0.125, 0.25]
    return trees


def test_recorded_policies_and_surprise_use_priors_without_noise() -> None:
    trees, games = line_of_two_plies(), make_games(1, NARROW)
    trees.priors[0, ROOT], games.prior[0] = [0.1, 0.1, 0.1, 0.7], PRIOR  # with and without noise
    trees.value_sum[0, ROOT] = [1.5, -4.5, 0, 0]
    record_search(trees, games, 0, make_plan(NARROW, SelfPlayConfig(policy_target="visits")))
    shares = np.array([3, 9, 5]) / 17
    np.testing.assert_allclose(games.policy_target[0, 0], [*shares, 0], rtol=1e-6)
    assert games.surprise[0, 0] == pytest.approx((shares * np.log(shares / PRIOR[:3])).sum(), rel=1e-5)
    assert games.priors[0, 0].tolist() == PRIOR.tolist()
    assert games.visits[0, 0].tolist() == [3, 9, 5, 0]
    np.testing.assert_array_equal(games.values[0, 0], [0.5, -0.5, 0, math.nan])
    assert (games.greedy_value[0, 0], games.greedy_draw[0, 0]) == (0.75, 0.25)

    record_search(trees, games, 0, make_plan(NARROW, SelfPlayConfig(policy_target="completed_q")))
    policy, trees.priors[0, ROOT] = np.empty(4, np.float32), PRIOR
    improved_policy(trees, 0, PRIOR, C_SCALE, policy)
    assert games.policy_target[0, 0].tolist() == policy.tolist()


def test_variation_follows_the_most_visited_moves_that_do_not_lose() -> None:
    trees = line_of_two_plies()
    assert principal_variations(trees, np.array([1])) == [[1, 3]]
    trees.proof[0, 1, 3] = LOSS
    assert principal_variations(trees, np.array([1])) == [[1, 1]]
    trees.proof[0, 1] = [PROVEN_WIN - 3, UNPROVEN, UNPROVEN, PROVEN_WIN - 5]  # the fastest win, though never visited
    assert principal_variations(trees, np.array([1])) == [[1, 0]]


def test_greedy_backup_is_the_value_of_the_last_node_for_the_side_at_the_root() -> None:
    trees = line_of_two_plies()
    assert greedy_leaf(trees, 0) == (0.75, 0.25)  # after two plies, the same side is to move
    trees.visits[0, 1] = 0
    assert greedy_leaf(trees, 0) == (0.25, 0.125)  # after one ply, the opponent
    trees.visits[0, 0] = 0
    assert greedy_leaf(trees, 0) == (0.5, 0.0)


def test_greedy_backup_ends_at_a_proven_move_and_follows_no_move_that_loses() -> None:
    trees = line_of_two_plies()
    trees.proof[0, 1, 3] = PROVEN_DRAW
    assert greedy_leaf(trees, 0) == (0.0, 1.0)
    trees.proof[0, 1, 3] = PROVEN_WIN - 1  # of the opponent
    assert greedy_leaf(trees, 0) == (-1.0, 0.0)
    trees.proof[0, 1, 3] = LOSS  # the opponent's other move has not been evaluated
    trees.child[0, 1, 1] = 2
    assert greedy_leaf(trees, 0) == (0.75, 0.25)
    trees.proof[0, 0, 1] = LOSS
    trees.child[0, 0, 2], trees.visits[0, 1] = 1, 0
    assert greedy_leaf(trees, 0) == (0.25, 0.125)
    trees.proof[0, 0] = [LOSS] * 4
    assert greedy_leaf(trees, 0) == (-1.0, 0.0)


def test_lambda_returns_cut_the_trace_at_exploring_moves() -> None:
    games = make_games(3, STANDARD)
    games.plies[:], games.outcome[:] = [3, 3, 2], [1, 1, 0]  # the first player wins with the third move; a draw
    games.value[:, :3], games.draw[:, :3] = [0.2, -0.4, 0.6], [0.2, 0.0, 0.4]
    games.regret[1, 0], games.regret[:, 1] = 0.3, 0.05  # only the first move of the second game explores
    searched = [[0.5, 0.2, 0.3], [0.3, 0.0, 0.7]]  # win = (1 - draw + value) / 2
    actual = lambda_returns(games, 0.5, 0.1)
    # Last ply: the outcome. The ply before: 0.5 [0.3, 0, 0.7] + 0.5 [0, 0, 1] = [0.15, 0, 0.85]. The first, whose side
    # has this reversed: 0.5 [0.5, 0.2, 0.3] + 0.5 [0.85, 0, 0.15].
    np.testing.assert_allclose(actual[0, :3], [[0.675, 0.1, 0.225], [0.15, 0, 0.85], [1, 0, 0]])
    np.testing.assert_allclose(actual[1, :3], [searched[0], [0.15, 0, 0.85], [1, 0, 0]])
    np.testing.assert_allclose(actual[2, :2], [[0.25, 0.6, 0.15], [0, 1, 0]])
    # Lambda 1 without a cut gives the outcome, and lambda 0 the search's value, except for the last move.
    np.testing.assert_array_equal(lambda_returns(games, 0.5, 0.25), actual)  # below the regret of 0.3
    outcome = lambda_returns(games, 1.0, 2.0)
    np.testing.assert_allclose(outcome[:2, :3], [[[1, 0, 0], [0, 0, 1], [1, 0, 0]]] * 2)
    np.testing.assert_allclose(outcome[2, :2], [[0, 1, 0]] * 2)
    np.testing.assert_allclose(lambda_returns(games, 0.0, 2.0)[:, 0], [searched[0]] * 3)


def test_ownership_loss_covers_only_cells_without_a_stone_of_either_side() -> None:
    """Own stone, opponent's stone and two empty cells, one of which becomes the opponent's; both predicted as 1/4."""
    planes, final = torch.zeros(1, 3, 1, 4), torch.zeros(1, 2, 1, 4)
    planes[0, 0, 0, 0] = planes[0, 1, 0, 1] = 1
    planes[0, 2] = 1  # further planes are not stones
    final[0, 0, 0, 0] = final[0, 1, 0, 1] = final[0, 1, 0, 2] = 1
    logits = torch.zeros(1, 3, 1, 4)
    logits[0, 0, 0, 1] = 50  # a wrong prediction of the occupied cell
    logits[0, 0, 0, 2:] = math.log(2)  # 1/2 own, 1/4 the opponent's, 1/4 empty
    batch = with_weights(planes, torch.ones(1, 1), torch.ones(1), torch.tensor([[1.0, 0.0, 0.0]]), final)
    assert ownership_loss(logits, batch).tolist() == pytest.approx([math.log(4)])


SIMULATIONS, C_SCALE = 32, 0.1
POLICY_WEIGHTS, VALUE_WEIGHTS = (  # with so few bits that sums in any order are the same float32
    (np.round(np.random.default_rng(6).normal(size=(84, n), scale=scale) * 2**18) / 2**18).astype(np.float32)
    for n, scale in ((7, 0.2), (1, 0.06))
)


def evaluate_linearly(planes: Any) -> tuple[Any, Any]:
    """Return logits [B, A] and values [B] of planes [B, 2, R, C] by a linear network, in NumPy or JAX."""
    flat = planes.reshape(len(planes), -1)
    return flat @ POLICY_WEIGHTS, (flat @ VALUE_WEIGHTS)[:, 0]


@pytest.mark.slow
def test_searches_have_the_visits_policies_and_moves_of_mctx(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare PUCT with `mctx.muzero_policy`, and examples/ideas/gumbel.py with `mctx.gumbel_muzero_policy`.

    Both searches have no noise, no proofs, and first-play urgency without a reduction, which in mctx is a transform of
    Q-values. Values are in [-1, 1], without mctx's rescaling by the minimum and the maximum value of a node, so that
    our ``c_scale`` is twice its ``value_scale``. Only mctx counts a node's own evaluation as a visit in the logarithm
    of PUCT's weight: ``log((n + 2 + c) / c) = log((n + 1 + d) / d) + log(d / c)`` with ``d = c + 1``.
    """
    jax = pytest.importorskip("jax", reason="needs pip install 'alphac4[peers]'")
    mctx = pytest.importorskip("mctx", reason="needs pip install 'alphac4[peers]'")
    jnp = jax.numpy
    candidates = random_positions(60, rng)
    positions = [p for p in candidates if all(p.play(column).outcome() is None for column in p.legal_columns())]
    lines = np.array([[row * 7 + column for row, column in line] for line in naive_lines(STANDARD)])

    def unvisited_at_the_mean(tree: Any, node: Any) -> Any:
        values = jnp.where(tree.children_visits[node] > 0, tree.qvalues(node), tree.node_values[node])
        return jnp.where(tree.children_prior_logits[node] > -1e8, values, -jnp.inf)  # no full column

    def evaluate(board: Any) -> tuple[Any, Any]:
        logits, values = evaluate_linearly(jnp.stack([board == 1, board == -1], axis=1).astype(jnp.float32))
        return jnp.where(board[:, -1] == 0, logits, -1e9), values

    def play(_parameters: Any, _key: Any, action: Any, board: Any) -> tuple[Any, Any]:
        game = jnp.arange(len(board))
        row = (board[game, :, action] != 0).sum(axis=1)
        board = board.at[game, row, action].set(1)
        won = (board.reshape(-1, 42)[:, lines] == 1).all(axis=2).any(axis=1)
        over = won | (board != 0).all(axis=(1, 2))
        logits, values = evaluate(-board)
        output = mctx.RecurrentFnOutput(
            reward=won * 1.0, discount=jnp.where(over, 0.0, -1.0), prior_logits=logits, value=values
        )
        return output, -board

    completed = partial(
        mctx.qtransform_completed_by_mix_value,
        value_scale=C_SCALE / 2,
        maxvisit_init=50.0,
        rescale_values=False,
    )

    @jax.jit
    def search(board: Any) -> tuple[Any, ...]:
        logits, values = evaluate(board)
        root, key = mctx.RootFnOutput(prior_logits=logits, value=values, embedding=board), jax.random.PRNGKey(0)
        full = board[:, -1] != 0
        puct = mctx.muzero_policy(
            None, key, root, play, SIMULATIONS, full, qtransform=unvisited_at_the_mean, dirichlet_fraction=0.0
        )
        tree = puct.search_tree
        improved = logits + jax.vmap(completed, in_axes=(0, None))(tree, tree.ROOT_INDEX)
        gumbel = [
            mctx.gumbel_muzero_policy(
                None, key, root, play, SIMULATIONS, full, qtransform=completed, gumbel_scale=scale
            )
            for scale in (0.0, 1.0)
        ]
        visits = [each.search_tree.summary().visit_counts for each in gumbel]
        noise = gumbel[1].search_tree.extra_data.root_gumbel
        return tree.summary(), jax.nn.softmax(improved), visits, [each.action for each in gumbel], noise

    planes = make_planes(STANDARD, *stones(positions))
    with jax.default_matmul_precision("highest"):
        board = (planes[:, 0] - planes[:, 1]).astype(np.int8)
        puct, policies, gumbel_visits, gumbel_moves, noise = jax.device_get(search(board))

    parameters = Puct(c_init=1.25 + math.log(19653 / 19652), c_base=19653, fpu_reduction=0.0, prior_temperature=1.0)
    trees = search_by_hand(STANDARD, positions, evaluate_linearly, parameters, SIMULATIONS)
    assert trees.visits[:, ROOT].tolist() == puct.visit_counts.tolist()
    monkeypatch.syspath_prepend(EXAMPLES / "ideas")
    gumbel = import_module("gumbel").Gumbel(c_scale=C_SCALE)
    for selection, expected in (parameters, puct.visit_counts), (gumbel, gumbel_visits[0]):
        textbook = alphac4.load(evaluate_linearly, selection_rule=selection, proofs=False, mirror=False)
        results = textbook.search(positions, simulations=SIMULATIONS)
        for result, visits in zip(results, expected, strict=True):
            assert {c: move.visits for c, move in result.columns.items()} == {c: visits[c] for c in result.columns}
        if selection is gumbel:
            assert [result.move for result in results] == gumbel_moves[0].tolist()
    noisy = search_by_hand(
        STANDARD, positions, evaluate_linearly, gumbel, SIMULATIONS, np.exp(-np.exp(-np.float64(noise)))
    )
    assert noisy.visits[:, ROOT].tolist() == gumbel_visits[1].tolist() != gumbel_visits[0].tolist()
    moves = [users_final_action(gumbel, noisy, t, ROOT) for t in range(len(positions))]
    assert moves == gumbel_moves[1].tolist() != gumbel_moves[0].tolist()
    assert trees.visits[trees.proof == PROVEN_WIN - 1].sum() > 50  # some simulations reach the end of the game
    for t, policy in enumerate(policies):
        ours = np.empty(7, np.float32)
        improved_policy(trees, t, trees.priors[t, ROOT], C_SCALE, ours)
        np.testing.assert_allclose(ours, policy, atol=1e-5)

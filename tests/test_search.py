import itertools
import math
import random

import numpy as np
import pytest
from helpers import both_kinds, make_search, random_positions
from naive import board_of, drop, minimax, wins

from alphac4.arena.players import NetworkPlayer
from alphac4.game import Position, make_geometry
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD
from alphac4.mcts.classic.rollouts import Rollout, run_rollouts
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.classic.uct import UctConfig
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.results import describe_proof
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import (
    PROVEN_WIN,
    UNPROVEN,
    root_visits,
)
from alphac4.nn.evaluator import Evaluator, UniformEvaluator
from alphac4.nn.network import PolicyValueNetwork


@both_kinds
def test_forced_moves_are_found_and_proven(kind: str) -> None:
    search = make_search(kind)
    win = search.search([Position.from_moves("414141")], Budget(simulations=10))  # before any simulation
    assert (win.moves[0], win.value[0]) == (3, 1.0)
    assert describe_proof(int(win.proofs[0, 3])) == "wins in 1 move"
    block = search.search([Position.from_moves("12121")], Budget(simulations=50))
    assert block.moves[0] == 0
    assert [describe_proof(int(block.proofs[0, c])) for c in range(1, 7)] == ["loses in 1 move"] * 6
    open_three = search.search([Position.from_moves("4455")], Budget(simulations=500))
    assert open_three.moves[0] in (2, 5)
    assert open_three.value[0] == 1.0
    assert describe_proof(int(open_three.proofs[0, open_three.moves[0]])) == "wins in 2 moves"


@pytest.mark.parametrize("shape", [(4, 4, 3, True), (4, 4, 4, True), (5, 4, 3, False)])
@pytest.mark.parametrize("kind", ["puct", "puct with 8 leaves", "uct"])
def test_proofs_agree_with_minimax(shape: tuple[int, int, int, bool], kind: str) -> None:
    rows, columns, run, diagonals = shape
    geometry = make_geometry(*shape)
    search = make_search(kind, geometry)
    late = geometry.cells // 2 - 2  # before that minimax takes long
    positions = [p for p in random_positions(150, np.random.default_rng(11), geometry) if p.plies >= late]
    result = search.search(positions, Budget(simulations=3000))
    proven = 0
    for index, position in enumerate(positions):
        board = board_of(position.moves or "", columns)
        proofs = {column: int(result.proofs[index, column]) for column in position.legal_columns()}
        for column, proof in proofs.items():
            if proof == UNPROVEN:
                continue
            proven += 1
            outcome, plies = minimax(drop(board, column, "xo"[position.plies % 2]), rows, run, diagonals)
            assert np.sign(proof) == -outcome, (position.moves, column)
            # The tree may not know the fastest win yet, for either side, but never claims a faster one.
            assert outcome == 0 or PROVEN_WIN - abs(proof) >= plies + 1
        if abs(result.value[index]) == 1.0 and UNPROVEN not in proofs.values():
            assert minimax(board, rows, run, diagonals)[0] == result.value[index]
    assert proven > 50


def test_the_best_line_begins_with_the_move(rng: np.random.Generator) -> None:
    configs = [*(UctConfig(final=rule) for rule in ("visits", "rate", "ucb")), UctConfig(proofs=False)]
    searches = [make_search("puct"), *(UctSearch(config, rng=rng) for config in configs)]
    positions = [Position.from_moves(moves) for moves in ("", "4", "4544", "74", "44", "123123")]
    differ = 0
    for search, simulations in itertools.product(searches, (20, 27, 34)):
        result = search.search(positions, Budget(simulations=simulations))
        assert [line[0] for line in result.variations] == result.moves.tolist()
        differ += int((result.moves != result.visits.argmax(axis=1)).sum())
    assert differ  # or nothing was asked
    player = NetworkPlayer("p", UniformEvaluator(), Budget(simulations=30), rng, temperature=1.0)
    result = player.search(positions)
    assert [line[0] for line in result.variations] == result.moves.tolist()


def test_lockstep_searches_equal_searches_alone(rng: np.random.Generator) -> None:
    positions = random_positions(20, rng)
    together = make_search("puct").search(positions, Budget(simulations=80))
    for position, visits in zip(positions, together.visits, strict=True):
        alone = make_search("puct").search([position], Budget(simulations=80))
        assert alone.visits[0].tolist() == visits.tolist()


def test_search_is_exactly_symmetric(network: PolicyValueNetwork, rng: np.random.Generator) -> None:
    positions = random_positions(40, rng)
    parts = (positions, [position.mirror() for position in positions])
    evaluator = Evaluator(network, backend="torch-fp32")
    logits = [evaluator.evaluate(make_planes(STANDARD, *stones(part)))[0] for part in parts]
    assert np.abs(logits[0] - logits[1][:, ::-1]).max() > 0.1  # although the network itself is not
    results = [NetworkSearch(evaluator, rng=rng).search(part, Budget(simulations=1)) for part in parts]
    assert (results[0].priors == results[1].priors[:, ::-1]).all()
    assert (results[0].wdl == results[1].wdl).all()


@pytest.mark.parametrize("style", [Rollout(), Rollout(depth=16)], ids=["uniform", "of equal weights, never cut off"])
def test_rollouts_agree_with_plain_random_games(style: Rollout) -> None:
    states = np.array([3], np.uint64)
    mean = run_rollouts(make_geometry(4, 4, 3), np.uint64(0), np.uint64(0), 200_000, states, style)
    rng = random.Random(0)
    results = []
    for _ in range(3000):
        board, winner = board_of("", 4), 0
        for ply in range(16):
            side = "xo"[ply % 2]
            board = drop(board, rng.choice([c for c in range(4) if len(board[c]) < 4]), side)
            if ply >= 4 and wins(board, side, 4, 3):
                winner = 1 if side == "x" else -1
                break
        results.append(winner)
    assert mean == pytest.approx(np.mean(results), abs=5 * np.std(results) / math.sqrt(len(results)))
    assert abs(mean) > 0.1  # moving first helps, so that the sides could not be mixed up


@both_kinds
def test_no_positions_and_the_narrowest_board_are_searched(kind: str) -> None:
    search = make_search(kind)
    result = search.search([], Budget(simulations=5))
    assert (len(result.moves), result.visits.shape) == (0, (0, 7))
    narrow = make_geometry(63, 1, 4)  # whose column fills a whole word of bits, and where nobody ever has four
    result = make_search(kind, narrow).search([Position(geometry=narrow)], Budget(simulations=10))
    assert (result.moves.tolist(), result.value[0]) == ([0], 0.0)


@both_kinds
def test_every_simulation_is_one_root_visit(kind: str) -> None:
    search = make_search(kind)
    result = search.search([Position.from_moves("445")], Budget(simulations=300))  # some end in proven leaves
    assert result.visits[0].sum() == root_visits(search._kept.trees, 0) == 300


def test_a_tree_stops_before_its_sums_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.mcts.search.MAX_VISITS", 5000)
    search = UctSearch(UctConfig(proofs=False, guards=False), rng=np.random.default_rng(0))
    # Textbook UCT adds no nodes at the end of a game, so that nothing else would stop it before its time is up.
    position = Position.from_moves("4211246127725627666331655732133177543")
    assert search.search([position], Budget(seconds=600)).simulations[0] == 5000

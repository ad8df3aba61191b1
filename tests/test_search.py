import math
import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from naive import Board, drop, minimax, wins

from alphac4.arena.players import NetworkPlayer
from alphac4.game import Position, make_geometry
from alphac4.game.rules import STANDARD
from alphac4.mcts import Budget, NetworkSearch, PuctConfig, UctConfig, UctSearch
from alphac4.mcts.improvement import considered_visits
from alphac4.mcts.puct import PuctParameters, add_root_noise, expand, exploration_weight, puct_score
from alphac4.mcts.results import principal_variation
from alphac4.mcts.rollouts import run_rollouts
from alphac4.mcts.search import TreeSearch
from alphac4.mcts.selection import select_action
from alphac4.mcts.tree import (
    NO_NODE,
    PROVEN_DRAW,
    PROVEN_WIN,
    ROOT,
    UNPROVEN,
    advance_root,
    backup,
    best_action,
    make_trees,
    one_ply_earlier,
    plant,
    root_visits,
)
from alphac4.mcts.ucb1 import ucb1_score
from alphac4.nn import UniformEvaluator

Planes = npt.NDArray[np.float32]


def searches(rng: np.random.Generator) -> list[NetworkSearch | UctSearch]:
    """Both kinds of search, the first without any knowledge from a network."""
    return [NetworkSearch(UniformEvaluator(), rng=rng), UctSearch(rng=rng)]


def test_takes_a_win_in_one(rng: np.random.Generator) -> None:
    """Three in a column, mine to complete: proven before any simulation."""
    for search in searches(rng):
        result = search.search([Position.from_moves("414141")], Budget(simulations=10))
        assert result.moves[0] == 3
        assert result.value[0] == 1.0
        assert result.describe_proof(0, 3) == "wins in 1 move"


def test_blocks_an_open_three_in_a_column(rng: np.random.Generator) -> None:
    """Every other move is proven to lose in two plies."""
    for search in searches(rng):
        result = search.search([Position.from_moves("12121")], Budget(simulations=50))
        assert result.moves[0] == 0
        assert [result.describe_proof(0, c) for c in range(1, 7)] == ["loses in 1 move"] * 6


def test_finds_a_win_in_three_and_proves_it(rng: np.random.Generator) -> None:
    """Two on the bottom row with room on both sides make an open three."""
    for search in searches(rng):
        result = search.search([Position.from_moves("4455")], Budget(simulations=500))
        assert result.moves[0] in (2, 5)
        assert result.describe_proof(0, int(result.moves[0])) == "wins in 2 moves"
        assert result.value[0] == 1.0


def naive_board(moves: str, columns: int) -> Board:
    """The naive board after a move string."""
    board: Board = ("",) * columns
    for ply, move in enumerate(moves):
        board = drop(board, int(move) - 1, "xo"[ply % 2])
    return board


@pytest.mark.parametrize("shape", [(4, 4, 3, True), (4, 4, 4, True), (5, 4, 3, False)])
@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_proofs_agree_with_minimax(shape: tuple[int, int, int, bool], kind: str) -> None:
    """Whatever the search proves of a root move is true, and proven losses are put off as long as possible."""
    rows, columns, run, diagonals = shape
    geometry = make_geometry(*shape)
    rng = random.Random(11)
    generator = np.random.default_rng(0)
    search: NetworkSearch | UctSearch = (
        NetworkSearch(UniformEvaluator(), geometry=geometry, rng=generator)
        if kind == "puct"
        else UctSearch(geometry=geometry, rng=generator)
    )
    proven = 0
    for _ in range(60):
        position = Position(geometry=geometry)
        for _ in range(rng.randrange(4, rows * columns - 2)):
            if position.outcome() is None:
                position = position.play(rng.choice(position.legal_columns()))
        if position.outcome() is not None or position.moves is None:
            continue
        board = naive_board(position.moves, columns)
        side = "xo"[position.plies % 2]
        result = search.search([position], Budget(simulations=3000))
        for column in position.legal_columns():
            proof = int(result.proofs[0, column])
            if proof == UNPROVEN:
                continue
            proven += 1
            outcome, plies = minimax(drop(board, column, side), rows, run, diagonals)
            assert np.sign(proof) == -outcome, (position.moves, column)
            if outcome != 0:
                distance = PROVEN_WIN - abs(proof)
                # The tree may not know the fastest win yet, for either side, but never claims a faster one.
                assert distance >= plies + 1
        if result.value[0] in (-1.0, 1.0) and all(result.proofs[0, c] != UNPROVEN for c in position.legal_columns()):
            assert minimax(board, rows, run, diagonals)[0] == result.value[0]
    assert proven > 50


def test_solves_a_small_board_exactly(rng: np.random.Generator) -> None:
    """With enough simulations the root's proof is the game-theoretic value (Winands et al. 2008)."""
    geometry = make_geometry(4, 4, 4)
    search = UctSearch(geometry=geometry, rng=rng)
    for moves in ("1122", "112233", "1234", "4433"):
        position = Position.from_moves(moves, geometry)
        result = search.search([position], Budget(simulations=400_000))
        outcome, _ = minimax(naive_board(moves, 4), 4, 4)
        assert result.value[0] == pytest.approx(outcome, abs=0.02), moves


def test_puct_prefers_by_the_published_formula() -> None:
    """Hand-worked: c = 1.25 + log(19655 / 19652), N = 2, two visits on action 0 with mean 0.5."""
    weight = exploration_weight(PuctConfig(fpu_reduction=0.0).parameters(), 2)
    assert weight == pytest.approx(1.25 + math.log(19655 / 19652))
    scale = weight * math.sqrt(3)
    assert puct_score(0.5, 0.2, 2, scale) == pytest.approx(0.5 + 1.2501526 * 1.7320508 * 0.2 / 3, abs=1e-6)
    assert ucb1_score(0.5, 4, math.log(16), 1.0) == pytest.approx(0.5 + math.sqrt(math.log(16) / 4))


def evaluated_root(rng: np.random.Generator, logits: list[float], moves: str = "") -> tuple[object, PuctParameters]:
    """A tree whose root has been given these logits and an even value."""
    parameters = PuctConfig(fpu_reduction=0.0).parameters()
    trees = make_trees(1, 50, STANDARD, rng)
    position = Position.from_moves(moves)
    plant(STANDARD, trees, 0, position.own, position.occupied)
    wdl = np.array([0.3, 0.4, 0.3], np.float32)
    expand(STANDARD, trees, 0, np.array(logits, np.float32), wdl, parameters.prior_temperature)
    return trees, parameters


def test_priors_rank_the_first_visits_and_full_columns_get_none(rng: np.random.Generator) -> None:
    """The highest logit is tried first; a full column's logit, however high, counts for nothing."""
    trees, parameters = evaluated_root(rng, [9.0, 0, 0, 2.0, 0, 0, 0], moves="111111")
    priors = trees.prior[0, ROOT]  # type: ignore[attr-defined]
    assert priors[0] == 0.0
    assert priors.sum() == pytest.approx(1.0)
    weight = math.exp(2 / PuctConfig().prior_temperature)
    assert priors[3] == pytest.approx(weight / (weight + 5), rel=1e-5)
    assert select_action(trees, 0, ROOT, parameters) == 3


def test_values_change_sign_at_every_ply_of_the_backup(rng: np.random.Generator) -> None:
    """A hand-made line of two moves: good for the leaf's mover is bad for its opponent, good for the root."""
    trees, _ = evaluated_root(rng, [0.0] * 7)
    trees.parent[0, 1], trees.parent_action[0, 1] = ROOT, 2  # type: ignore[attr-defined]
    trees.parent[0, 2], trees.parent_action[0, 2] = 1, 5  # type: ignore[attr-defined]
    backup(trees, 0, 2, 0.75)
    assert trees.value_sum[0, 1, 5] == -0.75  # type: ignore[attr-defined]
    assert trees.value_sum[0, ROOT, 2] == 0.75  # type: ignore[attr-defined]
    assert trees.visits[0, ROOT].tolist() == [0, 0, 1, 0, 0, 0, 0]  # type: ignore[attr-defined]


def test_noise_keeps_the_priors_a_distribution_over_legal_moves(rng: np.random.Generator) -> None:
    """Dirichlet noise moves every prior, adds up to one, and is never given to a full column."""
    trees, _ = evaluated_root(rng, [0.0] * 7, moves="111111")
    before = trees.prior[0, ROOT].copy()  # type: ignore[attr-defined]
    sums = np.zeros(7)
    for _ in range(2000):
        trees.prior[0, ROOT] = before  # type: ignore[attr-defined]
        add_root_noise(trees, 0, 10.0, 0.25)
        sums += trees.prior[0, ROOT]  # type: ignore[attr-defined]
        assert trees.prior[0, ROOT].sum() == pytest.approx(1.0, abs=1e-5)  # type: ignore[attr-defined]
    assert sums[0] == 0.0
    assert sums[1:] / 2000 == pytest.approx(np.full(6, 1 / 6), abs=0.01)


def test_a_proof_one_ply_earlier_is_the_opponents_and_one_ply_longer() -> None:
    """Win in 1 becomes loss in 2, loss in 2 becomes win in 3, a draw stays."""
    assert one_ply_earlier(PROVEN_WIN - 1) == 2 - PROVEN_WIN
    assert one_ply_earlier(2 - PROVEN_WIN) == PROVEN_WIN - 3
    assert one_ply_earlier(PROVEN_DRAW) == PROVEN_DRAW


def test_the_best_line_begins_with_no_move_that_is_proven_lost(rng: np.random.Generator) -> None:
    """However often that was visited before it was."""
    trees = make_trees(1, 10, STANDARD, rng)
    trees.proof[0, ROOT], trees.child[0, ROOT] = UNPROVEN, NO_NODE
    trees.visits[0, ROOT] = 3
    trees.visits[0, ROOT, 2], trees.proof[0, ROOT, 2] = 170, -100
    trees.visits[0, ROOT, 5] = 50
    assert principal_variation(trees, 0, best_action(trees, 0)) == [5]


def test_the_best_line_begins_with_the_move(rng: np.random.Generator) -> None:
    """Also where two moves have as many visits, where another rule than visits decides, and where chance does."""
    mine: dict[str, Callable[[int], TreeSearch]] = {
        "ties": lambda _seed: NetworkSearch(UniformEvaluator(), rng=rng),
        **{
            rule: lambda seed, rule=rule: UctSearch(UctConfig(final=rule), rng=np.random.default_rng(seed))
            for rule in ("visits", "rate", "ucb")
        },
        "unproven": lambda seed: UctSearch(UctConfig(proofs=False), rng=np.random.default_rng(seed)),
    }
    positions = [Position.from_moves(moves) for moves in ("", "4", "4544", "74", "44", "123123")]
    differ = 0
    for make in mine.values():
        for seed in range(4):
            result = make(seed).search(positions, Budget(simulations=20 + 7 * seed))
            assert [line[0] for line in result.variations] == result.moves.tolist()
            differ += int((result.moves != result.visits.argmax(axis=1)).sum())
    assert differ  # or nothing was asked
    player = NetworkPlayer("p", UniformEvaluator(), Budget(simulations=30), rng, temperature=1.0)
    result = player.search(positions)
    assert [line[0] for line in result.variations] == result.moves.tolist()


def test_lockstep_searches_equal_searches_alone() -> None:
    """Twenty positions together get the visits that each gets by itself."""
    rng = random.Random(4)
    positions = []
    while len(positions) < 20:
        position = Position()
        for _ in range(rng.randrange(12)):
            if position.outcome() is None:
                position = position.play(rng.choice(position.legal_columns()))
        if position.outcome() is None:
            positions.append(position)
    generator = np.random.default_rng(0)
    together = NetworkSearch(UniformEvaluator(), rng=generator).search(positions, Budget(simulations=80))
    for index, position in enumerate(positions):
        alone = NetworkSearch(UniformEvaluator(), rng=generator).search([position], Budget(simulations=80))
        assert alone.visits[0].tolist() == together.visits[index].tolist()


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_a_kept_tree_holds_what_was_known_below_the_moves_played(kind: str, rng: np.random.Generator) -> None:
    """After two moves the new root starts with the grandchild's visits, and every statistic adds up."""
    search: NetworkSearch | UctSearch = (
        NetworkSearch(UniformEvaluator(), rng=rng, reuse="trees")
        if kind == "puct"
        else UctSearch(rng=rng, reuse="trees")
    )
    search.search([Position()], Budget(simulations=400))
    trees = search._kept.trees
    assert trees is not None
    child = int(trees.child[0, ROOT, 3])
    expected = trees.visits[0, trees.child[0, child, 2]].copy()
    advance_root(STANDARD, trees, 0, 3)
    advance_root(STANDARD, trees, 0, 2)
    assert trees.visits[0, ROOT].tolist() == expected.tolist()
    size = int(trees.size[0])
    for node in range(1, size):
        parent, action = trees.parent[0, node], trees.parent_action[0, node]
        assert trees.child[0, parent, action] == node
        assert trees.visits[0, parent, action] >= trees.visits[0, node].sum()
    assert (trees.child[0, :size] < size).all()


def test_reuse_adds_the_budget_to_the_visits_kept(rng: np.random.Generator) -> None:
    """A search that follows from the last one runs its own simulations on top; any other starts afresh."""
    search = NetworkSearch(UniformEvaluator(), rng=rng, reuse="trees")
    search.search([Position()], Budget(simulations=200))
    again = search.search([Position.from_moves("43")], Budget(simulations=100))
    assert again.simulations[0] == 100
    assert again.visits[0].sum() > 100
    elsewhere = search.search([Position.from_moves("7")], Budget(simulations=100))
    assert elsewhere.visits[0].sum() == 100


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_trees_are_kept_wherever_their_games_stand(kind: str, rng: np.random.Generator) -> None:
    """Of three games the second ends, one begins, and the order changes; the new budget asks for more room."""
    search: NetworkSearch | UctSearch = (
        NetworkSearch(UniformEvaluator(), rng=rng, reuse="trees")
        if kind == "puct"
        else UctSearch(rng=rng, reuse="trees")
    )
    search.search([Position.from_moves(moves) for moves in ("44", "112", "27")], Budget(simulations=500))
    known = {moves: search.node(index, [3, 2]).visits for index, moves in ((0, "4443"), (2, "2743"))}
    assert known["4443"].tolist() != known["2743"].tolist()
    now = ["2743", "5", "4443"]
    for simulations in (1, 3000):
        after = search.search([Position.from_moves(moves) for moves in now], Budget(simulations=simulations))
        for index, moves in enumerate(now):
            expected = known.get(moves, np.zeros(7)).sum()
            assert after.visits[index].sum() == expected + simulations
            known[moves] = after.visits[index]


def test_equal_positions_have_trees_of_their_own(rng: np.random.Generator) -> None:
    """Also when only one was there before: random rollouts then differ, and so do the visits."""
    search = UctSearch(rng=rng, reuse="trees")
    search.search([Position()], Budget(simulations=200))
    twice = search.search([Position.from_moves("44")] * 2, Budget(simulations=300))
    assert twice.visits[0].sum() > 300
    assert twice.visits[1].sum() == 300


def test_searching_a_finished_game_is_an_error(rng: np.random.Generator) -> None:
    """There is no move to find."""
    with pytest.raises(ValueError, match="over"):
        searches(rng)[0].search([Position.from_moves("1212121")], Budget(simulations=1))


def test_rollouts_agree_with_plain_random_games() -> None:
    """The first player's mean result in the compiled rollout and in a naive one, within 5 standard errors."""
    mean = run_rollouts(STANDARD, np.uint64(0), np.uint64(0), 200_000, np.array([3], np.uint64))
    rng = random.Random(0)
    results = []
    for _ in range(1500):
        board: Board = ("",) * 7
        for ply in range(43):
            legal = [c for c in range(7) if len(board[c]) < 6]
            if not legal:
                results.append(0)
                break
            board = drop(board, rng.choice(legal), "xo"[ply % 2])
            if ply >= 6 and wins(board, "xo"[ply % 2], 6, 4):
                results.append(1 if ply % 2 == 0 else -1)
                break
    assert mean == pytest.approx(np.mean(results), abs=5 * np.std(results) / math.sqrt(len(results)))


def test_sequential_halving_considers_half_as_many_after_each_phase() -> None:
    """Four actions, 16 simulations, two phases of eight: four actions twice each, then two actions four times each."""
    schedule = [considered_visits(4, 16, i) for i in range(16)]
    assert schedule == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_more_exploration_spreads_the_visits(rng: np.random.Generator) -> None:
    """UCB1's constant does what it says."""
    counts = []
    for exploration in (0.1, 5.0):
        search = UctSearch(UctConfig(exploration=exploration), rng=rng)
        counts.append(search.search([Position()], Budget(simulations=3000)).visits[0].max())
    assert counts[0] > counts[1]


def test_every_simulation_is_one_root_visit(rng: np.random.Generator) -> None:
    """On an unproven root, also when some simulations end in proven leaves."""
    for search in searches(rng):
        result = search.search([Position.from_moves("445")], Budget(simulations=300))
        assert result.visits[0].sum() == 300
        assert root_visits(search._kept.trees, 0) == 300


def test_what_is_proven_is_played_out_without_another_simulation() -> None:
    """Whatever the opponent replies, the kept tree goes on to the win that it promised, no later than promised."""
    chance = random.Random(4)
    played = 0
    while played < 40:
        position = Position.from_moves("")
        for _ in range(chance.randrange(8, 26)):
            if position.outcome() is None:
                position = position.play(chance.choice(position.legal_columns()))
        if position.outcome() is not None:
            continue
        search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0), reuse="proofs")
        result = search.search([position], Budget(simulations=400))
        promised = int(result.proofs[0].max(initial=-127, where=result.proofs[0] != UNPROVEN))
        if promised <= PROVEN_DRAW or PROVEN_WIN - promised < 5:
            continue
        played += 1
        last = position.plies + PROVEN_WIN - promised
        while True:
            position = position.play(int(result.moves[0]))
            if position.outcome() is not None:
                break
            position = position.play(chance.choice(position.legal_columns()))
            result = search.search([position], Budget(simulations=400))
            assert result.simulations[0] == 0
        assert position.outcome() == -1
        assert position.plies <= last
        search.search([Position()], Budget(simulations=3))  # a new game begins afresh
        assert search.search([Position.from_moves("4")], Budget(simulations=3)).simulations[0] == 3


def test_an_interrupted_search_leaves_no_half_made_tree(rng: np.random.Generator) -> None:
    """Ctrl-C in the network's call: what is searched next does not begin with a node that waits for its evaluation."""

    class Interrupted(UniformEvaluator):
        calls = 0

        def evaluate(self, planes: Planes) -> tuple[Planes, Planes]:
            self.calls += 1
            if self.calls == 40:
                raise KeyboardInterrupt
            return super().evaluate(planes)

    search = NetworkSearch(Interrupted(), rng=rng, reuse="trees")
    with pytest.raises(KeyboardInterrupt):
        search.search([Position.from_moves("4")], Budget(simulations=100))
    fresh = NetworkSearch(UniformEvaluator(), rng=rng)
    for moves in ("43", "41"):
        ours = search.search([Position.from_moves(moves)], Budget(simulations=50))
        assert (ours.visits == fresh.search([Position.from_moves(moves)], Budget(simulations=50)).visits).all()


def test_a_growing_tree_is_seldom_copied(rng: np.random.Generator) -> None:
    """Many short searches of one position, as of a person who watches: its memory grows by doubling."""
    search = UctSearch(rng=rng, reuse="trees")
    memories = []
    for _ in range(200):
        result = search.search([Position()], Budget(simulations=50))
        trees = search._kept.trees
        if not any(trees is memory for memory in memories):
            memories.append(trees)
    assert result.visits.sum() == 200 * 50
    assert len(memories) <= 10


def test_a_tree_stops_before_its_sums_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textbook UCT adds no nodes at the end of a game, so that nothing else would stop it before its time is up."""
    monkeypatch.setattr("alphac4.mcts.search.MOST_VISITS", 5000)
    search = UctSearch(UctConfig(proofs=False, guards=False), rng=np.random.default_rng(0))
    position = Position.from_moves("4211246127725627666331655732133177543")
    result = search.search([position], Budget(seconds=60))
    assert result.simulations[0] == 5000
    assert result.seconds < 30


def test_no_positions_are_searched_in_no_time(rng: np.random.Generator) -> None:
    """And the next call finds its trees."""
    for search in searches(rng):
        result = search.search([], Budget(simulations=5))
        assert (len(result.moves), result.visits.shape, result.scores.shape) == (0, (0, 7), (0, 7))
        assert search.search([Position()], Budget(simulations=5)).simulations.tolist() == [5]


def test_a_game_that_leaves_a_proven_line_is_searched_anew(rng: np.random.Generator) -> None:
    """With all simulations; the tree of the proof has no room for them."""
    search = NetworkSearch(UniformEvaluator(), rng=rng, reuse="proofs")
    fresh = NetworkSearch(UniformEvaluator(), rng=rng)
    won = Position.from_moves("232572656452153")
    left = 0
    for column in won.legal_columns():
        assert search.search([won], Budget(simulations=4000)).root_proof(0) != UNPROVEN
        after = won.play(column)
        expected, found = (s.search([after], Budget(simulations=50)) for s in (fresh, search))
        if found.root_proof(0) == UNPROVEN:
            left += 1
            assert found.simulations.tolist() == expected.simulations.tolist()
            assert found.visits.tolist() == expected.visits.tolist()
    assert left


def test_a_narrow_board_of_63_rows_is_searched(rng: np.random.Generator) -> None:
    """Its column fills a whole word of bits."""
    geometry = make_geometry(63, 1, 4)
    result = UctSearch(geometry=geometry, rng=rng).search([Position(geometry=geometry)], Budget(simulations=10))
    assert result.moves.tolist() == [0]
    assert result.value[0] == 0.0  # colours alternate, so nobody ever has four

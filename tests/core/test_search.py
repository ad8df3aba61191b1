import itertools
import math
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers import ConstantEvaluator, both_kinds, make_search, random_positions
from naive import board_of, drop, minimax, wins

from alphac4.arena.players import NetworkPlayer
from alphac4.game import STANDARD, Position, make_board
from alphac4.game.planes import make_planes, stones
from alphac4.mcts.classic.rollouts import rollout
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.classic.uct import UctConfig
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.puct import Puct
from alphac4.mcts.results import describe_proof
from alphac4.mcts.search import Budget, TreeSearch
from alphac4.mcts.simulation import MAX_SIMULATIONS_PER_STEP
from alphac4.mcts.tree import NO_NODE, PROVEN_DRAW, PROVEN_WIN, ROOT, UNPROVEN, advance_root
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.config import PRIOR_TEMPERATURE, SelfPlayConfig
from alphac4.selfplay.games import NEW_MOVE, advance, make_plan, restart_searches

Planes = npt.NDArray[np.float32]


@both_kinds
def test_search_finds_and_proves_forced_moves(kind: str) -> None:
    search = make_search(kind)
    win = search.search([Position.from_moves("414141")], Budget(simulations=10))  # proven without a simulation
    assert (win.moves[0], win.value[0]) == (3, 1.0)
    assert describe_proof(int(win.proofs[0, 3])) == "wins in 1 move"
    block = search.search([Position.from_moves("12121")], Budget(simulations=50))
    assert block.moves[0] == 0
    assert [describe_proof(int(block.proofs[0, c])) for c in range(1, 7)] == ["loses in 1 move"] * 6
    open_three = search.search([Position.from_moves("4455")], Budget(simulations=500))
    assert open_three.moves[0] in (2, 5)
    assert open_three.value[0] == 1.0
    assert describe_proof(int(open_three.proofs[0, open_three.moves[0]])) == "wins within 2 moves"


@pytest.mark.parametrize("shape", [(4, 4, 3, True), (4, 4, 4, True), (5, 4, 3, False)])
@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_proofs_agree_with_minimax(shape: tuple[int, int, int, bool], kind: str) -> None:
    rows, columns, run, diagonals = shape
    board = make_board(*shape)
    search = make_search(kind, board)
    late = board.cells // 2 - 2  # stones; minimax is slow for earlier positions
    positions = [p for p in random_positions(150, np.random.default_rng(11), board) if p.plies >= late]
    result = search.search(positions, Budget(simulations=3000))
    proven = 0
    for index, position in enumerate(positions):
        stacks = board_of(position.moves or "", columns)
        proofs = {column: int(result.proofs[index, column]) for column in position.legal_columns()}
        for column, proof in proofs.items():
            if proof == UNPROVEN:
                continue
            proven += 1
            outcome, plies = minimax(drop(stacks, column, "xo"[position.plies % 2]), rows, run, diagonals)
            assert np.sign(proof) == -outcome, (position.moves, column)
            # The proof may be longer than the fastest win, for either side, but not shorter.
            assert outcome == 0 or PROVEN_WIN - abs(proof) >= plies + 1
        if abs(result.value[index]) == 1.0 and UNPROVEN not in proofs.values():
            assert minimax(stacks, rows, run, diagonals)[0] == result.value[index]
    assert proven > 50


def test_principal_variation_begins_with_the_move_played(rng: np.random.Generator) -> None:
    configs = [*(UctConfig(final=rule) for rule in ("visits", "rate", "ucb")), UctConfig(proofs=False)]
    searches = [make_search("puct"), *(UctSearch(config, rng=rng) for config in configs)]
    positions = [Position.from_moves(moves) for moves in ("", "4", "4544", "74", "44", "123123")]
    differ = 0
    for search, simulations in itertools.product(searches, (20, 27, 34)):
        result = search.search(positions, Budget(simulations=simulations))
        assert [line[0] for line in result.variations] == result.moves.tolist()
        differ += int((result.moves != result.visits.argmax(axis=1)).sum())
    assert differ  # in some positions, the move is not the most visited one
    player = NetworkPlayer("p", NetworkSearch(UniformEvaluator()), Budget(simulations=30), rng, temperature=1.0)
    result = player.search(positions)
    assert [line[0] for line in result.variations] == result.moves.tolist()


def test_batched_search_equals_separate_searches(rng: np.random.Generator) -> None:
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
    assert np.abs(logits[0] - logits[1][:, ::-1]).max() > 0.1  # the network is not symmetric
    results = [NetworkSearch(evaluator, rng=rng).search(part, Budget(simulations=1)) for part in parts]
    assert (results[0].priors == results[1].priors[:, ::-1]).all()
    assert (results[0].wdl == results[1].wdl).all()


@pytest.mark.parametrize("depth", [64, 16], ids=["uniform", "equal weights, never cut off"])
def test_rollouts_have_the_mean_result_of_random_games(depth: int) -> None:
    states = np.array([3], np.uint64)
    board, empty = make_board(4, 4, 3), np.uint64(0)
    uct = UctConfig(rollout_depth=depth).selection()
    mean = np.mean([rollout(board, empty, empty, states, 0, uct) for _ in range(200_000)])
    rng = random.Random(0)
    results = []
    for _ in range(3000):
        stacks, winner = board_of("", 4), 0
        for ply in range(16):
            side = "xo"[ply % 2]
            stacks = drop(stacks, rng.choice([c for c in range(4) if len(stacks[c]) < 4]), side)
            if ply >= 4 and wins(stacks, side, 4, 3):
                winner = 1 if side == "x" else -1
                break
        results.append(winner)
    assert mean == pytest.approx(np.mean(results), abs=5 * np.std(results) / math.sqrt(len(results)))
    assert abs(mean) > 0.1  # the first player has an advantage, so that swapped sides would be noticed


@both_kinds
def test_search_accepts_an_empty_batch_and_a_board_of_one_column(kind: str) -> None:
    search = make_search(kind)
    result = search.search([], Budget(simulations=5))
    assert (len(result.moves), result.visits.shape) == (0, (0, 7))
    narrow = make_board(63, 1, 4)  # the column fills a 64-bit word, and every game is drawn
    result = make_search(kind, narrow).search([Position(board=narrow)], Budget(simulations=10))
    assert (result.moves.tolist(), result.value[0]) == ([0], 0.0)


def test_search_stops_at_the_maximum_number_of_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.mcts.search.MAX_VISITS", 5000)
    search = UctSearch(UctConfig(proofs=False, decisive_moves=False), rng=np.random.default_rng(0))
    # Textbook UCT adds no nodes at the end of a game, so that only `MAX_VISITS` stops it before its time is up.
    position = Position.from_moves("4211246127725627666331655732133177543")
    assert search.search([position], Budget(seconds=600)).simulations[0] == 5000


@both_kinds
def test_reused_tree_keeps_the_statistics_below_the_moves_played(kind: str) -> None:
    search = make_search(kind, reuse="trees")
    if kind == "uct":
        search = UctSearch(UctConfig(evaluation="lines"), rng=np.random.default_rng(0), reuse="trees")
    search.search([Position()], Budget(simulations=400))
    trees = search._kept.trees
    assert trees is not None
    child = int(trees.child[0, ROOT, 3])
    root = int(trees.child[0, child, 2])
    below = [root, *(int(node) for node in trees.child[0, root] if node != NO_NODE)]
    for part in (trees.draw, trees.value):
        part[0, : trees.size[0]] = np.arange(trees.size[0]) / 1000  # different for each node
    expected, draws = trees.visits[0, root].copy(), trees.draw[0, below].tolist()
    heuristics = trees.heuristics[0, below if kind == "uct" else []].tolist()
    advance_root(trees, 0, 3)
    if kind == "puct":
        assert (trees.draw_sum[0], trees.draw_count[0]) == (trees.draw[0, ROOT], 1)
    advance_root(trees, 0, 2)
    assert trees.visits[0, ROOT].tolist() == expected.tolist()
    below = [ROOT, *(int(node) for node in trees.child[0, ROOT] if node != NO_NODE)]
    assert trees.draw[0, below].tolist() == trees.value[0, below].tolist() == draws
    assert trees.heuristics[0, below if kind == "uct" else []].tolist() == heuristics
    assert np.any(heuristics) == (kind == "uct")
    size = int(trees.size[0])
    for node in range(1, size):
        parent, action = trees.parent[0, node], trees.parent_action[0, node]
        assert trees.child[0, parent, action] == node
        assert trees.visits[0, parent, action] >= trees.visits[0, node].sum()
    assert (trees.child[0, :size] < size).all()


@both_kinds
def test_trees_are_reused_at_any_place_in_the_batch(kind: str) -> None:
    search = make_search(kind, reuse="trees")
    search.search([Position.from_moves(moves) for moves in ("44", "112", "27")], Budget(simulations=500))
    nodes = {moves: search.node(index, [3, 2]) for index, moves in ((0, "4443"), (2, "2743"))}
    known = {moves: np.array([move.visits for move in node.columns]) for moves, node in nodes.items()}
    assert known["4443"].tolist() != known["2743"].tolist()
    now = ["2743", "5", "4443"]  # in another order, with a new game in place of the second one
    for simulations in (1, 3000):  # the second search needs larger trees
        after = search.search([Position.from_moves(moves) for moves in now], Budget(simulations=simulations))
        assert after.simulations.tolist() == [simulations] * 3
        for moves, visits in zip(now, after.visits, strict=True):
            assert visits.sum() == known.get(moves, np.zeros(7)).sum() + simulations
            known[moves] = visits


def test_equal_positions_have_separate_trees() -> None:
    search = make_search("uct", reuse="trees")
    search.search([Position()], Budget(simulations=200))
    twice = search.search([Position.from_moves("44")] * 2, Budget(simulations=300))
    assert twice.visits[0].sum() > 300  # only one of the two positions can reuse the tree
    assert twice.visits[1].sum() == 300


def test_proven_win_is_played_out_without_further_simulations() -> None:
    chance = np.random.default_rng(4)
    played = 0
    while played < 8:
        position = random_positions(1, chance)[0]
        if not 8 <= position.plies < 26:
            continue
        search = make_search("puct", reuse="proofs")
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
            position = position.play(int(chance.choice(position.legal_columns())))
            result = search.search([position], Budget(simulations=400))
            assert result.simulations[0] == 0
        assert position.outcome() == -1
        assert position.plies <= last
        search.search([Position()], Budget(simulations=3))  # a new game does not reuse the tree
        assert search.search([Position.from_moves("4")], Budget(simulations=3)).simulations[0] == 3


def test_game_that_leaves_a_proven_line_is_searched_from_a_new_tree() -> None:
    search, fresh = make_search("puct", reuse="proofs"), make_search("puct")
    won = Position.from_moves("232572656452153")
    left = 0
    for column in won.legal_columns():
        assert search.search([won], Budget(simulations=4000)).root_proof(0) != UNPROVEN
        after = won.play(column)
        expected, actual = (s.search([after], Budget(simulations=50)) for s in (fresh, search))
        if actual.root_proof(0) == UNPROVEN:  # a tree that was kept for its proof has no room for these simulations
            left += 1
            assert actual.simulations.tolist() == expected.simulations.tolist()
            assert actual.visits.tolist() == expected.visits.tolist()
    assert left


def test_interrupted_search_discards_its_trees() -> None:
    class Interrupted(UniformEvaluator):
        calls = 0

        def evaluate(self, planes: Planes) -> tuple[Planes, Planes]:
            self.calls += 1
            if self.calls == 40:
                raise KeyboardInterrupt
            return super().evaluate(planes)

    search = NetworkSearch(Interrupted(), rng=np.random.default_rng(0), reuse="trees")
    with pytest.raises(KeyboardInterrupt):
        search.search([Position.from_moves("4")], Budget(simulations=100))
    for moves in ("43", "41"):
        actual, expected = (
            each.search([Position.from_moves(moves)], Budget(simulations=50)) for each in (search, make_search("puct"))
        )
        assert (actual.visits == expected.visits).all()


class Counting:
    """Batch-invariant evaluator that counts calls and evaluated positions."""

    def __init__(self, network: PolicyValueNetwork) -> None:
        self.calls = self.rows = self.version = 0
        self._evaluator = Evaluator(network, batch_size=1, backend="torch-fp32")

    def evaluate(self, planes: Planes) -> tuple[Planes, Planes]:
        self.calls += 1
        self.rows += len(planes)
        answers = [self._evaluator.evaluate(planes[row : row + 1]) for row in range(len(planes))]
        return np.concatenate([logits for logits, _ in answers]), np.concatenate([wdl for _, wdl in answers])


POSITIONS = [Position.from_moves(text) for text in ("", "4", "44", "443", "445", "43", "45", "1", "7", "4453", "4435")]


def test_evaluation_cache_saves_evaluations_without_changing_results(network: PolicyValueNetwork) -> None:
    plain, cached = Counting(network), Counting(network)
    without = NetworkSearch(plain, rng=np.random.default_rng(0))
    with_cache = NetworkSearch(cached, rng=np.random.default_rng(0), cache=2**14)
    for simulations in (60, 300):  # the second search finds many evaluations of the first
        expected = without.search(POSITIONS, Budget(simulations=simulations))
        actual = with_cache.search(POSITIONS, Budget(simulations=simulations))
        np.testing.assert_array_equal(actual.visits, expected.visits)
        np.testing.assert_array_equal(actual.value, expected.value)
    assert cached.rows < 0.7 * plain.rows


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("proofs", [True, False])
def test_prefetch_saves_calls_of_the_network_without_changing_results(
    count: int, proofs: bool, network: PolicyValueNetwork
) -> None:
    """This includes the order of floating-point sums, trees that are reused, and full trees."""
    one_by_one, ahead = Counting(network), Counting(network)
    usual = NetworkSearch(one_by_one, reuse="trees", cache=2**14, proofs=proofs)
    prefetching = NetworkSearch(ahead, reuse="trees", cache=2**14, prefetch=16, proofs=proofs)
    for start in range(0, len(POSITIONS), count):
        positions = POSITIONS[start : start + count]
        for simulations in (150, 50):
            expected, actual = (
                each.search(positions, Budget(simulations=simulations)) for each in (usual, prefetching)
            )
            np.testing.assert_array_equal(actual.visits, expected.visits)
            np.testing.assert_array_equal(actual.values, expected.values)
            np.testing.assert_array_equal(actual.wdl, expected.wdl)
            np.testing.assert_array_equal(actual.proofs, expected.proofs)
    assert ahead.calls < 0.4 * one_by_one.calls
    assert ahead.rows < 1.6 * one_by_one.rows


# Column 2 soon is a proven draw; columns 3, 4 and 7 stay unproven.
DRAWN = Position.from_moves("15257261452643115367565214214636")
MAX_SIMULATIONS = 300_000  # ends a search that does not read the clock


def evaluator_of(column: int) -> ConstantEvaluator:
    """Return an evaluator with all prior on a column, for which every position is won by the side to move."""
    return ConstantEvaluator(40 * np.eye(7)[column], wdl=(1, 0, 0))


def guided(column: int = 1, **options: object) -> NetworkSearch:
    """Return a search with all prior on one column."""
    return NetworkSearch(evaluator_of(column), rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]


def test_simulations_that_end_in_proven_draws_count_as_draws() -> None:
    """The evaluator itself expects no draw."""
    search = guided(reuse="trees")
    assert search.search([DRAWN], Budget(simulations=5000)).wdl[0, 1] > 0.9
    assert search._kept.trees is not None
    assert search._kept.trees.draw_count[0] == 5001  # the root and all simulations


def test_draw_probability_is_a_mean_over_the_root_and_all_simulations() -> None:
    """The evaluator expects draws; simulations that end in a proven win do not reach it, and count as no draw."""
    evaluator = ConstantEvaluator(np.zeros(7), wdl=(0, 1, 0))
    evaluate, evaluated = evaluator.evaluate, 0

    def counting(planes: Planes) -> tuple[Planes, Planes]:
        nonlocal evaluated
        evaluated += len(planes)
        return evaluate(planes)

    evaluator.evaluate = counting  # type: ignore[method-assign]
    search = NetworkSearch(evaluator, rng=np.random.default_rng(0))
    # No search keeps the tree or the draws of the one before.
    for moves in ("1525726145264311536756521421", "15257261452643115367565214", "4444453333"):
        evaluated = 0
        result = search.search([Position.from_moves(moves)], Budget(simulations=400))
        assert result.simulations[0] == 400
        assert result.wdl[0, 1] == pytest.approx(evaluated / 401)
        assert evaluated < 401


@pytest.fixture
def clock_reads(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Advance the clock by one second whenever it is read; return the times at which it has been read."""
    guided().compile()
    times: list[float] = []

    def perf_counter() -> float:
        times.append(float(len(times)))
        return times[-1]

    for module in ("search", "network_search", "classic.search"):
        monkeypatch.setattr(f"alphac4.mcts.{module}.time", SimpleNamespace(perf_counter=perf_counter))
    return times


def test_search_with_proven_draws_only_reads_the_clock(clock_reads: list[float]) -> None:
    """The clock is read every few hundred simulations, even without calls of the network, for each position of a batch.

    This also holds for reused trees, in which all simulations end in proven draws from the start.
    """
    keeping, positions = guided(reuse="trees"), [Position(), DRAWN, DRAWN]
    for _ in range(3):
        clock_reads.clear()
        result = keeping.search(positions, Budget(simulations=MAX_SIMULATIONS, seconds=400))
        for position, simulations in zip(positions, result.simulations, strict=True):
            if position is DRAWN:
                assert 20_000 < simulations <= 402 * MAX_SIMULATIONS_PER_STEP
        assert len(clock_reads) <= 402 * len(positions) + 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: UctSearch(rng=np.random.default_rng(0)),
        lambda: UctSearch(UctConfig(roots=2), rng=np.random.default_rng(0)),
        lambda: NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0)),
    ],
    ids=["uct", "two roots", "puct"],
)
def test_time_budget_ends_the_search(make: Callable[[], TreeSearch], clock_reads: list[float]) -> None:
    positions = [Position(), Position.from_moves("44"), DRAWN]
    result = make().search(positions, Budget(simulations=MAX_SIMULATIONS, seconds=20))
    assert ((result.simulations > 0) & (result.simulations < MAX_SIMULATIONS)).all()
    assert result.seconds >= 2 * 20  # the first two positions use all of their time; the third may be proven earlier
    assert len(clock_reads) < 100


@pytest.mark.parametrize("kind", [NetworkSearch, UctSearch])
def test_time_budget_does_not_include_compilation(
    kind: type[Any], clock_reads: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it takes a thousand seconds."""
    example = kind._example
    monkeypatch.setattr("alphac4.mcts.search._COMPILED", set())
    monkeypatch.setattr(kind, "_example", lambda search: clock_reads.extend([0.0] * 1000) or example(search))
    search = guided() if kind is NetworkSearch else UctSearch(rng=np.random.default_rng(0))
    result = search.search([Position()], Budget(seconds=20))
    assert len(clock_reads) > 1000
    assert result.simulations[0] > 10
    assert result.seconds < 100


def test_search_without_time_for_a_visit_plays_the_highest_prior(clock_reads: list[float]) -> None:
    result = guided(4).search([Position()], Budget(seconds=0.5))
    assert result.visits.sum() == 0
    assert result.moves[0] == 4  # not the leftmost column
    assert result.variations == [[4]]
    assert len(clock_reads) <= 3


def test_drawn_selfplay_game_does_not_block_other_slots() -> None:
    """A slot runs a bounded number of simulations per call of the network, and its search still ends."""
    config = SelfPlayConfig(full_visits=5000, fast_visits=5000, dirichlet_fraction=0.0)
    actor = Actor(STANDARD, config, evaluator_of(1), 1, np.random.default_rng(0))
    trees, games = actor._trees, actor._games
    games.moves[0, : DRAWN.plies] = [int(name) - 1 for name in DRAWN.moves or ""]
    games.plies[0] = DRAWN.plies
    games.stage[0], games.left[0] = NEW_MOVE, 1
    trees.own[0], trees.occupied[0] = DRAWN.own, DRAWN.occupied
    planes = np.zeros((1, 2, 6, 7), np.float32)
    plan, puct = make_plan(STANDARD, config), Puct(prior_temperature=PRIOR_TEMPERATURE)
    restart_searches(trees, games, planes)
    done, most = 0, 0
    for _ in range(2000):
        logits, wdl = evaluator_of(1).evaluate(planes)
        advance(trees, games, plan, puct, logits, wdl, planes, actor._cache)
        most = max(most, int(games.simulations[0]) - done)
        done = int(games.simulations[0])
        if games.plies[0] > DRAWN.plies:
            break
    assert games.plies[0] > DRAWN.plies
    assert done >= 5000
    assert most <= MAX_SIMULATIONS_PER_STEP

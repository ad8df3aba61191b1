import math
from dataclasses import replace

import numpy as np
import pytest

from alphac4.arena.options import UctOptions, describe_options, parse_options
from alphac4.arena.specifications import parse_player
from alphac4.game import Position
from alphac4.game.rules import STANDARD, Geometry, make_geometry
from alphac4.mcts.heuristics import CHAINS, chains_value, lines_value
from alphac4.mcts.results import SearchResult
from alphac4.mcts.rollouts import Rollout, draw_cell, rollout, styled_rollout
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import ILLEGAL, PROVEN_WIN, UNPROVEN
from alphac4.mcts.uct import UctConfig, final_move
from alphac4.mcts.uct_search import UctSearch
from alphac4.solver import Solver

VARIANTS = {
    "default": UctConfig(),
    "plain": UctConfig(proofs=False, guards=False),
    "guards only": UctConfig(proofs=False),
    "proofs only": UctConfig(guards=False),
    "root count": UctConfig(count="root"),
    "all children": UctConfig(expansion="all"),
    "all children, plain": UctConfig(expansion="all", proofs=False, guards=False),
    "half rewards": UctConfig(reward="1/0.5/0"),
    "best rate": UctConfig(final="rate", exploration=0.7),
    "highest ucb": UctConfig(final="ucb"),
    "centre": UctConfig(rollout="centre"),
    "guarded rollouts": UctConfig(rollout_guards=True, proofs=False, guards=False),
    "cut off": UctConfig(depth=6, evaluation="chains", use="bias", weight=0.0),
    "leaf evaluation": UctConfig(depth=0, evaluation="chains"),
    "lines as bias": UctConfig(evaluation="lines"),
    "longest instead": UctConfig(evaluation="longest", use="instead"),
    "chains in rollouts": UctConfig(evaluation="chains", use="rollout"),
}
OTHER_BOARDS = {
    "Connect 3 on 5 x 5": make_geometry(5, 5, 3),
    "Connect 3 on 4 x 4": make_geometry(4, 4, 3),
    "5 x 6 without diagonals": make_geometry(5, 6, 4, False),
}


def search(config: UctConfig, moves: str, simulations: int = 2000, geometry: Geometry = STANDARD) -> SearchResult:
    """One position, seed 0."""
    player = UctSearch(config, geometry=geometry, rng=np.random.default_rng(0))
    return player.search([Position.from_moves(moves, geometry)], Budget(simulations=simulations))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_takes_a_win_and_blocks_one(name: str) -> None:
    """X wins in column 4 (three on the bottom row); then o to move must block there."""
    assert search(VARIANTS[name], "112233").moves[0] == 3
    assert search(VARIANTS[name], "11223").moves[0] == 3


@pytest.mark.parametrize("board", OTHER_BOARDS)
def test_variants_play_whole_games_on_other_boards(board: str) -> None:
    """Every variant moves legally to the end, against random play, and wins most of its games."""
    geometry = OTHER_BOARDS[board]
    rng = np.random.default_rng(1)
    points = 0.0
    for number, config in enumerate(VARIANTS.values()):
        ours = UctSearch(config, geometry=geometry, rng=rng)
        position = Position.from_moves("", geometry)
        while position.outcome() is None:
            if position.first_to_move == (number % 2 == 0):
                column = int(ours.search([position], Budget(simulations=150)).moves[0])
            else:
                column = int(rng.choice(position.legal_columns()))
            position = position.play(column)
        outcome = int(position.outcome() or 0)
        points += 0.5 + 0.5 * (outcome if position.first_to_move == (number % 2 == 0) else -outcome)
    assert points > 0.75 * len(VARIANTS)


@pytest.mark.parametrize("board", OTHER_BOARDS)
def test_enough_search_agrees_with_the_solver(board: str) -> None:
    """On small boards the search proves outcomes; what it proves is what the solver says."""
    geometry = OTHER_BOARDS[board]
    solver, rng = Solver(geometry), np.random.default_rng(2)
    proven = 0
    for _ in range(20):
        position = Position.from_moves("", geometry)
        for _ in range(geometry.cells // 2):
            if position.outcome() is None:
                position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is not None:
            continue
        result = UctSearch(geometry=geometry, rng=rng).search([position], Budget(simulations=5000))
        scores = solver.analyze_outcome(position)
        for column, proof in enumerate(result.proofs[0]):
            if proof not in (ILLEGAL, UNPROVEN):
                proven += 1
                assert np.sign(proof) == scores[column]
    assert proven > 10


def test_plain_search_proves_nothing_below_the_root() -> None:
    """X wins by force with 3 or 6 in 4455, which takes three plies: proofs find it at once, plain search counts."""
    assert search(UctConfig(), "4455").simulations[0] < 100
    plain = search(UctConfig(proofs=False, guards=False), "4455")
    assert plain.simulations[0] == 2000
    assert (plain.proofs[0] == UNPROVEN).all()
    assert plain.moves[0] in (2, 5)


def test_trying_all_children_gives_each_a_first_visit() -> None:
    """Seven simulations from the empty board, and every move has been tried once; one child at a time as well."""
    for expansion in ("one", "all"):
        assert search(UctConfig(expansion=expansion), "", 7).visits[0].tolist() == [1] * 7  # type: ignore[arg-type]


def test_rewards_only_scale_the_values_against_exploration() -> None:
    """1/0.5/0 with c is 1/0/-1 with 2 c, and 2/1/0 is 1/0/-1: the same visits for the same seed."""
    base = search(UctConfig(exploration=1.0), "44").visits
    np.testing.assert_array_equal(search(UctConfig(exploration=0.5, reward="1/0.5/0"), "44").visits, base)
    np.testing.assert_array_equal(search(UctConfig(exploration=1.0, reward="2/1/0"), "44").visits, base)


def test_scores_are_ucb1_by_hand() -> None:
    """Q + c sqrt(ln N / n) from the visits and values that the result itself shows."""
    config = UctConfig(exploration=0.9)
    result = search(config, "44", 500)
    visits = result.visits[0]
    expected = result.values[0] + 0.9 * np.sqrt(math.log(visits.sum()) / visits)
    np.testing.assert_allclose(result.scores[0], expected, rtol=1e-5)
    biased = search(replace(config, evaluation="lines", weight=0.5), "44", 500)
    visits = biased.visits[0]
    after = [Position.from_moves(f"44{column}") for column in range(1, 8)]
    lines = np.array([lines_value(STANDARD, position.opponent, position.own) for position in after])
    expected = biased.values[0] + 0.9 * np.sqrt(math.log(visits.sum()) / visits) + 0.5 * lines / (1 + visits)
    np.testing.assert_allclose(biased.scores[0], expected, rtol=1e-5)


def test_final_rules_by_hand() -> None:
    """Three moves: most visits, best mean, best score; then proofs override all of them."""
    visits, values = np.array([10, 6, 2, 0]), np.array([0.1, 0.4, 0.3, np.nan])
    scores, proofs = np.array([0.5, 0.6, 0.9, np.inf]), np.array([UNPROVEN, UNPROVEN, UNPROVEN, ILLEGAL])
    assert [final_move(visits, values, scores, proofs, rule) for rule in ("visits", "rate", "ucb")] == [0, 1, 2]
    two_wins = np.array([PROVEN_WIN - 5, PROVEN_WIN - 3, UNPROVEN, ILLEGAL])
    assert final_move(visits, values, scores, two_wins, "visits") == 1  # the fewest moves to win
    losses = np.array([5 - PROVEN_WIN, 9 - PROVEN_WIN, 3 - PROVEN_WIN, ILLEGAL])
    assert final_move(visits, values, scores, losses, "rate") == 1  # the slowest loss
    one_loss = np.array([5 - PROVEN_WIN, UNPROVEN, UNPROVEN, ILLEGAL])
    assert final_move(visits, values, scores, one_loss, "visits") == 1
    tie = np.array([6, 6, 2, 0])
    assert final_move(tie, values, scores, proofs, "visits") == 1  # the better mean


def test_styled_rollouts_reduce_to_uniform_ones() -> None:
    """Without preferences both draw from the same distribution: means over 20,000 games from the empty board."""
    states = np.array([1, 2], np.uint64)
    empty = np.uint64(0)
    means = [
        np.mean([rollout(STANDARD, empty, empty, states, 0) for _ in range(20_000)]),
        np.mean([styled_rollout(STANDARD, empty, empty, states, 1, Rollout()) for _ in range(20_000)]),
    ]
    assert means[0] == pytest.approx(means[1], abs=0.03)  # the standard error of the difference is 0.01


def test_guarded_rollouts_take_every_win() -> None:
    """X to move has three in the bottom row: every rollout is won."""
    position = Position.from_moves("112233")
    own, occupied = np.uint64(position.own), np.uint64(position.occupied)
    states = np.array([5], np.uint64)
    assert {styled_rollout(STANDARD, own, occupied, states, 0, Rollout(guards=True)) for _ in range(200)} == {1.0}
    assert len({rollout(STANDARD, own, occupied, states, 0) for _ in range(200)}) > 1


def test_guarded_rollouts_block_every_threat() -> None:
    """O to move must block column 4. Cut off two plies on, nobody has ever won; unguarded rollouts are often lost."""
    position = Position.from_moves("11223")
    own, occupied = np.uint64(position.own), np.uint64(position.occupied)
    states = np.array([5], np.uint64)
    guarded, careless = (Rollout(guards=guards, depth=2) for guards in (True, False))
    assert {styled_rollout(STANDARD, own, occupied, states, 0, guarded) for _ in range(200)} == {0.0}
    assert -1.0 in {styled_rollout(STANDARD, own, occupied, states, 0, careless) for _ in range(200)}


def test_central_columns_are_preferred_in_proportion() -> None:
    """Of 16,000 first moves on the empty board about 1,000 to 4,000 fall on the columns 1 to 4, and mirrored."""
    states, empty = np.array([9], np.uint64), np.uint64(0)
    counts = np.zeros(7)
    for _ in range(16_000):
        cell = int(draw_cell(STANDARD, empty, empty, STANDARD.bottom, Rollout(centre=True), states, 0))
        counts[cell.bit_length() // 7] += 1
    np.testing.assert_allclose(counts, np.array([1, 2, 3, 4, 3, 2, 1]) * 1000, rtol=0.15)


def test_guided_rollouts_prefer_what_the_evaluation_prefers() -> None:
    """By exp(5 h) of each first move, worked out here with the evaluation itself."""
    states, empty = np.array([9], np.uint64), np.uint64(0)
    counts = np.zeros(7)
    for _ in range(16_000):
        cell = int(draw_cell(STANDARD, empty, empty, STANDARD.bottom, Rollout(guide=CHAINS), states, 0))
        counts[cell.bit_length() // 7] += 1
    weights = [math.exp(5 * chains_value(STANDARD, np.uint64(1) << np.uint64(7 * a), empty)) for a in range(7)]
    np.testing.assert_allclose(counts / 16_000, np.array(weights) / sum(weights), atol=0.02)


def test_several_roots_share_the_budget_and_add_up() -> None:
    """Four trees of 1000 each, reproducible on any number of threads; the centre is best on the empty board."""
    position = Position()
    results = [
        UctSearch(rng=np.random.default_rng(0), roots=4, threads=threads).search([position], Budget(simulations=4000))
        for threads in (1, 2)
    ]
    assert results[0].visits[0].sum() == 4000
    np.testing.assert_array_equal(results[0].visits, results[1].visits)
    assert results[0].moves[0] == 3
    assert results[0].wdl[0].sum() == pytest.approx(1)


def test_merged_trees_show_what_was_played() -> None:
    """The best line begins with the move, scores are finite where tried, and each position has its own tree."""
    search = UctSearch(UctConfig(final="ucb"), rng=np.random.default_rng(0), roots=2)
    positions = [Position.from_moves("1"), Position.from_moves("44")]
    result = search.search(positions, Budget(simulations=300))
    for index in range(2):
        assert result.variations[index][0] == result.moves[index]
        assert np.isfinite(result.scores[index][result.visits[index] > 0]).all()
        assert search.node(index, []).position == positions[index]


def test_an_untried_move_is_never_the_final_one() -> None:
    """Five simulations for seven columns: the highest score is infinite, and not played."""
    for seed in range(10):
        search = UctSearch(UctConfig(final="ucb"), rng=np.random.default_rng(seed))
        result = search.search([Position()], Budget(simulations=5))
        assert result.visits[0, result.moves[0]] > 0


def test_time_is_used_up_and_not_much_more() -> None:
    """Half a second on the empty board takes between half and a bit, whatever a simulation costs."""
    for config in (UctConfig(), UctConfig(evaluation="chains", use="rollout")):
        search = UctSearch(config, rng=np.random.default_rng(0))
        search.search([Position()], Budget(simulations=100))
        assert search.search([Position()], Budget(seconds=0.5)).seconds >= 0.5


def test_a_proof_in_one_of_several_trees_counts() -> None:
    """The forced win of 4455 is proven, merged and played."""
    search = UctSearch(rng=np.random.default_rng(0), roots=3)
    result = search.search([Position.from_moves("4455")], Budget(simulations=600))
    assert result.moves[0] in (2, 5)
    assert result.describe_proof(0, int(result.moves[0])) == "wins in 2 moves"
    assert result.value[0] == 1
    assert result.wdl[0].tolist() == [1, 0, 0]


def test_options_come_back_from_their_names() -> None:
    """Every variant's name is read as itself."""
    for config in VARIANTS.values():
        options = UctOptions(config=config)
        assert parse_options(describe_options(options).removeprefix(","), UctOptions) == options
    kept = parse_options("tree=keep,c=0.5", UctOptions)
    assert (kept.tree, kept.config.exploration) == ("keep", 0.5)
    player = parse_player("uct:300,final=rate,roots=2", rng=np.random.default_rng(0), threads=1)
    assert player.name == "uct:300,final=rate,roots=2"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("final=best", "visits, rate, ucb"),
        ("speed=9", "exploration"),
        ("final", "final=rate"),
        ("guards=yes", "on or off"),
        ("depth=x", "number"),
        ("depth=-1", "negative"),
        ("exploration=nan", "finite"),
        ("roots=0", "at least 1"),
        ("tree=keep,roots=2", "roots=1"),
    ],
)
def test_bad_options_are_reported_in_one_line(written: str, told: str) -> None:
    """Naming what is wrong and what there is."""
    with pytest.raises(ValueError, match=told) as caught:
        parse_player(f"uct:100,{written}", rng=np.random.default_rng(0), threads=1)
    assert "\n" not in str(caught.value)


def test_a_kept_tree_starts_with_what_it_knows() -> None:
    """After both sides' moves the kept tree's root has visits before the new search begins."""
    search = UctSearch(rng=np.random.default_rng(0), reuse="trees")
    first = search.search([Position.from_moves("")], Budget(simulations=2000))
    reply = first.variations[0][1]
    position = Position.from_moves("").play(int(first.moves[0])).play(reply)
    second = search.search([position], Budget(simulations=100))
    assert second.visits[0].sum() > 150
    assert second.simulations[0] == 100


def test_more_roots_than_any_machine_has_threads_are_refused() -> None:
    """A billion trees would take all memory before the first simulation."""
    with pytest.raises(ValueError, match="roots within 1 and"):
        UctSearch(rng=np.random.default_rng(0), roots=1_000_000_000)

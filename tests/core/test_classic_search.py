import math
from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np
import pytest
from helpers import random_positions
from naive import naive_lines

from alphac4.arena.kinds import describe_options, parse_options
from alphac4.arena.registry import parse_player
from alphac4.game import Board, Position, make_board
from alphac4.game.rules import STANDARD
from alphac4.mcts.classic import search as classic_search
from alphac4.mcts.classic.rollouts import (
    CHAINS_SCALE,
    LONGEST_SCALE,
    chain_points,
    chains_value,
    draw_cell,
    lines_value,
    longest_run_points,
    longest_value,
    rollout,
)
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.classic.uct import UctConfig, final_move
from alphac4.mcts.results import SearchResults, describe_proof
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, PROVEN_WIN, UNPROVEN

VARIANTS = {
    "default": UctConfig(),
    "plain": UctConfig(proofs=False, decisive_moves=False),
    "root count": UctConfig(ucb_visits="root"),
    "all children, plain": UctConfig(expansion="all", proofs=False, decisive_moves=False),
    "half rewards": UctConfig(reward="1/0.5/0", final="rate", exploration=0.7),
    "centre": UctConfig(rollout="centre"),
    "decisive rollouts": UctConfig(rollout_decisive_moves=True, proofs=False, decisive_moves=False),
    "cut off": UctConfig(rollout_depth=6, evaluation="chains", evaluation_use="bias", bias_weight=0.0),
    "leaf evaluation": UctConfig(rollout_depth=0, evaluation="chains"),
    "lines as bias": UctConfig(evaluation="lines"),
    "longest instead": UctConfig(evaluation="longest", evaluation_use="instead"),
    "chains in rollouts": UctConfig(evaluation="chains", evaluation_use="rollout"),
}


def search(config: UctConfig, moves: str, simulations: int = 2000) -> SearchResults:
    player = UctSearch(config, rng=np.random.default_rng(0))
    return player.search([Position.from_moves(moves)], Budget(simulations=simulations))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_uct_variant_takes_a_win_and_blocks_one(name: str) -> None:
    player = UctSearch(VARIANTS[name], rng=np.random.default_rng(0))
    positions = [Position.from_moves(moves) for moves in ("112233", "11223")]  # x has three in a row; x or o to move
    assert player.search(positions, Budget(simulations=2000)).moves.tolist() == [3, 3]
    for board in (make_board(5, 9, 4, diagonals=False), make_board(4, 5, 4)):
        player = UctSearch(VARIANTS[name], board=board, rng=np.random.default_rng(0))
        positions = [Position.from_moves(moves, board) for moves in ("112233", "11223", "12121")]
        assert player.search(positions, Budget(simulations=2000)).moves.tolist() == [3, 3, 0]


def test_uct_without_proofs_proves_nothing_below_the_root() -> None:
    assert search(UctConfig(), "4455").simulations[0] < 100  # x has a forced win in three plies
    plain = search(UctConfig(proofs=False, decisive_moves=False), "4455")
    assert plain.simulations[0] == 2000
    assert (plain.proofs[0] == UNPROVEN).all()
    assert plain.moves[0] in (2, 5)


def test_uct_tries_each_move_once_before_any_move_twice() -> None:
    for expansion in ("one", "all"):
        assert search(UctConfig(expansion=expansion), "", 7).visits[0].tolist() == [1] * 7  # type: ignore[arg-type]
    assert 500 <= search(UctConfig(expansion="all"), "", 500).simulations[0] < 507  # every rollout counts


def test_uct_rewards_scale_values_against_exploration() -> None:
    base = search(UctConfig(exploration=1.0), "44").visits
    for exploration, reward in ((0.5, "1/0.5/0"), (1.0, "2/1/0")):
        config = UctConfig(exploration=exploration, reward=reward)  # type: ignore[arg-type]
        np.testing.assert_array_equal(search(config, "44").visits, base)


def test_uct_scores_match_ucb1_by_hand() -> None:
    config = UctConfig(exploration=0.9)
    result = search(config, "44", 500)
    visits = result.visits[0]
    expected = result.values[0] + 0.9 * np.sqrt(math.log(visits.sum()) / visits)
    np.testing.assert_allclose(result.scores[0], expected, rtol=1e-5)
    biased = search(replace(config, evaluation="lines", bias_weight=0.5), "44", 500)
    visits = biased.visits[0]
    after = [Position.from_moves(f"44{column}") for column in range(1, 8)]
    lines = np.array([lines_value(STANDARD, position.opponent, position.own) for position in after])
    expected = biased.values[0] + 0.9 * np.sqrt(math.log(visits.sum()) / visits) + 0.5 * lines / (1 + visits)
    np.testing.assert_allclose(biased.scores[0], expected, rtol=1e-5)


def test_final_move_follows_each_rule_by_hand() -> None:
    visits, values = np.array([10, 6, 2, 0]), np.array([0.1, 0.4, 0.3, np.nan])
    scores, proofs = np.array([0.5, 0.6, 0.9, np.inf]), np.array([UNPROVEN, UNPROVEN, UNPROVEN, ILLEGAL])
    assert [final_move(visits, values, scores, proofs, rule) for rule in ("visits", "rate", "ucb")] == [0, 1, 2]
    two_wins = np.array([PROVEN_WIN - 5, PROVEN_WIN - 3, UNPROVEN, ILLEGAL])
    assert final_move(visits, values, scores, two_wins, "visits") == 1  # the fastest win
    losses = np.array([5 - PROVEN_WIN, 9 - PROVEN_WIN, 3 - PROVEN_WIN, ILLEGAL])
    assert final_move(visits, values, scores, losses, "rate") == 1  # the slowest loss
    one_loss = np.array([5 - PROVEN_WIN, UNPROVEN, UNPROVEN, ILLEGAL])
    assert final_move(visits, values, scores, one_loss, "visits") == 1
    drawn = np.array([UNPROVEN, PROVEN_DRAW, UNPROVEN, ILLEGAL])
    assert final_move(visits, values, scores, drawn, "rate") == 2  # a proven draw is worth 0
    tie = np.array([6, 6, 2, 0])
    assert final_move(tie, values, scores, proofs, "visits") == 1  # the better mean


def test_rollouts_with_decisive_moves_take_every_win_and_block_every_threat() -> None:
    states = np.array([5], np.uint64)

    def results(moves: str, **settings: Any) -> set[float]:
        position = Position.from_moves(moves)
        own, occupied = np.uint64(position.own), np.uint64(position.occupied)
        uct = UctConfig(**settings).selection()
        return {rollout(STANDARD, own, occupied, states, 0, uct) for _ in range(200)}

    assert results("112233", rollout_decisive_moves=True) == {1.0}  # x to move has three in the bottom row
    assert len(results("112233")) > 1
    # o to move must block column 4: it does not lose within two plies if the rollout blocks, but often if it does not.
    assert results("11223", rollout_decisive_moves=True, rollout_depth=2) == {0.0}
    assert -1.0 in results("11223", rollout_depth=2)


@pytest.mark.parametrize(
    ("config", "weights"),
    [
        (UctConfig(rollout="centre"), [1, 2, 3, 4, 3, 2, 1]),
        (
            UctConfig(evaluation="chains", evaluation_use="rollout"),  # by exp(5 h) of each first move
            [math.exp(5 * chains_value(STANDARD, np.uint64(1) << np.uint64(7 * a), np.uint64(0))) for a in range(7)],
        ),
    ],
    ids=["centre", "guided"],
)
def test_weighted_rollouts_draw_moves_in_proportion_to_weights(config: UctConfig, weights: list[float]) -> None:
    states, empty = np.array([9], np.uint64), np.uint64(0)
    counts = np.zeros(7)
    for _ in range(16_000):
        cell = int(draw_cell(STANDARD, empty, empty, STANDARD.bottom, config.selection(), states, 0))
        counts[cell.bit_length() // 7] += 1
    np.testing.assert_allclose(counts / 16_000, np.array(weights) / sum(weights), atol=0.01)


def test_root_parallel_trees_share_the_budget_on_any_number_of_threads() -> None:
    config, positions = UctConfig(final="ucb", roots=4), [Position.from_moves(moves) for moves in ("", "44", "4455")]
    searches = [UctSearch(config, rng=np.random.default_rng(0), threads=threads) for threads in (1, 2)]
    result, again = (each.search(positions, Budget(simulations=1200)) for each in searches)
    np.testing.assert_array_equal(result.visits, again.visits)
    assert result.visits[:2].sum(axis=1).tolist() == [1200, 1200]
    np.testing.assert_allclose(result.wdl.sum(axis=1), 1)
    assert [line[0] for line in result.variations] == result.moves.tolist()
    # A proof in one of the trees holds for the position.
    assert describe_proof(int(result.proofs[2, result.moves[2]])) == "wins within 2 moves"
    assert (result.value[2], result.wdl[2].tolist()) == (1, [1, 0, 0])


def test_root_parallel_trees_add_their_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    merged, parts = UctSearch._merged, list[SearchResults]()
    monkeypatch.setattr(UctSearch, "_merged", lambda search, part: parts.append(part) or merged(search, part))
    positions = [Position.from_moves(moves) for moves in ("", "44", "4455", "123", "4433", "1122")]
    search = UctSearch(UctConfig(roots=4), rng=np.random.default_rng(0))
    result = search.search(positions, Budget(simulations=200))
    visits, values = (array.reshape(6, 4, 7) for array in (parts[0].visits, parts[0].values))
    np.testing.assert_array_equal(result.visits, visits.sum(axis=1))
    sums = np.where(visits > 0, values * visits, 0.0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(result.values, sums / visits.sum(axis=1))
    rows = zip(result.visits, result.values, result.scores, result.proofs, strict=True)
    assert result.moves.tolist() == [final_move(*row, "visits") for row in rows]
    assert result.moves.tolist() != parts[0].moves.reshape(6, 4)[:, 0].tolist()


@pytest.mark.parametrize("name", ["default", "plain"])
def test_draw_probability_counts_drawn_games(name: str) -> None:
    """Three cells of one column are empty, and filling them is a draw; the first moves of a game seldom lead to one."""
    positions = [Position.from_moves("666165577462463234152541333211132724554"), Position()]
    result = UctSearch(VARIANTS[name], rng=np.random.default_rng(0)).search(positions, Budget(simulations=100))
    assert result.wdl[0].tolist() == [0, 1, 0]
    assert result.wdl[1, 1] < 0.05


def test_final_move_has_visits() -> None:
    for seed in range(10):
        search = UctSearch(UctConfig(final="ucb"), rng=np.random.default_rng(seed))
        result = search.search([Position()], Budget(simulations=5))  # unvisited columns have an infinite score
        assert result.visits[0, result.moves[0]] > 0


def test_uct_options_round_trip_through_their_text() -> None:
    types = get_type_hints(UctConfig)
    for config in VARIANTS.values():
        defaults = vars(UctConfig())
        parsed = parse_options(describe_options(vars(config), defaults), types)
        assert defaults | parsed == vars(config)
    assert parse_options(",tree=keep,exploration=0.5", types) == {"tree": "keep", "exploration": 0.5}
    player = parse_player("uct:300,final=rate,roots=2", rng=np.random.default_rng(0), threads=1)
    assert player.name == "uct:300,final=rate,roots=2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("final=best", "'visits', 'rate', 'ucb'"),
        ("proofs=yes", "proofs must be on or off, not 'yes'"),
        ("rollout-depth=-1", "rollout_depth must be at least 0, not -1"),
        ("tree=keep,roots=2", "roots=1"),
    ],
)
def test_invalid_uct_options_are_rejected_with_the_valid_ones(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_player(f"uct:100,{options}", rng=np.random.default_rng(0), threads=1)


BOARDS = [STANDARD, make_board(5, 5, 3), make_board(4, 4, 3), make_board(5, 6, 4, False)]
Cells = set[tuple[int, int]]


def cells_of(position: Position) -> tuple[Cells, Cells]:
    """Return the side to move's and the opponent's cells (row, column)."""
    sides = (1, 2) if position.first_to_move else (2, 1)
    own, other = ({(int(r), int(c)) for r, c in np.argwhere(position.grid() == side)} for side in sides)
    return own, other


def stones(position: Position) -> tuple[np.uint64, np.uint64]:
    return np.uint64(position.own), np.uint64(position.own ^ position.occupied)


@pytest.mark.parametrize("board", BOARDS)
def test_heuristics_agree_with_counting_cell_by_cell(board: Board, rng: np.random.Generator) -> None:
    lines = naive_lines(board)
    directions = {tuple(np.subtract(line[1], line[0])) for line in lines}
    worth = {board.run_length - 1: 10.0, board.run_length - 2: 5.0, board.run_length - 3: 2.0, 0: 0.0}

    def points(side: Cells, against: Cells) -> float:
        return sum(worth.get(len(side & set(line)), 0.0) for line in lines if not against & set(line))

    for position in random_positions(30, rng, board):
        own, other = cells_of(position)
        through = [sum(len(side & set(line)) for line in lines) for side in (own, other)]
        expected = (through[0] - through[1]) / max(sum(through), 1)
        assert lines_value(board, *stones(position)) == pytest.approx(expected)

        ours, theirs = points(own, other), points(other, own)
        assert chain_points(board, *stones(position)) == ours
        assert chains_value(board, *stones(position)) == pytest.approx(math.tanh((ours - theirs) / CHAINS_SCALE))

        runs = [  # numbers of runs by length, over all directions with winning lines
            sum(
                all((row + i * down, column + i * right) in own for i in range(length))
                for row, column in own
                for down, right in directions
            )
            for length in range(1, board.run_length)
        ]
        longest = max((length for length, count in enumerate(runs, 1) if count), default=0)
        assert longest_run_points(board, stones(position)[0]) == (longest * runs[longest - 1] if longest else 0)


def test_heuristics_match_values_counted_by_hand() -> None:
    corner, centre = np.uint64(1), np.uint64(1) << np.uint64(3 * 7 + 2)  # 3 and 13 lines go through them
    assert lines_value(STANDARD, centre, corner) == pytest.approx((13 - 3) / (13 + 3))
    own, other = stones(Position.from_moves("11223"))  # o has two in the second row, x three in the first
    assert (longest_run_points(STANDARD, own), longest_run_points(STANDARD, other)) == (2, 3)
    assert longest_value(STANDARD, own, other) == pytest.approx(math.tanh((2 - 3) / LONGEST_SCALE))


def test_search_of_many_trees_is_often_checked_for_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks depend on the simulations in all trees together, 600,000 here, which take about half a second."""
    checks = list[None]()
    search = UctSearch(rng=np.random.default_rng(0), threads=2)
    search.compile()
    monkeypatch.setattr(classic_search, "check_block", lambda: checks.append(None))
    search.search([Position.from_moves("44")] * 60, Budget(simulations=10_000))
    assert len(checks) >= 3

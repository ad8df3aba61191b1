from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import SumsOfEighths, new_threads_end

from alphac4.game import Outcome, Position
from alphac4.game.planes import stones
from alphac4.game.rules import STANDARD
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator, make_cache
from alphac4.mcts.puct import draw_uniform
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import PROVEN_DRAW, UNPROVEN, make_trees
from alphac4.selfplay.actor import Actor, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import make_plan, move_string
from alphac4.selfplay.replay import Replay, load_shard, window_size
from alphac4.selfplay.samples import (
    Block,
    Samples,
    concatenate,
    join_blocks,
    lambda_returns,
    make_samples,
    recorded_plies,
    sort_by_content,
)

SMALL = SelfPlayConfig(parallel_games=16, full_visits=24, fast_visits=6)


def play_blocks(config: SelfPlayConfig, samples: int = 400, seed: int = 0, actors: int = 1) -> list[list[Block]]:
    team = [Actor(STANDARD, config, UniformEvaluator(), 8, np.random.default_rng([seed, i])) for i in range(actors)]
    blocks: list[list[Block]] = [[] for _ in team]
    moves = samples // 8 // actors + STANDARD.cells // 2
    play_together(team, moves, lambda index, block: blocks[index].append(block))
    return blocks


def samples_in(blocks: Iterable[Block], config: SelfPlayConfig = SMALL) -> Samples:
    return concatenate([make_samples(STANDARD, config, block.games) for block in blocks])


CONFIGS = {
    "both searches": SMALL,
    "full searches": SelfPlayConfig(parallel_games=8, full_visits=16, full_search_prob=1.0),
    "visits": replace(SMALL, policy_target="visits"),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_samples_match_games_replayed_by_the_rules(config: SelfPlayConfig) -> None:
    proven_wins = 0
    for block in play_blocks(config)[0]:
        samples, row = samples_in([block], config), 0
        for game in range(len(block.games.plies)):
            moves = move_string(block.games, game)
            positions = [Position.from_moves(moves[:ply]) for ply in range(len(moves) + 1)]
            end = positions.pop()
            outcome = end.outcome()
            assert outcome is not None, "only finished games are recorded"
            first_player = 0 if outcome is Outcome.DRAW else (1 if len(moves) % 2 else -1)
            assert block.games.outcome[game] == first_player
            for ply in range(int(block.games.opening_plies[game]), len(moves)):
                position, left = positions[ply], len(moves) - ply
                assert (samples.own[row], samples.occupied[row]) == (position.own, position.occupied)
                assert samples.final_own[row] == (end.own if left % 2 == 0 else end.own ^ end.occupied)
                assert samples.final_occupied[row] == end.occupied
                assert samples.outcome[row] == first_player * (1 if ply % 2 == 0 else -1)
                for name in ("value", "draw"):
                    assert getattr(samples, name)[row] == getattr(block.games, name)[game, ply]
                policy = samples.policy_target[row].astype(np.float64)
                legal = position.legal_columns()
                assert (policy >= 0).all()
                assert policy.sum() == pytest.approx(policy[legal].sum()) == pytest.approx(1.0, abs=5e-3)
                if left == 1 and outcome is not Outcome.DRAW:
                    assert samples.value[row] == 1.0
                    if samples.is_full_search[row]:
                        wins = [c for c in legal if position.play(c).outcome() == Outcome.LOSS]
                        assert policy[wins].sum() == pytest.approx(1.0, abs=2e-3)
                        proven_wins += 1
                row += 1
        assert row == len(samples) == block.sample_count
        assert (np.abs(samples.value) <= 1).all()
    assert proven_wins > 0


def test_samples_tell_full_searches_and_games_the_regret_of_their_moves() -> None:
    """The regret of an exploring move is the difference between the values of the most visited and the played move."""
    config, exploring = replace(SMALL, temperature=2.0), 0
    actor = Actor(STANDARD, config, OddEvaluator(), 8, np.random.default_rng(0))
    for block in actor.play(60, lambda: False):
        games, recorded = block.games, list[bool]()
        for game, plies in enumerate(games.plies):
            for ply in range(games.opening_plies[game], plies):
                recorded.append(bool(games.is_full_search[game, ply]))
                visits, values, regret = games.visits[game, ply], games.values[game, ply], games.regret[game, ply]
                if abs(games.value[game, ply]) == 1.0:
                    assert regret == 0
                elif np.sum(visits == visits.max()) == 1 and not np.isin(values, (-1, 0, 1)).any():  # nothing is proven
                    expected = max(0.0, values[visits.argmax()] - values[games.moves[game, ply]])
                    assert regret == pytest.approx(expected, abs=1e-6)
                    exploring += regret > 0.1
        assert samples_in([block], config).is_full_search.tolist() == recorded
        assert 0 < sum(recorded) < len(recorded)
    assert exploring > 10


class RightmostMove(NamedTuple):
    """Selection like PUCT's that begins new trees and plays the rightmost move."""

    prior_temperature: float = 1.0
    reuse_tree: bool = False

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> float:
        visits, prior = trees.visits[t, node, action], trees.priors[t, node, action]
        value = trees.value_sum[t, node, action] / visits if visits > 0 else 0.0
        return float(value + prior * totals.budget**0.5 / (1 + visits))

    def final_score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> float:
        return float(action if totals.visits == totals.budget and trees.visits[t, node, action] else -1)


def test_a_selection_plays_its_own_move_after_a_search_in_a_new_tree() -> None:
    """Visits and moves of self-play are those of new searches; a proven result is played out by the usual rule."""
    config = SelfPlayConfig(
        parallel_games=8, full_visits=30, full_search_prob=1.0, dirichlet_fraction=0.0, opening_prob=1.0
    )
    evaluator, moves = SumsOfEighths(STANDARD), 0
    actor = Actor(STANDARD, config, evaluator, 8, np.random.default_rng(0), selection=RightmostMove())
    search = NetworkSearch(evaluator, RightmostMove())
    for block in actor.play(30, lambda: False):
        games, samples = block.games, make_samples(STANDARD, config, block.games)
        used = recorded_plies(games)
        positions = [Position(*pair) for pair in zip(samples.own, samples.occupied, strict=True)]
        result = search.search(positions, Budget(simulations=30))
        np.testing.assert_array_equal(games.visits[used], result.visits)
        np.testing.assert_array_equal(games.moves[used], result.moves)
        for row in range(len(positions)):
            if result.root_proof(row) == UNPROVEN:
                tried = np.flatnonzero((result.visits[row] > 0) & (result.proofs[row] >= PROVEN_DRAW))
                assert result.moves[row] == tried.max()
                moves += 1
    assert moves > 100


def test_the_noise_of_a_search_is_uniform_and_does_not_change_the_random_state() -> None:
    trees = make_trees(2000, 1, STANDARD, np.random.default_rng(0))
    assert (trees.uniform == 0.5).all()
    before = trees.rng.copy()
    for t in range(len(before)):
        draw_uniform(trees, t)
    np.testing.assert_array_equal(trees.rng, before)
    shares = np.linspace(0.0, 1.0, 11)
    np.testing.assert_allclose(np.quantile(trees.uniform, shares), shares, atol=0.02)
    assert len(np.unique(trees.uniform)) == trees.uniform.size
    np.testing.assert_allclose(np.corrcoef(trees.uniform.T), np.eye(7), atol=0.1)


def test_value_targets_depend_on_the_lambda_of_the_settings() -> None:
    config = replace(SMALL, temperature=2.0)
    actor = Actor(STANDARD, config, OddEvaluator(), 8, np.random.default_rng(0))
    games = join_blocks(list(actor.play(60, lambda: False))).games
    mask, targets = recorded_plies(games), list[np.ndarray]()
    for td_lambda in (0.0, 0.5, 1.0):
        samples = make_samples(STANDARD, replace(config, td_lambda=td_lambda), games)
        expected = lambda_returns(games, td_lambda, config.td_max_regret)[mask].astype(np.float32).astype(np.float16)
        np.testing.assert_array_equal(samples.value_target, expected)
        targets.append(samples.value_target)
    assert not np.array_equal(targets[0], targets[1])
    assert not np.array_equal(targets[1], targets[2])
    never_cut = make_samples(STANDARD, replace(config, td_lambda=1.0, td_max_regret=2.0), games)
    np.testing.assert_array_equal(never_cut.value_target, np.eye(3)[1 - never_cut.outcome])
    assert not np.array_equal(never_cut.value_target, targets[2])


def test_selfplay_games_depend_on_the_seed_and_not_on_threads() -> None:
    once, twice, other = (play_blocks(SMALL, seed=seed, actors=2) for seed in (1, 1, 2))
    for first, second, third in zip(once, twice, other, strict=True):
        a, b, c = map(samples_in, (first, second, third))
        assert all(np.array_equal(x, y) for x, y in zip(a.arrays().values(), b.arrays().values(), strict=True))
        assert not np.array_equal(a.own[:100], c.own[:100])


def test_actor_resumes_games_from_a_saved_state() -> None:
    def samples(actor: Actor) -> Samples:
        return samples_in(actor.play(40, lambda: False))

    straight, resumed = (Actor(STANDARD, SMALL, UniformEvaluator(), 8, np.random.default_rng(5)) for _ in range(2))
    samples(straight)
    samples(resumed)
    later = Actor(STANDARD, SMALL, UniformEvaluator(), 8, np.random.default_rng(99))
    later.restore(resumed.state())
    # Sorted, because with a fuller cache games may end in another order.
    expected, actual = sort_by_content(samples(straight)), sort_by_content(samples(later))
    assert all(np.array_equal(x, y) for x, y in zip(expected.arrays().values(), actual.arrays().values(), strict=True))


def test_budgets_of_a_plan_depend_on_ply_and_kind_of_search() -> None:
    """Each search has its budget of visits, or more if the reused tree has them already."""
    config = replace(SMALL, parallel_games=4, full_search_prob=0.5, opening_prob=0.0)
    plies = np.arange(STANDARD.cells)
    plan = make_plan(STANDARD, config)._replace(visits=np.stack([4 + 3 * plies, 24 + 3 * plies]))
    actor = Actor(STANDARD, config, UniformEvaluator(), 4, np.random.default_rng(0), max_simulations=200)
    compared = 0
    for block in actor.play(2 * STANDARD.cells, lambda: False, plan):
        for game, length in enumerate(block.games.plies):
            visits = block.games.visits[game, :length].sum(axis=1)
            for ply in np.flatnonzero(np.abs(block.games.value[game, :length]) < 0.9):  # proven positions need fewer
                kind = int(block.games.is_full_search[game, ply])
                inherited = 0 if ply == 0 else block.games.visits[game, ply - 1, block.games.moves[game, ply - 1]]
                assert visits[ply] == max(plan.visits[kind, ply], inherited - 1)
                compared += 1
    assert compared > 40


def test_play_together_raises_an_actors_error_and_stops_the_others() -> None:
    class Broken:
        def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002
            raise RuntimeError("device lost")

    actors = [
        Actor(STANDARD, SMALL, evaluator, 4, np.random.default_rng(0)) for evaluator in (Broken(), UniformEvaluator())
    ]
    with new_threads_end(), pytest.raises(RuntimeError, match="device lost"):
        play_together(actors, 10**9, lambda _index, _block: None)


def test_play_together_stops_actors_at_once_if_a_check_raises() -> None:
    """The actors are still playing their first moves and have yielded no block."""
    slow = SelfPlayConfig(full_visits=10**6, fast_visits=10**6)
    actors = [Actor(STANDARD, slow, UniformEvaluator(), 4, np.random.default_rng(0)) for _ in range(2)]
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 3:
            raise KeyboardInterrupt

    with new_threads_end(), pytest.raises(KeyboardInterrupt):
        play_together(actors, 10**9, lambda _index, _block: None, check)


def test_selfplay_openings_have_random_lengths_including_zero() -> None:
    games = [block.games for block in play_blocks(SelfPlayConfig(full_visits=4, fast_visits=2), 8000)[0]]
    openings = np.concatenate([game.opening_plies for game in games])
    assert 0.4 < (openings == 0).mean() < 0.7
    assert openings.max() == 8


def some_samples(count: int, start: int = 0) -> Samples:
    """Return samples of one position, numbered by their values in hundredths."""
    own, occupied = stones([Position.from_moves("4455")] * count)
    return Samples(
        board=STANDARD,
        own=own,
        occupied=occupied,
        policy_target=np.tile(np.array([0.7, 0.3, 0, 0, 0, 0, 0], np.float16), (count, 1)),
        is_full_search=np.ones(count, np.bool_),
        outcome=(np.arange(count) % 3 - 1).astype(np.int8),
        value=np.arange(start, start + count).astype(np.float32) / 100,
        draw=np.full(count, 0.2, np.float32),
        value_target=np.tile(np.array([1, 0, 0], np.float16), (count, 1)),
        final_own=own,  # as if the game ended in this position
        final_occupied=occupied,
        iteration=np.zeros(count, np.int32),
    )


def numbers(samples: Samples) -> list[int]:
    return [round(100 * float(value)) for value in samples.value]


def record(folder: Path, iterations: int) -> Replay:
    """Return a replay of ten samples per iteration, with its shards."""
    replay = Replay(folder)
    for iteration in range(1, iterations + 1):
        replay.add(some_samples(10, 10 * iteration), iteration)
        replay.save_latest()
    return replay


def test_replay_loads_shards_and_reports_damaged_or_missing_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replay = record(tmp_path, 5)
    assert sorted(numbers(replay.window(100))) == list(range(10, 60))
    damaged = tmp_path / "000001.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    (tmp_path / "000003.safetensors").unlink()
    with pytest.raises(ValueError, match="000001"):
        load_shard(damaged)
    again = Replay(tmp_path)
    again.load(4)  # the fifth iteration was not committed
    assert sorted(numbers(again.window(100))) == [*range(20, 30), *range(40, 50)]
    assert [[f"{number:06d}.safetensors" in line for number in (1, 3)] for line in caplog.messages] == [
        [True, False],
        [False, True],
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"00000{n}.safetensors" for n in (1, 2, 4)]


def test_replay_window_has_the_latest_samples_and_old_shards_are_removed(tmp_path: Path) -> None:
    replay = record(tmp_path, 5)
    window = numbers(replay.window(25))
    assert sorted(window[5:15]) == list(range(40, 50))
    assert sorted(window[15:]) == list(range(50, 60))
    assert set(window[:5]) < set(range(30, 40))
    replay.drop_old(15)
    replay.save_latest()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000004.safetensors", "000005.safetensors"]
    assert replay.total == 50


def test_replay_does_not_depend_on_the_actors_that_recorded_samples(tmp_path: Path) -> None:
    """The order in which samples are added has no effect, in memory or on disk."""
    samples, windows = some_samples(60), []
    for name, cuts in (("one", [0, 60]), ("two", [35, 60, 0, 35])):
        (tmp_path / name).mkdir()
        replay = Replay(tmp_path / name)
        replay.add(concatenate([samples.take(slice(*cuts[i : i + 2])) for i in range(0, len(cuts), 2)]), 1)
        replay.save_latest()
        windows.append([replay.window(50), load_shard(tmp_path / name / "000001.safetensors")])
    for ours, theirs in zip(*windows, strict=True):
        for name, array in ours.arrays().items():
            np.testing.assert_array_equal(array, theirs.arrays()[name])


def test_window_size_matches_the_published_formula() -> None:
    # KataGo's constants: with c = 250 000, a = 0.75, b = 0.4, N = 4 c, by hand.
    assert window_size(1000, 250_000) == 1000
    expected = 250_000 * (1 + 0.4 * (4**0.75 - 1) / 0.75)
    assert window_size(1_000_000, 250_000) == pytest.approx(expected, abs=1)


class OddEvaluator:
    """Evaluator with different but repeatable answers for every position, which records the positions."""

    def __init__(self) -> None:
        self.evaluated: list[bytes] = []
        self.seed, self.version = 5, 0

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.evaluated += [row.tobytes() for row in planes]
        weights = np.random.default_rng(self.seed).normal(size=(planes[0].size, 10))
        logits = np.sin(planes.reshape(len(planes), -1) @ weights).astype(np.float32)
        wdl = np.exp(logits[:, 7:])
        return logits[:, :7], wdl / wdl.sum(axis=1, keepdims=True)


def test_actor_cache_saves_evaluations_without_changing_games() -> None:
    records, evaluated = [], []
    for entries in (0, 64, 2**16):
        evaluator = OddEvaluator()
        config = SelfPlayConfig(full_visits=24, fast_visits=6)
        actor = Actor(STANDARD, config, evaluator, 1, np.random.default_rng(3), make_cache(entries, STANDARD))
        blocks = list(actor.play(300 + STANDARD.cells, lambda: False))
        records.append("/".join(move_string(b.games, row) for b in blocks for row in range(len(b.games.plies)))[:300])
        evaluated.append(evaluator.evaluated)
        cached, count = sum(b.stats.cached for b in blocks), sum(b.stats.evaluations for b in blocks)
        assert count + actor.stats.evaluations == len(evaluator.evaluated)
        assert (cached > 0) == (entries > 0)
    assert records[0] == records[1] == records[2]
    assert len(evaluated[2]) <= 1.01 * len(set(evaluated[2])), "only collisions cause repeated evaluations"
    assert len(evaluated[2]) < len(evaluated[1]) < len(evaluated[0])
    assert set(evaluated[2]) <= set(evaluated[0])


def test_actor_evaluates_and_counts_only_leaves_that_wait() -> None:
    """An actor of eight games evaluates the same positions as eight actors of one game, which never wait."""
    config, evaluated = SelfPlayConfig(full_visits=24, fast_visits=6), list[list[bytes]]()
    for slots in (8, 1):
        evaluator, rng = OddEvaluator(), np.random.default_rng(3)
        for _ in range(8 // slots):
            before = len(evaluator.evaluated)
            actor = Actor(STANDARD, config, evaluator, slots, rng, make_cache(0, STANDARD))
            counted = sum(block.stats.evaluations for block in actor.play(40, lambda: False))
            assert counted + actor.stats.evaluations == len(evaluator.evaluated) - before
        evaluated.append(sorted(evaluator.evaluated))
    assert evaluated[0] == evaluated[1]


def test_actor_uses_no_cached_evaluations_of_earlier_weights() -> None:
    """After an update of the weights, an actor with a cache plays the games of an actor without one."""
    records = []
    for entries in (0, 2**16):
        evaluator = OddEvaluator()
        config = SelfPlayConfig(full_visits=24, fast_visits=6)
        actor = Actor(STANDARD, config, evaluator, 4, np.random.default_rng(3), make_cache(entries, STANDARD))
        list(actor.play(30, lambda: False))
        evaluator.seed, evaluator.version = 6, 1
        blocks = list(actor.play(80, lambda: False))
        records.append(sorted(move_string(b.games, row) for b in blocks for row in range(len(b.games.plies))))
    assert records[0] == records[1]


def test_corrupted_cache_entries_are_evaluated_again() -> None:
    evaluator = OddEvaluator()
    search = NetworkSearch(evaluator, cache=2**12)
    evaluated = []
    for damage in (0, 0, 1):
        search._cache.answers[:, 4] ^= np.uint32(damage)
        search.search([Position()], Budget(simulations=50))
        evaluated.append(len(evaluator.evaluated))
    assert 0 < evaluated[0] == evaluated[1]
    assert evaluated[2] == 2 * evaluated[0]

import threading
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from alphac4.game import Outcome, Position
from alphac4.game.planes import make_planes
from alphac4.game.rules import STANDARD
from alphac4.mcts.tree import make_trees
from alphac4.nn import UniformEvaluator
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.selfplay.actor import Actor, play_together
from alphac4.selfplay.blocks import Block, make_block
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.game_arrays import Finished, make_finished, make_games, make_parameters
from alphac4.selfplay.replay import Recorded, Replay, batches, value_targets, window_size
from alphac4.selfplay.returns import lambda_returns
from alphac4.selfplay.shards import Samples, concatenate, load_shard, save_shard
from alphac4.selfplay.starts import fork_game
from alphac4.selfplay.statistics import move_string

SMALL = SelfPlayConfig(games=16, full_simulations=24, fast_simulations=6)


def play_blocks(config: SelfPlayConfig, samples: int = 400, seed: int = 0, actors: int = 1) -> list[list[Block]]:
    """Blocks by actor."""
    team = [Actor(STANDARD, config, UniformEvaluator(), 8, np.random.default_rng([seed, i])) for i in range(actors)]
    blocks: list[list[Block]] = [[] for _ in team]
    play_together(team, samples, threading.Event(), lambda index, block: blocks[index].append(block))
    return blocks


def stones_to_come(samples: Samples) -> npt.NDArray[np.int64]:
    """The moves from each position to the end of its game."""
    boards = zip(samples.occupied, samples.final_occupied, strict=True)
    return np.array([int(final ^ now).bit_count() for now, final in boards])


CONFIGS = [
    SMALL,
    SelfPlayConfig(games=8, full_simulations=16, full_share=1.0, gumbel_actions=7),
    SelfPlayConfig(games=8, full_simulations=24, fast_simulations=6, policy_target="visits", record_fast=False),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_recorded_positions_are_those_of_the_games(config: SelfPlayConfig) -> None:
    """Every game is replayed by the rules; positions, outcomes and moves left must agree."""
    for block in play_blocks(config)[0]:
        row, to_come = 0, stones_to_come(block.samples)
        for game in range(len(block.games.plies)):
            moves = move_string(block.games, game)
            position, positions = Position(), []
            for move in moves:
                positions.append(position)
                position = position.play(int(move) - 1)
            outcome = position.outcome()
            assert outcome is not None, "only finished games are recorded"
            first_player = 0 if outcome is Outcome.DRAW else (1 if len(moves) % 2 else -1)
            assert block.games.outcome[game] == first_player
            for ply in range(int(block.games.opening[game]), len(moves)):
                if not (config.record_fast or block.games.full_searches[game, ply]):
                    continue
                assert block.samples.own[row] == positions[ply].own
                assert block.samples.occupied[row] == positions[ply].occupied
                assert block.samples.outcome[row] == first_player * (1 if ply % 2 == 0 else -1)
                assert to_come[row] == len(moves) - ply
                row += 1
        assert row == len(block.samples)


@pytest.mark.parametrize("config", CONFIGS)
def test_policy_targets_are_distributions_over_legal_moves(config: SelfPlayConfig) -> None:
    """Non-negative, adding up to one, nothing on full columns."""
    for block in play_blocks(config)[0]:
        policy = block.samples.policy.astype(np.float64)
        assert (policy >= 0).all()
        np.testing.assert_allclose(policy.sum(axis=1), 1.0, atol=5e-3)
        for index in range(0, len(block.samples), 7):
            position = Position(block.samples.own[index], block.samples.occupied[index], moves=None)
            illegal = [column for column in range(7) if not position.is_legal(column)]
            assert policy[index, illegal].sum() == 0.0
        assert (np.abs(block.samples.value) <= 1).all()


def test_proven_values_are_the_truth_near_the_end() -> None:
    """The last recorded move of a won game wins at once: value 1 and all policy on columns that win by the rules."""
    for config in (SMALL, CONFIGS[2]):
        for block in play_blocks(config)[0]:
            samples = block.samples
            won = (stones_to_come(samples) == 1) & (samples.outcome == 1)
            assert won.any()
            assert (samples.value[won] == 1.0).all()
            learned = np.flatnonzero(won & samples.full)
            assert len(learned) > 0
            for index in learned:
                position = Position(samples.own[index], samples.occupied[index], moves=None)
                wins = [c for c in position.legal_columns() if position.play(c).outcome() == Outcome.LOSS]
                assert samples.policy[index, wins].sum() == pytest.approx(1.0, abs=2e-3)


def test_one_seed_gives_the_same_games_whatever_the_threads_do() -> None:
    """Two actors, twice; blocks may be cut elsewhere, the samples may not differ."""
    once, twice, other = (play_blocks(SMALL, seed=seed, actors=2) for seed in (1, 1, 2))
    for first, second, third in zip(once, twice, other, strict=True):
        a, b, c = (concatenate([block.samples for block in blocks]) for blocks in (first, second, third))
        assert all(np.array_equal(x, y) for x, y in zip(a.arrays().values(), b.arrays().values(), strict=True))
        assert not np.array_equal(a.own[:100], c.own[:100])


def test_games_go_on_from_a_saved_state() -> None:
    """Two rounds in one actor equal one round, a save, and the second round in another actor."""

    def samples(actor: Actor) -> Samples:
        return concatenate([block.samples for block in actor.play(200, lambda: False)])

    straight, resumed = (Actor(STANDARD, SMALL, UniformEvaluator(), 8, np.random.default_rng(5)) for _ in range(2))
    samples(straight)
    samples(resumed)
    later = Actor(STANDARD, SMALL, UniformEvaluator(), 8, np.random.default_rng(99))
    later.restore(resumed.state())
    expected, got = samples(straight), samples(later)
    assert all(np.array_equal(x, y) for x, y in zip(expected.arrays().values(), got.arrays().values(), strict=True))


def test_an_error_in_an_actor_reaches_the_caller() -> None:
    """And ends the others instead of leaving threads behind."""

    class Broken:
        def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002
            raise RuntimeError("device lost")

    actors = [
        Actor(STANDARD, SMALL, evaluator, 4, np.random.default_rng(0)) for evaluator in (Broken(), UniformEvaluator())
    ]
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="device lost"):
        play_together(actors, 10**9, threading.Event(), lambda _index, _block: None)
    assert threading.active_count() == before


def test_openings_are_varied_and_the_empty_board_is_among_them() -> None:
    """Half of the games start from the empty board, the others after random moves."""
    games = [block.games for block in play_blocks(SelfPlayConfig(full_simulations=4, fast_simulations=2), 8000)[0]]
    openings = np.concatenate([game.opening for game in games])
    assert 0.4 < (openings == 0).mean() < 0.7
    assert openings.max() == 8


def some_samples(count: int, start: int = 0) -> Samples:
    """Distinguishable samples: real positions, whose values are a running number in hundredths."""
    position = Position.from_moves("4455")
    return Samples(
        own=np.full(count, position.own, np.uint64),
        occupied=np.full(count, position.occupied, np.uint64),
        policy=np.tile(np.array([0.7, 0.3, 0, 0, 0, 0, 0], np.float16), (count, 1)),
        full=np.ones(count, bool),
        outcome=np.ones(count, np.int8),
        value=np.arange(start, start + count).astype(np.float32) / 100,
        draw=np.full(count, 0.2, np.float32),
        returns=np.tile(np.array([1, 0, 0], np.float16), (count, 1)),
        final_own=np.full(count, position.own, np.uint64),
        final_occupied=np.full(count, position.occupied, np.uint64),
    )


def numbers(samples: Samples) -> list[int]:
    """The running numbers of `some_samples`."""
    return [round(100 * float(value)) for value in samples.value]


def test_shards_come_back_and_damaged_ones_are_reported(tmp_path: Path) -> None:
    """A truncated shard is one clear line, and a replay goes on without it."""
    replay = Replay(tmp_path)
    replay.add(some_samples(10), 1, 0, 0)
    replay.add(some_samples(10, 10), 1, 1, 1)
    damaged = replay.shard_path(1, 0, 0)
    damaged.write_bytes(damaged.read_bytes()[:-7])
    with pytest.raises(ValueError, match="000001-000-00000"):
        load_shard(damaged)
    again = Replay(tmp_path)
    again.load(0)
    assert again.begin(1) == {0: Recorded(samples=0, next_number=1), 1: Recorded(samples=10, next_number=2)}
    assert numbers(again.window(100)) == list(range(10, 20))


def test_the_window_is_the_latest_samples_and_old_shards_go(tmp_path: Path) -> None:
    """In the order of recording, cut inside a shard where need be."""
    replay = Replay(tmp_path)
    for number in range(5):
        replay.add(some_samples(10, 10 * number), 1, 0, number)
    assert numbers(replay.window(15)) == list(range(35, 50))
    replay.drop_old(15)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    assert replay.total == 50
    save_shard(tmp_path / "x.safetensors", some_samples(3), 1)
    assert load_shard(tmp_path / "x.safetensors").policy.tolist() == some_samples(3).policy.tolist()


def test_the_window_grows_by_the_published_formula() -> None:
    """KataGo's constants: with c = 250 000, a = 0.75, b = 0.4, N = 4 c, by hand."""
    assert window_size(1000, 250_000, 0.75, 0.4) == 1000
    expected = 250_000 * (1 + 0.4 * (4**0.75 - 1) / 0.75)
    assert window_size(1_000_000, 250_000, 0.75, 0.4) == pytest.approx(expected, abs=1)


def test_value_targets_mix_the_return_and_the_root_value() -> None:
    """By hand: root value 0.5 with a draw chance of 0.2 is 0.65 / 0.2 / 0.15; the return is a sure win."""
    targets = value_targets(some_samples(1, start=50), return_share=0.5)
    np.testing.assert_allclose(targets, [[0.5 + 0.325, 0.1, 0.075]], atol=1e-6)


def finished_game(values: list[float], draws: list[float], regrets: list[float], outcome: int) -> Finished:
    """One finished game of ``len(values)`` plies."""
    game = make_finished(1, STANDARD)
    plies = len(values)
    game.plies[0], game.outcome[0] = plies, outcome
    game.value[0, :plies], game.draw[0, :plies], game.regret[0, :plies] = values, draws, regrets
    return game


def test_returns_without_cuts_are_the_outcome() -> None:
    """Decay 1 and an endless tolerance leave AlphaZero's target, seen by each side to move."""
    game = finished_game([0.3, -0.1, 0.5], [0.1, 0.1, 0.1], [2.0, 2.0, 2.0], outcome=1)
    np.testing.assert_allclose(lambda_returns(game, 1.0, 2.0)[0, :3], [[1, 0, 0], [0, 0, 1], [1, 0, 0]])


def test_returns_by_hand() -> None:
    """Three plies, the first player wins with the last one; decay 1/2; values without draws.

    The last position returns the win. The second: half its own value -0.2, i.e. (0.4, 0, 0.6), half the loss that
    follows: (0.2, 0, 0.8). The first: half of 0.6, (0.8, 0, 0.2), half of the second's seen from here, (0.8, 0, 0.2).
    """
    game = finished_game([0.6, -0.2, 0.0], [0, 0, 0], [0.0, 0.0, 0.0], outcome=1)
    np.testing.assert_allclose(lambda_returns(game, 0.5, 0.1)[0, :3], [[0.8, 0, 0.2], [0.2, 0, 0.8], [1, 0, 0]])


def test_a_move_made_to_explore_cuts_the_return() -> None:
    """The second move threw half a point away: the positions before it keep what their searches said."""
    game = finished_game([0.6, -0.2, 0.0], [0, 0, 0], [0.0, 0.5, 0.0], outcome=1)
    np.testing.assert_allclose(lambda_returns(game, 1.0, 0.1)[0, :3], [[0.6, 0, 0.4], [0.4, 0, 0.6], [1, 0, 0]])


def test_returns_of_games_are_probabilities_and_regret_marks_exploration(rng: np.random.Generator) -> None:
    """In real games: win/draw/loss add up to 1, and with temperature some moves are regretted, never by over 2."""
    config = SelfPlayConfig(games=8, full_simulations=16, fast_simulations=8)
    network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=0))
    torch.nn.init.normal_(network.value.weight)  # strong opinions: without differences there is no regret
    actor = Actor(STANDARD, config, Evaluator(network, batch_size=8, backend="torch-fp32", threads=1), 8, rng)
    blocks = list(actor.play(400, lambda: False))
    returns = np.concatenate([block.samples.returns for block in blocks]).astype(np.float64)
    np.testing.assert_allclose(returns.sum(axis=1), 1, atol=2e-3)
    regrets = np.concatenate([block.games.regret.ravel() for block in blocks])
    assert (regrets > 0).any()
    assert (regrets >= 0).all()
    assert (regrets <= 2).all()


def test_final_stones_are_the_end_of_the_game_replayed() -> None:
    """Each sample's final board is its game played out move by move, seen by the sample's side to move."""
    for block in play_blocks(SMALL)[0]:
        index = 0
        for game in range(len(block.games.plies)):
            plies, opening = int(block.games.plies[game]), int(block.games.opening[game])
            end = Position.from_moves(move_string(block.games, game))
            for ply in range(opening, plies):
                own = end.own if (plies - ply) % 2 == 0 else end.own ^ end.occupied
                assert int(block.samples.final_own[index]) == own
                assert int(block.samples.final_occupied[index]) == end.occupied
                index += 1
        assert index == len(block.samples)


def test_mirrored_training_positions_have_mirrored_policies(rng: np.random.Generator) -> None:
    """Both orientations occur, and board and policy are always turned together."""
    samples = some_samples(64)
    batch = next(batches(samples, STANDARD, 64, 1, 0.5, rng))
    plain = make_planes(STANDARD, samples.own[:1], samples.occupied[:1])[0]
    mirrored = 0
    for planes, policy in zip(batch.planes, batch.policy, strict=True):
        if policy[0] > 0:
            np.testing.assert_array_equal(planes, plain)
        else:
            mirrored += 1
            assert policy[6] == pytest.approx(0.7, abs=1e-3)
            np.testing.assert_array_equal(planes, plain[..., ::-1])
    assert 10 < mirrored < 54


class OddEvaluator:
    """Different answers for every position, the same ones whenever it is asked; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Answers drawn from a hash of the planes."""
        self.asked += [row.tobytes() for row in planes]
        weights = np.random.default_rng(5).normal(size=(planes[0].size, 10))
        logits = np.sin(planes.reshape(len(planes), -1) @ weights).astype(np.float32)
        wdl = np.exp(logits[:, 7:])
        return logits[:, :7], wdl / wdl.sum(axis=1, keepdims=True)


def test_the_evaluation_cache_changes_no_game_and_saves_evaluations() -> None:
    """One slot plays the same games with and without a cache, and hardly ever asks for a position twice."""
    records, asked = [], []
    for entries in (0, 64, 2**16):
        evaluator = OddEvaluator()
        config = SelfPlayConfig(full_simulations=24, fast_simulations=6, evaluation_cache=entries)
        actor = Actor(STANDARD, config, evaluator, 1, np.random.default_rng(3))
        blocks = list(actor.play(300, lambda: False))
        records.append("/".join(move_string(b.games, row) for b in blocks for row in range(len(b.games.plies)))[:300])
        asked.append(evaluator.asked)
        known, evaluated = sum(b.work.cached for b in blocks), sum(b.work.evaluations for b in blocks)
        assert evaluated == len(evaluator.asked)
        assert (known > 0) == (entries > 0)
    assert records[0] == records[1] == records[2]
    assert len(asked[2]) <= 1.01 * len(set(asked[2])), "few positions go through the network twice, by collisions"
    assert len(asked[2]) < len(asked[1]) < len(asked[0])
    assert set(asked[2]) <= set(asked[0])


def test_forks_leave_the_previous_game_by_one_move() -> None:
    """With one slot, a fork shares its opening's moves but the last with the game before, and begins within bounds."""
    config = SelfPlayConfig(
        games=1, full_simulations=8, fast_simulations=4, opening_share=0.0, fork_share=0.7, fork_plies=10
    )
    actor = Actor(STANDARD, config, UniformEvaluator(), 1, np.random.default_rng(2))
    games = [
        (move_string(block.games, row), int(block.games.opening[row]))
        for block in actor.play(1500, lambda: False)
        for row in range(len(block.games.plies))
    ]
    forks = [(before, after, opening) for (before, _), (after, opening) in pairwise(games) if opening]
    assert 0.5 * len(games) < len(forks) < len(games)
    assert all(opening <= 10 and before[: opening - 1] == after[: opening - 1] for before, after, opening in forks)
    assert sum(before[:opening] != after[:opening] for before, after, opening in forks) > len(forks) / 2
    assert {opening for _, _, opening in forks} > {1, 5, 10}


def test_the_best_moves_value_is_above_the_mean() -> None:
    """Of the same games, whose moves do not depend on it: never changed where proven, and on average higher."""
    values, proven = [], []
    for kind in ("mean", "best"):
        config = SelfPlayConfig(full_simulations=24, fast_simulations=6, full_share=1.0, root_value=kind)
        actor = Actor(STANDARD, config, OddEvaluator(), 1, np.random.default_rng(3))
        samples = concatenate([block.samples for block in actor.play(300, lambda: False)])
        values.append(samples.value)
        proven.append(np.abs(samples.value) == 1.0)
    assert (values[0][proven[0]] == values[1][proven[0]]).all()
    assert np.mean(values[1] - values[0]) > 0.02


def test_forks_by_regret_leave_where_the_search_was_wrong() -> None:
    """A won game whose searches agree with its end but at one ply: forks leave there as often as weights say."""
    geometry, rng = STANDARD, np.random.default_rng(5)
    trees, games = make_trees(1, 4, geometry, rng), make_games(1, geometry)
    parameters = make_parameters(SelfPlayConfig(fork_share=1.0, fork_by="regret", fork_plies=12))
    left: Counter[int] = Counter()
    for _ in range(2000):
        games.moves[0, :10] = [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]
        games.plies[0], games.opening[0], games.outcome[0] = 10, 2, 1
        games.value[0, :10] = [0, 0, 1, -1, 1, -1, -1, -1, 1, -1]  # at ply 6 the first player was taken to lose
        if fork_game(geometry, trees, games, 0, parameters):
            left[int(games.opening[0]) - 1] += 1
    assert set(left) == set(range(10))
    assert left[6] / left.total() == pytest.approx(1.0 / (1.0 + 9 * 0.05), abs=0.04)


def test_a_share_of_the_proven_positions_is_recorded() -> None:
    """All that is unproven and about a quarter of the rest, at every stage of the game."""
    config = SelfPlayConfig(games=16, full_simulations=24, fast_simulations=6, proven_share=0.25)
    blocks = play_blocks(config, samples=2000)[0]
    samples = concatenate([block.samples for block in blocks])
    proven = (np.abs(samples.value) >= 1) | (samples.draw >= 1)
    plain = replace(config, proven_share=1.0)
    everything = concatenate([make_block(STANDARD, plain, b.games, b.work, {}).samples for b in blocks])
    all_proven = (np.abs(everything.value) >= 1) | (everything.draw >= 1)
    assert (~proven).sum() == (~all_proven).sum() > 500
    assert proven.sum() == pytest.approx(0.25 * all_proven.sum(), rel=0.1)
    assert {1, 2, 3} <= set(stones_to_come(samples)[proven].tolist())


def test_proofs_of_fast_searches_are_learned_where_wanted() -> None:
    """Without the setting some proven roots carry no policy to learn; with it all do, and nothing else changes."""
    for wanted in (False, True):
        config = SelfPlayConfig(games=16, full_simulations=24, fast_simulations=6, learn_proofs=wanted)
        samples = concatenate([block.samples for block in play_blocks(config)[0]])
        proven = np.abs(samples.value) == 1.0
        assert proven.any()
        assert not samples.full[~proven].all()
        assert samples.full[proven].all() == wanted

"""PettingZoo's environment and OpenSpiel's bots."""

import importlib
import random
import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.arena import PlayerError
from alphac4.arena.players import NetworkPlayer
from alphac4.arena.registry import parse_player
from alphac4.game import Position, make_board
from alphac4.game.planes import make_planes
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.search import Budget
from alphac4.plugins.adapters.pettingzoo import make_policy, position_from_observation

Observation = dict[str, npt.NDArray[np.int8]]
MODULE = "alphac4.plugins.adapters.openspiel"


@pytest.fixture
def pyspiel() -> Any:
    return pytest.importorskip("pyspiel")


@pytest.fixture
def adapter(pyspiel: Any) -> Any:  # noqa: ARG001 - it is imported
    return importlib.import_module(MODULE)


def play(game: Any, *actions: int) -> Any:
    state = game.new_initial_state()
    for action in actions:
        state.apply_action(action)
    return state


def test_a_state_is_converted_with_its_moves_and_board(pyspiel: Any, adapter: Any) -> None:
    position = adapter.position_from_state(play(pyspiel.load_game("connect_four"), 3, 3, 0, 6))
    assert position == Position.from_moves("4417")
    assert position.moves == "4417"
    game = pyspiel.load_game("connect_four", {"rows": 5, "columns": 6, "x_in_row": 3})
    board = adapter.position_from_state(play(game)).board
    assert (board.rows, board.columns, board.run_length) == (5, 6, 3)


def test_the_bot_rejects_the_other_players_turn_and_other_games(
    pyspiel: Any, adapter: Any, rng: np.random.Generator
) -> None:
    ours = adapter.OpenSpielBot(parse_player("random", rng=rng), player_id=1)
    with pytest.raises(ValueError, match="not to move"):
        ours.step(play(pyspiel.load_game("connect_four")))
    with pytest.raises(ValueError, match="connect_four, not tic_tac_toe"):
        ours.step(play(pyspiel.load_game("tic_tac_toe"), 3))


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(ImportError, match=r"setup\.sh openspiel"):
        importlib.import_module(MODULE)
    with pytest.raises(PlayerError, match=r"^openspiel needs .*setup.sh openspiel$"):
        parse_player("openspiel:100", rng=np.random.default_rng(0))


@pytest.mark.usefixtures("pyspiel")
def test_openspiels_bot_as_a_player_repeats_its_moves_and_needs_move_strings(rng: np.random.Generator) -> None:
    wins, block = Position.from_moves("131415"), Position.from_moves("13141")
    batch = [wins, block, wins.mirror(), block.mirror()]
    first, second = (parse_player("openspiel:300", rng=np.random.default_rng(5)).choose(batch) for _ in range(2))
    assert first == second == [0, 0, 6, 6]
    with pytest.raises(PlayerError, match="needs a position's move string"):
        parse_player("openspiel:300", rng=rng).choose([Position(wins.own, wins.occupied)])
    with pytest.raises(PlayerError, match="plays on 6 x 7"):
        parse_player("openspiel:300", rng=rng, board=make_board(5, 5, 3))


def test_the_bot_beats_openspiels_random_bot(pyspiel: Any, adapter: Any, rng: np.random.Generator) -> None:
    for rows, columns, run in ((6, 7, 4), (5, 5, 3)):
        game = pyspiel.load_game("connect_four", {"rows": rows, "columns": columns, "x_in_row": run})
        player = parse_player("uct:300", rng=rng, board=make_board(rows, columns, run), threads=1)
        for side in (0, 1):
            bots = [pyspiel.make_uniform_random_bot(number, 5) for number in (0, 1)]
            bots[side] = adapter.OpenSpielBot(player, side)
            assert pyspiel.evaluate_bots(game.new_initial_state(), bots, 3)[side] == 1.0


@pytest.fixture
def environment() -> Any:
    environment = pytest.importorskip("pettingzoo.classic.connect_four_v3").env()
    environment.reset(seed=0)
    return environment


def random_action(observation: Observation, draws: random.Random) -> int:
    return draws.choice(np.flatnonzero(observation["action_mask"]).tolist())


def test_the_policy_beats_random_moves_on_either_side(environment: Any, rng: np.random.Generator) -> None:
    for player in (
        parse_player("uct:300", rng=rng, threads=1),
        NetworkPlayer("uniform", NetworkSearch(UniformEvaluator(), reuse="proofs"), Budget(simulations=200)),
    ):
        policy = make_policy(player)
        for side in ("player_0", "player_1"):
            environment.reset()
            draws, rewards = random.Random(side), {}
            for name in environment.agent_iter():
                observation, rewards[name], termination, truncation, _ = environment.last()
                if termination or truncation:
                    environment.step(None)
                else:
                    environment.step(policy(observation) if name == side else random_action(observation, draws))
            assert rewards[side] == 1


def test_observations_match_the_planes_upside_down(environment: Any) -> None:
    draws, position = random.Random(3), Position()
    while True:
        observation, _, termination, _, _ = environment.last()
        if termination:
            break
        planes = observation["observation"]
        assert position_from_observation(planes) == position
        ours = make_planes(position.board, np.array([position.own]), np.array([position.occupied]))[0]
        np.testing.assert_array_equal(planes[::-1].transpose(2, 0, 1), ours)
        action = random_action(observation, draws)
        environment.step(action)
        position = position.play(action)
    assert position.outcome() is not None


def test_the_policy_rejects_impossible_observations(rng: np.random.Generator) -> None:
    policy = make_policy(parse_player("random", rng=rng))
    empty, floating = np.zeros((6, 7, 2), np.int8), np.zeros((6, 7, 2), np.int8)
    floating[0, 0, 1] = 1
    for observation, mask, message in ((empty, np.zeros(7), "no move"), (floating, np.ones(7), "nothing below")):
        with pytest.raises(ValueError, match=message):
            policy({"observation": observation, "action_mask": mask.astype(np.int8)})


def test_the_bot_and_the_policy_reject_an_invalid_move(pyspiel: Any, adapter: Any, environment: Any) -> None:
    player, message = Mock(choose=lambda _positions: [2.7]), "returned 2.7 for a column"
    with pytest.raises(ValueError, match=message):
        adapter.OpenSpielBot(player, 0).step(play(pyspiel.load_game("connect_four")))
    with pytest.raises(ValueError, match=message):
        make_policy(player)(environment.last()[0])

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.arena.players import NetworkPlayer
from alphac4.arena.specifications import parse_player
from alphac4.game import Position
from alphac4.game.planes import make_planes
from alphac4.integrations.pettingzoo import make_policy, position_from_observation
from alphac4.mcts.search import Budget
from alphac4.nn.evaluator import UniformEvaluator

Observation = dict[str, npt.NDArray[np.int8]]


@pytest.fixture
def environment() -> Any:
    environment = pytest.importorskip("pettingzoo.classic.connect_four_v3").env()
    environment.reset(seed=0)
    return environment


def random_action(observation: Observation, draws: random.Random) -> int:
    return draws.choice(np.flatnonzero(observation["action_mask"]).tolist())


def test_beats_random_moves_on_either_side(environment: Any, rng: np.random.Generator) -> None:
    for player in (
        parse_player("uct:300", rng=rng, threads=1),
        NetworkPlayer("uniform", UniformEvaluator(), Budget(simulations=200), rng),
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


def test_planes_are_ours_upside_down(environment: Any) -> None:
    draws, position = random.Random(3), Position()
    while True:
        observation, _, termination, _, _ = environment.last()
        if termination:
            break
        planes = observation["observation"]
        assert position_from_observation(planes) == position
        ours = make_planes(position.geometry, np.array([position.own]), np.array([position.occupied]))[0]
        np.testing.assert_array_equal(planes[::-1].transpose(2, 0, 1), ours)
        action = random_action(observation, draws)
        environment.step(action)
        position = position.play(action)
    assert position.outcome() is not None


def test_refuses_observations_that_cannot_be(rng: np.random.Generator) -> None:
    policy = make_policy(parse_player("random", rng=rng))
    empty, floating = np.zeros((6, 7, 2), np.int8), np.zeros((6, 7, 2), np.int8)
    floating[0, 0, 1] = 1
    for observation, mask, told in ((empty, np.zeros(7), "no move"), (floating, np.ones(7), "nothing below")):
        with pytest.raises(ValueError, match=told):
            policy({"observation": observation, "action_mask": mask.astype(np.int8)})

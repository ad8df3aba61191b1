import random
from collections.abc import Callable
from typing import Any

import naive
import numpy as np
import numpy.typing as npt
import pytest

from alphac4.arena.players import NetworkPlayer
from alphac4.arena.specifications import parse_player
from alphac4.game import Position
from alphac4.game.planes import make_planes
from alphac4.integrations.pettingzoo import make_policy, position_from_observation
from alphac4.mcts import Budget
from alphac4.nn.evaluator import UniformEvaluator

Observation = dict[str, npt.NDArray[np.int8]]


class ConnectFourStub:
    """PettingZoo's ``connect_four_v3`` as far as an agent sees it: top row first, then whose stones."""

    def __init__(self) -> None:
        self.stacks: naive.Board = ("",) * 7
        self.mover = 0
        self.rewards = [0, 0]
        self.over = False

    def observe(self) -> Observation:
        """What the agent to move sees."""
        planes = np.zeros((6, 7, 2), np.int8)
        for column, stack in enumerate(self.stacks):
            for height, side in enumerate(stack):
                planes[5 - height, column, int(side != "xo"[self.mover])] = 1
        mask = [not self.over and len(stack) < 6 for stack in self.stacks]
        return {"observation": planes, "action_mask": np.array(mask, np.int8)}

    def step(self, action: int) -> None:
        """Drop a stone."""
        side = "xo"[self.mover]
        self.stacks = naive.drop(self.stacks, action, side)
        if naive.wins(self.stacks, side, 6, 4):
            self.rewards[self.mover], self.rewards[1 - self.mover] = 1, -1
            self.over = True
        self.over = self.over or all(len(stack) == 6 for stack in self.stacks)
        self.mover = 1 - self.mover


def play_in_stub(policies: list[Callable[[Observation], int]]) -> list[int]:
    """Both agents' rewards of a game in the stub."""
    env = ConnectFourStub()
    while not env.over:
        env.step(policies[env.mover](env.observe()))
    return env.rewards


def play_in_pettingzoo(policies: list[Callable[[Observation], int]]) -> list[int]:
    """Both agents' rewards of a game in the real environment."""
    connect_four = pytest.importorskip("pettingzoo.classic.connect_four_v3")
    env = connect_four.env()
    env.reset(seed=0)
    rewards = {}
    for name in env.agent_iter():
        observation, reward, termination, truncation, _ = env.last()
        rewards[name] = reward
        over = termination or truncation
        env.step(None if over else policies[int(name == "player_1")](observation))
    return [int(rewards["player_0"]), int(rewards["player_1"])]


def random_policy(draws: random.Random) -> Callable[[Observation], int]:
    """Uniformly random legal actions."""
    return lambda observation: draws.choice(np.flatnonzero(observation["action_mask"]).tolist())


PLAY: dict[str, Any] = {"stub": play_in_stub, "pettingzoo": play_in_pettingzoo}


@pytest.mark.parametrize("environment", PLAY)
def test_beats_random_moves_on_either_side(environment: str, rng: np.random.Generator) -> None:
    """Whole games, with classic MCTS and with network search."""
    players = [
        parse_player("uct:300", rng=rng, threads=1),
        NetworkPlayer("uniform", UniformEvaluator(), Budget(simulations=200), rng),
    ]
    for player in players:
        for side in (0, 1):
            policies = [random_policy(random.Random(side))] * 2
            policies[side] = make_policy(player)
            assert PLAY[environment](policies)[side] == 1


def test_observations_of_the_real_environment_are_the_stubs() -> None:
    """The stub orders rows and planes as PettingZoo does, and masks the same columns."""
    connect_four = pytest.importorskip("pettingzoo.classic.connect_four_v3")
    real, stub, draws = connect_four.env(), ConnectFourStub(), random.Random(3)
    real.reset()
    while not stub.over:
        observation = real.last()[0]
        expected = stub.observe()
        np.testing.assert_array_equal(observation["observation"], expected["observation"])
        np.testing.assert_array_equal(observation["action_mask"], expected["action_mask"])
        action = draws.choice(np.flatnonzero(expected["action_mask"]).tolist())
        real.step(action)
        stub.step(action)
    assert real.last()[2]


def test_planes_are_ours_upside_down() -> None:
    """Flipped over the rows, the observation is what our networks see, for either side to move."""
    stub, position = ConnectFourStub(), Position()
    for action in (3, 3, 2, 6, 6, 0, 3):
        stub.step(action)
        position = position.play(action)
        observation = stub.observe()["observation"]
        assert position_from_observation(observation) == position
        ours = make_planes(position.geometry, np.array([position.own]), np.array([position.occupied]))[0]
        np.testing.assert_array_equal(observation[::-1].transpose(2, 0, 1), ours)


def test_takes_a_win_and_blocks(rng: np.random.Generator) -> None:
    """Rows and sides are not mixed up: the only good move is found."""
    policy = make_policy(parse_player("negamax:2", rng=rng))
    for moves, expected in (("112233", 3), ("1122337", 3), ("12121", 0), ("1212127", 1)):
        stub = ConnectFourStub()
        for name in moves:
            stub.step(int(name) - 1)
        action = policy(stub.observe())
        assert type(action) is int
        assert action == expected


def test_refuses_observations_that_cannot_be(rng: np.random.Generator) -> None:
    """Another shape, a finished game, a mask of another board, a stone in the air."""
    policy = make_policy(parse_player("random", rng=rng))
    empty, all_open = np.zeros((6, 7, 2), np.int8), np.ones(7, np.int8)
    floating = empty.copy()
    floating[0, 0, 1] = 1
    for observation, mask, message in (
        (empty[:, :, 0], all_open, "shape"),
        (empty, 0 * all_open, "no move"),
        (empty, np.eye(7, dtype=np.int8)[0], "mask allows"),
        (floating, all_open, "nothing below"),
    ):
        with pytest.raises(ValueError, match=message):
            policy({"observation": observation, "action_mask": mask})

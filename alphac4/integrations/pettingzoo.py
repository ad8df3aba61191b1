"""A policy for PettingZoo's ``connect_four_v3`` around any of our players.

Choose an action in the usual loop::

    policy = make_policy(parse_player("checkpoints/quick.safetensors@100", rng=np.random.default_rng(0)))
    for name in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        env.step(None if termination or truncation else policy(observation))

PettingZoo's observation is [rows, columns, 2], top row first: plane 0 holds the stones of the agent that observes,
plane 1 the opponent's. Ours are [2, rows, columns], bottom row first.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player
from alphac4.game import Position, make_geometry

Policy = Callable[[Mapping[str, Any]], int]  # PettingZoo's observation to an action


def make_policy(player: Player) -> Policy:
    """A policy that takes ``{"observation": [rows, columns, 2], "action_mask": [columns]}`` and returns an action."""

    def policy(observation: Mapping[str, Any]) -> int:
        position = position_from_observation(observation["observation"])
        legal = np.flatnonzero(observation["action_mask"]).tolist()
        if not legal:
            raise ValueError("the action mask allows no move: the game is over, or it is the other agent's turn")
        if legal != position.legal_columns():
            raise ValueError(f"the action mask allows {legal}, the board {position.legal_columns()}")
        return int(player.choose([position])[0])

    return policy


def position_from_observation(planes: npt.ArrayLike) -> Position:
    """The position that an agent to move observes, its moves unknown.

    Raises:
        ValueError: for another shape than [rows, columns, 2], or an impossible board.
    """
    stones = np.asarray(planes)
    if stones.ndim != 3 or stones.shape[2] != 2:
        raise ValueError(f"an observation has the shape (rows, columns, 2), not {stones.shape}")
    own, theirs = stones[:, :, 0], stones[:, :, 1]
    # Whoever has the move began if both have as many stones.
    own_mark = 1 if own.sum() == theirs.sum() else 2
    board = own_mark * own + (3 - own_mark) * theirs
    return Position.from_kaggle(board.ravel().tolist(), own_mark, make_geometry(*stones.shape[:2]))

"""A policy for PettingZoo's ``connect_four_v3`` from any player.

Choose an action in the usual loop::

    policy = make_policy(parse_player("checkpoints/quick.safetensors@100", rng=np.random.default_rng(0)))
    for name in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        env.step(None if termination or truncation else policy(observation))

PettingZoo's observation is [rows, columns, 2], top row first: plane 0 has the stones of the observing agent, plane 1
those of its opponent. The planes here are [2, rows, columns], bottom row first.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, checked_moves
from alphac4.game import Position, make_board

Policy = Callable[[Mapping[str, Any]], int]  # PettingZoo's observation to an action


def make_policy(player: Player) -> Policy:
    """Return a policy: ``{"observation": [rows, columns, 2], "action_mask": [columns]}`` to an action.

    The policy raises ValueError for an impossible board, or a mask that does not fit it.
    """

    def policy(observation: Mapping[str, Any]) -> int:
        position = position_from_observation(observation["observation"])
        legal = np.flatnonzero(observation["action_mask"]).tolist()
        if not legal:
            raise ValueError("the action mask allows no move: the game is over, or it is the other agent's turn")
        if legal != position.legal_columns():
            raise ValueError(f"the action mask allows {legal}, but the board {position.legal_columns()}")
        return checked_moves(player, [position])[0]

    return policy


def position_from_observation(planes: npt.ArrayLike) -> Position:
    """Convert the observation of the agent to move to a position, without its moves.

    Raises:
        ValueError: for another shape than [rows, columns, 2], or an impossible board.
    """
    stones = np.asarray(planes)
    if stones.ndim != 3 or stones.shape[2] != 2:
        raise ValueError(f"invalid observation of shape {stones.shape}: expected (rows, columns, 2)")
    own, theirs = stones[:, :, 0], stones[:, :, 1]
    # With equal numbers of stones, the side to move is the first player.
    own_mark = 1 if own.sum() == theirs.sum() else 2
    board = own_mark * own + (3 - own_mark) * theirs
    return Position.from_kaggle(board.ravel().tolist(), own_mark, make_board(*stones.shape[:2]))

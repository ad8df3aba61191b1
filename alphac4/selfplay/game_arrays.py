"""The arrays that self-play works on: games under way, finished ones, and the configuration's numbers."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Geometry
from alphac4.selfplay.config import SelfPlayConfig

# What a slot does next.
NEW_GAME = 0
NEW_MOVE = 1  # decide how deep to search
NEW_SEARCH = 2  # the root is evaluated: add noise
SEARCHING = 3
GAME_OVER = 4  # waits to be handed over


class Games(NamedTuple):
    """T games under way with what they have recorded so far; C cells bound the plies of a game."""

    stage: npt.NDArray[np.int8]  # [T]
    full: npt.NDArray[np.bool_]  # [T] whether the current search is a full one
    target: npt.NDArray[np.int32]  # [T] root visits at which it ends
    plies: npt.NDArray[np.int32]  # [T] moves played, the random opening included
    opening: npt.NDArray[np.int32]  # [T] random moves at the start
    outcome: npt.NDArray[np.int8]  # [T] once it is over: +1 the first player won, 0 draw, -1 lost
    simulations: npt.NDArray[np.int64]  # [T] run in this slot since the host asked last
    prior: npt.NDArray[np.float32]  # [T, A] the network's policy at the root, without noise
    gumbels: npt.NDArray[np.float32]  # [T, A]
    moves: npt.NDArray[np.int8]  # [T, C] columns played
    own: npt.NDArray[np.uint64]  # [T, C] the position before each move
    occupied: npt.NDArray[np.uint64]  # [T, C]
    policy: npt.NDArray[np.float32]  # [T, C, A] the policy target there
    surprise: npt.NDArray[np.float32]  # [T, C] KL(policy target || network's policy), nats
    value: npt.NDArray[np.float32]  # [T, C] the root value to the side to move
    draw: npt.NDArray[np.float32]  # [T, C] the root's probability of a draw
    regret: npt.NDArray[np.float32]  # [T, C] how much better than the move played the best one looked
    full_searches: npt.NDArray[np.bool_]  # [T, C] whether the policy counts in full: of a full search or a proof


class Finished(NamedTuple):
    """Finished games, row after row, until the host takes them. G games."""

    rows: npt.NDArray[np.int64]  # [1] rows in use
    moves: npt.NDArray[np.int8]  # [G, C]
    plies: npt.NDArray[np.int32]  # [G]
    opening: npt.NDArray[np.int32]  # [G]
    outcome: npt.NDArray[np.int8]  # [G] +1 the first player won, 0 draw, -1 lost
    own: npt.NDArray[np.uint64]  # [G, C]
    occupied: npt.NDArray[np.uint64]  # [G, C]
    policy: npt.NDArray[np.float32]  # [G, C, A]
    surprise: npt.NDArray[np.float32]  # [G, C]
    value: npt.NDArray[np.float32]  # [G, C]
    draw: npt.NDArray[np.float32]  # [G, C]
    regret: npt.NDArray[np.float32]  # [G, C]
    full_searches: npt.NDArray[np.bool_]  # [G, C]


class SelfPlayParameters(NamedTuple):
    """`SelfPlayConfig` for compiled code."""

    full_simulations: int
    fast_simulations: int
    full_share: float
    completed_q: bool
    c_scale: float
    c_visit: float
    gumbel_actions: int
    noise_concentration: float
    noise_fraction: float
    opening_plies: int
    opening_share: float
    fork_plies: int
    fork_share: float
    fork_by_regret: bool
    temperature: float
    temperature_end: float
    temperature_halflife: float
    learn_proofs: bool
    best_value: bool


def make_parameters(config: SelfPlayConfig) -> SelfPlayParameters:
    """The configuration's numbers as compiled code takes them."""
    return SelfPlayParameters(
        full_simulations=config.full_simulations,
        fast_simulations=config.fast_simulations,
        full_share=config.full_share,
        completed_q=config.policy_target == "completed_q",
        c_scale=config.completed_q_scale,
        c_visit=config.completed_q_visits,
        gumbel_actions=config.gumbel_actions,
        noise_concentration=config.noise_concentration,
        noise_fraction=config.noise_fraction,
        opening_plies=config.opening_plies,
        opening_share=config.opening_share,
        fork_plies=config.fork_plies,
        fork_share=config.fork_share,
        fork_by_regret=config.fork_by == "regret",
        temperature=config.temperature,
        temperature_end=config.temperature_end,
        temperature_halflife=config.temperature_halflife,
        learn_proofs=config.learn_proofs,
        best_value=config.root_value == "best",
    )


def _rows(count: int, geometry: Geometry) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays that describe ``count`` games move by move."""
    cells, actions = geometry.cells, geometry.columns
    return {
        "plies": np.zeros(count, np.int32),
        "opening": np.zeros(count, np.int32),
        "outcome": np.zeros(count, np.int8),
        "moves": np.zeros((count, cells), np.int8),
        "own": np.zeros((count, cells), np.uint64),
        "occupied": np.zeros((count, cells), np.uint64),
        "policy": np.zeros((count, cells, actions), np.float32),
        "surprise": np.zeros((count, cells), np.float32),
        "value": np.zeros((count, cells), np.float32),
        "draw": np.zeros((count, cells), np.float32),
        "regret": np.zeros((count, cells), np.float32),
        "full_searches": np.zeros((count, cells), np.bool_),
    }


def make_games(count: int, geometry: Geometry) -> Games:
    """``count`` slots, each about to start a game."""
    return Games(
        stage=np.full(count, NEW_GAME, np.int8),
        full=np.zeros(count, np.bool_),
        target=np.zeros(count, np.int32),
        prior=np.zeros((count, geometry.columns), np.float32),
        gumbels=np.zeros((count, geometry.columns), np.float32),
        simulations=np.zeros(count, np.int64),
        **_rows(count, geometry),  # type: ignore[arg-type]
    )


def make_finished(count: int, geometry: Geometry) -> Finished:
    """Room for ``count`` finished games."""
    return Finished(
        rows=np.zeros(1, np.int64),
        **_rows(count, geometry),  # type: ignore[arg-type]
    )

"""Blocks of finished games: what actors hand over."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Geometry
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.game_arrays import Finished
from alphac4.selfplay.returns import final_stones, lambda_returns
from alphac4.selfplay.shards import Samples


@dataclass(kw_only=True)
class Work:
    """What an actor has done since it was asked last."""

    simulations: int = 0
    evaluations: int = 0
    cached: int = 0  # evaluations that were known already and did not go through the network
    network_seconds: float = 0.0
    tree_seconds: float = 0.0

    def add(self, other: "Work") -> None:
        """Add another's figures."""
        self.simulations += other.simulations
        self.evaluations += other.evaluations
        self.cached += other.cached
        self.network_seconds += other.network_seconds
        self.tree_seconds += other.tree_seconds


@dataclass(frozen=True, kw_only=True)
class Block:
    """G games finished by one actor, move by move, and the samples they left."""

    samples: Samples
    games: Finished  # [G] rows
    work: Work = field(default_factory=Work)
    under_way: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)  # the actor's other games then


def recorded_plies(geometry: Geometry, config: SelfPlayConfig, games: Finished, count: int) -> npt.NDArray[np.bool_]:
    """[G, C] which plies of the first ``count`` games are samples."""
    ply = np.arange(geometry.cells)
    plies, value = games.plies[:count, None], games.value[:count]
    mask = (ply >= games.opening[:count, None]) & (ply < plies)
    if not config.record_fast:
        mask &= games.full_searches[:count]
    if config.proven_share < 1:
        mask &= _drawn_by_lot(games.own[:count] + games.occupied[:count], config.proven_share) | (
            (np.abs(value) < 1) & (games.draw[:count] < 1)
        )
    return mask


def _drawn_by_lot(keys: npt.NDArray[np.uint64], share: float) -> npt.NDArray[np.bool_]:
    """A share of these numbers that looks random and is always the same, whoever plays on whatever machine."""
    spread = keys * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing (Knuth, volume 3, 6.4)
    return (spread >> np.uint64(40)) < share * 2.0**24


def make_block(
    geometry: Geometry,
    config: SelfPlayConfig,
    games: Finished,
    work: Work,
    under_way: Mapping[str, npt.NDArray[np.generic]],
) -> Block:
    """The samples of finished games, with targets that know how each game went on."""
    mask = recorded_plies(geometry, config, games, len(games.plies))
    ply = np.broadcast_to(np.arange(geometry.cells), mask.shape)
    to_move = np.where(ply % 2 == 0, 1, -1).astype(np.int8)
    final_own, final_occupied = final_stones(geometry, games)
    returns = lambda_returns(games, config.trace_decay, config.trace_tolerance)
    samples = Samples(
        own=games.own[mask],
        occupied=games.occupied[mask],
        policy=games.policy[mask].astype(np.float16),
        full=games.full_searches[mask],
        outcome=(games.outcome[:, None] * to_move)[mask].astype(np.int8),
        value=games.value[mask],
        draw=games.draw[mask],
        returns=returns[mask].astype(np.float16),
        final_own=final_own[mask],
        final_occupied=final_occupied[mask],
    )
    return Block(samples=samples, games=games, work=work, under_way=under_way)

"""The sides of a run's matches in the processes of a pool."""

from dataclasses import dataclass, field

import numpy as np

from alphac4.arena.players import NetworkPlayer, Player, UctPlayer
from alphac4.arena.pool_players import in_each_process
from alphac4.compute import choose
from alphac4.compute.pool import Pool, Shared
from alphac4.game import Geometry
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget
from alphac4.nn.backends import backend_here
from alphac4.nn.network import PolicyValueNetwork
from alphac4.training.sides import Side

_sides: dict[int, Side] = {}  # of this process, by number


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A `Recipe` for one network's time on a side."""

    side: int  # its number
    version: int  # of its networks
    backend: str
    geometry: Geometry
    puct: PuctConfig
    simulations: int
    network: Shared[PolicyValueNetwork] = field(compare=False, repr=False)

    def make(self) -> NetworkPlayer:
        """See `Recipe`; whoever played on this side before, plays no more."""
        network = self.network.get().eval()
        if self.side not in _sides:
            compute = choose("cpu", backend_here(self.backend), threads=1)
            _sides[self.side] = Side(compute, network, self.geometry, self.puct)
        (player,) = _sides[self.side].players(network, "", self.simulations, np.random.default_rng(0))
        return player


class PoolSide:
    """A `Side` in each process of a pool; ``side`` is the one here."""

    def __init__(self, pool: Pool, number: int, side: Side, geometry: Geometry, puct: PuctConfig) -> None:
        self.backend = side.backend
        self._pool, self._number, self._side = pool, number, side
        self._geometry, self._puct = geometry, puct
        self._version = 0

    def players(
        self, network: PolicyValueNetwork, name: str, simulations: int, rng: np.random.Generator
    ) -> list[Player]:
        """See `Side`."""
        self._version += 1
        turn = Turn(
            side=self._number,
            version=self._version,
            backend=self.backend,
            geometry=self._geometry,
            puct=self._puct,
            simulations=simulations,
            network=self._pool.share(network),
        )
        model = self._side.players(network, name, simulations, rng)[0]
        return in_each_process(self._pool, [turn] * self._pool.cores, model)


@dataclass(frozen=True, kw_only=True)
class Classic:
    """A `Recipe` for classic MCTS."""

    rollouts: int
    geometry: Geometry
    seed: tuple[int, ...]

    def make(self) -> UctPlayer:
        """See `Recipe`."""
        return UctPlayer(Budget(simulations=self.rollouts), np.random.default_rng(self.seed), self.geometry)


def classic_players(pool: Pool, rollouts: int, geometry: Geometry, rng: np.random.Generator) -> list[Player]:
    """Classic MCTS in each process of a pool."""
    seed = int(rng.integers(2**63))
    recipes = [Classic(rollouts=rollouts, geometry=geometry, seed=(seed, index)) for index in range(pool.cores)]
    return in_each_process(pool, recipes, UctPlayer(Budget(simulations=rollouts), rng, geometry))

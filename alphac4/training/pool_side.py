"""The sides of a run's matches in the processes of a pool."""

from dataclasses import dataclass, field

import numpy as np

from alphac4.arena.players import NetworkPlayer, Player, UctPlayer
from alphac4.arena.pool_players import Outline, like_in_each_process, searching_in_each_process
from alphac4.compute import Pool, Shared, choose
from alphac4.game import Geometry
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget
from alphac4.nn.backends import backend_or_auto
from alphac4.nn.network import PolicyValueNetwork
from alphac4.training.sides import REUSE, Side

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
            compute = choose("cpu", backend_or_auto(self.backend), threads=1)
            _sides[self.side] = Side(compute, network, self.geometry, self.puct)
        (player,) = _sides[self.side].players(network, "", self.simulations)
        return player


class PoolSide:
    """A `Side` in each process of a pool, by the ``backend`` that is used here where they have it."""

    def __init__(self, pool: Pool, number: int, backend: str, geometry: Geometry, puct: PuctConfig) -> None:
        self.backend = backend
        self._pool, self._number = pool, number
        self._geometry, self._puct = geometry, puct
        self._version = 0

    def players(self, network: PolicyValueNetwork, name: str, simulations: int) -> list[Player]:
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
        outline = Outline(name=name, budget=Budget(simulations=simulations), reuse=REUSE)
        return searching_in_each_process(self._pool, [turn] * self._pool.cores, outline)


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
    return like_in_each_process(pool, recipes, UctPlayer(Budget(simulations=rollouts), rng, geometry))

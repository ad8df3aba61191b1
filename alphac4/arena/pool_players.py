"""Players that run in the processes of a pool, such as those on the cores of a cluster."""

import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alphac4.arena.kinds import NETWORK_FORM
from alphac4.arena.players import Player, SearchingPlayer
from alphac4.arena.registry import find_network, parse_player
from alphac4.game import Geometry, Position
from alphac4.mcts.results import NodeView, SearchResult
from alphac4.mcts.search import Budget, Reuse

if TYPE_CHECKING:  # which loads PyTorch
    from alphac4.compute import Pool, Shared

FACTORY_CACHE_SIZE = 4  # players that a process keeps


@dataclass(frozen=True)
class PlayerFactory:
    """Factory of a player that uses one core; a process shares the player among factories with the same key."""

    key: Hashable
    make: Callable[[], Player] = field(compare=False)


def call_method(factory: PlayerFactory, method: str, *arguments: Any) -> Any:
    """Call a method of the factory's player, which the process keeps for later calls."""
    return getattr(_make(factory), method)(*arguments)


@lru_cache(maxsize=FACTORY_CACHE_SIZE)
def _make(factory: PlayerFactory) -> Player:
    return factory.make()


class PoolPlayer:
    """A player like the ``model`` in the ``index``-th process of a pool, where it keeps its trees and caches."""

    def __init__(self, pool: "Pool", index: int, factory: PlayerFactory, model: Player) -> None:
        self.name = model.name
        self._pool, self._index, self._factory = pool, index, factory

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """Return a 0-based column for each position."""
        return self._call("choose", positions)  # type: ignore[no-any-return]

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._pool.call(self._index, call_method, self._factory, method, *arguments)


class SearchingPoolPlayer(PoolPlayer):
    """`PoolPlayer` for a `SearchingPlayer`."""

    def __init__(self, pool: "Pool", index: int, factory: PlayerFactory, model: SearchingPlayer) -> None:
        super().__init__(pool, index, factory, model)
        self.budget, self.reuse = model.budget, model.reuse

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """Search the positions; by default with the player's own budget."""
        return self._call("search", positions, budget)  # type: ignore[no-any-return]

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """Return the node that a path of columns leads to in the tree of the ``index``-th position searched last."""
        return self._call("node", index, path)  # type: ignore[no-any-return]


def replicate_player(pool: "Pool", factories: Sequence[PlayerFactory], model: Player) -> list[Player]:
    """Return a player like the ``model`` in each process of a pool, one for each factory."""
    if isinstance(model, SearchingPlayer):
        return [SearchingPoolPlayer(pool, index, factory, model) for index, factory in enumerate(factories)]
    return [PoolPlayer(pool, index, factory, model) for index, factory in enumerate(factories)]


def read_network(specification: str) -> bytes | None:
    """Return the content of the network's file; None for a player that is not a network."""
    network = find_network(specification)
    return None if network is None else network.path.read_bytes()


def parse_player_with(network: bytes | None, specification: str, **settings: Any) -> Player:
    """Call `parse_player` in a process that may lack the network's file, whose content is ``network``."""
    found = NETWORK_FORM.fullmatch(specification)
    if network is None or found is None:
        return parse_player(specification, **settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("network.onnx" if found["network"].endswith(".onnx") else "network.safetensors")
        path.write_bytes(network)
        return parse_player(f"{path}{specification.removeprefix(found['network'])}", **settings)


def pool_players(
    pool: "Pool",
    specification: str,
    model: Player,
    *,
    geometry: Geometry,
    backend: str,
    seed: int = 0,
    reuse: Reuse | None = None,
    network: bytes | None = None,
) -> list[Player]:
    """Create a player in each process of a pool, with its own random numbers.

    Args:
        pool: the processes.
        specification: the player.
        model: the same player in this process.
        geometry: the board.
        backend: backend of networks.
        seed: seed of the random numbers.
        reuse: trees that a search keeps for later positions.
        network: content of the network's file; by default it is read.
    """
    network = network or read_network(specification)
    parse = partial(_parse_in_pool, specification, pool.share(network), backend, geometry=geometry, reuse=reuse)
    factories = [
        PlayerFactory(
            (specification, geometry, backend, reuse, hash(network), seed, index),
            partial(parse, rng=np.random.default_rng((seed, index))),
        )
        for index in range(pool.cores)
    ]
    return replicate_player(pool, factories, model)


def _parse_in_pool(specification: str, network: "Shared[bytes | None]", backend: str, **settings: Any) -> Player:
    """Create a player that uses one core, in a process of a pool."""
    from alphac4.compute import choose_compute
    from alphac4.nn.backends import require_backend
    from alphac4.nn.evaluator import BATCH

    compute = choose_compute("cpu", require_backend(backend), threads=1)
    return parse_player_with(network.get(), specification, threads=1, compute=compute, batch_size=BATCH, **settings)

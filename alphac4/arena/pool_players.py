"""Players of a run's matches in the processes of a pool."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from alphac4.arena.players import Player, SearchingPlayer, backends_of
from alphac4.game import Position
from alphac4.mcts.results import NodeView, SearchResults
from alphac4.mcts.search import Budget

if TYPE_CHECKING:
    from alphac4.compute.pool import Pool

FACTORY_CACHE_SIZE = 4  # players that a process keeps


@dataclass(frozen=True)
class PlayerFactory:
    """Factory of a player that uses one core; in a process, factories with equal keys share one player."""

    key: Hashable
    make: Callable[[], Player] = field(compare=False)


def call_method(factory: PlayerFactory, method: str, *arguments: Any) -> Any:
    """Call a method of the player that the factory makes; the process caches the player."""
    return getattr(_make(factory), method)(*arguments)


def _inference_backend(factory: PlayerFactory) -> str:
    return backends_of([_make(factory)])


@lru_cache(maxsize=FACTORY_CACHE_SIZE)
def _make(factory: PlayerFactory) -> Player:
    return factory.make()


class PoolPlayer:
    """A copy of ``model`` that plays in the ``index``-th process of a pool, and keeps its trees and caches there."""

    def __init__(self, pool: "Pool", index: int, factory: PlayerFactory, model: SearchingPlayer) -> None:
        self.name, self.budget, self.reuse = model.name, model.budget, model.reuse
        self._call = partial(pool.call, index, call_method, factory)
        self._find_backend = partial(pool.call, index, _inference_backend, factory)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        return self._call("choose", positions)  # type: ignore[no-any-return]

    @property
    def inference_backend(self) -> str:
        """Backend of the network in the process, which may differ from that of the ``model``."""
        return str(self._find_backend())

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResults:
        """Search the positions; by default with the player's own budget."""
        return self._call("search", positions, budget)  # type: ignore[no-any-return]

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """Return the node after a path of 0-based columns, in the tree of the last search's ``index``-th position."""
        return self._call("node", index, path)  # type: ignore[no-any-return]

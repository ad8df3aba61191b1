"""Players that think in the processes of a pool, such as those on the cores of a cluster."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Protocol

from alphac4.arena.players import Player, SearchingPlayer, as_searching
from alphac4.compute.pool import Pool
from alphac4.game import Position
from alphac4.mcts.results import NodeView, SearchResult
from alphac4.mcts.search import Budget

PLAYERS = 4  # that a process keeps


class Recipe(Hashable, Protocol):
    """What a process needs to make a player; equal recipes make the same one."""

    def make(self) -> Player:
        """Make it, to think on one core."""


class PoolPlayer:
    """A player in the ``index``-th process, which keeps what it remembers there.

    Args:
        pool: the processes.
        index: which of them.
        recipe: what makes the player there.
        model: one like it here, whose name and budget are its own.
    """

    def __init__(self, pool: Pool, index: int, recipe: Recipe, model: Player) -> None:
        self.name = model.name
        self._pool, self._index, self._recipe = pool, index, recipe

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return self._pool.call(self._index, _choose, self._recipe, positions)


class SearchingPoolPlayer(PoolPlayer):
    """The same for one that searches."""

    def __init__(self, pool: Pool, index: int, recipe: Recipe, model: SearchingPlayer) -> None:
        super().__init__(pool, index, recipe, model)
        self.budget, self.reuse = model.budget, model.reuse

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`."""
        return self._pool.call(self._index, _search, self._recipe, positions, budget)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`."""
        return self._pool.call(self._index, _node, self._recipe, index, path)


def in_each_process(pool: Pool, recipes: Sequence[Recipe], model: Player) -> list[Player]:
    """A player like the ``model`` in each process, by its own recipe."""
    searching = as_searching(model)
    if searching is None:
        return [PoolPlayer(pool, index, recipe, model) for index, recipe in enumerate(recipes)]
    return [SearchingPoolPlayer(pool, index, recipe, searching) for index, recipe in enumerate(recipes)]


@lru_cache(maxsize=PLAYERS)
def _made(recipe: Recipe) -> Player:
    return recipe.make()


def _searching(recipe: Recipe) -> SearchingPlayer:
    player = as_searching(_made(recipe))
    assert player is not None
    return player


def _choose(recipe: Recipe, positions: Sequence[Position]) -> list[int]:
    return _made(recipe).choose(positions)


def _search(recipe: Recipe, positions: Sequence[Position], budget: Budget | None) -> SearchResult:
    return _searching(recipe).search(positions, budget)


def _node(recipe: Recipe, index: int, path: Sequence[int]) -> NodeView:
    return _searching(recipe).node(index, path)

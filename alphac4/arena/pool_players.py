"""Players that think in the processes of a pool, such as those on the cores of a cluster."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from alphac4.arena.players import Player, SearchingPlayer, as_searching
from alphac4.compute import Pool
from alphac4.game import Position
from alphac4.mcts.results import NodeView, SearchResult
from alphac4.mcts.search import Budget, Reuse

PLAYERS = 4  # that a process keeps


class Recipe(Hashable, Protocol):
    """What a process needs to make a player; equal recipes make the same one."""

    def make(self) -> Player:
        """Make it, to think on one core."""


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What a player that searches tells of itself; see `SearchingPlayer`."""

    name: str
    budget: Budget
    reuse: Reuse


class PoolPlayer:
    """A player in the ``index``-th process, which keeps what it remembers there.

    Args:
        pool: the processes.
        index: which of them.
        recipe: what makes the player there.
        name: how it is called.
    """

    def __init__(self, pool: Pool, index: int, recipe: Recipe, name: str) -> None:
        self.name = name
        self._pool, self._index, self._recipe = pool, index, recipe

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return self._pool.call(self._index, _choose, self._recipe, positions)


class SearchingPoolPlayer(PoolPlayer):
    """The same for one that searches, as its ``outline`` says."""

    def __init__(self, pool: Pool, index: int, recipe: Recipe, outline: Outline) -> None:
        super().__init__(pool, index, recipe, outline.name)
        self.budget, self.reuse = outline.budget, outline.reuse

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`."""
        return self._pool.call(self._index, _search, self._recipe, positions, budget)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`."""
        return self._pool.call(self._index, _node, self._recipe, index, path)


def like_in_each_process(pool: Pool, recipes: Sequence[Recipe], model: Player) -> list[Player]:
    """A player like the ``model`` in each process, by its own recipe."""
    searching = as_searching(model)
    if searching is None:
        return [PoolPlayer(pool, index, recipe, model.name) for index, recipe in enumerate(recipes)]
    outline = Outline(name=model.name, budget=searching.budget, reuse=searching.reuse)
    return searching_in_each_process(pool, recipes, outline)


def searching_in_each_process(pool: Pool, recipes: Sequence[Recipe], outline: Outline) -> list[Player]:
    """A player that searches in each process, by its own recipe."""
    return [SearchingPoolPlayer(pool, index, recipe, outline) for index, recipe in enumerate(recipes)]


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

"""Games under way: those of several actors in one state, and in other numbers where there are more or fewer actors."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from alphac4.selfplay.game_arrays import NEW_GAME

GamesUnderWay = Mapping[str, npt.NDArray[np.generic]]
"""The arrays of one actor's games, a row a game; see `alphac4.selfplay.actor.SelfPlayer.state`."""


def join_actors(games: Mapping[int, GamesUnderWay]) -> dict[str, npt.NDArray[np.generic]]:
    """The games of all actors in one state: each array's name begins with its actor's index."""
    return {f"{index}.{name}": array for index, arrays in games.items() for name, array in arrays.items()}


def split_actors(state: GamesUnderWay) -> dict[int, GamesUnderWay]:
    """The games of each actor, from the state of `join_actors`.

    Raises:
        ValueError: for names without an index.
    """
    games: defaultdict[int, dict[str, npt.NDArray[np.generic]]] = defaultdict(dict)
    for key, array in state.items():
        index, _, name = key.partition(".")
        games[int(index)][name] = array
    return dict(sorted(games.items()))


def count_games(games: GamesUnderWay) -> int:
    """How many games there are at once, those that are about to start included."""
    return len(games.get("trees.own", ()))


def share_out(games: Mapping[int, GamesUnderWay], slots: int) -> list[GamesUnderWay]:
    """The games that have begun, for actors with so many ``slots`` each; the last one may get fewer.

    Raises:
        ValueError: if they were played with different settings.
    """
    begun = [
        {name: array[arrays["games.stage"] != NEW_GAME] for name, array in arrays.items()}
        for _, arrays in sorted(games.items())
    ]
    if len({frozenset(arrays) for arrays in begun}) != 1:
        raise ValueError("the saved games do not fit one another")
    together = {name: np.concatenate([arrays[name] for arrays in begun]) for name in begun[0]}
    count = count_games(together)
    return [
        {name: array[first : first + slots] for name, array in together.items()} for first in range(0, count, slots)
    ]


def fill_up(games: GamesUnderWay, fresh: GamesUnderWay) -> GamesUnderWay:
    """``games`` and, where they are fewer than those of a ``fresh`` actor, its last ones.

    Raises:
        ValueError: if they were played with other settings.
    """
    count = count_games(games)
    if count == count_games(fresh):
        return games
    if any(name not in games or games[name].shape[1:] != array.shape[1:] for name, array in fresh.items()):
        raise ValueError("the saved games do not fit the settings")
    return {name: np.concatenate([games[name], array[count:]]) for name, array in fresh.items()}

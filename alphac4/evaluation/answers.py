"""The answers of networks and players on sets of positions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import NetworkPlayer, Player, as_searching
from alphac4.evaluation.positions import PositionSet
from alphac4.machine import worker_threads
from alphac4.mcts.network_search import Evaluate
from alphac4.mcts.search import Budget, TreeSearch

BATCH = 128  # positions searched together: large enough to fill the network's calls, small enough for the caches
LEAST = 16  # the same where there are many players for few positions


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What was played in every position of some sets, an array [S] for each set."""

    columns: list[npt.NDArray[np.int64]]  # 0-based
    values: list[npt.NDArray[np.float64]] | None = None  # in [-1, 1], for the side to move; None if it tells none


def _unwatched(_count: int) -> None:
    """Ignore how far the work is."""


def ask_network(
    evaluator: Evaluate,
    sets: Sequence[PositionSet],
    simulations: int,
    searches: Sequence[TreeSearch],
    *,
    batch: int = BATCH,
    on_batch: Callable[[int], object] = _unwatched,
) -> Answers:
    """The network's moves and values: by ``simulations`` of search in each position, or raw if that is 0.

    The raw network plays the legal move with the largest policy logit, without any look ahead. As many batches are
    dealt with at a time as there are ``searches`` of the same network; ``on_batch`` gets how many positions have
    just been answered.
    """
    budget = Budget(simulations=simulations)
    players = [NetworkPlayer("network", evaluator, budget, search=search) for search in searches]
    return ask_players(players, sets, batch, on_batch)


def ask_players(
    players: Sequence[Player],
    sets: Sequence[PositionSet],
    size: int | None = None,
    on_batch: Callable[[int], object] = _unwatched,
) -> Answers:
    """The answers of several players that are one and the same, for as many batches at a time.

    ``size`` is how many positions each gets at once, by default `BATCH`, or fewer if some would have none.
    """
    positions = [position for part in sets for position in part.positions]
    size = size or min(BATCH, max(LEAST, -(-len(positions) // len(players))))
    idle: SimpleQueue[Player] = SimpleQueue()
    for player in players:
        idle.put(player)

    def answer(first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
        batch = positions[first : first + size]
        player = idle.get()
        try:
            searching = as_searching(player)
            if searching is None:
                moves, values = np.array(player.choose(batch), np.int64), None
            else:
                result = searching.search(batch)
                moves, values = result.moves, result.value
        finally:
            idle.put(player)  # whatever went wrong: others wait for one
        on_batch(len(batch))
        return moves, values

    with worker_threads(len(players)) as pool:
        answers = list(pool.map(answer, range(0, len(positions), size)))
    ends = np.cumsum([len(part) for part in sets])[:-1]
    values = [value for _, value in answers if value is not None]
    return Answers(
        columns=np.split(np.concatenate([moves for moves, _ in answers]), ends),
        values=np.split(np.concatenate(values), ends) if values else None,
    )

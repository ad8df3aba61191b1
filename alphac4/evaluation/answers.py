"""The answers of networks and players on sets of positions."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player
from alphac4.evaluation.positions import PositionSet
from alphac4.game import Position
from alphac4.game.planes import make_planes, stones
from alphac4.mcts.search import Budget, Evaluate, TreeSearch

BATCH = 128  # positions searched together: large enough to fill the network's calls, small enough for the caches


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What was played in every position of some sets, an array [S] for each set."""

    columns: list[npt.NDArray[np.int64]]  # 0-based
    values: list[npt.NDArray[np.float64]] | None = None  # in [-1, 1], for the side to move; None if it tells none


def _unwatched(_count: int) -> None:
    """Nobody waits to be told."""


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
    dealt with at a time as there are ``searches`` of the same network; ``on_batch`` is told how many positions have
    just been answered.
    """
    geometry = sets[0].geometry
    positions = [position for part in sets for position in part.positions]
    legal = np.concatenate([part.legal for part in sets])
    idle: SimpleQueue[TreeSearch] = SimpleQueue()
    for search in searches:
        idle.put(search)

    def answer(first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        part = positions[first : first + batch]
        if simulations == 0:
            logits, wdl = evaluator.evaluate(make_planes(geometry, *stones(part)))
            moves = np.where(legal[first : first + batch], logits, -np.inf).argmax(axis=1)
            values = (wdl[:, 0] - wdl[:, 2]).astype(np.float64)
        else:
            search = idle.get()
            result = search.search(part, Budget(simulations=simulations))
            idle.put(search)
            moves, values = result.moves, result.value
        on_batch(len(part))
        return moves, values

    with ThreadPoolExecutor(len(searches)) as pool:
        answers = list(pool.map(answer, range(0, len(positions), batch)))
    ends = np.cumsum([len(part) for part in sets])[:-1]
    return Answers(
        columns=np.split(np.concatenate([moves for moves, _ in answers]), ends),
        values=np.split(np.concatenate([values for _, values in answers]), ends),
    )


def ask_player(player: Player, sets: Sequence[PositionSet], on_batch: Callable[[int], object] = _unwatched) -> Answers:
    """Any player's moves."""
    columns = []
    for part in sets:
        moves: list[int] = []
        for first in range(0, len(part), BATCH):
            batch: Sequence[Position] = part.positions[first : first + BATCH]
            moves += player.choose(batch)
            on_batch(len(batch))
        columns.append(np.array(moves, np.int64))
    return Answers(columns=columns)

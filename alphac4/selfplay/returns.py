"""What a game's later course says about the value of its earlier positions."""

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Geometry
from alphac4.mcts.results import root_wdl
from alphac4.selfplay.game_arrays import Finished


def lambda_returns(games: Finished, decay: float, tolerance: float) -> npt.NDArray[np.float64]:
    """Win/draw/loss [G, C, 3] for the side to move at each ply of G finished games; undefined beyond their ends.

    TD(lambda) backwards from the result (Sutton 1988): the return of a position is its search's value, moved by
    ``decay`` towards the next position's return seen from this side. The trace is cut where the move played looked
    worse than the best by more than ``tolerance``: what follows a move made to explore says little about the
    position before it, and would teach that sound positions are lost (off-policy targets as in Willemsen et al.
    2020, "Value targets in off-policy AlphaZero"). ``decay`` 1 with an endless tolerance is the game's outcome.
    """
    cells = games.value.shape[1]
    returns = root_wdl(games.value, games.draw)
    to_move = np.where(games.plies % 2 == 0, 1, -1)  # +1: the first player would move after the last ply
    following = np.stack([games.outcome == to_move, games.outcome == 0, games.outcome == -to_move], axis=-1) * 1.0
    for ply in range(cells - 1, -1, -1):
        inside = ply < games.plies
        last = ply == games.plies - 1
        weight = np.where(last, 1.0, np.where(games.regret[:, ply] > tolerance, 0.0, decay))[:, None]
        mixed = (1 - weight) * returns[:, ply] + weight * following[:, ::-1]
        returns[:, ply] = mixed
        following = np.where(inside[:, None], mixed, following)
    return returns


def final_stones(geometry: Geometry, games: Finished) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """``(own, occupied)`` uint64 [G, C] at the end of each of G games, own being those of the side to move at a ply."""
    row, last = np.arange(len(games.plies)), games.plies - 1
    own, occupied = games.own[row, last], games.occupied[row, last]
    bottom = np.uint64(1) << (games.moves[row, last].astype(np.uint64) * np.uint64(geometry.height))
    column = (bottom << np.uint64(geometry.rows)) - bottom
    own |= (occupied + bottom) & column & ~occupied  # adding at the bottom carries to the first empty cell
    occupied |= own
    ply = np.arange(games.own.shape[1])
    same_side = (last[:, None] - ply) % 2 == 0
    everything = np.broadcast_to(occupied[:, None], same_side.shape)
    return np.where(same_side, own[:, None], (own ^ occupied)[:, None]), everything

"""What the shape of a position proves or suggests without search.

Non-losing moves as in Pascal Pons, "Solving Connect 4", part 9 (http://blog.gamesolver.org); the follow-up
strategy is Allis's claimeven, "A Knowledge-based Approach of Connect-Four" (1988), chapter 3.
"""

import numpy as np

from alphac4.compiled import compiled
from alphac4.game import rules
from alphac4.game.rules import Geometry

_NONE = np.uint64(0)
_ONE = np.uint64(1)


def upper_of_pairs(geometry: Geometry) -> np.uint64:
    """The upper cells when each column is divided into pairs from its top: even rows (1-based) of a six-row board."""
    cells = 0
    for column in range(geometry.columns):
        for row in range(geometry.rows - 1, 0, -2):
            cells |= 1 << (column * (geometry.rows + 1) + row)
    return np.uint64(cells)


@compiled
def non_losing(legal: np.uint64, threats: np.uint64) -> np.uint64:
    """The legal cells after which an opponent with these threats does not win at once; 0 if there are none.

    The side to move must have no win on the move itself.
    """
    forced = legal & threats
    safe = legal & ~(threats >> _ONE)  # never play right below a cell that wins for the opponent
    if forced == _NONE:
        return safe
    if forced & (forced - _ONE) != _NONE:
        return _NONE  # two wins at once: only one can be blocked
    return safe & forced


@compiled
def follow_up_score(
    geometry: Geometry, upper: np.uint64, follower: np.uint64, leader: np.uint64, occupied: np.uint64
) -> int:
    """What the follower gets at least by always answering in the leader's column: 1 win, 0 draw, -1 unknown.

    The leader is to move and the number of empty cells is even. The follower answers on top of the leader's stone,
    or, if that was the first in a column with an odd number of empty cells, by the lowest cell of another such column:
    their number is even. So the leader can get the lower cell of each pair and perhaps the lowest cells of odd
    columns, and nothing else.
    """
    empty = geometry.board & ~occupied
    legal = rules.legal_cells(geometry, occupied)
    if rules.has_run(geometry, leader | (empty & ~upper) | legal):
        return -1
    return 1 if rules.has_run(geometry, follower | (empty & upper & ~legal)) else 0

"""Input planes of networks, for searches and for learning.

"stones" are two planes: the stones of the side to move and those of its opponent, as in AlphaZero. "lines" has six more
planes, which follow from the stones by the rules. If the board fills up, the outcome of Connect Four depends on the
cells where a stone would complete a run, and on whether they are in odd or even rows (Allis 1988, "A Knowledge-based
Approach of Connect-Four"). The planes encode the rules, not how to play; a small network would need capacity and
samples to learn them.

=====  =========================================================================================
plane  is 1 where
=====  =========================================================================================
0, 1   the side to move has a stone; its opponent has one
2, 3   a stone of the side to move would complete a run, now or later; one of its opponent would
4      a stone can land now
5      the row, counted from 0, and the number of stones are both even or both odd: if all other columns fill up in
       pairs, the side to move gets these cells
6, 7   the cell is empty and on a line (cells of a possible run) that needs two more stones of the side to move and has
       none of its opponent; the same with sides exchanged
=====  =========================================================================================
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, force_inlined, inlined
from alphac4.game.position import Position
from alphac4.game.rules import U64_0, U64_1, Board, count_stones, legal_cells, mirror, winning_cells

PLANES = {"lines": 8, "stones": 2}


def stones(positions: Sequence[Position]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return ``own`` and ``occupied``, uint64 [B] each, of B positions."""
    own = np.array([position.own for position in positions], np.uint64)
    return own, np.array([position.occupied for position in positions], np.uint64)


def make_planes(
    board: Board, own: npt.NDArray[np.uint64], occupied: npt.NDArray[np.uint64], count: int = PLANES["stones"]
) -> npt.NDArray[np.float32]:
    """Return ``count`` planes, the first 2 or all 8, as float32 [B, count, rows, columns], bottom row first."""
    planes = np.empty((len(own), count, board.rows, board.columns), np.float32)
    _write_batch(board, own, occupied, planes)
    return planes


@compiled
def _write_batch(
    board: Board,
    own: npt.NDArray[np.uint64],
    occupied: npt.NDArray[np.uint64],
    planes: npt.NDArray[np.float32],
) -> None:
    for i in range(len(own)):
        write_planes(board, own[i], occupied[i], planes[i], np.float32(1))


@force_inlined
def write_planes(
    board: Board,
    own: np.uint64,
    occupied: np.uint64,
    planes: npt.NDArray[np.number],
    one: np.number,  # 1 in the type of the planes; for bf16 networks the bits of bf16's 1
) -> None:
    """Fill ``planes`` [2 or 8, rows, columns], bottom row first."""
    opponent = own ^ occupied
    _write_plane(board, own, planes, 0, one)
    _write_plane(board, opponent, planes, 1, one)
    if planes.shape[0] > 2:
        _write_plane(board, winning_cells(board, own, occupied), planes, 2, one)
        _write_plane(board, winning_cells(board, opponent, occupied), planes, 3, one)
        _write_plane(board, legal_cells(board, occupied), planes, 4, one)
        _write_plane(board, rows_of_parity(board, count_stones(occupied)), planes, 5, one)
        _write_plane(board, cells_lacking_two(board, own, occupied), planes, 6, one)
        _write_plane(board, cells_lacking_two(board, opponent, occupied), planes, 7, one)


@inlined
def write_mirrored(
    board: Board,
    own: np.uint64,
    occupied: np.uint64,
    mirrored: int,
    planes: npt.NDArray[np.number],
    one: np.number,
) -> None:
    """Write the planes of the position, or of its mirror image if ``mirrored`` is not 0; see `write_planes`."""
    if mirrored != 0:
        own, occupied = mirror(board, own), mirror(board, occupied)
    write_planes(board, own, occupied, planes, one)


@inlined
def _write_plane(board: Board, cells: np.uint64, planes: npt.NDArray[np.number], plane: int, one: np.number) -> None:
    bit = U64_0
    for column in range(board.columns):
        for row in range(board.rows):
            planes[plane, row, column] = ((cells >> bit) & U64_1) * one
            bit += U64_1
        bit += U64_1


@inlined
def rows_of_parity(board: Board, plies: int) -> np.uint64:
    """Return the cells of every second row, from the lowest row if ``plies`` is even, else from the row above it."""
    row = board.bottom if plies % 2 == 0 else board.bottom << U64_1
    cells = U64_0
    for _ in range(0, board.rows, 2):
        cells |= row
        row = row << U64_1 << U64_1
    return cells & board.playable


@compiled
def cells_lacking_two(board: Board, stones: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the empty cells on lines that need two more of these stones for a run and hold none of the other side."""
    found = _lacking_two_along(board, stones, occupied, U64_1)
    if board.run_length <= board.columns:
        found |= _lacking_two_along(board, stones, occupied, board.column_bits)
    if board.diagonals:
        found |= _lacking_two_along(board, stones, occupied, board.column_bits - U64_1)
        found |= _lacking_two_along(board, stones, occupied, board.column_bits + U64_1)
    return found & ~occupied


@inlined
def _lacking_two_along(board: Board, stones: np.uint64, occupied: np.uint64, shift: np.uint64) -> np.uint64:
    """Return the `cells_lacking_two` of the lines along one direction."""
    empty = board.playable & ~occupied
    # Each bit is the first cell of a line. The cells checked so far are these stones, but for 0, 1 or 2 empty ones.
    none, one, two = ~U64_0, U64_0, U64_0
    distance = U64_0
    for _ in range(board.run_length):
        here, gap = stones >> distance, empty >> distance
        two = (two & here) | (one & gap)
        one = (one & here) | (none & gap)
        none = none & here
        distance += shift
    cells = U64_0
    for _ in range(board.run_length):
        cells |= two
        two = two << shift
    return cells

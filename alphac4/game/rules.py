"""Boards, moves on bitboards and canonical keys, compiled by Numba.

A position is two ``uint64``: ``own``, the stones of the side to move, and ``occupied``, all stones. Each column takes
``rows + 1`` bits, lowest cell first; the extra bit on top stays empty, so that shifted stones never wrap into the next
column. For 6 x 7::

     6 13 20 27 34 41 48   <- always empty
     5 12 19 26 33 40 47
     4 11 18 25 32 39 46
     3 10 17 24 31 38 45
     2  9 16 23 30 37 44
     1  8 15 22 29 36 43
     0  7 14 21 28 35 42

All compiled functions except `canonical_keys` and `oriented` take only scalars, so that they also compile for a GPU.
"""

import operator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating, compiled, inlined

U64_0 = np.uint64(0)
U64_1 = np.uint64(1)
MAX_INTEGER_BITS = 256  # of an argument; seeds may have 128

Words = npt.NDArray[np.uint64]


class Board(NamedTuple):
    """A board: its shape and the winning condition, with precomputed masks. Build one with `make_board`."""

    rows: int
    columns: int
    run_length: int
    diagonals: bool  # whether diagonal runs count; False if none fits
    column_bits: np.uint64  # bits that a column takes: rows + 1
    cells: int  # rows * columns
    playable: np.uint64  # every cell
    bottom: np.uint64  # the lowest cell of every column


def as_integer(value: Any, name: str, minimum: int | None = None) -> int:
    """Return an integer of Python or NumPy as an int.

    Raise TypeError for other types, and ValueError below ``minimum`` or for more than `MAX_INTEGER_BITS` bits.
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {value!r:.60}")
    number = operator.index(value)
    if number.bit_length() > MAX_INTEGER_BITS:  # Python would refuse to show thousands of digits
        raise ValueError(f"{name} is too large: a number of {number.bit_length()} bits")
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {number}")
    return number


def check_flag(value: Any, name: str) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {value!r:.60}")


def check_board(board: Any) -> None:
    if not isinstance(board, Board):
        raise TypeError(f"board must come from make_board, not {board!r:.60}")


def make_board(rows: int = 6, columns: int = 7, run_length: int = 4, diagonals: bool = True) -> Board:
    """Return a board on which ``run_length`` stones in a row win; with ``diagonals``, runs may be diagonal.

    Raises:
        TypeError: if a size is not an integer, or ``diagonals`` is not True or False.
        ValueError: if a size is too small, the board does not fit 64 bits, or no run fits the board.
    """
    rows, columns, run_length = (
        as_integer(value, name) for value, name in ((rows, "rows"), (columns, "columns"), (run_length, "run_length"))
    )
    check_flag(diagonals, "diagonals")
    if rows < 1 or columns < 1 or run_length < 2:
        raise ValueError(
            f"a board needs rows >= 1, columns >= 1 and run_length >= 2, not {rows} x {columns}, {run_length}"
        )
    if (rows + 1) * columns > 64:
        raise ValueError(
            f"a board of {rows} x {columns} does not fit in 64 bits: (rows + 1) * columns is {(rows + 1) * columns}"
        )
    if run_length > max(rows, columns):
        raise ValueError(f"a run of {run_length} does not fit on {rows} x {columns}")
    # A search for runs that do not fit would shift by 64 bits or more, which is undefined.
    diagonals = bool(diagonals) and run_length <= min(rows, columns)
    bottom = sum(1 << (column * (rows + 1)) for column in range(columns))
    playable = bottom * ((1 << rows) - 1)
    return Board(
        rows,
        columns,
        run_length,
        diagonals,
        np.uint64(rows + 1),
        rows * columns,
        np.uint64(playable),
        np.uint64(bottom),
    )


STANDARD = make_board()


def describe(board: Board) -> str:
    diagonals = "" if board.diagonals else " without diagonals"
    return f"{board.rows} x {board.columns} with runs of {board.run_length}{diagonals}"


def board_settings(board: Board) -> dict[str, int | bool]:
    """Return the arguments of `make_board` for this board, as files store them."""
    return {name: getattr(board, name) for name in ("rows", "columns", "run_length", "diagonals")}


@inlined
def legal_cells(board: Board, occupied: np.uint64) -> np.uint64:
    """Return the cells where a stone can land, at most one bit per column."""
    return (occupied + board.bottom) & board.playable


@inlined
def column_cells(board: Board, column: int) -> np.uint64:
    """Return the playable cells of a 0-based column."""
    return ((U64_1 << (board.column_bits - U64_1)) - U64_1) << (np.uint64(column) * board.column_bits)


@inlined
def landing_cell(board: Board, occupied: np.uint64, column: int) -> np.uint64:
    """Return the bit where a stone dropped into ``column`` lands; 0 if the column is full."""
    return legal_cells(board, occupied) & column_cells(board, column)


@compiled
def play(board: Board, own: np.uint64, occupied: np.uint64, column: int) -> tuple[np.uint64, np.uint64]:
    """Return ``(own, occupied)`` after a legal move, for the opponent, who is then to move."""
    return own ^ occupied, occupied | landing_cell(board, occupied, column)


@inlined
def _run_along(stones: np.uint64, shift: np.uint64, run_length: int) -> np.uint64:
    """Return a non-zero word if ``run_length`` stones follow one another at distances of ``shift`` bits."""
    pairs = stones & (stones >> shift)
    if run_length == 4:
        return pairs & (pairs >> (shift + shift))
    run = pairs
    for _ in range(run_length - 2):
        stones = stones >> shift
        run &= stones >> shift
    return run


@compiled
def has_run(board: Board, stones: np.uint64) -> bool:
    """Return whether these stones of one side contain a run."""
    shift = board.column_bits  # to the same row of the next column
    run = _run_along(stones, U64_1, board.run_length)
    if board.run_length <= board.columns:
        run |= _run_along(stones, shift, board.run_length)
    if board.diagonals:
        run |= _run_along(stones, shift - U64_1, board.run_length)
        run |= _run_along(stones, shift + U64_1, board.run_length)
    return bool(run != U64_0)


@inlined
def _completions_along(stones: np.uint64, shift: np.uint64, run_length: int) -> np.uint64:
    """Return the cells that complete a run along one direction."""
    found = U64_0
    for gap in range(run_length):  # index of the missing stone in the run
        line = ~U64_0
        for step in range(run_length):
            if step < gap:
                line &= stones << (shift * np.uint64(gap - step))
            elif step > gap:
                line &= stones >> (shift * np.uint64(step - gap))
        found |= line
    return found


@inlined
def _completions_of_four(stones: np.uint64, shift: np.uint64) -> np.uint64:
    """Return `_completions_along` for runs of four; each pair of adjacent stones is computed only once."""
    up1 = stones << shift
    down1 = stones >> shift
    up2 = up1 & (up1 << shift)  # stones one and two steps before
    down2 = down1 & (down1 >> shift)
    found = up2 & ((up1 << (shift + shift)) | down1)
    return found | (down2 & ((down1 >> (shift + shift)) | up1))


@compiled
def winning_cells(board: Board, stones: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the empty cells, reachable now or not, where one more of these stones completes a run."""
    shift = board.column_bits  # to the same row of the next column
    found = U64_0
    if board.run_length == 4:
        if board.columns >= 4:
            found |= _completions_of_four(stones, shift)
        below = stones << U64_1
        found |= below & (below << U64_1) & (below << (U64_1 + U64_1))
        if board.diagonals:
            found |= _completions_of_four(stones, shift - U64_1) | _completions_of_four(stones, shift + U64_1)
    else:
        found |= _completions_along(stones, U64_1, board.run_length)
        if board.run_length <= board.columns:
            found |= _completions_along(stones, shift, board.run_length)
        if board.diagonals:
            found |= _completions_along(stones, shift - U64_1, board.run_length)
            found |= _completions_along(stones, shift + U64_1, board.run_length)
    return found & board.playable & ~occupied


@compiled
def count_stones(stones: np.uint64) -> int:
    """Return the number of set bits."""
    count = 0
    while stones != U64_0:
        stones &= stones - U64_1
        count += 1
    return count


@compiled
def mirror(board: Board, stones: np.uint64) -> np.uint64:
    """Return the stones with the columns in reverse order."""
    if board.columns == 1:  # the column may take 64 bits
        return stones
    one_column = (U64_1 << board.column_bits) - U64_1
    left, right = U64_0, np.uint64(board.columns - 1) * board.column_bits
    mirrored = stones & (one_column << (right >> U64_1)) if board.columns % 2 else U64_0  # the middle stays
    for _ in range(board.columns // 2):
        mirrored |= (((stones >> left) & one_column) << right) | (((stones >> right) & one_column) << left)
        left += board.column_bits
        right -= board.column_bits
    return mirrored


@inlined
def position_key(own: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return a number that determines a position: ``own + occupied`` (Tromp).

    A column with h stones has the bits ``own + 2^h - 1``, from ``2^h - 1`` to ``2^(h + 1) - 2``: columns of different
    heights have different bits, and no sum overflows its column. So the key of the mirror image is the `mirror` of the
    key.
    """
    return own + occupied


@inlined
def mirror_is_canonical(board: Board, own: np.uint64, occupied: np.uint64) -> bool:
    """Return whether a position's mirror image has the smaller key of the two, and so is the canonical one."""
    key = position_key(own, occupied)
    return bool(mirror(board, key) < key)


@inlined
def canonical_key(board: Board, own: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the smaller of the keys of a position and of its mirror image."""
    key = position_key(own, occupied)
    return min(key, mirror(board, key))


@allocating
def canonical_keys(board: Board, own: Words, occupied: Words) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Return the canonical keys [B] of B positions, and a mask [B] of those that are the mirror image's."""
    keys = np.empty(len(own), np.uint64)
    mirrored = np.empty(len(own), np.bool_)
    for i in range(len(own)):
        keys[i] = canonical_key(board, own[i], occupied[i])
        mirrored[i] = keys[i] != position_key(own[i], occupied[i])
    return keys, mirrored


@allocating
def oriented(board: Board, own: Words, occupied: Words) -> tuple[Words, Words, npt.NDArray[np.bool_]]:
    """Return B positions in canonical orientation, and whether [B] each was mirrored."""
    own, occupied, mirrored = own.copy(), occupied.copy(), np.zeros(len(own), np.bool_)
    for i in range(len(own)):
        if mirror_is_canonical(board, own[i], occupied[i]):
            own[i], occupied[i], mirrored[i] = mirror(board, own[i]), mirror(board, occupied[i]), True
    return own, occupied, mirrored

"""One-sentence reasons for and against a move, which follow from the rules only.

The browser page makes the same sentences (alphac4/play/web/static/reasons.js). A *threat* is an empty cell where one
more stone of a side completes a row, now or later; it is odd or even like its height, counted from 1 at the bottom.
Columns are written as in move strings. If Red moves, `strength` returns one of these:

    4 completes a row.
    4 makes threats in 3 and 5 at once.
    4 makes threats in 5, one above the other.
    4 makes Yellow answer 5; then 6 makes threats in 3 and 7 at once.
    4 forces Yellow in the end to play 5, below Red's odd threat.
    4 stops Yellow's row.
    4 makes a threat in 5, which Yellow must answer.
    4 prevents Yellow's 3, which makes threats in 2 and 5 at once.
    4 makes an odd threat in 5.

`weakness` returns one of these. In the first, any of the first five reasons above can follow "which":

    4 lets Yellow play 5, which completes a row.
    4 lets Yellow stop Red's odd threat above it.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from alphac4.game.position import Outcome, Position, column_name
from alphac4.game.rules import has_run, landing_cell, legal_cells, winning_cells

Names = tuple[str, str]


def strength(position: Position, column: int, names: Names = ("Red", "Yellow")) -> str:
    """Return what a legal move achieves; "" for nothing simple, or if the opponent then has a simple way to win.

    ``names`` are the first and the second player's.
    """
    (side, opponent), name = _to_move(position, names), column_name(column)
    if way := _way_to_win(position, column, (side, opponent)):
        return f"{name} {way}."
    after = position.play(column)
    if _shortest(after, (opponent, side)):
        return ""
    if _threats(position, own=False) & int(landing_cell(position.board, position.occupied, column)):
        return f"{name} stops {opponent}'s row."
    for answer in _completing(after, own=False):
        return f"{name} makes a threat in {column_name(answer)}, which {opponent} must answer."
    passed = Position(position.opponent, position.occupied, position.board, None)
    for reply in passed.legal_columns():
        way = _double_threat(passed.play(reply))
        if way and not (after.is_legal(reply) and _double_threat(after.play(reply))):
            return f"{name} prevents {opponent}'s {column_name(reply)}, which {way}."
    made = _cells(position, _threats(after, own=False) & ~_threats(position, own=True))
    threats = [f"an {_parity(row)} threat in {column_name(column)}" for column, row in made]
    return f"{name} makes {_join(threats)}." if threats else ""


def weakness(position: Position, column: int, names: Names = ("Red", "Yellow")) -> str:
    """Return what a legal move gives away; "" if nothing simple. ``names`` are the first and the second player's."""
    (side, opponent), name = _to_move(position, names), column_name(column)
    after = position.play(column)
    if found := _shortest(after, (opponent, side)):
        reply, way = found
        return f"{name} lets {opponent} play {column_name(reply)}, which {way}."
    for above, row in _cells(position, _threats(position, own=True) & int(legal_cells(after.board, after.occupied))):
        if above == column and after.outcome() is None:
            return f"{name} lets {opponent} stop {side}'s {_parity(row)} threat above it."
    return ""


def _way_to_win(position: Position, column: int, names: Names, *, can_force: bool = True) -> str:
    """Return how a move wins for sure; "" for nothing simple. ``names`` are ours and the opponent's."""
    after = position.play(column)
    if after.outcome() == Outcome.LOSS:
        return "completes a row"
    if not _is_open(after):
        return ""
    if threats := _double_threat(after):
        return threats
    for answer in _completing(after, own=False) if can_force else []:
        if found := _shortest(after.play(answer), names, can_force=False):
            return f"makes {names[1]} answer {column_name(answer)}; then {column_name(found[0])} {found[1]}"
    if threat := _last_threat(after):
        below, row = threat
        return f"forces {names[1]} in the end to play {column_name(below)}, below {names[0]}'s {_parity(row)} threat"
    return ""


def _shortest(position: Position, names: Names, *, can_force: bool = True) -> tuple[int, str] | None:
    """Return the move whose `_way_to_win` is the shortest text, and that text; None if no move has one."""
    ways = {column: _way_to_win(position, column, names, can_force=can_force) for column in position.legal_columns()}
    return min(((column, way) for column, way in ways.items() if way), key=lambda item: len(item[1]), default=None)


def _double_threat(after: Position) -> str:
    """Return how the side that has just moved threatens two cells, of which its opponent can fill only one; or ""."""
    if not _is_open(after):
        return ""
    columns = _completing(after, own=False)
    if len(columns) > 1:
        return f"makes threats in {_join(map(column_name, columns))} at once"
    if columns and columns[0] in _completing(after.play(columns[0]), own=True):
        return f"makes threats in {column_name(columns[0])}, one above the other"
    return ""


def _last_threat(after: Position) -> tuple[int, int] | None:
    """Return the column and the row of a threat that decides the game, for the side that has just moved.

    That side answers every move in the same column, until only the cell below the threat is left to its opponent (Allis
    1988, "A Knowledge-based Approach of Connect-Four", rule Claimeven). So the other columns need an even number of
    empty cells, an odd number must be below the threat, and the opponent must not complete a row by the cells that it
    gets.
    """
    board = after.board
    heights = (after.grid() > 0).sum(axis=0).tolist()
    for column, row in _cells(after, _threats(after, own=False)):
        tops = [row if other == column else board.rows for other in range(board.columns)]
        left = [range(height, top) for height, top in zip(heights, tops, strict=True)]  # rows that will be filled
        if [len(rows) % 2 for rows in left] != [int(other == column) for other in range(board.columns)]:
            continue
        got = sum(_bit(after, other, filled) for other, rows in enumerate(left) for filled in rows[::2])
        if not has_run(board, np.uint64(int(after.own) | got)):
            return column, row
    return None


def _is_open(position: Position) -> bool:
    """Return whether the game is not over, and the side to move cannot complete a row at once."""
    return position.outcome() is None and not _completing(position, own=True)


def _completing(position: Position, *, own: bool) -> list[int]:
    """Return the columns where a stone of the side to move, or else of its opponent, completes a row at once."""
    cells = _threats(position, own=own) & int(legal_cells(position.board, position.occupied))
    return [column for column, _ in _cells(position, cells)]


def _threats(position: Position, *, own: bool) -> int:
    """Return the cells of the threats of the side to move, or else of its opponent."""
    stones = position.own if own else position.opponent
    return int(winning_cells(position.board, stones, position.occupied))


def _bit(position: Position, column: int, row: int) -> int:
    return 1 << (column * int(position.board.column_bits) + row)


def _cells(position: Position, bits: int) -> list[tuple[int, int]]:
    """Return cells as (column, row), column by column, both from 0."""
    board = position.board
    cells = itertools.product(range(board.columns), range(board.rows))
    return [cell for cell in cells if bits & _bit(position, *cell)]


def _to_move(position: Position, names: Names) -> Names:
    """Return the names of the side to move and of its opponent."""
    return names if position.first_to_move else names[::-1]


def _parity(row: int) -> str:
    return "even" if row % 2 else "odd"


def _join(words: Iterable[str]) -> str:
    """Return words such as "3, 5 and 6"."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last

"""Immutable `Position` on top of the compiled rules, and the notation of moves, values and outcomes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self

import numpy as np

from alphac4.game import rules
from alphac4.game.rules import STANDARD, Board, as_integer, check_board

MAX_EXAMPLE = 20  # characters of a move string in a message
COLUMN_NAMES = "123456789abcdefghijklmnopqrstuvwxyz"  # column 0 is written "1"


class Outcome(IntEnum):
    """Outcome of a game, for the side to move."""

    LOSS = -1
    DRAW = 0
    WIN = 1


class IllegalMove(ValueError):  # noqa: N818 - the field's term
    """Illegal move.

    Args:
        column: the move: a 0-based index, or a character of a move string.
        moves: the moves before it, or if they are not known, the number of stones, such as "8 stones".
        reason: why it is illegal.
    """

    def __init__(self, column: int | str, moves: str, reason: str) -> None:
        self.column = column
        self.moves = moves
        self.reason = reason
        name = repr(column) if isinstance(column, str) else f"{column} (columns count from 0)"
        after = f" after {moves!r}" if moves else ""
        super().__init__(f"illegal move {name}{after}: {reason}")

    def __reduce__(self) -> tuple[type["IllegalMove"], tuple[int | str, str, str]]:
        """Pickle the three arguments; by default, an exception pickles its text."""
        return type(self), (self.column, self.moves, self.reason)


def column_name(column: int) -> str:
    """Return the notation of a 0-based column: "1" for 0; letters follow "9"."""
    return COLUMN_NAMES[column] if 0 <= column < len(COLUMN_NAMES) else str(column + 1)


def mirror_moves(moves: str, columns: int) -> str:
    return "".join(column_name(columns - 1 - COLUMN_NAMES.index(name)) for name in moves)


def join_moves(words: Sequence[str]) -> str:
    """Return the move string of one word, such as "4412", or of a word per column, such as "4", "4", "1" and "2".

    Raise ValueError for others, such as "4", "4" and "12": 12 could be one column or two.
    """
    joined = "".join(words)
    if len(words) > 1 and len(joined) > len(words):
        example = joined if joined.isdecimal() and len(joined) <= MAX_EXAMPLE else "4412"
        raise ValueError(
            f"write the moves in one word, such as {example}, or one column per word, such as 4 4 1 2; "
            f"{' '.join(words)!r:.40} is neither"
        )
    return joined


def may_be_moves(text: str, board: Board = STANDARD) -> bool:
    """Return whether a text looks like a move string, legal or not, rather than like the name of a file."""
    return text.isdecimal() or not set(text.lower()) - set(COLUMN_NAMES[: board.columns])


def describe_outcome(position: "Position") -> str:
    """Return the result of a finished game: "a draw", "x has won" or "o has won"."""
    outcome = position.outcome()
    return "a draw" if outcome == 0 else f"{'ox'[not position.first_to_move]} has won"


def describe_end(sign: int, moves: int) -> str:
    """Return "wins in 3 moves" for a positive sign, else "loses in 3 moves"; ``moves`` are the winner's."""
    return f"{'wins' if sign > 0 else 'loses'} in {count_of(moves, 'move')}"


def describe_bound(sign: int, moves: int) -> str:
    """Return a win or loss in at most ``moves`` moves of the winner: "wins within 3 moves", but "wins in 1 move"."""
    return f"{'wins' if sign > 0 else 'loses'} {'in' if moves == 1 else 'within'} {count_of(moves, 'move')}"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 move" or "2,000 moves"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percents(shares: Iterable[float]) -> list[str]:
    """Return shares as whole per cent, such as "62 %"; the largest remainders are rounded up to keep the sum."""
    parts = [100 * share for share in shares]
    whole = [math.floor(part) for part in parts]
    missing = math.floor(sum(parts) + 0.5) - sum(whole)
    for index in sorted(range(len(parts)), key=lambda index: whole[index] - parts[index])[:missing]:
        whole[index] += 1
    return [f"{number} %" for number in whole]


def chance(value: float) -> str:
    """Return a value in [-1, 1] as the expected points in per cent, such as "62 %"; a draw counts half."""
    return percents([(1 + value) / 2])[0]


def check_stones(first: int, second: int, board: Board = STANDARD) -> None:
    """Raise ValueError for a board that no game can reach, as far as this can be decided without searching for a game.

    ``first`` and ``second`` are the bits of the players' stones. Some stone on top of a column must have been the
    last one: it belongs to the player who moved last, and the board without it has no run. So at most one side has
    a run, and one stone completes all of its runs.
    """
    occupied = first | second
    if first & second or occupied & ~int(board.playable):
        raise ValueError("impossible board: two stones in a cell, or a stone outside the board")
    counts = first.bit_count(), second.bit_count()
    if counts[0] - counts[1] not in (0, 1):
        raise ValueError(f"impossible board: {count_of(counts[0], 'stone')} of player 1 and {counts[1]} of player 2")
    # A column without gaps is a block of ones from the bottom: adding the bottom bits carries through all of it.
    above = occupied + int(board.bottom)
    if occupied & above:
        raise ValueError("impossible board: a stone has nothing below it")
    if not occupied:
        return
    last, other = (second, first) if counts[0] == counts[1] else (first, second)
    if rules.has_run(board, np.uint64(other)):
        both = " and the other one as well" if rules.has_run(board, np.uint64(last)) else ""
        raise ValueError(f"impossible board: the player to move has won{both}")
    tops = above >> 1 & last  # the player's stones on top of columns
    while tops and rules.has_run(board, np.uint64(last & ~(tops & -tops))):
        tops &= tops - 1
    if not tops:
        raise ValueError("impossible board: no stone can have been the last one")


def _as_bits(value: Any, name: str) -> np.uint64:
    try:
        bits = as_integer(value, name, 0)
    except TypeError as error:
        raise TypeError(
            f"Position takes the bits of its stones, not {value!r:.60}; write Position.from_moves('4455')"
        ) from error
    if bits >= 2**64:
        raise ValueError(f"{name} must be at most 64 bits, not {bits}")
    return np.uint64(bits)


@dataclass(frozen=True, repr=False)
class Position:
    """A position, for the side to move.

    Two positions are equal if their stones and boards are equal, however they were reached. `from_moves` and
    `from_kaggle` make positions. `check_stones` checks a position that is made from bits, unless you pass ``moves``,
    be it None.

    Args:
        own: bits of the stones of the side to move; `alphac4.game.rules` shows their order.
        occupied: bits of all stones.
        board: the board and the winning condition.
        moves: the move string that led here; None if it is not known.

    Raises:
        TypeError: for arguments of other types.
        ValueError: for stones in ``own`` that are not in ``occupied``, or that `check_stones` rejects.
    """

    own: np.uint64 = rules.U64_0
    occupied: np.uint64 = rules.U64_0
    board: Board = STANDARD
    moves: str | None = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in ("own", "occupied"):
            bits = getattr(self, name)
            if type(bits) is not np.uint64:
                object.__setattr__(self, name, _as_bits(bits, name))
        check_board(self.board)
        if not isinstance(self.moves, str | None):
            raise TypeError(f"moves must be a string such as '4455', not {self.moves!r:.60}")
        if self.own & ~self.occupied:
            raise ValueError("own has stones that are not in occupied, which must hold the stones of both sides")
        if self.moves == "" and self.occupied:  # made from bits
            check_stones(*self.sides, self.board)
            object.__setattr__(self, "moves", None)

    @classmethod
    def from_moves(cls, moves: str, board: Board = STANDARD) -> Self:
        """Play a move string of 1-based columns, such as "4455", from the empty board.

        Raises:
            IllegalMove: for the first character that is not a legal move.
            TypeError: if ``moves`` is not a string.
        """
        if not isinstance(moves, str):
            raise TypeError(f"moves must be a string of 1-based columns such as '4455', not {moves!r:.60}")
        position = cls(board=board)
        for character in moves:
            column = COLUMN_NAMES.find(character.lower())
            if not 0 <= column < board.columns:
                last = column_name(board.columns - 1)
                raise IllegalMove(character, position.moves or "", f"columns are written 1 to {last}")
            try:
                position = position.play(column)
            except IllegalMove as error:
                raise IllegalMove(character, error.moves, error.reason) from None
        return position

    @classmethod
    def from_kaggle(cls, cells: Sequence[int], mark: int | None = None, board: Board = STANDARD) -> Self:
        """Read Kaggle's flat board: row-major from the top left, 0 empty, 1 first player, 2 second.

        ``mark`` is the side to move, 1 or 2; by default the counts of stones decide it.

        Raises:
            TypeError: if the cells are not a sequence, or the board has another type.
            ValueError: for a wrong length, unknown values, a wrong ``mark``, or a board that `check_stones` rejects.
        """
        check_board(board)
        if isinstance(cells, str) or not (hasattr(cells, "__len__") and hasattr(cells, "__getitem__")):
            raise TypeError(f"cells must be a list with 0, 1 or 2 for each cell, row by row, not {cells!r:.60}")
        if len(cells) != board.cells:
            raise ValueError(f"a board of {board.rows} x {board.columns} has {board.cells} cells, not {len(cells)}")
        stones = {1: 0, 2: 0}
        for index, value in enumerate(cells):
            if value not in (0, 1, 2):
                raise ValueError(f"cell {index} of the board holds {value!r}; expected 0, 1 or 2")
            if value:
                row, column = board.rows - 1 - index // board.columns, index % board.columns
                stones[value] |= 1 << (column * (board.rows + 1) + row)
        check_stones(stones[1], stones[2], board)
        counts = stones[1].bit_count(), stones[2].bit_count()
        to_move = 1 if counts[0] == counts[1] else 2
        if mark is not None and mark != to_move:
            raise ValueError(f"player {mark!r} cannot be to move with {counts[0]} and {counts[1]} stones on the board")
        occupied = stones[1] | stones[2]
        return cls(np.uint64(stones[to_move]), np.uint64(occupied), board, None if occupied else "")

    @property
    def plies(self) -> int:
        """The number of stones on the board."""
        return int(self.occupied).bit_count()

    @property
    def opponent(self) -> np.uint64:
        """Bits of the stones of the side that is not to move."""
        return np.uint64(self.own ^ self.occupied)

    @property
    def first_to_move(self) -> bool:
        """Whether the first player is to move."""
        return self.plies % 2 == 0

    @property
    def sides(self) -> tuple[int, int]:
        """Bits of the stones of the first player and of the second player."""
        own, opponent = int(self.own), int(self.opponent)
        return (own, opponent) if self.first_to_move else (opponent, own)

    def is_legal(self, column: int) -> bool:
        """Whether the side to move can play the 0-based column; False after the end of the game.

        Raises:
            TypeError: if the column is not an integer.
        """
        board, column = self.board, as_integer(column, "column")
        has_room = 0 <= column < board.columns and bool(rules.landing_cell(board, self.occupied, column))
        return has_room and self.outcome() is None

    def legal_columns(self) -> list[int]:
        """Return the 0-based columns of all legal moves; none after the end of the game."""
        if self.outcome() is not None:
            return []
        board, occupied = self.board, self.occupied
        return [column for column in range(board.columns) if rules.landing_cell(board, occupied, column)]

    def play(self, column: int) -> Self:
        """Return the position after the side to move drops a stone into a 0-based column.

        Raises:
            IllegalMove: if the game is over, or the column is full or not on the board.
            TypeError: if the column is not an integer.
        """
        column = as_integer(column, "column")
        shown = self.moves if self.moves is not None else count_of(self.plies, "stone")
        if not 0 <= column < self.board.columns:
            raise IllegalMove(column, shown, f"the board has {count_of(self.board.columns, 'column')}")
        if self.outcome() is not None:
            raise IllegalMove(column, shown, "the game is over")
        if not rules.landing_cell(self.board, self.occupied, column):
            raise IllegalMove(column, shown, "the column is full")
        own, occupied = rules.play(self.board, self.own, self.occupied, column)
        moves = None if self.moves is None else self.moves + column_name(column)
        return type(self)(np.uint64(own), np.uint64(occupied), self.board, moves)

    def outcome(self) -> Outcome | None:
        """Return the outcome for the side to move: in games, a loss or a draw; None if the game is not over."""
        if rules.has_run(self.board, self.opponent):
            return Outcome.LOSS
        if rules.has_run(self.board, self.own):  # only possible on a board that no game reaches
            return Outcome.WIN
        return Outcome.DRAW if self.occupied == self.board.playable else None

    def mirror(self) -> Self:
        """The position with left and right exchanged."""
        board = self.board
        moves = None if self.moves is None else mirror_moves(self.moves, board.columns)
        own, occupied = rules.mirror(board, self.own), rules.mirror(board, self.occupied)
        return type(self)(np.uint64(own), np.uint64(occupied), board, moves)

    def to_kaggle(self) -> list[int]:
        """Return Kaggle's flat board: row-major from the top left, 0 empty, 1 first player, 2 second."""
        return [int(cell) for cell in self.grid()[::-1].ravel()]

    def grid(self) -> np.ndarray:
        """Return the board as int8 [rows, columns], bottom row first: 0 empty, 1 first player, 2 second."""
        board, (first, _) = self.board, self.sides
        cells = np.zeros((board.rows, board.columns), dtype=np.int8)
        for column in range(board.columns):
            for row in range(board.rows):
                bit = 1 << (column * (board.rows + 1) + row)
                if int(self.occupied) & bit:
                    cells[row, column] = 1 if first & bit else 2
        return cells

    def __repr__(self) -> str:
        """Return an expression that makes the position: `from_moves`, or the bits if the moves are not known."""
        known = self.moves is not None
        arguments = [repr(self.moves)] if known else [f"own={int(self.own)}", f"occupied={int(self.occupied)}"]
        if self.board != STANDARD:
            sizes = ", ".join(f"{name}={value}" for name, value in rules.board_settings(self.board).items())
            arguments.append(f"board=make_board({sizes})")
        if not known:
            arguments.append("moves=None")
        return f"Position{'.from_moves' * known}({', '.join(arguments)})"

    def __str__(self) -> str:
        """Return the board as text: ``x`` first player, ``o`` second, column names below."""
        lines = [" ".join(".xo"[cell] for cell in row) for row in self.grid()[::-1]]
        lines.append(" ".join(column_name(column) for column in range(self.board.columns)))
        return "\n".join(lines)

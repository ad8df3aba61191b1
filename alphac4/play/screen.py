"""Board, analysis and exact results as they appear in a terminal."""

import contextlib
import os
import sys
from typing import Self, TextIO

import numpy as np

from alphac4.bars import Bar
from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES, chance, column_name, count_of, percents
from alphac4.machine import NOTICE_DELAY_S, format_table, notify_if_slow, terminal_width, wrap_text
from alphac4.mcts.results import SearchResult
from alphac4.solver.solver import ExactColumn, Solver, exact, shared_solver

RESET, BOLD, DIM, UNDERLINE = "\033[0m", "\033[1m", "\033[2m", "\033[4m"
COLOURS = {"x": "\033[91m", "o": "\033[93m", ".": "\033[34m"}
SYMBOLS = EMPTY_SYMBOL, STONE_SYMBOL, BAR_SYMBOL = "·●█"
BAR = 20  # characters of a full bar


class Screen:
    """Output to a stream, in colour if it is a terminal that supports it (https://no-color.org)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.colour = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._has_symbols = self.colour and _can_write(stream, SYMBOLS)

    @property
    def width(self) -> int | None:
        """The characters per line of the terminal; None for other streams."""
        return terminal_width(self._stream)

    def line(self, text: str = "", *, style: str = "") -> None:
        """Write a text; on a terminal, long lines break between words."""
        print(self._styled(wrap_text(text, self._stream), style), file=self._stream, flush=True)

    def waiting(self, text: str, position: Position | None = None) -> contextlib.AbstractContextManager[None]:
        """On a terminal, if the block takes over a second, print a line about it, below the ``position`` if given."""

        def announce() -> None:
            if position is not None:
                self.board(position)
            self.line(f"\n{text} ...", style=DIM)

        return notify_if_slow(announce, self._stream)

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}{RESET}" if style and self.colour else text

    def board(self, position: Position) -> None:
        self.line()
        self.line(self.drawn(position))

    def drawn(self, position: Position) -> str:
        """Return the board as text; winning runs, else the last stone, are underlined, or capital without colours."""
        board, grid, marked = position.board, position.grid(), _marked_cells(position)
        lines = []
        for row in range(board.rows - 1, -1, -1):
            cells = []
            for column in range(board.columns):
                stone = ".xo"[int(grid[row, column])]
                mark = (row, column) in marked
                style = (BOLD + UNDERLINE if mark else "") + COLOURS[stone]
                plain = stone.upper() if mark else stone
                symbol = EMPTY_SYMBOL if stone == "." else STONE_SYMBOL
                cells.append(self._styled(symbol if self._has_symbols else plain, style))
            lines.append("  " + " ".join(cells))
        names = "  " + " ".join(column_name(column) for column in range(board.columns))
        return "\n".join([*lines, self._styled(names, DIM)])

    def stone(self, index: int) -> str:
        """Return a stone of the first (0) or second (1) player as the board shows it."""
        letter = "xo"[index]
        return self._styled(STONE_SYMBOL if self._has_symbols else letter, COLOURS[letter])

    def side(self, index: int) -> str:
        """Return a player's stone, and its colour's name if colours are on."""
        return self.stone(index) + (f" {('red', 'yellow')[index]}" if self.colour else "")

    def analysis(self, analysis: SearchResult) -> None:
        """Show a bar of visits for each move, and the chances of the side to move."""
        self.line()
        rows = [("  column", "visits", "", "chance", "prior", "")]
        columns = analysis.columns.values()
        visits, priors = percents(item.visit_share for item in columns), percents(item.prior or 0 for item in columns)
        for item, visit_share, prior in zip(columns, visits, priors, strict=True):
            bar = (BAR_SYMBOL if self._has_symbols else "#") * round(BAR * item.visit_share)
            value = "-" if item.value is None else chance(item.value)
            name = column_name(item.column) + (" *" if item.column == analysis.move else "  ")
            rows.append((name, f"{bar:<{BAR}}", visit_share, value, "-" if item.prior is None else prior, item.proof))
        head, *lines = format_table(rows, left=[1, 5])
        self.line(head, style=DIM)
        self.line("\n".join(lines))
        self.line("  * the search's choice; words are proven, chances are estimates; a draw counts half", style=DIM)
        win, draw, loss = percents(analysis.wdl)
        side, estimate = self.side(0 if analysis.position.first_to_move else 1), chance(analysis.value)
        self.line(f"  {analysis.player} gives {side} {estimate}: wins {win}, draws {draw}, loses {loss}")
        self.line(f"  expected moves {' '.join(map(column_name, analysis.pv))}")
        self.line(f"  {count_of(analysis.simulations, 'simulation')} in {analysis.seconds:.1f} s")

    def verdict(self, position: Position) -> list[ExactColumn]:
        """Show and return the exact result of each move."""
        self.line(f"\n  {self.side(0 if position.first_to_move else 1)} to move, exact results (* best):")
        with SolvingProgress(shared_solver(position.board), stream=self._stream) as progress:
            columns = exact(position, progress)
        for item in columns:
            self.line(f"  {column_name(item.column):>6}  {item.text}{'  *' if item.is_best else ''}")
        return columns


class SolvingProgress:
    """Context manager with the solver's progress on a line, which its exit removes; on terminals only.

    It is also the solver's ``on_poll``. It writes to the standard error unless another stream is given.
    """

    def __init__(self, solver: Solver, label: str = "solving", stream: TextIO | None = None) -> None:
        self._solver = solver
        self._nodes = solver.nodes
        stream = stream or sys.stderr
        self._bar = Bar(
            desc=label,
            unit=" positions",
            unit_scale=True,
            delay=NOTICE_DELAY_S,
            file=stream,
            bar_format="{desc}: {elapsed}, {n_fmt} positions (Ctrl-C stops)",
        )

    def label(self, text: str) -> None:
        self._bar.set_description_str(text, refresh=False)

    def __call__(self) -> None:
        """Add the positions searched since the last call."""
        self._bar.update(self._solver.nodes - self._nodes - self._bar.n)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.close()


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding)
    except UnicodeEncodeError:
        return False
    return True


def _marked_cells(position: Position) -> set[tuple[int, int]]:
    """Return the (row, column) cells of the winning runs or, if the game is not won, of the last stone."""
    board, grid = position.board, position.grid()
    stones = {(int(row), int(column)) for row, column in np.argwhere(grid == (2 if position.first_to_move else 1))}
    directions = [(1, 0), (0, 1)] + ([(1, 1), (-1, 1)] if board.diagonals else [])
    runs = [
        {(row + step * down, column + step * right) for step in range(board.run_length)}
        for row, column in stones
        for down, right in directions
    ]
    cells = set().union(*(run for run in runs if run <= stones))
    if not cells and position.moves:
        column = COLUMN_NAMES.index(position.moves[-1])
        cells.add((int((grid[:, column] > 0).sum()) - 1, column))
    return cells

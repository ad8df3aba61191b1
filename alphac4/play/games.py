"""Games as move strings, files of games, and a game in progress."""

import os
from collections.abc import Iterable
from pathlib import Path

from alphac4.game import Board, Position
from alphac4.game.position import join_moves, may_be_moves
from alphac4.game.rules import STANDARD
from alphac4.storage.files import write_atomically
from alphac4.storage.records import quote
from alphac4.storage.text import parse_lines, read_text_lines


def read_games(source: str, stdin: Iterable[str], board: Board = STANDARD) -> list[str]:
    """Return the move strings of ``source``: a game, a file with a game per line, or "-" for the lines of ``stdin``.

    A game is one word, or a word per column. `alphac4.storage.text` describes the lines. The error of an
    invalid game names its line.
    """

    def parse(words: list[str]) -> str:
        moves = join_moves(words)
        Position.from_moves(moves, board)
        return moves

    if source == "-":
        name, lines = "the standard input", stdin
    elif os.path.exists(source) and not os.path.isdir(source):  # noqa: PTH110, PTH112 - no error for very long names
        name, lines = source, read_text_lines(Path(source))
    else:
        words = source.split()
        if not words:
            raise ValueError("no game given; write its columns, such as 4455, a file's name, or -")
        if not may_be_moves("".join(words), board):
            raise ValueError(f"{quote(source)} is neither a game such as 4455 nor an existing file")
        return [parse(words)]
    games = list(parse_lines(lines, name, parse))
    if not games:
        raise ValueError(f"{name} contains no game")
    return games


class Session:
    """Position of one game, with undo and redo; a new move discards the undone ones, and an error changes nothing."""

    def __init__(self, moves: str = "", board: Board = STANDARD) -> None:
        self.board = board
        self.load(moves)

    @property
    def moves(self) -> str:
        return self.position.moves or ""

    def load(self, moves: str) -> None:
        """Start from a move string; raise IllegalMove at the first illegal move."""
        self.position = Position.from_moves(moves, self.board)
        self._undone = ""

    def open(self, text: str) -> None:
        """Start from a file with one game, or from a move string; raise ValueError for a file with none or several."""
        self.load(self._read(text) if text else "")

    def _read(self, text: str) -> str:
        games = read_games(text, (), self.board)
        if len(games) > 1:
            raise ValueError(f"{text} contains {len(games)} games, not one")
        return games[0]

    def play(self, column: int) -> None:
        self.position, self._undone = self.position.play(column), ""

    def undo(self, plies: int = 1) -> int:
        """Take back up to ``plies`` moves; return their number."""
        taken = self.moves[-plies:]
        if taken:  # otherwise keep the same position object, by which the terminal detects changes
            kept = self.moves[: -len(taken)]
            self.position, self._undone = Position.from_moves(kept, self.board), taken + self._undone
        return len(taken)

    def redo(self, plies: int = 1) -> int:
        """Play up to ``plies`` undone moves again; return their number."""
        again, self._undone = self._undone[:plies], self._undone[plies:]
        if again:
            self.position = Position.from_moves(self.moves + again, self.board)
        return len(again)

    def save(self, path: Path) -> None:
        """Write the moves to a text file; replace a file only if it is empty or has one game and no comment."""
        if not self.moves:
            raise ValueError("there is no move to save yet")
        if not path.parent.is_dir():
            raise ValueError(f"there is no folder {path.parent}: create it first, or choose another place")
        if path.is_file() and path.stat().st_size:
            try:
                self._read(str(path))
            except ValueError:
                raise ValueError(f"{path} exists and is not a game: choose another name") from None
            if any("#" in line for line in read_text_lines(path)):
                raise ValueError(f"{path} exists and contains comments: choose another name")
        write_atomically(path, f"{self.moves}\n".encode())

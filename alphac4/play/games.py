"""Games as people write them, their files, and a game in progress."""

import os
from collections.abc import Iterable
from pathlib import Path

from alphac4.game import Geometry, Position
from alphac4.game.position import join_moves, may_be_moves
from alphac4.game.rules import STANDARD
from alphac4.storage.files import write_atomically
from alphac4.storage.text import parse_lines, read_text_lines


def read_games(source: str, stdin: Iterable[str], geometry: Geometry = STANDARD) -> list[str]:
    """The move strings that ``source`` holds: a game itself, a file with a game per line, or "-" for the ``stdin``.

    A game is one word, or a word per column. `alphac4.storage.text` describes the lines.

    Raises:
        ValueError: naming the line that is not a game, or if there is none.
        OSError: if the file cannot be read.
    """

    def parse(words: list[str]) -> str:
        moves = join_moves(words)
        Position.from_moves(moves, geometry)
        return moves

    if source == "-":
        name, lines = "the standard input", stdin
    elif os.path.exists(source) and not os.path.isdir(source):  # noqa: PTH110, PTH112 - a name too long is no error
        name, lines = source, read_text_lines(Path(source))
    else:
        words = source.split()
        if not words:
            raise ValueError("there is no move to review; write the game as columns, such as 4455, a file's name, or -")
        if not may_be_moves("".join(words), geometry):
            raise ValueError(f"{source!r} is no game such as 4455, and there is no such file")
        return [parse(words)]
    games = list(parse_lines(lines, name, parse))
    if not games:
        raise ValueError(f"{name} holds no game")
    return games


class Session:
    """The position of one game, and the moves that were taken back; a new move forgets those."""

    def __init__(self, moves: str = "", geometry: Geometry = STANDARD) -> None:
        self.geometry = geometry
        self.load(moves)

    @property
    def moves(self) -> str:
        """The moves that led here."""
        return self.position.moves or ""

    def load(self, moves: str) -> None:
        """Begin from a move string. Raises IllegalMove naming the offending character; the game stays as it was."""
        self.position = Position.from_moves(moves, self.geometry)
        self._undone = ""

    def open(self, text: str) -> None:
        """Begin from a file with one game, or from a move string.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if there is not one game; the game stays as it was.
        """
        self.load(self._read(text) if text else "")

    def _read(self, text: str) -> str:
        games = read_games(text, (), self.geometry)
        if len(games) > 1:
            raise ValueError(f"{text} holds {len(games)} games, not one")
        return games[0]

    def play(self, column: int) -> None:
        """Drop a stone into a 0-based column. Raises IllegalMove, and then the game stays as it was."""
        self.position, self._undone = self.position.play(column), ""

    def undo(self, plies: int = 1) -> int:
        """Take moves back; returns how many there were to take."""
        taken = self.moves[-plies:]
        if taken:  # or else the position would be another one, on which a player that waits would move
            kept = self.moves[: -len(taken)]
            self.position, self._undone = Position.from_moves(kept, self.geometry), taken + self._undone
        return len(taken)

    def redo(self, plies: int = 1) -> int:
        """Play undone moves again; returns how many there were."""
        again, self._undone = self._undone[:plies], self._undone[plies:]
        if again:
            self.position = Position.from_moves(self.moves + again, self.geometry)
        return len(again)

    def save(self, path: Path) -> None:
        """Write the moves to a text file, in place of an earlier game.

        Raises:
            OSError: if it cannot be written.
            ValueError: if there are none, or something else than a game would be lost.
        """
        if not self.moves:
            raise ValueError("there is no move to save yet")
        if path.is_file() and path.stat().st_size:
            try:
                self._read(str(path))
            except ValueError:
                raise ValueError(f"{path} is there and holds no game: it is kept, choose another name") from None
        write_atomically(path, f"{self.moves}\n".encode())

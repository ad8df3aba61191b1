"""A game in progress: moves, undo, redo, load, save."""

import os
from pathlib import Path

from alphac4.game import Geometry, IllegalMove, Position
from alphac4.game.position import may_be_moves
from alphac4.game.rules import STANDARD
from alphac4.storage.files import write_atomically


class Session:
    """The moves of one game and how far they have been played; a new move forgets what was undone."""

    def __init__(self, moves: str = "", geometry: Geometry = STANDARD) -> None:
        self.geometry = geometry
        self.load(moves)

    @property
    def position(self) -> Position:
        """The position now."""
        return self._positions[self._ply]

    @property
    def moves(self) -> str:
        """The moves that led here."""
        return self.position.moves or ""

    def load(self, moves: str) -> None:
        """Begin from a move string.

        Raises:
            IllegalMove: naming the offending character; the game stays as it was.
        """
        Position.from_moves(moves, self.geometry)
        self._positions = [Position.from_moves(moves[:ply], self.geometry) for ply in range(len(moves) + 1)]
        self._ply = len(moves)

    def open(self, text: str) -> None:
        """Begin from a file that `save` wrote, or from a move string.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it holds no game, or the text is neither; the game stays as it was.
        """
        if os.path.isfile(text):  # noqa: PTH113 - a name too long for a file is none, not an error
            self.load_file(Path(text))
        elif not may_be_moves(text, self.geometry):
            raise ValueError(f"{text!r} is no move string such as 4455, and there is no such file")
        else:
            self.load(text)

    def play(self, column: int) -> None:
        """Drop a stone into a 0-based column.

        Raises:
            IllegalMove: and the game stays as it was.
        """
        following = self.position.play(column)
        del self._positions[self._ply + 1 :]
        self._positions.append(following)
        self._ply += 1

    def undo(self, plies: int = 1) -> int:
        """Take moves back; returns how many there were to take."""
        taken = min(plies, self._ply)
        self._ply -= taken
        return taken

    def redo(self, plies: int = 1) -> int:
        """Play undone moves again; returns how many there were."""
        replayed = min(plies, len(self._positions) - 1 - self._ply)
        self._ply += replayed
        return replayed

    def save(self, path: Path) -> None:
        """Write the moves to a text file, which takes the place of an earlier game's.

        Raises:
            OSError: if it cannot be written.
            ValueError: if something else than a game would be lost.
        """
        if path.is_file() and path.stat().st_size:
            try:
                Session(geometry=self.geometry).load_file(path)
            except ValueError:
                raise ValueError(f"{path} is there and holds no game: it is kept, choose another name") from None
        write_atomically(path, f"{self.moves}\n".encode())

    def load_file(self, path: Path) -> None:
        """Begin from a file that `save` wrote.

        Raises:
            OSError: if it cannot be read.
            ValueError: if it holds no game.
        """
        text = path.read_bytes().decode("utf-8", errors="replace")
        if not text:
            raise ValueError(f"{path}: the file is empty")
        try:
            self.load(text.strip())
        except IllegalMove as error:
            raise ValueError(f"{path}: {error}") from error

"""Any program that speaks the line protocol of `alphac4 engine` as a player."""

import queue
import shlex
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence

from alphac4.arena.players import PlayerError
from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES

START_SECONDS = 120.0  # for loading and compiling
MOVE_SECONDS = 300.0  # for a move
CLOSE_SECONDS = 5.0


class EnginePlayer:
    """Asks a program for its moves, one after the other; how long it thinks is for its own command line to say.

    Args:
        command: the program with its arguments, as a shell would split them.
        start_seconds: how long it may take to be ready.
        move_seconds: how long it may take for a move.

    Raises:
        PlayerError: in one line, if it cannot be started, does not speak the protocol, or is too slow.
    """

    def __init__(
        self, command: str, *, start_seconds: float = START_SECONDS, move_seconds: float = MOVE_SECONDS
    ) -> None:
        self.name = f"engine:{command}"
        self._move_seconds = move_seconds
        try:
            self._process = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, ValueError, IndexError) as error:
            raise PlayerError(f"{self.name!r} cannot be started: {error}") from error
        self._close = weakref.finalize(self, _end, self._process)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        self._ask("c4i", "c4iok", start_seconds)
        self._ask("isready", "readyok", start_seconds)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `alphac4.arena.players.Player`; the positions need their move strings.

        Raises:
            PlayerError: in one line, if the program ends, refuses the position or is too slow.
        """
        return [self._choose(position) for position in positions]

    def close(self) -> None:
        """End the program."""
        self._close()

    def _choose(self, position: Position) -> int:
        if position.moves is None:
            raise PlayerError(f"{self.name!r} only plays positions whose moves are known")
        moves = " ".join(position.moves)
        self._send(f"position startpos moves {moves}" if moves else "position startpos")
        words = self._ask("go", "bestmove", self._move_seconds).split()
        column = COLUMN_NAMES.find(words[1].lower()) if len(words) > 1 and len(words[1]) == 1 else -1
        if not 0 <= column < position.geometry.columns:
            raise PlayerError(f"{self.name!r} answered {' '.join(words)!r}, which names no column")
        return column

    def _ask(self, question: str, answer: str, seconds: float) -> str:
        """The line that begins with ``answer``, whatever else is written until then."""
        self._send(question)
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._line_until(deadline)
            except queue.Empty as error:
                self.close()
                raise PlayerError(f"{self.name!r} did not answer {question!r} for {seconds:g} s") from error
            if line is None:
                raise self._ended()
            word = line.split(maxsplit=1)[0] if line.split() else ""
            if word == answer:
                return line.strip()
            if word == "error":
                self.close()  # what it answers next would belong to another question
                raise PlayerError(f"{self.name!r} answered {question!r} with {line.strip()!r}")

    def _line_until(self, deadline: float) -> str | None:
        """The next line; None at the end. Raises `queue.Empty` after the deadline, though there may be more of them."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise queue.Empty
        return self._lines.get(timeout=left)

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except OSError as error:  # it no longer listens
            raise self._ended() from error

    def _ended(self) -> PlayerError:
        """It does not write or listen any more, though it may not have ended by itself."""
        self.close()
        return PlayerError(f"{self.name!r} ended with exit code {self._process.returncode}")


def _read(process: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """Let it leave by itself, or else kill it."""
    assert process.stdin is not None
    try:
        process.stdin.write("quit\n")
        process.stdin.close()
    except OSError:
        pass
    try:
        process.wait(CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

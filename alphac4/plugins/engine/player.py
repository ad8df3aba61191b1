"""Programs that play by the line protocol."""

import contextlib
import os
import queue
import shlex
import shutil
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from alphac4.arena import PlayerError
from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.machine import CHECK_INTERVAL_S, check_block
from alphac4.storage.records import quote, shorten

START_TIMEOUT_S = 120.0  # time for loading and compiling
MOVE_TIMEOUT_S = 300.0  # time for a move
CLOSE_TIMEOUT_S = 1.0  # time for ending after "quit"
MAX_LINE_LENGTH, MAX_QUEUED_LINES = 4096, 500  # characters of a line, and lines that wait to be read
# A shell that kills a group of processes when its input ends. This process holds that input open while it runs.
WATCHDOG = ("/bin/sh", "-c", 'exec >/dev/null 2>&1; read -r line; kill -s KILL -- "-$1"', "watchdog")


def command_files(command: str) -> list[Path]:
    """Return the files that a command names: its program, which may be on the search path, and its arguments."""
    program, *arguments = shlex.split(command) or [""]
    words = [shutil.which(program) or program, *arguments]
    return [Path(word) for word in words if os.path.isfile(word)]  # noqa: PTH113 - no error for very long names


class EnginePlayer:
    """Program that chooses moves by the protocol of `alphac4 engine`, one position at a time.

    When this process ends, even if it is killed, the program and its child processes are killed. On Windows, a program
    that ignores the end of its input survives if this process is killed.

    Args:
        command: the program with its arguments, quoted as for a shell. Its own options limit its search.

    Raises:
        PlayerError: if it cannot be started, does not follow the protocol, or is too slow.
    """

    def __init__(self, command: str) -> None:
        self.name = f"engine:{command}"
        if not command.strip():
            raise PlayerError("engine: needs a command, such as engine:./my-engine")
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
                start_new_session=True,  # so that the program's own children can be ended with it
            )
            watchdog = None
            if os.name == "posix":  # Windows has no groups of processes
                words = [*WATCHDOG, str(self._process.pid)]
                watchdog = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
        except (OSError, ValueError) as error:
            raise PlayerError(f"{quote(self.name)} cannot be started: {shorten(str(error))}") from error
        self.close = weakref.finalize(self, _end, self._process, watchdog)  # ends the program, once
        assert self._process.stdout is not None
        self._lines = queue.Queue[str | None](MAX_QUEUED_LINES)
        threading.Thread(target=_read_lines, args=(self._process.stdout, self._lines), daemon=True).start()
        self._ask(["c4i"], "c4iok", START_TIMEOUT_S)
        self._ask(["isready"], "readyok", START_TIMEOUT_S)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """Return a 0-based column for each position, which must have its move string.

        Raises:
            PlayerError: if the program ends, rejects the position or is too slow.
        """
        return [self._choose(position) for position in positions]

    def _choose(self, position: Position) -> int:
        if position.moves is None:
            raise PlayerError(f"{quote(self.name)} only plays positions whose moves are known")
        moves = " moves " + " ".join(position.moves) if position.moves else ""
        # A move that is printed before "readyok" answers an earlier request.
        self._ask([f"position startpos{moves}", "isready"], "readyok", MOVE_TIMEOUT_S)
        words = self._ask(["go"], "bestmove", MOVE_TIMEOUT_S).split()
        column = COLUMN_NAMES.find(words[1].lower()) if len(words) > 1 and len(words[1]) == 1 else -1
        if not 0 <= column < position.board.columns:
            raise PlayerError(f"{quote(self.name)} answered {' '.join(words)!r:.80}, which is not a column")
        return column

    def _ask(self, commands: Sequence[str], answer: str, seconds: float) -> str:
        """Send commands and return the first line that begins with ``answer``; skip the lines before it."""
        for command in commands:
            self._send(command)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            check_block()
            try:
                line = self._lines.get(timeout=CHECK_INTERVAL_S)
            except queue.Empty:
                continue
            if line is None:
                raise self._ended()
            words = line.split(maxsplit=1)
            if words[:1] == [answer]:
                return line.strip()
            if words[:1] == ["error"]:
                self.close()  # its next answer would belong to this request
                raise PlayerError(f"{quote(self.name)} answered {commands[0]!r} with {line.strip()!r:.200}")
        self.close()
        raise PlayerError(f"{quote(self.name)} did not answer {commands[-1]!r} for {seconds:g} s")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:  # the program no longer reads, or was closed
            raise self._ended() from error

    def _ended(self) -> PlayerError:
        """Close the program and return the error to raise."""
        self.close()
        return PlayerError(f"{quote(self.name)} ended with exit code {self._process.returncode}")


def _read_lines(stream: IO[str], lines: "queue.Queue[str | None]") -> None:
    """Put the lines of a stream into a queue, and None after the last; a full queue makes the program wait.

    Byte-order marks are removed, and lines are cut at `MAX_LINE_LENGTH` characters.
    """
    is_rest = False  # whether the next part continues a line that was cut
    while part := stream.readline(MAX_LINE_LENGTH):
        if not is_rest:
            lines.put(part.replace("\ufeff", ""))
        is_rest = not part.endswith("\n")
    lines.put(None)


def _end(process: subprocess.Popen[str], watchdog: subprocess.Popen[bytes] | None) -> None:
    """Send "quit" to a program, kill it if it does not end, and kill the processes that it leaves behind."""
    assert process.stdin is not None
    try:
        process.stdin.write("quit\n")
        process.stdin.close()
    except OSError:
        pass
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(CLOSE_TIMEOUT_S)
    if watchdog is not None:
        watchdog.communicate()
    process.kill()
    process.wait()

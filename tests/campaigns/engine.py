"""Talks to the engine in thousands of lines: valid, mutated and random ones, as bytes through a pipe.

``PYTHONPATH=tests python -m campaigns.engine --count 10000``

Every line that the engine writes must be one of the protocol's, every "go" must be answered by one "bestmove" that the
rules allow or by one error, and after each batch "isready" by "readyok". At the end it must have written nothing to its
standard error, and leave with code 0.
"""

import argparse
import random
import subprocess
import sys
import time
from collections import Counter

from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.play.engine import COMMANDS

ANSWERS = ("id", "option", "c4iok", "readyok", "info", "bestmove", "exact", "error", ".", "x", "o", "1")
ANSWERS = (*ANSWERS, *(line.split()[0] for line in COMMANDS))  # of "help"
BATCH = 50


class Conversation:
    """An engine in a process of its own, and what both sides have said."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.said = Counter[str]()
        self.engine = subprocess.Popen(
            [sys.executable, "-m", "alphac4.cli", "engine", "--player", "uct:20", "--nodes", "20"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def batch(self, size: int) -> None:
        """Send some lines, then a known position and a search in it, and check all that comes back."""
        moves = self.moves()
        lines = [self.line() for _ in range(size)]
        end = f"end-of-batch-{self.said['lines']}"
        lines += [b"stop", f"position {moves}".encode(), b"go nodes 20", b"stop", b"isready", end.encode()]
        assert self.engine.stdin is not None
        assert self.engine.stdout is not None
        self.engine.stdin.write(b"".join(line + b"\n" for line in lines))
        self.engine.stdin.flush()
        answers: list[str] = []
        while True:
            answer = self.engine.stdout.readline().decode()
            assert answer, f"the engine has gone after {lines}"
            answers.append(answer.rstrip("\n"))
            assert answers[-1].split()[0] in ANSWERS, answers[-1]
            if answers[-1].startswith(f"error unknown command '{end}'"):
                break
        best, ready = answers[-3:-1]
        assert best.startswith("bestmove ")
        assert ready == "readyok"
        move = COLUMN_NAMES.index(best.split()[1])
        assert move in Position.from_moves(moves).legal_columns(), f"{best} after {moves}"
        searches = sum(line.split()[:1] == [b"go"] for line in lines)
        assert sum(answer.startswith("bestmove") for answer in answers) <= searches
        self.said["lines"] += len(lines)
        self.said.update(f"answered by {answer.split()[0]}" for answer in answers if answer[:1].isalpha())

    def moves(self) -> str:
        """The moves of an unfinished game."""
        position = Position()
        for _ in range(self.random.randint(0, 30)):
            following = position.play(self.random.choice(position.legal_columns()))
            if following.outcome() is not None:
                break
            position = following
        return position.moves or ""

    def line(self) -> bytes:
        """Something to say; never one that ends the talk, or that would take the solver minutes."""
        kind = self.random.random()
        if kind < 0.15:
            line = self.random.randbytes(self.random.randint(0, 300))
        else:
            line = self.valid()
            for _ in range(self.random.randint(0, 3) if kind < 0.6 else 0):
                line = self.mutated(line)
        line = line.replace(b"\n", b" ").replace(b"\r", b" ")
        return b"" if line.split()[:1] and line.split()[0].lower() in (b"quit", b"exact") else line

    def valid(self) -> bytes:
        """A line as docs/ENGINE.md has it."""
        moves = self.moves()
        return self.random.choice(
            [
                "c4i",
                "isready",
                "newgame",
                "d",
                "help",
                "stop",
                "go",
                f"go nodes {self.random.randint(1, 50)}",
                f"go movetime {self.random.randint(1, 20)}",
                "go infinite",
                f"position {moves}",
                f"position startpos moves {' '.join(moves)}",
                "position startpos",
                "setoption name nodes value 20",
                "setoption name player value uct:10",
                "setoption name player value nobody",
            ]
        ).encode()

    def mutated(self, line: bytes) -> bytes:
        """The line with a byte changed, lost or added, a word doubled or lost, or a number too many."""
        words, at = line.split(b" "), self.random.randrange(len(line) + 1)
        return self.random.choice(
            [
                lambda: line[:at] + self.random.randbytes(1) + line[at + 1 :],
                lambda: line[:at] + line[at + 1 :],
                lambda: line[:at] + self.random.randbytes(2) + line[at:],
                lambda: b" ".join([*words, self.random.choice(words)]),
                lambda: b" ".join(words[:-1]),
                lambda: b" ".join([*words[:-1], str(self.random.choice([-1, 0, 1.5, 10**400])).encode()]),
                lambda: line.upper(),
            ]
        )()

    def end(self) -> None:
        """Say goodbye."""
        _, complaints = self.engine.communicate(b"stop\nquit\n", timeout=60)
        assert complaints == b"", complaints.decode()
        assert self.engine.returncode == 0


def run(lines: int, seed: int) -> Counter[str]:
    """Talk until so many lines are said; how many of each kind were answered.

    Raises:
        AssertionError: naming what the engine did wrong.
    """
    talk = Conversation(seed)
    try:
        while talk.said["lines"] < lines:
            talk.batch(BATCH)
        talk.end()
    finally:
        talk.engine.kill()
        talk.engine.wait()
    return talk.said


def main() -> None:
    """Talk as the options say, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="lines")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.perf_counter()
    said = run(options.count, options.seed)
    print(
        f"{said['lines']:,} lines in {time.perf_counter() - started:.0f} s: {said['answered by error']:,} errors, "
        f"{said['answered by bestmove']:,} moves; every line answered as the protocol says"
    )


if __name__ == "__main__":
    main()

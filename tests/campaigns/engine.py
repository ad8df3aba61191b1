"""Talks to the engine in thousands of lines, valid, mutated and random ones, as the bytes of its standard input.

Every line that it writes must be one of the protocol's; whatever was said before, "stop" and a search of a known
position must be answered by a move that the rules allow, "isready" by "readyok"; and it must leave with code 0, without
a word on its standard error.
"""

import contextlib
import io
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st

from alphac4.cli import main
from alphac4.game import Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.play.engine import COMMANDS
from campaigns.command import Findings, fuzz, unfinished_game

ANSWERS = {"id", "option", "c4iok", "readyok", "info", "bestmove", "exact", "error", ".", "x", "o", "1"}
ANSWERS |= {line.split()[0] for line in COMMANDS}  # of "help"
LINES_A_TALK = 50
MOVES = st.randoms(use_true_random=True).map(unfinished_game)
FIXED = ["c4i", "isready", "newgame", "d", "help", "stop", "go", "go infinite", "position startpos"]
FIXED += [f"setoption name {words}" for words in ("nodes value 20", "player value uct:10", "player value nobody")]
VALID = st.one_of(
    st.sampled_from(FIXED),
    st.integers(1, 50).map("go nodes {}".format),
    st.integers(1, 20).map("go movetime {}".format),
    MOVES.map("position {}".format),
    MOVES.map(lambda moves: f"position startpos moves {' '.join(moves)}"),
).map(str.encode)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid line with bytes changed, lost or added, a word doubled or lost, or a number too many."""
    line = draw(VALID)
    for _ in range(draw(st.integers(1, 3))):
        words, start = line.split(b" "), draw(st.integers(0, len(line)))
        changed = st.tuples(st.binary(max_size=2), st.integers(0, 1))
        number = st.sampled_from([b"-1", b"0", b"1.5", b"1" + b"0" * 400])
        line = draw(
            st.one_of(
                changed.map(lambda c, line=line, start=start: line[:start] + c[0] + line[start + c[1] :]),  # type: ignore[misc]
                st.sampled_from(words).map(lambda word, words=words: b" ".join([*words, word])),  # type: ignore[misc]
                number.map(lambda word, words=words: b" ".join([*words[:-1], word])),  # type: ignore[misc]
                st.sampled_from([b" ".join(words[:-1]), line.upper()]),
            )
        )
    return line


def harmless(line: bytes) -> bool:
    """Whether it neither ends the talk nor takes the solver minutes."""
    return line.split()[:1] == [] or line.split()[0].lower() not in (b"quit", b"exact")


LINES = (VALID | mutated() | mutated() | st.binary(max_size=300)).map(lambda line: line.translate(None, b"\r\n"))


def attack(_folder: Path, count: int, seed: int) -> Findings:
    """Say about ``count`` lines."""
    found, answered = Findings(), Counter[str]()

    def judge(talk: tuple[list[bytes], str]) -> str:
        lines, moves = talk
        last = [b"stop", f"position {moves}".encode(), b"go nodes 20", b"stop", b"isready", b"the-end"]
        answers, complaint, code = say([*lines, *last])
        assert {answer.split()[0] for answer in answers} <= ANSWERS, f"{answers} to {lines}"
        best, ready, end = answers[-3:]
        assert best.startswith("bestmove "), f"{answers[-3:]} to {lines}"
        assert COLUMN_NAMES.index(best.split()[1]) in Position.from_moves(moves).legal_columns(), (
            f"{best} after {moves}"
        )
        assert (ready, end[:32]) == ("readyok", "error unknown command 'the-end';"), f"{answers[-3:]} to {lines}"
        searches = sum(line.split()[:1] == [b"go"] for line in lines) + 1
        assert sum(answer.startswith("bestmove") for answer in answers) <= searches, f"{answers} to {lines}"
        assert (code, complaint) == (0, ""), f"code {code}, {complaint} to {lines}"
        answered.update(lines=len(lines) + len(last), errors=sum(answer.startswith("error") for answer in answers))
        answered["moves"] += sum(answer.startswith("bestmove") for answer in answers)
        return "talks"

    lines = st.lists(LINES.filter(harmless), min_size=LINES_A_TALK - 6, max_size=LINES_A_TALK - 6)
    fuzz(st.tuples(lines, MOVES), judge, -(-count // LINES_A_TALK), seed, found)
    found.counts.update(answered)
    return found


def say(lines: list[bytes]) -> tuple[list[str], str, int]:
    """An engine's answers to lines and the end of the input, its complaints, and its exit code."""
    output, complaint = io.StringIO(), io.StringIO()
    said = io.TextIOWrapper(io.BytesIO(b"".join(line + b"\n" for line in lines)))
    with (
        mock.patch.object(sys, "stdin", said),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(complaint),
    ):
        code = main(["engine", "--player", "uct:20", "--nodes", "20"])
    return output.getvalue().splitlines(), complaint.getvalue(), code

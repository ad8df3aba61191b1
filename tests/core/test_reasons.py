"""Every sentence about a move is verified by a naive reading of the board, and wins by exhaustive search."""

import re

import numpy as np
from helpers import random_game
from naive import Stacks, board_of, drop, minimax, wins

from alphac4.game import make_board
from alphac4.game.reasons import strength, weakness

OTHER = {"x": "o", "o": "x"}
KINDS = [
    "completes",
    "at once",
    "one above",
    "answer",
    "forces",
    "stops",
    "must",
    "prevents",
    "makes an",
    "play",
    "above it",
]


class Reader:
    """Verifies sentences on boards of one size; columns count from 1 as in the sentences."""

    def __init__(self, rows: int, run: int) -> None:
        self.size = rows, run

    def completing(self, stacks: Stacks, side: str) -> list[int]:
        """Return the columns where a stone completes a row at once."""
        legal = [column for column, stack in enumerate(stacks) if len(stack) < self.size[0]]
        return [column + 1 for column in legal if wins(drop(stacks, column, side), side, *self.size)]

    def has_threat(self, stacks: Stacks, side: str, column: int, parity: str) -> bool:
        """Return whether one more stone completes a row in a cell of this parity, whatever is below it."""
        stack = stacks[column - 1]
        rows = [row for row in range(len(stack), self.size[0]) if row % 2 == ("odd", "even").index(parity)]
        filled = [stack + "." * (row - len(stack)) + side for row in rows]
        return any(wins((*stacks[: column - 1], stones, *stacks[column:]), side, *self.size) for stones in filled)

    def wins_by(self, way: str, stacks: Stacks, side: str, column: int) -> bool:
        """Return whether a move does what a `strength` says by which its side wins; a last threat is not followed."""
        other, after = OTHER[side], drop(stacks, column - 1, side)
        if way == "completes a row":
            return column in self.completing(stacks, side)
        if wins(after, side, *self.size) or self.completing(after, other):
            return False
        threats = self.completing(after, side)
        if found := re.fullmatch(r"makes threats in ([\d, and]+) at once", way):
            return threats == [int(name) for name in re.findall(r"\d", found[1])] and len(threats) > 1
        if found := re.fullmatch(r"makes threats in (\d), one above the other", way):
            return threats == [int(found[1])] and threats[0] in self.completing(
                drop(after, threats[0] - 1, other), side
            )
        if found := re.fullmatch(rf"makes {other} answer (\d); then (\d) (.*)", way):
            answered = drop(after, int(found[1]) - 1, other)
            return threats == [int(found[1])] and self.wins_by(found[3], answered, side, int(found[2]))
        found = re.fullmatch(rf"forces {other} in the end to play (\d), below {side}'s (odd|even) threat", way)
        assert found, way
        return self.has_threat(after, side, int(found[1]), found[2]) and minimax(after, *self.size)[0] == -1

    def is_true(self, reason: str, stacks: Stacks, side: str, column: int) -> bool:
        """Return whether a sentence without its column is true."""
        other, after = OTHER[side], drop(stacks, column - 1, side)
        if found := re.fullmatch(rf"lets {other} play (\d), which (.*)", reason):
            return self.wins_by(found[2], after, other, int(found[1])) and minimax(after, *self.size)[0] == 1
        if found := re.fullmatch(rf"lets {other} stop {side}'s (odd|even) threat above it", reason):
            return self.has_threat(stacks, side, column, found[1]) and column in self.completing(after, side)
        if reason == f"stops {other}'s row":
            return column in self.completing(stacks, other) and not self.completing(after, other)
        if found := re.fullmatch(rf"makes a threat in (\d), which {other} must answer", reason):
            return self.completing(after, side) == [int(found[1])] and not self.completing(after, other)
        if found := re.fullmatch(rf"prevents {other}'s (\d), which (.*)", reason):
            reply = int(found[1])
            return self.wins_by(found[2], stacks, other, reply) and not self.wins_by(found[2], after, other, reply)
        if found := re.fullmatch(r"makes (an (odd|even) threat in .*)", reason):
            made = re.findall(r"an (odd|even) threat in (\d)", reason)
            return all(self.has_threat(after, side, int(name), parity) for parity, name in made)
        return self.wins_by(reason, stacks, side, column) and minimax(stacks, *self.size)[0] == 1


def test_reasons_are_true() -> None:
    """A move that completes a row, stops one, or lets the opponent complete one has a reason that states it."""
    rng, kinds = np.random.default_rng(1), set[str]()
    for shape, fewest in (((4, 4, 3), 5), ((4, 6, 4), 15), ((6, 4, 4), 12)):
        rows, columns, run = shape
        reader, board = Reader(rows, run), make_board(*shape)
        for plies in rng.integers(fewest, rows * columns, 60):
            position = random_game(int(plies), rng, board)
            stacks, side = board_of(position.moves or "", columns), "xo"[position.plies % 2]
            for column in position.legal_columns():
                name, other = column + 1, OTHER[side]
                good, bad = strength(position, column, ("x", "o")), weakness(position, column, ("x", "o"))
                for sentence in filter(None, (good, bad)):
                    reason = sentence.removeprefix(f"{name} ").removesuffix(".")
                    assert reader.is_true(reason, stacks, side, name), (position, sentence)
                    kinds.update(re.findall("|".join(KINDS), reason))
                answers = reader.completing(drop(stacks, column, side), other)
                if name in reader.completing(stacks, side):
                    assert good == f"{name} completes a row."
                elif answers:
                    assert bad == f"{name} lets {other} play {answers[0]}, which completes a row."
                elif name in reader.completing(stacks, other):
                    assert good or bad
    assert kinds == set(KINDS)

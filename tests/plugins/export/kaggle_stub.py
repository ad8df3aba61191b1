"""A small replacement of Kaggle's ConnectX environment, which runs an agent's file as Kaggle does.

As a program, it plays a submission against random moves and prints the winners. Only numpy and the standard library can
be imported, and the clock advances by a millisecond at each call::

    python -I kaggle_stub.py main.py '[[ROWS, COLUMNS, INAROW, SIDE], ...]'
"""

import copy
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Agent = Callable[[Any, Any], Any]


class Struct(dict[str, Any]):
    """A dict with its entries as attributes."""

    def __init__(self, **entries: Any) -> None:
        super().__init__(entries)
        self.__dict__.update(entries)


class OnlyNumpy:
    """Raises ModuleNotFoundError for all modules except numpy and the standard library."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> None:  # noqa: ARG002
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def last_callable(text: str) -> Agent:
    """Return the agent of a submission: the last callable that its text defines."""
    namespace: dict[str, Any] = {}
    exec(compile(text, "<submission>", "exec"), namespace)
    return [value for value in namespace.values() if callable(value)][-1]


def random_agent(obs: Any, config: Any) -> int:
    return random.choice([column for column in range(config.columns) if obs.board[column] == 0])


def play(
    agents: Sequence[Agent], rows: int = 6, columns: int = 7, inarow: int = 4, timeout: float = 2.0
) -> tuple[int, list[Any]]:
    """Play a game; return the winner's mark, or 0 for a draw, and all actions. Illegal actions raise AssertionError."""
    board = [0] * (rows * columns)
    config = Struct(rows=rows, columns=columns, inarow=inarow, actTimeout=timeout, timeout=timeout, agentTimeout=60)
    actions: list[Any] = []
    while 0 in board:
        mark = len(actions) % 2 + 1
        obs = Struct(board=list(board), mark=mark, remainingOverageTime=60, step=len(actions))
        action = agents[mark - 1](obs, copy.deepcopy(config))
        if type(action) is not int or not 0 <= action < columns or board[action]:
            raise AssertionError(f"illegal action {action!r} on {board}")
        actions.append(action)
        row = max(row for row in range(rows) if board[row * columns + action] == 0)
        board[row * columns + action] = mark
        if _wins(board, rows, columns, inarow, row, action):
            return mark, actions
    return 0, actions


def _wins(board: list[int], rows: int, columns: int, inarow: int, row: int, column: int) -> bool:
    """Return whether the latest stone is part of a winning run."""
    mark = board[row * columns + column]

    def reach(down: int, right: int) -> int:
        r, c, length = row + down, column + right, 0
        while 0 <= r < rows and 0 <= c < columns and board[r * columns + c] == mark:
            r, c, length = r + down, c + right, length + 1
        return length

    lines = ((0, 1), (1, 0), (1, 1), (1, -1))
    return any(reach(down, right) + reach(-down, -right) + 1 >= inarow for down, right in lines)


def main(path: str, games: str) -> None:
    sys.meta_path.insert(0, OnlyNumpy())
    ticks = itertools.count(0, 0.001)
    time.perf_counter = lambda: next(ticks)
    random.seed(0)
    agent, winners = last_callable(Path(path).read_text()), []
    for *board, side in json.loads(games):
        agents = [random_agent, random_agent]
        agents[side - 1] = agent
        winners.append(play(agents, *board, timeout=0.1)[0])
    print(json.dumps(winners))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Helpers for tests of several modules."""

import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from alphac4.game import Board, Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD, canonical_keys
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.puct import expand_and_back_up
from alphac4.mcts.search import Reuse
from alphac4.mcts.simulation import select_leaf
from alphac4.mcts.tree import Trees, make_trees, reset_tree, root_visits
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint

DRAWN = "121212343434565656212121434343656565777777"  # a whole game on the standard board
LATE = 14  # stones from which positions are solved in milliseconds
Lines = list[str | type[BaseException]]
SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def load_script(name: str) -> ModuleType:
    """Import a script of the repository as a module."""
    specification = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses need it
    specification.loader.exec_module(module)
    return module


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run code in a new Python process, which must succeed; return what it printed."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@contextlib.contextmanager
def new_threads_end() -> Iterator[None]:
    """Check that the threads that the block starts end soon after it."""
    before, deadline = threading.enumerate(), time.monotonic() + 30
    yield
    for thread in set(threading.enumerate()) - set(before):
        thread.join(deadline - time.monotonic())
        assert not thread.is_alive()


def assert_leaves_no_trace(code: str, home: Path, *arguments: object) -> None:
    """Check that code in a new process writes no file to its user's folder, and does not change its environment."""
    home.mkdir()
    program = f"import os, sys\nbefore = dict(os.environ)\n{code}\nassert dict(os.environ) == before"
    run_python(program, *arguments, env=os.environ | {"HOME": str(home), "TMPDIR": str(home)})
    assert [path for path in home.rglob("*") if path.is_file()] == []


class Linear(nn.Module):
    """A user's network: one linear layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.both = nn.Linear(config.input_planes * config.rows * config.columns, config.columns + 3)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        both = self.both(planes.flatten(1))
        return both[:, :-3], both[:, -3:]


def as_if_trained(config: NetworkConfig, seed: int = 3) -> PolicyValueNetwork:
    """Return a network with random norms and heads, because with their initial values the tower has no effect."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = PolicyValueNetwork(config)
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.uniform_(module.weight, 0.5, 1.5)
                torch.nn.init.normal_(module.bias, std=0.3)
                torch.nn.init.normal_(module.running_mean, std=0.3)
                torch.nn.init.uniform_(module.running_var, 0.5, 2.0)
        for head in (network.policy, network.value):
            torch.nn.init.normal_(head.weight, std=0.3)
    return network.eval()


def save_untrained(path: Path, board: Board = STANDARD) -> Path:
    """Save a small untrained network for a board; return its path."""
    network = PolicyValueNetwork(NetworkConfig(rows=board.rows, columns=board.columns, channels=8, blocks=1))
    save_checkpoint(path, Checkpoint(network=network.eval(), board=board))
    return path


def search_by_hand(
    board: Board,
    positions: Sequence[Position],
    evaluate: Callable[[Any], tuple[Any, Any]],
    selection: Any,
    simulations: int,
    noise: npt.ArrayLike = 0.5,
) -> Trees:
    """Return the package's trees after ``simulations``, without proofs.

    ``evaluate`` maps planes [B, 2, R, C] to logits [B, A] and values [B]; ``noise`` [B, A] is the search's.
    """
    rng = np.random.default_rng(0)
    trees = make_trees(len(positions), simulations + 1, board, rng, proofs=False, look_ahead=False)
    own, occupied = stones(positions)
    trees.budget[:], trees.uniform[:] = simulations, noise
    for t in range(len(positions)):
        reset_tree(trees, t, own[t], occupied[t])
    for _ in range(simulations + 1):
        logits, wdl = canonical_answers(board, trees.leaf_own, trees.leaf_occupied, evaluate)
        for t in range(len(positions)):
            expand_and_back_up(trees, t, logits[t], wdl[t], 1.0)
            if root_visits(trees, t) < simulations:
                select_leaf(trees, t, selection)
    return trees


def canonical_answers(
    board: Board, own: npt.NDArray[np.uint64], occupied: npt.NDArray[np.uint64], evaluate: Callable[..., Any]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return logits [B, A] and win/draw/loss [B, 3] of the canonical orientations, which searches expect."""
    logits, values = evaluate(make_planes(board, own, occupied))
    _, mirrored = canonical_keys(board, own, occupied)
    logits = np.ascontiguousarray(np.where(mirrored[:, None], logits[:, ::-1], logits), np.float32)
    return logits, np.stack([(1 + values) / 2, 0 * values, (1 - values) / 2], axis=1)


class ConstantEvaluator:
    """Evaluator with the same logits [A] and win/draw/loss [3] for all positions."""

    def __init__(self, logits: npt.ArrayLike, wdl: npt.ArrayLike = (1 / 3, 1 / 3, 1 / 3)) -> None:
        self.logits, self.wdl = np.array(logits, np.float32), np.array(wdl, np.float32)

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        return np.tile(self.logits, (len(planes), 1)), np.tile(self.wdl, (len(planes), 1))


class SumsOfEighths:
    """Evaluator with bit-identical answers on every machine."""

    def __init__(self, board: Board) -> None:
        rng = np.random.default_rng(3)
        inputs = 2 * board.cells
        self.policy = rng.integers(-8, 9, (inputs, board.columns)) / 8
        self.value = rng.integers(-4, 5, inputs)

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        flat = planes.reshape(len(planes), -1)
        lead = (flat @ self.value) % 11 - 5
        wdl = np.stack([(6 + lead) / 16, np.full(len(flat), 4 / 16), (6 - lead) / 16], axis=1)
        return (flat @ self.policy).astype(np.float32), wdl.astype(np.float32)


def random_game(plies: int, rng: np.random.Generator, board: Board = STANDARD) -> Position:
    """Return the position after this number of random moves, or at the end of the game if that comes first."""
    position = Position(board=board)
    while position.plies < plies and position.outcome() is None:
        position = position.play(int(rng.choice(position.legal_columns())))
    return position


def random_positions(count: int, rng: np.random.Generator, board: Board = STANDARD) -> list[Position]:
    """Return unfinished positions with any number of stones."""
    positions: list[Position] = []
    while len(positions) < count:
        position = random_game(rng.integers(0, board.cells), rng, board)
        if position.outcome() is None:
            positions.append(position)
    return positions


def make_search(kind: str, board: Board = STANDARD, reuse: Reuse = "nothing") -> NetworkSearch | UctSearch:
    """Return a search of either kind, without a trained network."""
    rng = np.random.default_rng(0)
    if kind.startswith("puct"):
        return NetworkSearch(UniformEvaluator(), board=board, rng=rng, reuse=reuse)
    return UctSearch(board=board, rng=rng, reuse=reuse)


both_kinds = pytest.mark.parametrize("kind", ["puct", "uct"])


class Terminal(io.StringIO):
    """Stream that is a terminal, of the width in the environment variable ``COLUMNS``."""

    def isatty(self) -> bool:
        return True


def reader(lines: Lines) -> Callable[[str], str]:
    """Return a function in place of `input` that returns or raises each of ``lines``, then raises EOFError."""
    answers = iter(lines)

    def read(_prompt: str) -> str:
        line = next(answers, EOFError)
        if isinstance(line, str):
            return line
        raise line

    return read


@contextlib.contextmanager
def held_elsewhere(path: Path) -> Iterator[None]:
    """Hold a lock as process 4711 of this machine would; afterwards the file is as after a kill."""
    fcntl = pytest.importorskip("fcntl")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        path.write_text("process 4711 on this machine, since today")
        yield

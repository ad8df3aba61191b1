"""What tests of several modules need."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alphac4.game import Geometry, Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import canonical_keys
from alphac4.mcts.config import PuctParameters
from alphac4.mcts.puct import expand
from alphac4.mcts.simulation import select_leaf
from alphac4.mcts.tree import Trees, make_trees, reset_tree, root_visits
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork

DRAWN = "121212343434565656212121434343656565777777"  # a whole game on the standard board
SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def load_script(name: str) -> ModuleType:
    """A script of the repository as a module."""
    specification = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # where dataclasses look for it
    specification.loader.exec_module(module)
    return module


def as_if_trained(config: NetworkConfig, seed: int = 3) -> PolicyValueNetwork:
    """A network whose norms and heads are not at their initial values: with those the tower computes nothing."""
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


def search_by_hand(
    geometry: Geometry,
    positions: Sequence[Position],
    opinion: Callable[[Any], tuple[Any, Any]],
    parameters: PuctParameters,
    simulations: int,
) -> Trees:
    """Trees of the package's after so many simulations, without proofs.

    ``opinion`` maps planes [B, 2, R, C] to logits [B, A] and values [B].
    """
    rng = np.random.default_rng(0)
    trees = make_trees(len(positions), simulations + 1, geometry, rng, proofs=False, look_ahead=False)
    own, occupied = stones(positions)
    for t in range(len(positions)):
        reset_tree(trees, t, own[t], occupied[t])
    for _ in range(simulations + 1):
        logits, wdl = canonical_answers(geometry, trees.leaf_own, trees.leaf_occupied, opinion)
        for t in range(len(positions)):
            expand(trees, t, logits[t], wdl[t], 1.0)
            if root_visits(trees, t) < simulations:
                select_leaf(trees, t, parameters)
    return trees


def canonical_answers(
    geometry: Geometry, own: npt.NDArray[np.uint64], occupied: npt.NDArray[np.uint64], opinion: Callable[..., Any]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Logits [B, A] and win/draw/loss [B, 3] of an ``opinion`` as a search expects them.

    They are those of the canonical one of a position and its mirror image.
    """
    logits, values = opinion(make_planes(geometry, own, occupied))
    _, mirrored = canonical_keys(geometry, own, occupied)
    logits = np.ascontiguousarray(np.where(mirrored[:, None], logits[:, ::-1], logits), np.float32)
    return logits, np.stack([(1 + values) / 2, 0 * values, (1 - values) / 2], axis=1)


class SumsOfEighths:
    """Answers that every computer computes alike."""

    def __init__(self, geometry: Geometry) -> None:
        rng = np.random.default_rng(3)
        inputs = 2 * geometry.cells
        self.policy = rng.integers(-8, 9, (inputs, geometry.columns)) / 8
        self.value = rng.integers(-4, 5, inputs)

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """See `alphac4.nn.Evaluator.evaluate`."""
        flat = planes.reshape(len(planes), -1)
        lead = (flat @ self.value) % 11 - 5
        wdl = np.stack([(6 + lead) / 16, np.full(len(flat), 4 / 16), (6 - lead) / 16], axis=1)
        return (flat @ self.policy).astype(np.float32), wdl.astype(np.float32)


class Counting:
    """Thinks a position with n stones worth n hundredths to the side to move; remembers what it was asked last."""

    name = "counting"

    def search(self, positions: Sequence[Position]) -> SimpleNamespace:
        """See `SearchingPlayer`."""
        count = len(positions)
        self.asked = [position.plies for position in positions]
        return SimpleNamespace(
            value=np.array(self.asked) / 100, moves=np.full(count, 3), priors=np.full((count, 7), 1 / 7)
        )

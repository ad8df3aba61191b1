"""Ranges of a network's activations, which 8-bit inference needs to know beforehand."""

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from alphac4.game.planes import PLANES, make_planes
from alphac4.game.rules import Geometry, make_geometry
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

LEVELS = 256  # of an unsigned 8-bit activation
WEIGHT_LEVELS = 255  # of a signed, symmetric 8-bit weight


def random_boards(
    geometry: Geometry, count: int, rng: np.random.Generator, planes: int = PLANES["stones"]
) -> npt.NDArray[np.float32]:
    """Planes [count, planes, rows, columns] after 0 to ``cells - 1`` random drops; runs end no game here.

    They stand in for real positions where only the size of activations matters.
    """
    wanted = rng.integers(0, geometry.cells, count)
    heights = np.zeros((count, geometry.columns), np.uint64)
    sides = np.zeros((2, count), np.uint64)  # the stones of the side to move, and its opponent's
    for ply in range(geometry.cells - 1):
        column = (rng.random(heights.shape) * (heights < geometry.rows)).argmax(axis=1)
        (playing,) = np.nonzero(ply < wanted)
        height = heights[playing, column[playing]]
        cell = np.uint64(1) << (column[playing].astype(np.uint64) * geometry.height + height)
        sides[(wanted[playing] - ply) % 2, playing] |= cell
        heights[playing, column[playing]] += np.uint64(1)
    return make_planes(geometry, sides[0], sides[0] | sides[1], planes)


def boards_for(config: NetworkConfig, count: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """`random_boards` as a network sees them; by the usual rules, whatever those of its own board are."""
    geometry = make_geometry(config.rows, config.columns, min(4, max(config.rows, config.columns)))
    return random_boards(geometry, count, rng, config.input_planes)


def input_ranges(folded: PolicyValueNetwork, planes: npt.NDArray[np.float32]) -> dict[str, float]:
    """The largest input of every convolution of a network with folded norms, by layer name.

    All inputs are at least 0: the planes, and what a ReLU left.
    """
    ranges: dict[str, float] = {}

    def watch(name: str) -> None:
        def hook(_module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            ranges[name] = float(inputs[0].max())

        handles.append(folded.get_submodule(name).register_forward_pre_hook(hook))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for name, module in folded.named_modules():
        if isinstance(module, nn.Conv2d):
            watch(name)
    try:
        with torch.inference_mode():
            folded(torch.from_numpy(planes))
    finally:
        for handle in handles:
            handle.remove()
    return ranges

"""Ranges of a network's activations, which 8-bit inference needs to know beforehand."""

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from alphac4.nn.network import PolicyValueNetwork

LEVELS = 256  # of an unsigned 8-bit activation
WEIGHT_LEVELS = 255  # of a signed, symmetric 8-bit weight


def random_boards(rows: int, columns: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Planes [count, 2, rows, columns] after 0 to ``rows * columns - 1`` random drops; runs end no game here.

    They stand in for real positions where only the size of activations matters.
    """
    wanted = rng.integers(0, rows * columns, count)
    heights = np.zeros((count, columns), np.int64)
    planes = np.zeros((count, 2, rows, columns), np.float32)
    board = np.arange(count)
    for ply in range(rows * columns - 1):
        chances = rng.random((count, columns)) * (heights < rows)
        column = chances.argmax(axis=1)
        playing = ply < wanted
        side = (wanted - ply) % 2  # the stones of the side to move are plane 0
        planes[board[playing], side[playing], heights[board, column][playing], column[playing]] = 1.0
        heights[board[playing], column[playing]] += 1
    return planes


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

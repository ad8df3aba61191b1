"""The tower's convolutions by Winograd's minimal filtering, for batches on a CPU: a fifth of the multiplications.

A 3 x 3 convolution of a 6 x 7 board multiplies 378 times for each pair of channels. Seen as a product of polynomials in
two variables, it is known from its values at 8 x 9 points, each of which takes one multiplication (Winograd 1980; for
networks Lavin and Gray 2016, arXiv 1509.09308). The sums that lead to the points and back are made once a channel and
not once a pair. Errors of rounding grow from 3e-7 to 1e-5 of a result; in bf16 they are 3e-3.
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from alphac4.nn.network import ConvNorm, ResidualBlock

LEAST_CHANNELS = 48  # in learning: with fewer the sums cost what the multiplications save
KERNEL = 3
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, -0.75)  # and infinity; small and apart, so that rounding is harmless
LONGEST = len(POINTS) + 2 - KERNEL  # cells of a side that as many points determine


class Side(NamedTuple):
    """A convolution of zeros, ``n`` cells x and zeros with a kernel k is ``results @ ((cells @ x) * (kernel @ k))``."""

    cells: Tensor  # [points, n]
    kernel: Tensor  # [points, 3]
    results: Tensor  # [n, points]


@cache
def side(n: int, dtype: torch.dtype) -> Side:
    """The maps for one side of a board; one of more than `LONGEST` cells is cut into equal tiles."""
    tiles = -(-n // LONGEST)
    sizes = [len(part) for part in np.array_split(range(n), tiles)]
    points = sum(size + KERNEL - 1 for size in sizes)
    cells, kernel, results = np.zeros((points, n + 2)), np.zeros((points, KERNEL)), np.zeros((n, points))
    start = at = 0
    for size in sizes:
        read = size + KERNEL - 1  # cells, of which the first is left of the tile and the last right of it
        here = slice(at, at + read)
        cells[here, start : start + read] = np.linalg.inv(_values(read, read)).T
        kernel[here] = _values(read, KERNEL)
        results[start : start + size, here] = _values(read, size).T
        start, at = start + size, at + read
    cells = cells[:, 1:-1]  # beyond the board there are zeros
    # The three factors of a product are made alike in size.
    norms = np.stack([np.abs(cells).sum(axis=1), np.abs(kernel).sum(axis=1), np.abs(results).sum(axis=0)])
    scale = np.prod(norms, axis=0) ** (1 / 3) / norms
    scaled = cells * scale[0, :, None], kernel * scale[1, :, None], results * scale[2]
    with torch.inference_mode(False):  # or learning could not use what inference has asked for first
        return Side(*(torch.from_numpy(matrix).to(dtype).contiguous() for matrix in scaled))


def _values(points: int, coefficients: int) -> np.ndarray:
    """[points, coefficients]: maps a polynomial to its values at the first of `POINTS` and, at last, infinity."""
    finite = np.vander(POINTS[: points - 1], coefficients, increasing=True)
    return np.concatenate([finite, np.eye(1, coefficients, coefficients - 1)])


def convolve(x: Tensor, kernel: Tensor) -> Tensor:
    """``conv2d(x, kernel, padding=1)`` with cells first: x [R, C, B, inputs], kernel [outputs, inputs, 3, 3].

    Returns:
        [R, C, B, outputs].
    """
    return _convolve(x, _at_points(kernel, len(x), x.shape[1]))


def _convolve(x: Tensor, weights: Tensor) -> Tensor:
    """`convolve` by what `_at_points` made of the kernel."""
    rows, columns, batch, inputs = x.shape
    vertical, horizontal = side(rows, x.dtype), side(columns, x.dtype)
    values = _map(vertical.cells, horizontal.cells, x.reshape(rows, columns, -1))
    products = values.view(-1, batch, inputs) @ weights
    across = products.view(*values.shape[:2], -1)
    return _map(vertical.results, horizontal.results, across).view(rows, columns, batch, -1)


def _at_points(kernel: Tensor, rows: int, columns: int) -> Tensor:
    """A kernel's values [points, inputs, outputs] for a board."""
    vertical, horizontal = side(rows, kernel.dtype), side(columns, kernel.dtype)
    outputs, inputs = kernel.shape[:2]
    weights = _map(vertical.kernel, horizontal.kernel, kernel.permute(2, 3, 1, 0).reshape(KERNEL, KERNEL, -1))
    return weights.view(-1, inputs, outputs)


def _map(vertical: Tensor, horizontal: Tensor, x: Tensor) -> Tensor:
    """[P, R] and [Q, C] applied to the first two sides of x [R, C, N]: [P, Q, N]."""
    lines = (vertical @ x.view(len(x), -1)).view(-1, *x.shape[1:])
    return horizontal @ lines


def run_tower(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    """What the residual blocks make of x [B, channels, R, C] in learning, in the same shape."""
    # The rows count as the batch, and the positions as the image's width: to norms and additions it is all the same,
    # and in memory the cells come first and the channels last.
    x = x.permute(2, 1, 3, 0).contiguous(memory_format=torch.channels_last)
    for block in cast(Iterable[ResidualBlock], blocks):
        x = torch.relu_(_conv_norm(block.second, torch.relu_(_conv_norm(block.first, x))).add_(x))
    return x.permute(3, 1, 0, 2).contiguous(memory_format=torch.channels_last)


def _conv_norm(layer: nn.Module, x: Tensor) -> Tensor:
    """`ConvNorm` on x [R, channels, C, B]."""
    convolution, norm = cast(ConvNorm, layer)
    return cast(Tensor, norm(convolve(x.permute(0, 2, 3, 1), cast(nn.Conv2d, convolution).weight).permute(0, 3, 1, 2)))


class FoldedTower:
    """`run_tower` for inference, with the kernels' values at the points computed once.

    Args:
        blocks: those of `alphac4.nn.network.fold_batch_norm`'s network.
        rows: the board's.
        columns: the board's.
    """

    def __init__(self, blocks: Iterable[nn.Module], rows: int, columns: int) -> None:
        self._layers = [
            [
                (_at_points(layer.weight, rows, columns), cast(Tensor, layer.bias))
                for layer in cast(list[nn.Conv2d], [block.first, block.second])
            ]
            for block in cast(Iterable[ResidualBlock], blocks)
        ]

    def __call__(self, x: Tensor) -> Tensor:
        """From x [B, channels, R, C] to the same shape."""
        x = x.permute(2, 3, 0, 1).contiguous()
        for (first, first_bias), (second, second_bias) in self._layers:
            inner = torch.relu_(_convolve(x, first).add_(first_bias))
            x = torch.relu_(_convolve(inner, second).add_(second_bias).add_(x))
        return x.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)

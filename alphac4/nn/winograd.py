"""The tower's convolutions by Winograd's minimal filtering, for batches on a CPU: a fifth of the multiplications.

A 3 x 3 convolution of a 6 x 7 board multiplies 378 times for each pair of channels. Along a line, n results of a filter
of three can be had from n + 2 products: it is the transpose of a product of polynomials, which is known from its values
at n + 2 points (Winograd 1980; for networks Lavin and Gray 2016, arXiv 1509.09308). Along both sides of the board that
makes 8 x 9 products. The sums before and after are made once a channel and not once a pair. Rounding errors grow from
3e-7 to 1e-5 of a result; in bf16 they are 3e-3.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import ConvNorm, ResidualBlock, Tower

MIN_CHANNELS = 48  # with fewer the sums cost what the multiplications save
MIN_POSITIONS = 16  # for fewer it does not pay to read the kernels, which have eight times their size at the points
MAX_WEIGHTS = 1 << 24  # of a tower: at the points, half a gigabyte
KERNEL = 3
FINITE_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, -0.75)  # small and apart, so that rounding is harmless
MAX_TILE = len(FINITE_POINTS) + 1 + 1 - KERNEL  # cells: with infinity there is a point more

_Layer = Callable[[Tensor], Tensor]  # a convolution with its norm or bias, in the layout of `_run`


def is_faster_in_learning(network: NetworkConfig, positions: int) -> bool:
    """Whether a CPU learns faster so, in fp32, from batches of as many positions a core."""
    return network.channels >= MIN_CHANNELS and positions >= MIN_POSITIONS and fits(network)


def fits(network: NetworkConfig) -> bool:
    """Whether the tower is one of residual blocks whose kernels do not take too much memory at the points."""
    return not network.is_custom and network.convolution_weights <= MAX_WEIGHTS


class LineTransforms(NamedTuple):
    """A line x between zeros, filtered by k, is ``outputs @ ((inputs @ x) * (kernel @ k))``."""

    inputs: Tensor  # [points, n]; Lavin and Gray's B transposed
    kernel: Tensor  # [points, 3]; G
    outputs: Tensor  # [n, points]; A transposed


@cache
def line_transforms(n: int, dtype: torch.dtype) -> LineTransforms:
    """The maps for lines of ``n`` cells; those of more than `MAX_TILE` are cut into equal tiles."""
    tiles = -(-n // MAX_TILE)
    sizes = [len(part) for part in np.array_split(range(n), tiles)]
    points = sum(size + KERNEL - 1 for size in sizes)
    inputs, kernel, outputs = np.zeros((points, n + 2)), np.zeros((points, KERNEL)), np.zeros((n, points))
    start = at = 0
    for size in sizes:
        read = size + KERNEL - 1  # cells, of which the first is left of the tile and the last right of it
        here = slice(at, at + read)
        inputs[here, start : start + read] = np.linalg.inv(_at_points(read, read)).T
        kernel[here] = _at_points(read, KERNEL)
        outputs[start : start + size, here] = _at_points(read, size).T
        start, at = start + size, at + read
    inputs = inputs[:, 1:-1]  # beyond the board there are zeros
    # The three factors of a product are made alike in size.
    norms = np.stack([np.abs(inputs).sum(axis=1), np.abs(kernel).sum(axis=1), np.abs(outputs).sum(axis=0)])
    scale = np.prod(norms, axis=0) ** (1 / 3) / norms
    scaled = inputs * scale[0, :, None], kernel * scale[1, :, None], outputs * scale[2]
    with torch.inference_mode(False):  # or learning could not use what inference has asked for first
        return LineTransforms(*(torch.from_numpy(matrix).to(dtype).contiguous() for matrix in scaled))


def _at_points(points: int, coefficients: int) -> np.ndarray:
    """[points, coefficients]: maps a polynomial to its values at the first of `FINITE_POINTS` and at infinity."""
    finite = np.vander(FINITE_POINTS[: points - 1], coefficients, increasing=True)
    return np.concatenate([finite, np.eye(1, coefficients, coefficients - 1)])


def convolve(x: Tensor, kernel: Tensor) -> Tensor:
    """``conv2d(x, kernel, padding=1)`` with cells first: x [R, C, B, inputs], kernel [outputs, inputs, 3, 3].

    Returns:
        [R, C, B, outputs].
    """
    return _convolve(x, _kernel_at_points(kernel, len(x), x.shape[1]))


def _convolve(x: Tensor, kernel: Tensor) -> Tensor:
    """`convolve` by what `_kernel_at_points` made of the kernel."""
    rows, columns, batch, inputs = x.shape
    vertical, horizontal = line_transforms(rows, x.dtype), line_transforms(columns, x.dtype)
    mapped = _map(vertical.inputs, horizontal.inputs, x.reshape(rows, columns, -1))
    products = mapped.view(-1, batch, inputs) @ kernel
    across = products.view(*mapped.shape[:2], -1)
    return _map(vertical.outputs, horizontal.outputs, across).view(rows, columns, batch, -1)


def _kernel_at_points(kernel: Tensor, rows: int, columns: int) -> Tensor:
    """[points, inputs, outputs] for a board."""
    vertical, horizontal = line_transforms(rows, kernel.dtype), line_transforms(columns, kernel.dtype)
    outputs, inputs = kernel.shape[:2]
    mapped = _map(vertical.kernel, horizontal.kernel, kernel.permute(2, 3, 1, 0).reshape(KERNEL, KERNEL, -1))
    return mapped.view(-1, inputs, outputs)


def _map(vertical: Tensor, horizontal: Tensor, x: Tensor) -> Tensor:
    """[P, R] and [Q, C] applied to the first two sides of x [R, C, N]: [P, Q, N]."""
    lines = (vertical @ x.reshape(len(x), -1)).view(-1, *x.shape[1:])
    return horizontal @ lines


def run_tower(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    """Run the residual blocks in learning, from x [B, channels, R, C] to the same shape."""

    def with_norm(layer: nn.Module) -> _Layer:
        convolution, norm = cast(ConvNorm, layer)
        kernel = cast(nn.Conv2d, convolution).weight
        return lambda x: cast(Tensor, norm(convolve(x.permute(0, 2, 3, 1), kernel).permute(0, 3, 1, 2)))

    return _run(_layers(blocks, with_norm), x)


def inference_tower(blocks: Iterable[nn.Module], rows: int, columns: int) -> Tower:
    """`run_tower` for inference, with the kernels at the points computed once.

    Args:
        blocks: those of `alphac4.nn.network.fold_batch_norm`'s network.
        rows: the board's.
        columns: the board's.
    """

    def with_bias(layer: nn.Module) -> _Layer:
        convolution = cast(nn.Conv2d, layer)
        kernel, bias = _kernel_at_points(convolution.weight, rows, columns), cast(Tensor, convolution.bias)
        return lambda x: _convolve(x.permute(0, 2, 3, 1), kernel).add_(bias).permute(0, 3, 1, 2)

    layers = _layers(blocks, with_bias)
    return lambda x: _run(layers, x)


def _layers(blocks: Iterable[nn.Module], made: Callable[[nn.Module], _Layer]) -> list[tuple[_Layer, _Layer]]:
    return [(made(block.first), made(block.second)) for block in cast(Iterable[ResidualBlock], blocks)]


def _run(layers: Iterable[tuple[_Layer, _Layer]], x: Tensor) -> Tensor:
    """The residual blocks of two layers each, in the layout [R, channels, C, B] with channels last in memory.

    The rows count as the batch, and the positions as the image's width. To norms and sums it is all the same.
    """
    x = x.permute(2, 1, 3, 0).contiguous(memory_format=torch.channels_last)
    for first, second in layers:
        x = torch.relu_(second(torch.relu_(first(x))).add_(x))
    return x.permute(3, 1, 0, 2).contiguous(memory_format=torch.channels_last)

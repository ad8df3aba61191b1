"""Convolutions of the tower by Winograd's minimal filtering, for batches on a CPU: a fifth of the multiplications.

A 3 x 3 convolution of a 6 x 7 board takes 378 multiplications per pair of channels. Along a line, n outputs of a filter
of size 3 need n + 2 products: filtering is the transpose of multiplying polynomials, and n + 2 points determine the
product (Winograd 1980; for networks Lavin and Gray 2016, arXiv 1509.09308). Along both sides of the board that makes
8 x 9 products. The transforms before and after take time per channel, not per pair of channels. Relative rounding
errors grow from 3e-7 to 1e-5; in bf16 they are 3e-3.
"""

from functools import cache
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Network, replace_layers

MIN_CHANNELS = 48  # with fewer, the transforms cost more than the multiplications save
MIN_POSITIONS = 16  # with fewer, reading the transformed kernels takes too long: they are eight times as large
MAX_WEIGHTS = 1 << 24  # weights of a tower; transformed, they take half a gigabyte
KERNEL = 3
FINITE_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, -0.75)  # small and far apart, for small rounding errors
MAX_TILE = len(FINITE_POINTS) + 1 + 1 - KERNEL  # cells; infinity is one more point


def is_faster_in_learning(network: NetworkConfig, positions: int) -> bool:
    """Return whether filtering speeds up learning in fp32 on a CPU, with ``positions`` per part of a batch."""
    return network.channels >= MIN_CHANNELS and positions >= MIN_POSITIONS and is_supported(network)


def is_supported(network: NetworkConfig) -> bool:
    """Return whether the package built the network, and its transformed kernels do not take too much memory."""
    return not network.is_custom and network.convolution_weights <= MAX_WEIGHTS


class LineTransforms(NamedTuple):
    """Matrices that filter a zero-padded line x by a kernel k: ``outputs @ ((inputs @ x) * (kernel @ k))``."""

    inputs: Tensor  # [points, n]; Lavin and Gray's B transposed
    kernel: Tensor  # [points, 3]; G
    outputs: Tensor  # [n, points]; A transposed


@cache
def line_transforms(n: int, dtype: torch.dtype) -> LineTransforms:
    """Return the transforms of lines of ``n`` cells; lines longer than `MAX_TILE` are split into tiles."""
    tiles = -(-n // MAX_TILE)
    sizes = [len(part) for part in np.array_split(range(n), tiles)]
    points = sum(size + KERNEL - 1 for size in sizes)
    inputs, kernel, outputs = np.zeros((points, n + 2)), np.zeros((points, KERNEL)), np.zeros((n, points))
    start = at = 0
    for size in sizes:
        read = size + KERNEL - 1  # cells, including one on either side of the tile
        here = slice(at, at + read)
        inputs[here, start : start + read] = np.linalg.inv(_evaluation_matrix(read, read)).T
        kernel[here] = _evaluation_matrix(read, KERNEL)
        outputs[start : start + size, here] = _evaluation_matrix(read, size).T
        start, at = start + size, at + read
    inputs = inputs[:, 1:-1]  # cells beyond the board are zero
    # Balance the norms of the three factors.
    norms = np.stack([np.abs(inputs).sum(axis=1), np.abs(kernel).sum(axis=1), np.abs(outputs).sum(axis=0)])
    scale = np.prod(norms, axis=0) ** (1 / 3) / norms
    scaled = inputs * scale[0, :, None], kernel * scale[1, :, None], outputs * scale[2]
    with torch.inference_mode(False):  # learning cannot use tensors created in inference mode
        return LineTransforms(*(torch.from_numpy(matrix).to(dtype).contiguous() for matrix in scaled))


def _evaluation_matrix(points: int, coefficients: int) -> np.ndarray:
    """Return [points, coefficients]: maps a polynomial to its values at the first `FINITE_POINTS` and at infinity."""
    finite = np.vander(FINITE_POINTS[: points - 1], coefficients, increasing=True)
    return np.concatenate([finite, np.eye(1, coefficients, coefficients - 1)])


def convolve(x: Tensor, kernel: Tensor) -> Tensor:
    """Compute ``conv2d(x, kernel, padding=1)``: [R, C, B, inputs], [outputs, inputs, 3, 3] to [R, C, B, outputs]."""
    return _convolve(x, _transform_kernel(kernel, len(x), x.shape[1]))


def _convolve(x: Tensor, kernel: Tensor) -> Tensor:
    rows, columns, batch, inputs = x.shape
    vertical, horizontal = line_transforms(rows, x.dtype), line_transforms(columns, x.dtype)
    mapped = _transform(vertical.inputs, horizontal.inputs, x.reshape(rows, columns, -1))
    products = mapped.view(-1, batch, inputs) @ kernel
    across = products.view(*mapped.shape[:2], -1)
    return _transform(vertical.outputs, horizontal.outputs, across).view(rows, columns, batch, -1)


def _transform_kernel(kernel: Tensor, rows: int, columns: int) -> Tensor:
    """Transform a kernel [outputs, inputs, 3, 3] for a board: [points, inputs, outputs]."""
    vertical, horizontal = line_transforms(rows, kernel.dtype), line_transforms(columns, kernel.dtype)
    outputs, inputs = kernel.shape[:2]
    mapped = _transform(vertical.kernel, horizontal.kernel, kernel.permute(2, 3, 1, 0).reshape(KERNEL, KERNEL, -1))
    return mapped.view(-1, inputs, outputs)


def _transform(vertical: Tensor, horizontal: Tensor, x: Tensor) -> Tensor:
    """Apply [P, R] and [Q, C] to the first two dimensions of x [R, C, N]: [P, Q, N]."""
    lines = (vertical @ x.reshape(len(x), -1)).view(-1, *x.shape[1:])
    return horizontal @ lines


class _Convolution(nn.Module):
    """A 3 x 3 convolution of the tower in its layout; a kernel that is not learned is transformed only once."""

    def __init__(self, plain: nn.Conv2d, rows: int, columns: int) -> None:
        super().__init__()
        self.weight, self.bias = plain.weight, plain.bias
        self._transformed = None if plain.weight.requires_grad else _transform_kernel(plain.weight, rows, columns)

    def forward(self, x: Tensor) -> Tensor:
        x, kernel = x.permute(0, 2, 3, 1), self._transformed
        products = convolve(x, self.weight) if kernel is None else _convolve(x, kernel)
        return (products if self.bias is None else products.add_(self.bias)).permute(0, 3, 1, 2)


class _Tower(nn.Sequential):
    """Residual blocks in the layout [R, channels, C, B], with channels last in memory.

    Rows take the place of the batch, and positions that of the image's width, which changes nothing for norms and sums.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map features [B, channels, R, C] to the same shape."""
        x = x.permute(2, 1, 3, 0).contiguous(memory_format=torch.channels_last)
        for block in self:
            x = block(x)
        return x.permute(3, 1, 0, 2).contiguous(memory_format=torch.channels_last)


def use_winograd(network: Network) -> None:
    """Replace the tower's convolutions by layers that use Winograd's method, with the same parameters.

    The network must be `is_supported`.
    """
    config, tower = network.config, cast(nn.Sequential, network.tower)
    replace_layers(tower, nn.Conv2d, lambda layer: _Convolution(layer, config.rows, config.columns))
    network.tower = _Tower(*tower)

"""Positions as arrays: bitboards of a batch, and the planes that networks see."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alphac4.game.position import Position
from alphac4.game.rules import Geometry


def stones(positions: Sequence[Position]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """``own`` and ``occupied`` uint64 [B] of a batch."""
    own = np.array([position.own for position in positions], np.uint64)
    return own, np.array([position.occupied for position in positions], np.uint64)


def make_planes(
    geometry: Geometry, own: npt.NDArray[np.uint64], occupied: npt.NDArray[np.uint64]
) -> npt.NDArray[np.float32]:
    """Planes float32 [B, 2, rows, columns] of positions [B], bottom row first: own stones, the opponent's."""
    bits = np.array(
        [[column * (geometry.rows + 1) + row for column in range(geometry.columns)] for row in range(geometry.rows)],
        np.uint64,
    )
    sides = np.stack([own, own ^ occupied], axis=1)[:, :, None, None]
    return ((sides >> bits) & np.uint64(1)).astype(np.float32)

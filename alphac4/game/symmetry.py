"""Positions and their mirror images as one: the canonical orientation."""

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating, inlined
from alphac4.game.rules import Geometry, mirror

Words = npt.NDArray[np.uint64]


@inlined
def position_key(own: np.uint64, occupied: np.uint64) -> np.uint64:
    """A number that determines a position: ``own + occupied`` (Tromp).

    A column with h stones has the bits ``own + 2^h - 1``, from ``2^h - 1`` to ``2^(h + 1) - 2``: columns of different
    height share no number, and no sum leaves its column. So the key of a mirror image is the `mirror` of the key.
    """
    return own + occupied


@inlined
def mirror_is_canonical(geometry: Geometry, own: np.uint64, occupied: np.uint64) -> bool:
    """Whether a position's mirror image is the canonical one of the two: the one with the lesser key."""
    key = position_key(own, occupied)
    return bool(mirror(geometry, key) < key)


@inlined
def canonical_key(geometry: Geometry, own: np.uint64, occupied: np.uint64) -> np.uint64:
    """The key of a position and of its mirror image: the lesser of the two."""
    key = position_key(own, occupied)
    return min(key, mirror(geometry, key))


@allocating
def canonical_keys(geometry: Geometry, own: Words, occupied: Words) -> tuple[Words, npt.NDArray[np.bool_]]:
    """`canonical_key` of B positions [B], and for which of them it is that of their mirror image [B]."""
    keys = np.empty(len(own), np.uint64)
    mirrored = np.empty(len(own), np.bool_)
    for i in range(len(own)):
        keys[i] = canonical_key(geometry, own[i], occupied[i])
        mirrored[i] = keys[i] != position_key(own[i], occupied[i])
    return keys, mirrored


def oriented(geometry: Geometry, own: Words, occupied: Words) -> tuple[Words, Words, npt.NDArray[np.bool_]]:
    """B positions [B] in their canonical orientation, and which of them were mirrored [B]."""
    _, mirrored = canonical_keys(geometry, own, occupied)
    return mirror_where(geometry, own, mirrored), mirror_where(geometry, occupied, mirrored), mirrored


@allocating
def mirror_where(geometry: Geometry, stones: Words, mirrored: npt.NDArray[np.bool_]) -> Words:
    """The stones [B] with those marked in ``mirrored`` [B] reflected left to right."""
    result = stones.copy()
    for i in range(len(stones)):
        if mirrored[i]:
            result[i] = mirror(geometry, stones[i])
    return result

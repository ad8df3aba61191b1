"""Evaluations that searches share: the same position need not go through the network twice."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import inlined
from alphac4.game.rules import U64_1, Geometry

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth, volume 3, 6.4)
NO_ROW = -1


class EvaluationCache(NamedTuple):
    """N entries, a power of two; a new evaluation takes the place of the one that it collides with.

    It holds the answers of one network's weights: forget them all when the weights change. Entries are keyed on the
    canonical orientation (see `alphac4.game.symmetry`), which is the one that the network is asked about.

    The parts of an entry lie side by side, so that a look-up waits for memory once: on the standard board an entry is
    one cache line.
    """

    keys: npt.NDArray[np.uint64]  # [N] the position's key plus one; 0 where there is nothing
    logits: npt.NDArray[np.float32]  # [N, A]
    wdl: npt.NDArray[np.float32]  # [N, 3]
    hits: npt.NDArray[np.int64]  # [1] how often something was found since the host asked last
    shift: np.uint64  # 64 - log2(N)
    keeps: bool  # or else nothing is ever found


def make_cache(entries: int, geometry: Geometry) -> EvaluationCache:
    """An empty cache with room for ``entries`` evaluations, rounded down to a power of two, and at least 2.

    With 0 it keeps none. It is of the same type then, so that searches are not compiled a second time.
    """
    bits = max(entries.bit_length() - 1, 1)  # a shift by 64 bits would be undefined
    line = 64  # bytes
    actions = geometry.columns
    width = -(-(8 + 4 * actions + 4 * 3) // line) * line
    memory = np.zeros(2**bits * width + line, np.uint8)
    start = -memory.ctypes.data % line
    rows = memory[start : start + 2**bits * width].reshape(-1, width)
    numbers = rows.view(np.float32)[:, 2:]
    return EvaluationCache(
        keys=rows.view(np.uint64)[:, 0],
        logits=numbers[:, :actions],
        wdl=numbers[:, actions : actions + 3],
        hits=np.zeros(1, np.int64),
        shift=np.uint64(64 - bits),
        keeps=entries > 0,
    )


def forget(cache: EvaluationCache) -> None:
    """Empty the cache, for other weights."""
    cache.keys.fill(0)


@inlined
def slot_of(cache: EvaluationCache, key: np.uint64) -> int:
    """Where a position's evaluation would be."""
    return np.int64((key * _SPREAD) >> cache.shift)  # type: ignore[return-value]


@inlined
def remember(
    cache: EvaluationCache, key: np.uint64, logits: npt.NDArray[np.float32], wdl: npt.NDArray[np.float32]
) -> int:
    """Write the evaluation (``logits`` [A], ``wdl`` [3]) of the position with this key into a row, and return that."""
    slot = slot_of(cache, key)
    if cache.keeps:
        cache.keys[slot] = key + U64_1
    for a in range(len(logits)):
        cache.logits[slot, a] = logits[a]
    for outcome in range(3):
        cache.wdl[slot, outcome] = wdl[outcome]
    return slot


@inlined
def find(cache: EvaluationCache, key: np.uint64) -> int:
    """The row of the evaluation of the position with this key; NO_ROW if it is not there."""
    slot = slot_of(cache, key)
    if cache.keys[slot] != key + U64_1:
        return NO_ROW
    cache.hits[0] += 1
    return slot

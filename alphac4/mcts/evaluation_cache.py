"""Evaluations that searches share: the same position need not go through the network twice."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import inlined
from alphac4.game.rules import U64_1, Geometry

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth, volume 3, 6.4)
LOOK_UPS, HITS = 0, 1


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
    counts: npt.NDArray[np.int64]  # [2] look-ups and hits since the host asked last
    shift: np.uint64  # 64 - log2(N)


def make_cache(entries: int, geometry: Geometry) -> EvaluationCache | None:
    """An empty cache with room for ``entries`` evaluations, rounded down to a power of two from 2 on; none with 0."""
    if entries == 0:
        return None
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
        counts=np.zeros(2, np.int64),
        shift=np.uint64(64 - bits),
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
) -> None:
    """Keep an evaluation (``logits`` [A], ``wdl`` [3]) of the position with this key."""
    slot = slot_of(cache, key)
    cache.keys[slot] = key + U64_1
    for a in range(len(logits)):
        cache.logits[slot, a] = logits[a]
    for outcome in range(3):
        cache.wdl[slot, outcome] = wdl[outcome]


@inlined
def find(cache: EvaluationCache, key: np.uint64) -> int:
    """The row of the evaluation of the position with this key; -1 if it is not there."""
    cache.counts[LOOK_UPS] += 1
    slot = slot_of(cache, key)
    if cache.keys[slot] != key + U64_1:
        return -1
    cache.counts[HITS] += 1
    return slot

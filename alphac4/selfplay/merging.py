"""Mirror images and repeated positions as one."""

import dataclasses

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Geometry, canonical_keys, mirror_where, oriented
from alphac4.selfplay.shards import Samples


def orient(samples: Samples, geometry: Geometry) -> Samples:
    """The same samples, each in its canonical orientation."""
    own, occupied, mirrored = oriented(geometry, samples.own, samples.occupied)
    return dataclasses.replace(
        samples,
        own=own,
        occupied=occupied,
        final_own=mirror_where(geometry, samples.final_own, mirrored),
        final_occupied=mirror_where(geometry, samples.final_occupied, mirrored),
        policy=np.where(mirrored[:, None], samples.policy[:, ::-1], samples.policy),
    )


def merge_duplicates(samples: Samples, geometry: Geometry) -> Samples:
    """Each distinct position once, in the order of its last record, with the means of its targets.

    A position and its mirror image are one; what remains is in the canonical orientation. The policy is the mean over
    full searches if there was one. How a game ended cannot be averaged as stones: outcome and final stones are those
    of the last record. A repertoire that repeats itself then weighs no more than the positions beside it, and a value
    target that many games disagree on carries less noise (Neumann and Gros 2024, arXiv 2412.11979, on what the
    frequency of positions does to learning).
    """
    keys, mirrored = canonical_keys(geometry, samples.own, samples.occupied)
    # Counted from the end, the first record of a key is the last one.
    _, last, group, counts = np.unique(keys[::-1], return_index=True, return_inverse=True, return_counts=True)
    last, group = len(keys) - 1 - last, group.reshape(-1)[::-1]

    def mean(values: npt.NDArray[np.floating], weights: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """The weighted mean [N] or [N, X] over each group."""
        columns = values.reshape(len(values), -1).astype(np.float64)
        sums = [np.bincount(group, column * weights, minlength=len(counts)) for column in columns.T]
        total = np.bincount(group, weights, minlength=len(counts))
        return (np.stack(sums, axis=1) / np.maximum(total, 1e-12)[:, None]).reshape(len(counts), *values.shape[1:])

    everything = np.ones(len(samples))
    full = np.bincount(group, samples.full, minlength=len(counts)) > 0
    policy = np.where(mirrored[:, None], samples.policy[:, ::-1], samples.policy)
    weights = np.where(full[group], samples.full, 1.0)
    merged = Samples(
        own=mirror_where(geometry, samples.own, mirrored)[last],
        occupied=mirror_where(geometry, samples.occupied, mirrored)[last],
        policy=mean(policy, weights).astype(np.float16),
        full=full,
        outcome=samples.outcome[last],
        value=mean(samples.value, everything).astype(np.float32),
        draw=mean(samples.draw, everything).astype(np.float32),
        returns=mean(samples.returns, everything).astype(np.float16),
        final_own=mirror_where(geometry, samples.final_own, mirrored)[last],
        final_occupied=mirror_where(geometry, samples.final_occupied, mirrored)[last],
    )
    return merged.take(np.argsort(last, kind="stable"))

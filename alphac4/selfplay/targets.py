"""Policy targets of one's own, computed from what self-play has recorded."""

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from alphac4.selfplay.shards import Samples

PolicyTarget = Callable[[Samples], npt.ArrayLike]
"""S recorded positions to what the policy shall learn there, [S, A], each row summing to 1."""

TOLERANCE = 1e-3  # of a row's sum


def retarget(samples: Samples, target: PolicyTarget | None) -> Samples:
    """The samples with the policies of ``target``, or as they are without one.

    Raises:
        ValueError: in one line, for policies that are none.
    """
    if target is None or not len(samples):
        return samples
    policy = np.asarray(target(samples), np.float32)
    if policy.shape != samples.policy.shape:
        raise ValueError(f"the policy target has shape {policy.shape}, expected {samples.policy.shape}")
    if not (policy >= 0).all() or (np.abs(policy.sum(axis=1) - 1) > TOLERANCE).any():
        raise ValueError("the policy target must be probabilities: none negative, each row summing to 1")
    return dataclasses.replace(samples, policy=policy.astype(np.float16))

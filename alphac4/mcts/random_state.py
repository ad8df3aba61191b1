"""Random numbers in compiled code, from one 64-bit state per tree, so that results do not depend on threads.

The generator is SplitMix64 (Steele et al. 2014): a counter passed through a mixing function.
"""

import math

import numpy as np
import numpy.typing as npt

from alphac4.compiled import compiled, inlined

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11), np.uint64(32)

States = npt.NDArray[np.uint64]


@inlined
def next_bits(states: States, t: int) -> np.uint64:
    states[t] += _GOLDEN
    z = states[t]
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return np.uint64(z ^ (z >> _S31))


@inlined
def uniform(states: States, t: int) -> float:
    """Draw a number in [0, 1)."""
    return float(next_bits(states, t) >> _S11) * (1.0 / 9007199254740992.0)


@inlined
def below(states: States, t: int, bound: int) -> int:
    """Draw an integer in [0, bound), bound < 2**32, by multiplication (Lemire 2019), with a negligible bias."""
    return int(((next_bits(states, t) >> _S32) * np.uint64(bound)) >> _S32)


@compiled
def normal(states: States, t: int) -> float:
    """Draw a standard normal variate (Box and Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(states, t)))
    return radius * math.cos(2.0 * math.pi * uniform(states, t))


@compiled
def gamma(states: States, t: int, shape: float) -> float:
    """Draw a gamma variate of unit scale (Marsaglia and Tsang 2000, with their boost for shape < 1)."""
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - uniform(states, t)) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(states, t)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(1.0 - uniform(states, t)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost * d * v

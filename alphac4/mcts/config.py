"""Settings of the network-guided search, in a module of their own so that they can be read without Numba."""

from numbers import Real
from typing import NamedTuple

from alphac4.storage.records import MAX_NUMBER, MIN_POSITIVE, Range, quote


class PuctConfig(NamedTuple):
    """Parameters of PUCT, the same in Python and in compiled code. `check_puct` checks their ranges."""

    c_init: float = 1.25
    """Weight of the prior against the mean value (AlphaZero 2018: 1.25). Retune it together with
    ``prior_temperature``: both decide how far a search departs from the policy."""
    c_base: float = 19652.0
    """Visits of a node at which the prior's weight has grown by ``log(2)`` (AlphaZero 2018: 19652); it has no effect on
    searches of a few thousand simulations."""
    fpu_reduction: float = 0.25
    """First-play urgency: the value of an unvisited move is its parent's mean, less this times the square root of the
    sum of the visited moves' priors (KataGo: 0.2)."""
    root_fpu_reduction: float = 0.0
    """``fpu_reduction`` at the root, where noise and priors should be able to try every move (KataGo: 0 with noise)."""
    prior_temperature: float = 1.4
    """Divisor of the policy logits: above 1 the search trusts the policy less (Leela Chess Zero: 1.4). Self-play
    by a run's settings uses 1, because it learns from its own priors; a rule given as ``selection`` is used unchanged.
    """


def check_puct(config: PuctConfig) -> PuctConfig:
    """Return ``config`` with all numbers as floats, so that a search is compiled once; reject invalid ones."""
    for name, number in config._asdict().items():
        if not isinstance(number, Real) or isinstance(number, bool):
            raise TypeError(f"{name} must be a number, not {quote(number)}")
        is_signed = name in ("fpu_reduction", "root_fpu_reduction")
        Range(-MAX_NUMBER if is_signed else MIN_POSITIVE, MAX_NUMBER).check(name, number)
    return PuctConfig(*map(float, config))

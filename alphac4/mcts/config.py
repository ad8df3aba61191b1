"""Settings of the network-guided search, apart from the search itself, so that they can be read without Numba."""

from typing import NamedTuple

from alphac4.storage.records import check_finite


class PuctConfig(NamedTuple):
    """Exploration of the network-guided search; compiled code takes it as it is. `check_puct` checks its ranges."""

    c_init: float = 1.25
    """Weight of the prior (AlphaZero 2018: 1.25)."""
    c_base: float = 19652.0
    """Visits after which the weight grows (AlphaZero 2018: 19652)."""
    fpu_reduction: float = 0.25
    """First-play urgency: an unvisited move is valued at its parent's mean, less this times the square root of the sum
    of the visited moves' priors (KataGo: 0.2)."""
    root_fpu_reduction: float = 0.0
    """The same at the root, where every move should get its chance (KataGo: 0 with noise)."""
    prior_temperature: float = 1.4
    """Divides the policy logits: above 1 the search trusts the policy less (Leela Chess Zero: 1.4). Self-play learns
    from its own priors and leaves them as they are."""


def check_puct(config: PuctConfig) -> PuctConfig:
    """Return ``config`` as numbers of one type, so that a search is compiled once.

    Raises:
        ValueError: for a number that is not finite, or a weight or a temperature that is not positive.
    """
    check_finite(config)
    if config.c_init <= 0 or config.c_base <= 0 or config.prior_temperature <= 0:
        raise ValueError("c_init, c_base and prior_temperature must be positive")
    return PuctConfig(*map(float, config))

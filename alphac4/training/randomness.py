"""The random numbers of a run."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class RunRandom:
    """Makes generators that are independent for each purpose, and the same whenever an iteration is run again."""

    seed: int

    def generator(self, iteration: int, purpose: str, index: int = 0) -> np.random.Generator:
        """The numbers of an iteration for a purpose; ``index`` tells several of one purpose apart."""
        return np.random.default_rng([self.seed, iteration, index, *purpose.encode()])

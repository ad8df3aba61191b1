"""Your own policy target.

Self-play records a policy target for each position, by default the prior improved by the search's values. A function of
finished games can replace this target. `examples/ideas` changes other parts of the algorithm in the same way.

Without --fast it trains the preset "quick", which takes 8 to 18 minutes.
"""

import sys
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

import alphac4


def sharper(games: Any, _rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return the squared shares of visits [G, C, A], normalised to sum to 1 at each searched ply.

    ``games`` has arrays by game and ply: the root's ``visits`` [G, C, A], ``values`` and ``priors`` of its moves, the
    stones (``own``, ``occupied``), the search's ``value``, the ``outcome``, and more.
    """
    squared = games.policy_target**2
    return np.asarray(squared / np.maximum(squared.sum(axis=-1, keepdims=True), 1e-9), np.float32)


if __name__ == "__main__":
    preset = "tiny" if "--fast" in sys.argv else "quick"
    settings = {"selfplay": {"policy_target": "visits"}}  # the target that the function changes
    with tempfile.TemporaryDirectory() as folder:
        print(alphac4.train(preset, run=folder, settings=settings, policy_target=sharper))

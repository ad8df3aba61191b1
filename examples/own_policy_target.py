"""A policy target of one's own: what the network learns of a search.

Self-play records a policy for each position, by default one that the values found in the search improve. A function of
the recorded positions can put another in its place.
"""

import sys
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

import alphac4


def sharper(samples: Any) -> npt.NDArray[np.float32]:
    """The shares of visits, squared, so that the network commits itself earlier: policies [S, A] that sum to 1.

    ``samples`` also hold the stones (``own``, ``occupied``), the search's ``value`` and the game's ``outcome``, each
    seen by the side to move.
    """
    squared = samples.policy.astype(np.float32) ** 2
    return np.asarray(squared / squared.sum(axis=1, keepdims=True), np.float32)


if __name__ == "__main__":
    settings: dict[str, Any] = {"selfplay": {"policy_target": "visits"}}  # what the function is given
    if "--fast" in sys.argv:
        settings = {
            "iterations": 1,
            "samples": 100,
            "machine": {"backend": "torch-fp32"},
            "network": {"channels": 8, "blocks": 1},
            "selfplay": {"policy_target": "visits", "games": 8, "full_simulations": 8, "fast_simulations": 4},
            "learning": {"batch_size": 64},
            "gate": {"pairs": 1, "simulations": 2, "classic_every": 0, "classic_rollouts": [5]},
            "evaluation": {"every": 0},
        }
    with tempfile.TemporaryDirectory() as folder:
        print(alphac4.train("quick", run=folder, settings=settings, policy_target=sharper))

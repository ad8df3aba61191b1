"""Search surprising positions of finished games again (after KataGo's and ReZero's re-analysis, arXiv 2404.16364).

Fast searches have few simulations. After an iteration's games, those with the greatest policy surprise are repeated
with more simulations, and the new policies become the targets.

    python examples/ideas/re_search.py

Two runs of all 24 iterations made 9.1 and 8.9 % mistakes raw and 3.3 and 2.8 % with 600 simulations, and
two without it 9.0 and 9.0 %, 2.9 and 3.0 % (3,000 positions; docs/experiments/2026-11-27-five-ideas.md).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from common import train

import alphac4

SIMULATIONS, REPEATED_SHARE = 64, 0.1  # simulations of the repeated searches; share of fast searches to repeat


class ReSearch(alphac4.Callback):
    """Policy target that searches with the best network, and the callback that updates this network."""

    agent: alphac4.Agent | None = None

    def on_iteration(self, iteration: Any) -> None:
        """Load the best network."""
        self.agent = alphac4.load(iteration.best.network)

    def __call__(self, games: Any, _rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Return the games' policies [G, C, A]; new searches replace those of the most surprising fast searches."""
        policy, plies = games.policy_target.copy(), np.arange(games.moves.shape[1])
        played = (plies >= games.opening_plies[:, None]) & (plies < games.plies[:, None])
        fast = np.argwhere(played & ~games.is_full_search)
        surprise = games.surprise[tuple(fast.T)]
        chosen = fast[np.argsort(-surprise)[: int(REPEATED_SHARE * len(fast))]]
        if self.agent is not None and len(chosen):
            positions = [alphac4.Position(games.own[g, p], games.occupied[g, p]) for g, p in chosen]
            for (g, p), result in zip(chosen, self.agent.search(positions, simulations=SIMULATIONS), strict=True):
                policy[g, p] = 0
                for column, move in result.columns.items():
                    policy[g, p, column] = move.visits
                policy[g, p] /= policy[g, p].sum()
        return np.asarray(policy, np.float32)


if __name__ == "__main__":
    target = ReSearch()
    train("re-search", policy_target=target, callbacks=[target])

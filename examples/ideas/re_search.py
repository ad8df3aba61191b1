"""Search the surprising positions of finished games again (after KataGo's and ReZero's re-analysis, arXiv 2404.16364).

Fast searches see little. Those whose policy surprised the network most are repeated after the game with more
simulations, and the network learns the new policy there.

    python examples/ideas/re_search.py

Two iterations with seed 0: mistakes of 12.1% raw and 7.1% with 64 simulations, where `quick` without it had 13.3%
and 6.7% at the same commit (240 positions, intervals of about 4 points on either side). So short a run decides nothing.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from common import train

import alphac4

SIMULATIONS, PART = 64, 0.1  # of the fast searches, which one is repeated


class ReSearch(alphac4.Callback):
    """A target that searches with the best network, which the callback keeps up to date."""

    agent: alphac4.Agent | None = None

    def on_iteration(self, iteration: Any) -> None:
        """Take the best network."""
        self.agent = alphac4.load(iteration.best.network)

    def __call__(self, games: Any) -> npt.NDArray[np.float32]:
        """Policies [G, C, A] of finished games, the most surprising fast ones by new searches."""
        policy, plies = games.policy.copy(), np.arange(games.moves.shape[1])
        played = (plies >= games.opening[:, None]) & (plies < games.plies[:, None])
        fast = np.argwhere(played & ~games.full_searches)
        surprise = games.surprise[tuple(fast.T)]
        chosen = fast[np.argsort(-surprise)[: int(PART * len(fast))]]
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

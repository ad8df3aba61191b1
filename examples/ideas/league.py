"""League: some games are played against earlier networks of the run (after AlphaStar, Vinyals et al. 2019).

In each iteration the best network plays games against a random one of the run's best networks so far, and its own moves
become samples: about a fifth of the iteration's. A run that is resumed begins with an empty league.

    python examples/ideas/league.py

Four iterations of 10,000 positions with seed 0 (`--iterations 4 --samples 10000`): mistakes of 10.2% raw and 5.3% with
64 simulations, and `quick` without it has 10.0% and 6.0% (the package's 1,145 positions, intervals of about 1.9 and 1.5
points on either side). The difference is inconclusive.
"""

import sys

import numpy as np
from common import train

import alphac4

GAMES, SIMULATIONS = (4, 8) if "--fast" in sys.argv else (400, 64)
past: list[alphac4.Network] = []


def against_the_past(_iteration: int, best: alphac4.Network, rng: np.random.Generator) -> alphac4.Samples:
    """Return the positions in which the best network moved, with its shares of visits as policy targets."""
    past.append(best)
    agents = alphac4.load(best), alphac4.load(past[rng.integers(len(past))])
    boards, policies = [alphac4.Position()] * GAMES, [list[np.ndarray]() for _ in range(GAMES)]
    for ply in range(42):
        for side, agent in enumerate(agents):
            mine = [g for g in range(GAMES) if (ply + g) % 2 == side and boards[g].outcome() is None]
            results = agent.search([boards[g] for g in mine], simulations=SIMULATIONS) if mine else []
            for g, result in zip(mine, results, strict=True):
                shares = np.zeros(7)
                for column, move in result.columns.items():
                    shares[column] = move.visits
                if not shares.any():  # the root was proven without a visit
                    shares[result.move] = 1.0
                shares /= shares.sum()
                policies[g].append(shares * (side == 0))  # the opponent's moves are not samples
                boards[g] = boards[g].play(int(rng.choice(7, p=shares)))
    return alphac4.Samples.from_games([str(board.moves) for board in boards], policies)


if __name__ == "__main__":
    train("league", extra_samples=against_the_past)

"""Short openings from which both sides have a game: no match repeats itself."""

import numpy as np

from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.search import Budget, UctSearch


def balanced_openings(
    count: int, rng: np.random.Generator, geometry: Geometry = STANDARD, plies: tuple[int, int] = (2, 5)
) -> list[Position]:
    """``count`` openings of random moves, distinct up to mirroring as far as there are enough of them.

    A short rollout search must find both sides in the game: no proven outcome, and a value within 0.4 of even
    (within 0.9 if the board offers too few such openings). The exact solver has no say, as gates are training.
    """
    search = UctSearch(geometry=geometry, rng=rng)
    chosen: list[Position] = []
    seen: set[tuple[int, int]] = set()
    attempts = 0
    while len(chosen) < count:
        attempts += 1
        position = Position(geometry=geometry)
        for _ in range(int(rng.integers(plies[0], plies[1] + 1))):
            legal = position.legal_columns()
            if legal:
                position = position.play(int(rng.choice(legal)))
        if position.outcome() is not None:
            continue
        mirrored = position.mirror()
        key = min((int(p.own), int(p.occupied)) for p in (position, mirrored))
        if key in seen and attempts < 40 * count:
            continue
        seen.add(key)
        result = search.search([position], Budget(simulations=400))
        if abs(result.value[0]) <= (0.4 if attempts < 20 * count else 0.9) or attempts > 60 * count:
            chosen.append(position)
    return chosen

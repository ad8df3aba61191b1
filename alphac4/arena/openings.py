"""Short openings from which both sides have a game: no match repeats itself."""

import numpy as np
import numpy.typing as npt

from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import UNPROVEN
from alphac4.mcts.uct_search import UctSearch

BALANCE = 0.4  # largest |value| of a balanced opening, of at most 1
ROLLOUTS = 400  # that judge an opening
TRIES = 200  # random openings without a new one after which there are taken to be no more


def balanced_openings(
    count: int, rng: np.random.Generator, geometry: Geometry = STANDARD, plies: tuple[int, int] = (2, 5)
) -> list[Position]:
    """``count`` openings of ``plies`` random moves (both ends included), no two the same or mirrored.

    A short rollout search must find both sides in the game: nothing proven, and a value within `BALANCE` of even. A
    board that has too few such openings gives its least unbalanced ones too, and repeats them if it must. The exact
    solver has no say, as gates are a part of training.
    """
    search = UctSearch(geometry=geometry, rng=rng)
    balanced: list[Position] = []
    others: list[tuple[float, Position]] = []
    seen: set[tuple[int, int]] = set()
    while len(balanced) < count and len(others) < 20 * count + 200:
        fresh = _fresh_openings(count, seen, plies, rng, geometry)
        if not fresh:
            break
        for position, imbalance in zip(fresh, _imbalance(search, fresh), strict=True):
            if imbalance <= BALANCE:
                balanced.append(position)
            else:
                others.append((float(imbalance), position))
    others.sort(key=lambda other: other[0])
    distinct = (balanced + [position for _, position in others])[:count] or [Position(geometry=geometry)]
    return [distinct[index % len(distinct)] for index in range(count)]


def match_openings(pairs: int, seed: int, geometry: Geometry = STANDARD) -> list[Position]:
    """The openings of a match; long ones need longer openings, as there are few short ones."""
    plies = (2, 5) if pairs <= 500 else (2, 8)
    return balanced_openings(pairs, np.random.default_rng([seed, 1]), geometry, plies)


def _fresh_openings(
    count: int, seen: set[tuple[int, int]], plies: tuple[int, int], rng: np.random.Generator, geometry: Geometry
) -> list[Position]:
    """Up to ``count`` random unfinished positions that are not in ``seen``, where they are noted."""
    fresh: list[Position] = []
    tries = 0
    while len(fresh) < count and tries < TRIES:
        tries += 1
        position = Position(geometry=geometry)
        for _ in range(int(rng.integers(plies[0], plies[1] + 1))):
            legal = position.legal_columns()
            if legal:
                position = position.play(int(rng.choice(legal)))
        key = min((int(p.own), int(p.occupied)) for p in (position, position.mirror()))
        if key not in seen and position.outcome() is None:
            seen.add(key)
            fresh.append(position)
            tries = 0
    return fresh


def _imbalance(search: UctSearch, positions: list[Position]) -> npt.NDArray[np.float64]:
    """|value| [B] of each position by rollouts; 1 where the result is proven, even if it is a draw."""
    result = search.search(positions, Budget(simulations=ROLLOUTS))
    unproven = (result.proofs == UNPROVEN).any(axis=1)
    return np.where(unproven, np.abs(result.value), 1.0)

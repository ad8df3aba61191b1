"""Levels of strength, from beginner to perfect."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alphac4.arena.alpha_beta import SolverPlayer
from alphac4.arena.players import NetworkPlayer, Player
from alphac4.arena.specifications import CACHE, check_network, named_checkpoint
from alphac4.game import Geometry
from alphac4.mcts.search import Budget

if TYPE_CHECKING:  # PyTorch takes a second to import
    from alphac4.compute import Compute


@dataclass(frozen=True, kw_only=True)
class Level:
    """How strong, by how far a network looks ahead and how much it leaves to chance."""

    name: str
    about: str
    simulations: int  # a move; 0 plays the network's first thought
    temperature: float  # 0 plays the best move; above, others in proportion
    perfect: bool = False  # the solver plays


LEVELS = (
    Level(name="beginner", about="moves on a whim", simulations=0, temperature=3.0),
    Level(name="novice", about="has seen the game before", simulations=0, temperature=1.5),
    Level(name="casual", about="plays its first thought, mostly", simulations=0, temperature=0.7),
    Level(name="club", about="looks a little ahead, errs at times", simulations=8, temperature=0.7),
    Level(name="strong", about="misses nothing short", simulations=32, temperature=0.3),
    Level(name="expert", about="plays to win", simulations=200, temperature=0.0),
    Level(name="master", about="thinks long", simulations=1600, temperature=0.0),
    Level(name="perfect", about="the exact solver", simulations=0, temperature=0.0, perfect=True),
)


def find_level(text: str) -> Level:
    """A level by its number from 1 or its name.

    Raises:
        ValueError: naming those that there are.
    """
    for number, level in enumerate(LEVELS, start=1):
        if text.lower() in (str(number), level.name):
            return level
    names = ", ".join(f"{number} {level.name}" for number, level in enumerate(LEVELS, start=1))
    raise ValueError(f"no level {text!r}; there are {names}")


def level_player(
    level: Level, network: str, geometry: Geometry, rng: np.random.Generator, compute: "Compute | None" = None
) -> Player:
    """A level's player on a board, with the network of a specification such as "best" or FILE.safetensors.

    Raises:
        PlayerError: for a specification that names no checkpoint, or one that cannot be used on this board.
    """
    named = named_checkpoint(network)
    if level.perfect:
        return SolverPlayer(rng, geometry)
    check_network(named, network, geometry)
    from alphac4.compute import choose

    checkpoint = named.load()
    compute = compute or choose()
    evaluator = compute.evaluator(checkpoint.network, batch_size=1)
    return NetworkPlayer(
        f"{named.name}, {level.name}",
        evaluator,
        Budget(simulations=level.simulations),
        rng,
        temperature=level.temperature,
        search=compute.search(evaluator, geometry=geometry, rng=rng, reuse="proofs", cache=CACHE),
    )

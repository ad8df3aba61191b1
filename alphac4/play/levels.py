"""Levels of strength, from beginner to perfect, and the players at them."""

from dataclasses import dataclass

from alphac4.storage.records import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Level:
    """Strength of play: how far a network looks ahead, and how much it leaves to chance."""

    name: str
    about: str
    simulations: int  # per move; 0 plays the network's first thought
    temperature: float = 0.0  # 0 plays the best move; above, others in proportion
    certified: bool = False  # plays the certificate's move where there is one, and thinks longer where it is unsure
    perfect: bool = False  # the solver plays

    def specification(self, network: str, *, certificates: bool = True) -> str:
        """The level's player with a network such as "best", as commands write players.

        ``certificates`` are those of the standard board; elsewhere such a level has to search.
        """
        if self.perfect:
            return "solver"
        if self.certified:
            return f"{network}@{'certificate' if certificates else 'auto'}"
        return f"{network}@{self.simulations},temperature={self.temperature}"


LEVELS = (
    Level(name="beginner", about="moves on a whim", simulations=0, temperature=3.0),
    Level(name="novice", about="has seen the game before", simulations=0, temperature=1.5),
    Level(name="casual", about="plays its first thought, mostly", simulations=0, temperature=0.7),
    Level(name="club", about="looks a little ahead, makes mistakes", simulations=8, temperature=0.7),
    Level(name="strong", about="misses nothing short", simulations=32, temperature=0.3),
    Level(name="expert", about="plays to win", simulations=200),
    Level(name="master", about="wins every game that it begins", simulations=1600, certified=True),
    Level(name="perfect", about="the exact solver", simulations=0, perfect=True),
)
LEVELS_BY_NAME = {name: level for number, level in enumerate(LEVELS, start=1) for name in (level.name, str(number))}
"""The levels by their names, and by their numbers from 1."""


def find_level(text: str) -> Level:
    """A level by its number from 1 or its name. Raises ValueError naming the levels."""
    if (level := LEVELS_BY_NAME.get(text.lower())) is not None:
        return level
    names = ", ".join(f"{number} {level.name}" for number, level in enumerate(LEVELS, start=1))
    guess = did_you_mean(text, [level.name for level in LEVELS])
    raise ValueError(f"no level {text!r}{guess}; there are {names}")

"""Levels of strength, from beginner to perfect."""

from dataclasses import dataclass

from alphac4.storage.records import did_you_mean, quote


@dataclass(frozen=True, kw_only=True)
class Level:
    """Strength of play: the search and the randomness of a network's moves, or exact play."""

    name: str
    about: str
    simulations: int  # per move; 0 plays by the raw policy. A proven level uses them only in an exported page
    temperature: float = 0.0  # temperature of sampling moves; 0 plays the best one
    proven: bool = False  # plays proven moves where a plugin has one, and otherwise searches adaptively
    perfect: bool = False  # plays the exact solver's moves

    @property
    def title(self) -> str:
        """Name and number, such as "beginner (level 1)"."""
        return f"{self.name} (level {LEVELS.index(self) + 1})"

    def specification(self, network: str) -> str:
        """Return the specification of the player for positions without a proven move, with a network such as "best"."""
        if self.perfect:
            return "solver"
        if self.proven:
            return f"{network}@auto"
        return f"{network}@{self.simulations},temperature={self.temperature}"


LEVELS = (
    Level(name="beginner", about="knows little, and plays unevenly", simulations=0, temperature=3.0),
    Level(name="novice", about="knows the basics, and little else", simulations=0, temperature=1.5),
    Level(name="casual", about="plays by instinct, without looking ahead", simulations=0, temperature=0.7),
    Level(name="club", about="looks a little ahead, makes mistakes", simulations=8, temperature=0.7),
    Level(name="strong", about="sees all short tactics", simulations=32, temperature=0.3),
    Level(name="expert", about="calculates before every move", simulations=200),
    Level(name="master", about="wins every game in which it moves first", simulations=1600, proven=True),
    Level(name="perfect", about="the exact solver, which makes no mistake", simulations=0, perfect=True),
)
LEVELS_BY_NAME = {name: level for number, level in enumerate(LEVELS, start=1) for name in (level.name, str(number))}
"""The levels by their names, and by their numbers from 1."""


def find_level(text: str) -> Level:
    """Return a level by its name or its number from 1; the ValueError for an unknown one lists all."""
    if (level := LEVELS_BY_NAME.get(text.lower())) is not None:
        return level
    guess = did_you_mean(text, [level.name for level in LEVELS])
    raise ValueError(f"unknown level {quote(text)}{guess}; the levels are {level_names()}")


def level_names() -> str:
    """Return all levels as text that can be wrapped anywhere, such as "beginner, novice, ..., or 1 to 8"."""
    return f"{', '.join(level.name for level in LEVELS)}, or 1 to {len(LEVELS)}"

"""A share of a run's games, and who plays it."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from alphac4.compute.cluster.worker import Place


@dataclass(kw_only=True)
class Seat:
    """A share of the games, which outlives the actor that plays it."""

    index: int
    handle: Any = None  # Ray's; None while nobody plays
    calls: deque[Any] = field(default_factory=deque)  # references to the results, oldest first
    place: Place | None = None  # once the actor is ready
    sign: Any = None  # reference to a sign of life of an actor that nobody has asked for a block
    next_sign: float = 0.0  # time.monotonic() at which it is asked for one
    not_before: float = 0.0  # time.monotonic() at which it may be placed again

    def leave(self) -> None:
        """Nobody plays here any more."""
        self.handle, self.place, self.sign = None, None, None
        self.calls.clear()

    @property
    def awaited(self) -> Any:
        """What the actor gives next; None if it has nothing to do."""
        return self.calls[0] if self.calls else self.sign

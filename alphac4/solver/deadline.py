"""An end to the time that the solver may take."""

import time
from collections.abc import Callable


class TimeIsUp(Exception):  # noqa: N818 - a state, not an error
    """The solver has used its time."""


class Deadline:
    """An ``on_pause`` of the solver that ends a search after so many seconds, counted from when this is made.

    Args:
        seconds: from now.
        on_pause: called at each pause as well; what it raises ends the search, too.
    """

    def __init__(self, seconds: float, on_pause: Callable[[], None] = lambda: None) -> None:
        self._until = time.monotonic() + seconds
        self._on_pause = on_pause

    def __call__(self) -> None:
        """Raise `TimeIsUp` if it is."""
        self._on_pause()
        if time.monotonic() > self._until:
            raise TimeIsUp

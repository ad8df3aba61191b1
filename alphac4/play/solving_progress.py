"""What the exact solver shows a person who waits for it."""

import sys
import time
from typing import Self, TextIO

from alphac4.solver.solver import Solver

FIRST_SECONDS = 1.0  # an answer that comes sooner needs no progress
NEXT_SECONDS = 0.5


class SolvingProgress:
    """A line that tells how long the solver has been at work, on a terminal; elsewhere nothing.

    Use it as a context manager, whose end removes the line, and call it at each of the solver's pauses.

    Args:
        solver: the one at work.
        label: what it is doing.
        stream: where to write, by default the standard error.
    """

    def __init__(self, solver: Solver, label: str = "solving", stream: TextIO | None = None) -> None:
        self.label = label
        self._solver = solver
        self._stream = sys.stderr if stream is None else stream
        self._visible = self._stream is not None and self._stream.isatty()
        self._started = time.monotonic()
        self._nodes = solver.nodes
        self._next = self._started + FIRST_SECONDS
        self._width = 0

    def __call__(self) -> None:
        """Write the line anew, twice a second."""
        now = time.monotonic()
        if not self._visible or now < self._next:
            return
        self._next = now + NEXT_SECONDS
        millions = (self._solver.nodes - self._nodes) / 1e6
        text = f"{self.label}: {now - self._started:.0f} s, {millions:,.0f} million positions (Ctrl-C stops)"
        self._stream.write(f"\r{text:<{self._width}}")
        self._stream.flush()
        self._width = len(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._width:
            self._stream.write(f"\r{'':<{self._width}}\r")
            self._stream.flush()
            self._width = 0

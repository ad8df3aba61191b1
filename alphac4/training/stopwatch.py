"""Where the wall time of an iteration goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Wall time in seconds since it was made, and of named phases within."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self.phases: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.perf_counter() - self._started

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens meanwhile under a name."""
        started = self.seconds
        yield
        self.phases[name] = self.seconds - started

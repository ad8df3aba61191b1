"""What a run has cost so far, interrupted attempts included."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from alphac4.storage.files import write_atomically
from alphac4.storage.records import read_record, read_signed_line, sign_line

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_ENTRIES = 2.0  # what a kill can make the journal forget


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Totals since a run began."""

    seconds: float = 0.0
    games: int = 0  # of self-play
    evaluations: int = 0  # positions given to the network in self-play

    def __add__(self, other: "Costs") -> "Costs":
        return Costs(
            seconds=self.seconds + other.seconds,
            games=self.games + other.games,
            evaluations=self.evaluations + other.evaluations,
        )


class CostJournal:
    """Counts a run's costs in a small file, which is ahead of the run's state after a kill.

    Args:
        path: the file.
        committed: the costs in the run's state, below which they cannot be.
    """

    def __init__(self, path: Path, committed: Costs) -> None:
        self._path = path
        self._lock = threading.RLock()  # matches are played in several threads, each of which counts the time
        self.ahead: Callable[[], Costs] = Costs  # of self-play that is done, but not recorded yet
        self._costs = committed
        try:
            data, signed = read_signed_line(path.read_text())
            if not signed:
                raise ValueError("the checksum is missing")
            found = read_record(Costs, data)
            self._costs = Costs(
                seconds=max(found.seconds, committed.seconds),
                games=max(found.games, committed.games),
                evaluations=max(found.evaluations, committed.evaluations),
            )
        except FileNotFoundError:
            pass
        except ValueError as error:
            logger.warning("%s: %s; costs go on from those of the last whole iteration", path, error)
        self._counted_to = self._written = time.perf_counter()

    def now(self) -> Costs:
        """The costs until now."""
        with self._lock:
            now = time.perf_counter()
            self._costs += Costs(seconds=now - self._counted_to)
            self._counted_to = now
            return self._costs + self.ahead()

    def start_clock(self) -> None:
        """Let the seconds begin to count."""
        self._counted_to = time.perf_counter()

    def add(self, games: int, evaluations: int) -> None:
        """Count some self-play."""
        with self._lock:
            self._costs += Costs(games=games, evaluations=evaluations)
            self.write()

    def tick(self) -> None:
        """Write the seconds down from time to time."""
        with self._lock:
            if time.perf_counter() - self._written > SECONDS_BETWEEN_ENTRIES:
                self.write()

    def write(self) -> None:
        """Write everything down."""
        with self._lock:
            write_atomically(self._path, (sign_line(asdict(self.now())) + "\n").encode())
            self._written = time.perf_counter()

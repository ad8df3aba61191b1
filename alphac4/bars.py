"""Progress bars on a terminal."""

import logging
import sys
import time
from typing import Any

from tqdm import tqdm

logger = logging.getLogger(__name__)

# Estimate the time left only after this time and this share of the work: the first work also compiles code.
ESTIMATE_DELAY_S = 10.0
ESTIMATE_SHARE = 0.02


class Bar(tqdm):  # type: ignore[misc] # it has no types
    """tqdm's progress bar without tqdm's thread. It is only shown on a terminal, and disappears at its end.

    tqdm's thread would stay in the caller's process. It refreshes bars that check the time only at some updates; these
    bars check it at every update.

    If no bar can be shown and ``estimate`` is set, the time left is logged once.
    """

    monitor_interval = 0
    get_lock, set_lock = tqdm.get_lock, tqdm.set_lock  # the same lock as for bars of the caller

    def __init__(self, *arguments: Any, estimate: bool = False, **options: Any) -> None:
        defaults = {"miniters": 1, "leave": False, "disable": None if sys.stderr else True}  # None: not on a terminal
        super().__init__(*arguments, **(defaults | options))
        self._estimates = estimate and self.disable
        self._started, self._done = time.monotonic(), 0.0

    def update(self, n: float = 1) -> Any:
        """Add to the progress."""
        self._done += n
        seconds = time.monotonic() - self._started
        missing = (self.total or 0) - self.n  # of a bar that is not shown, n stays the initial one
        if self._estimates and seconds >= ESTIMATE_DELAY_S and self._done >= ESTIMATE_SHARE * missing:
            self._estimates = False
            rest = (missing - self._done) * seconds / self._done
            logger.info("about %.0f %s left", *((rest, "seconds") if rest < 90 else (rest / 60, "minutes")))
        return super().update(n)

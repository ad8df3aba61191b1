"""Progress bars on a terminal."""

import sys
from typing import Any

from tqdm import tqdm


class Bar(tqdm):  # type: ignore[misc] # it has no types
    """tqdm's progress bar on a terminal, which disappears at its end, without tqdm's thread.

    The thread, which would stay in the caller's process, refreshes bars that expect many updates between two refreshes.
    These bars expect one.
    """

    monitor_interval = 0
    get_lock, set_lock = tqdm.get_lock, tqdm.set_lock  # the same lock as for bars of the caller

    def __init__(self, *arguments: Any, **options: Any) -> None:
        defaults = {"miniters": 1, "leave": False, "disable": None if sys.stderr else True}  # None: not on a terminal
        super().__init__(*arguments, **(defaults | options))

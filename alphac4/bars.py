"""Progress bars on a terminal."""

from typing import Any

from tqdm import tqdm


class Bar(tqdm):  # type: ignore[misc] # it has no types
    """tqdm's progress bar without tqdm's thread, which would stay in the caller's process.

    The thread refreshes bars that expect many updates between two refreshes. These bars expect one.
    """

    monitor_interval = 0
    get_lock, set_lock = tqdm.get_lock, tqdm.set_lock  # the same lock as for bars of the caller

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **({"miniters": 1} | options))

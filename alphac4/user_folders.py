"""Where this program keeps things for a user between two starts."""

import os
import sys
from pathlib import Path

CACHE, STATE = "ALPHAC4_CACHE", "ALPHAC4_STATE"  # variables of the environment


def cache_folder() -> Path:
    """For what can be found out again: the folder named by ``ALPHAC4_CACHE``, else one where the system has such.

    It may not exist.

    Raises:
        RuntimeError: if the system does not know a home folder of the user.
    """
    return _folder(CACHE, mac="Caches", variable="XDG_CACHE_HOME", usual=".cache")


def state_folder() -> Path:
    """The same for what a person would miss, and ``ALPHAC4_STATE``."""
    return _folder(STATE, mac="Application Support", variable="XDG_STATE_HOME", usual=".local/state")


def _folder(named: str, *, mac: str, variable: str, usual: str) -> Path:
    if os.environ.get(named):
        return Path(os.environ[named])
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / mac
    else:
        base = os.environ.get(variable) or Path.home() / usual
    return Path(base) / "alphac4"

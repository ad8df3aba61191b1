"""The folder where this program remembers things between two starts, all of which it can find out again."""

import os
import sys
from pathlib import Path

VARIABLE = "ALPHAC4_CACHE"


def cache_folder() -> Path:
    """The folder named by ``ALPHAC4_CACHE``, else ``alphac4`` in the user's folder for such files; it may not exist.

    Raises:
        RuntimeError: if the system does not know a home folder of the user.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "alphac4"

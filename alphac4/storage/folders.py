"""Folders: those that are written as a whole, and those where a user's things are kept."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from alphac4.storage.files import flush_folder

CACHE, STATE = "ALPHAC4_CACHE", "ALPHAC4_STATE"  # variables of the environment


def cache_folder() -> Path:
    """Folder for what can be computed or downloaded again: ``ALPHAC4_CACHE``, or else in the system's cache.

    It may not exist.

    Raises:
        RuntimeError: if the system does not know a home folder of the user.
    """
    return _folder(CACHE, mac="Caches", variable="XDG_CACHE_HOME", usual=".cache")


def state_folder() -> Path:
    """Folder for what a person would miss: ``ALPHAC4_STATE``, or else where the system keeps such."""
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


def check_new(folder: Path) -> None:
    """Refuse a folder that is there already: nothing is replaced.

    Raises:
        ValueError: naming the folder.
    """
    if folder.exists():
        raise ValueError(f"{folder} is there already: remove it, or name a new folder")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into that gets the name of ``folder`` at the end of the block, and is gone if something fails.

    Raises:
        ValueError: see `check_new`.
    """
    check_new(folder)
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
        new = Path(beside) / "new"  # a temporary folder is for its owner alone; this one is for all
        new.mkdir()
        yield new
        new.rename(target)
    flush_folder(target.parent)

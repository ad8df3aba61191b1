"""Folders that are written as a whole."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from alphac4.storage.files import flush_folder


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

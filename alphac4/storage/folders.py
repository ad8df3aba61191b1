"""Folders: those that are written and replaced as a whole, and those where a user's things are kept."""

import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from alphac4.storage.files import flush_folder, write_atomically
from alphac4.storage.journal import read_entry, sign_line
from alphac4.storage.locks import locked
from alphac4.storage.records import read_value

MARKER = ".alphac4-export.json"  # lists the files of a finished folder with their digests
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


def check_replaceable(folder: Path) -> None:
    """Refuse to replace what this program did not write, and the current folder, which somebody would find gone.

    Raises:
        ValueError: naming the folder, and the file in it that is somebody else's or was changed since.
    """
    if Path.cwd().is_relative_to(folder.resolve()):
        raise ValueError(f"{folder} would be replaced while you are in it: name a folder inside of it")
    if folder.exists() and (foreign := _foreign_file(folder)):
        raise ValueError(f"{folder} holds {foreign}, which this program did not write as it is: choose a new folder")


@contextlib.contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A new folder to write into, which takes the place of ``folder`` at the end of the block.

    What was there stays until then, and comes back if something fails. What killed processes left beside it is put
    right first. A link stays, and what it names is replaced.

    Raises:
        ValueError: if it must not be replaced, or another process is about to do so.
    """
    target = folder.resolve()
    new, old = (target.with_name(f".{target.name}.alphac4-{purpose}") for purpose in ("new", "old"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f".{target.name}.lock"), folder):
        if old.exists() and not target.exists():  # a kill came between the two renames
            old.rename(target)
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        check_replaceable(folder)
        new.mkdir()
        try:
            yield new
            seal = {"files": {name: _digest(new / name) for name in _files(new)}}
            write_atomically(new / MARKER, (sign_line(seal) + "\n").encode())
            check_replaceable(folder)  # some seconds have passed
            if target.exists():
                target.rename(old)
            new.rename(target)
        finally:
            shutil.rmtree(new, ignore_errors=True)
            if old.exists() and not target.exists():
                old.rename(target)
        flush_folder(target.parent)
        shutil.rmtree(old, ignore_errors=True)


def _foreign_file(folder: Path) -> str:
    """A file in a folder that this program did not write there, or that was changed since; empty if there is none."""
    if not folder.is_dir():
        return folder.name
    names = _files(folder)
    if not (folder / MARKER).is_file():
        return next(iter(names), "")
    try:
        digests = read_value(dict[str, str], read_entry((folder / MARKER).read_text("utf-8")).get("files"), "files")
    except (OSError, ValueError):
        return MARKER
    return next((name for name in names if digests.get(name) != _digest(folder / name)), "")


def _files(folder: Path) -> list[str]:
    """Everything in a folder but folders and the marker, by its name from there; links are not followed."""
    found = []
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        found += [(Path(place) / name).relative_to(folder).as_posix() for name in (*names, *links)]
    return sorted(name for name in found if name != MARKER)


def _digest(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()

"""Folders: those that are written and replaced as a whole, and those where a user's things are kept."""

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

from alphac4.storage.files import flush_folder, is_abandoned, own_mark, write_atomically
from alphac4.storage.journal import read_entry, sign_line
from alphac4.storage.records import read_value

MARKER = ".alphac4-export.json"
FORMAT = "alphac4 export 1"
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


def place_to_build(folder: Path) -> Path:
    """A hidden name next to a folder, for what is to take its place; what killed processes left there is removed.

    Where a process was killed while it put its work in place, the folder of before stays until there is one again.
    """
    ours = re.compile(rf"\.{re.escape(folder.name)}\.(?P<host>[\w-]*)\+(?P<pid>\d+)\.alphac4-(?P<purpose>new|old)")
    for path in folder.parent.iterdir() if folder.parent.is_dir() else ():
        found = ours.fullmatch(path.name)
        if found is None or path.is_symlink() or (found["purpose"] == "old" and not folder.exists()):
            continue
        own = path == _beside(folder, found["purpose"])  # in a container the next process may have the same number
        if own or is_abandoned(path, found["host"], int(found["pid"])):
            shutil.rmtree(path, ignore_errors=True)
    return _beside(folder, "new")


def check_replaceable(folder: Path) -> None:
    """Refuse a folder in which somebody stands who would find it gone: the current one, or one above it.

    Raises:
        ValueError: naming it.
    """
    if Path.cwd().is_relative_to(folder.resolve()):
        raise ValueError(f"{folder} would be replaced while you are in it: name a folder inside of it")


def seal(folder: Path) -> None:
    """Write down which files a finished folder holds, so that `foreign_file` can tell others from them."""
    facts = {"format": FORMAT, "files": {name: _digest(folder / name) for name in _files(folder)}}
    write_atomically(folder / MARKER, (sign_line(facts) + "\n").encode())


def foreign_file(folder: Path) -> str:
    """A file in a folder that this program did not write there, or that was changed since; empty if there is none."""
    if not folder.is_dir():
        return folder.name
    names = _files(folder)
    if not (folder / MARKER).is_file():
        return next(iter(names), "")
    try:
        facts = read_entry((folder / MARKER).read_text(encoding="utf-8"))
        digests = read_value(dict[str, str], facts.get("files"), "files")
    except (OSError, ValueError):
        return MARKER
    if facts.get("format") != FORMAT:
        return MARKER
    return next((name for name in names if digests.get(name) != _digest(folder / name)), "")


def put_in_place(building: Path, folder: Path) -> None:
    """Rename a finished folder to its name; what was there stays until then, and comes back if that fails."""
    old = _beside(folder, "old")
    existed = folder.exists()
    if existed:
        folder.rename(old)
    try:
        building.rename(folder)
    except BaseException:
        if existed:
            old.rename(folder)
        raise
    flush_folder(folder.parent)
    if existed:
        shutil.rmtree(old, ignore_errors=True)


def _beside(folder: Path, purpose: str) -> Path:
    return folder.with_name(f".{folder.name}.{own_mark()}.alphac4-{purpose}")


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

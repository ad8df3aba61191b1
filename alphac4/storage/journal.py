"""Journals: files of JSON lines from which interrupted commands resume."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from alphac4.storage.files import FileError, append_line, read_lines
from alphac4.storage.records import parse_json, read_record, to_json_line

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Journal:
    """A file of JSON lines with the results of one command; without a path, nothing is stored.

    The first line has the ``kind`` of the file and the settings ``about``, on which the other lines depend. If the file
    has another first line, the constructor raises a FileError. Lines are written and flushed immediately. When the file
    is read, other lines that are damaged or incomplete are logged and skipped.
    """

    def __init__(self, path: Path | None, kind: str, about: Mapping[str, Any]) -> None:
        self._path = path
        if path is None:
            return
        expected = json.loads(json.dumps(dict(about)))  # JSON turns tuples into lists
        stored = read_about(path, kind)
        if stored is None:
            append_line(path, to_json_line({"format": kind, "about": expected}))
            return
        for name in {**expected, **stored}:
            old, new = json.dumps(stored.get(name)), json.dumps(expected.get(name))
            if old != new:
                raise FileError(f"{path} holds {name} {old:.200}, not {new:.200}: choose another output")

    def read(self, parse: Callable[[dict[str, Any]], _T]) -> Iterator[_T]:
        """Yield ``parse(entry)`` for all entries; skip those for which it raises a ValueError."""
        if self._path is None:
            return iter(())
        return read_entries(self._path, lambda line: parse(_read_entry(line)), first=2)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Append an entry; after an OSError, earlier entries are unchanged."""
        if self._path is not None:
            append_line(self._path, to_json_line(entry))


def read_entries(path: Path, parse: Callable[[str], _T], first: int = 1) -> Iterator[_T]:
    """Yield ``parse(line)`` for all lines from number ``first`` on; if it raises ValueError, warn and skip the line."""
    for number, line in enumerate(read_lines(path)[first - 1 :], start=first):
        if not line.strip():
            continue
        try:
            entry = parse(line)
        except ValueError as error:
            logger.warning("%s: line %d is damaged and left out: %s", path, number, error)
        else:
            yield entry


def read_about(path: Path, kind: str) -> dict[str, Any] | None:
    """Return a journal's settings, or None if the file is absent or empty.

    Raise FileError if the first line is damaged or of another kind.
    """
    lines = read_lines(path)
    if not any(lines):
        return None
    try:
        header = _read_entry(lines[0])
        if header.keys() != {"format", "about"} or header["format"] != kind:
            raise ValueError(f"its first line is not that of {kind}")
        return read_record(dict[str, Any], header["about"], "about")
    except ValueError as error:
        raise FileError(f"{path} is not a file of {kind}, or is damaged ({error}): choose another output") from error


def _read_entry(line: str) -> dict[str, Any]:
    return read_record(dict[str, Any], parse_json(line), "the line")

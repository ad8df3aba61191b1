"""Journals: files of JSON lines that grow during long work, from which an interrupted command resumes."""

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
    """A file of JSON lines that belongs to one piece of work.

    The first line holds the ``kind`` of the file and what it is ``about``: the settings that decide the other lines. A
    line is written and flushed at once. A damaged or incomplete line is logged and skipped when the file is read.

    Args:
        path: the file; without one nothing is stored.
        kind: such as "alphac4-tournament".
        about: settings, as JSON takes them.

    Raises:
        FileError: if the file holds something else, or has other settings.
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
                raise FileError(f"{path} holds {name} {old:.200}, not {new:.200}: choose another file")

    def read(self, parse: Callable[[dict[str, Any]], _T]) -> Iterator[_T]:
        """Yield what ``parse`` makes of each entry; skip those for which it raises a ValueError."""
        if self._path is None:
            return iter(())
        return read_entries(self._path, lambda line: parse(_read_entry(line)), first=2)

    def add(self, entry: Mapping[str, Any]) -> None:
        """Append an entry.

        Raises:
            OSError: naming the file, if it cannot be written; what was written before stays.
        """
        if self._path is not None:
            append_line(self._path, to_json_line(entry))


def read_entries(path: Path, parse: Callable[[str], _T], first: int = 1) -> Iterator[_T]:
    """Yield what ``parse`` makes of each line from ``first`` on; skip those for which it raises a ValueError.

    A kill or a full disk leaves such lines. A warning names each.
    """
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
    """The ``about`` of the journal in a file; None if there is no file, or nothing in it.

    Raises:
        FileError: if the file holds something else.
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
        raise FileError(f"{path} is not a file of {kind}, or damaged ({error}): choose another") from error


def _read_entry(line: str) -> dict[str, Any]:
    return read_record(dict[str, Any], parse_json(line), "the line")

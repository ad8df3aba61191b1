"""Text files written by people, with a position or a game per line.

They are UTF-8. The reader accepts what editors save: byte-order marks, all line endings, blank lines, tabs, repeated
spaces, spaces around a line, and comments after "#".
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from alphac4.storage.files import FileError, add_path_to_errors

T = TypeVar("T")

MAX_TEXT_BYTES = 2**28  # of a file: millions of positions, and little memory for an endless one


def read_text_lines(path: Path) -> list[str]:
    """Return the lines of a file; raise FileError if it is not UTF-8 text or larger than `MAX_TEXT_BYTES`."""
    with add_path_to_errors(path), path.open("rb") as file:
        content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise FileError(f"{path}: larger than {MAX_TEXT_BYTES >> 20} MiB; split it into smaller files")
    return _decode(content, str(path)).splitlines()


def read_stdin_lines() -> Iterator[str]:
    """Yield the lines of the standard input as they arrive; raise FileError for one that is not UTF-8 text."""
    for line in getattr(sys.stdin, "buffer", sys.stdin):  # a replacement may have only text
        yield from (line if isinstance(line, str) else _decode(line, "the standard input")).splitlines()


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{source}: not UTF-8 text; save it in that encoding") from error


def content_lines(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number, from 1, and the words of each line; skip blank lines and comments."""
    for number, line in enumerate(lines, start=1):
        words = line.replace("\ufeff", " ").partition("#")[0].split()
        if words:
            yield number, words


def parse_lines(lines: Iterable[str], source: str, parse: Callable[[list[str]], T]) -> Iterator[T]:
    """Yield ``parse(words)`` for each line; turn its ValueError into a FileError that names the source and the line."""
    for number, words in content_lines(lines):
        try:
            parsed = parse(words)
        except ValueError as error:
            raise FileError(f"{source}, line {number}: {error}") from error
        yield parsed

"""Text files that people write: a position, a game or a puzzle per line.

Editors differ in how they save text. The reader accepts byte-order marks, UTF-16, every kind of line end, blank lines,
tabs, several blanks between words, blanks around a line, and comments after "#".
"""

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from alphac4.storage.files import FileError

T = TypeVar("T")


def read_text_lines(path: Path) -> list[str]:
    """Return the lines of a text file; bytes that are not text become U+FFFD, so that a parser can name their line.

    Raises:
        OSError: if the file cannot be read.
    """
    content = path.read_bytes()
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8", errors="replace").splitlines()


def read_stdin_lines() -> Iterator[str]:
    """Yield the lines of the standard input, read as UTF-8 whatever the terminal's encoding is."""
    binary = getattr(sys.stdin, "buffer", None)  # a stand-in for the stream may have none
    for line in sys.stdin if binary is None else binary:
        yield line if isinstance(line, str) else line.decode("utf-8", errors="replace")


def content_lines(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, from 1, and its words; skip blank lines and comments."""
    for number, line in enumerate(lines, start=1):
        words = line.replace("\ufeff", " ").partition("#")[0].split()
        if words:
            yield number, words


def parse_lines(lines: Iterable[str], source: str, parse: Callable[[list[str]], T]) -> Iterator[T]:
    """Yield what ``parse`` makes of each line's words.

    Raises:
        FileError: if ``parse`` raises ValueError; it names the source and the line.
    """
    for number, words in content_lines(lines):
        try:
            parsed = parse(words)
        except ValueError as error:
            raise FileError(f"{source}, line {number}: {error}") from error
        yield parsed

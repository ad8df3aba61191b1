"""Text files written by people, with a position, a game or a puzzle per line.

The reader accepts what editors save: byte-order marks, UTF-16, all line endings, blank lines, tabs, repeated spaces,
spaces around a line, and comments after "#".
"""

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from alphac4.storage.files import FileError, add_path_to_errors

T = TypeVar("T")

MAX_TEXT_BYTES = 2**28  # of a file: millions of positions, and little memory for an endless one


def read_text_lines(path: Path) -> list[str]:
    """Return the lines of a text file. Invalid bytes become U+FFFD, so that a parser can name their line.

    Raises:
        FileError: for UTF-16 without a byte-order mark, UTF-32, or more than `MAX_TEXT_BYTES`.
        OSError: if the file cannot be read.
    """
    with add_path_to_errors(path), path.open("rb") as file:
        content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise FileError(f"{path}: larger than {MAX_TEXT_BYTES >> 20} MiB; split it into smaller files")
    return _checked(_decode(content), str(path)).splitlines()


def read_stdin_lines() -> Iterator[str]:
    """Yield the lines of the standard input as they arrive, in the encodings and line endings accepted for files.

    Raises:
        FileError: for UTF-16 without a byte-order mark, or UTF-32.
    """
    binary = getattr(sys.stdin, "buffer", None)
    if binary is None:  # a replacement without bytes
        yield from sys.stdin
        return
    first = binary.readline()
    text = _decode(first + binary.read() if _is_utf16(first) else first)
    yield from _checked(text, "the standard input").splitlines()
    for line in binary:
        yield from _checked(line.decode("utf-8", errors="replace"), "the standard input").splitlines()


def _decode(content: bytes) -> str:
    return content.decode("utf-16" if _is_utf16(content) else "utf-8", errors="replace")


def _is_utf16(content: bytes) -> bool:
    return content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def encoding_problem(text: str) -> str:
    """Return the message for input that is not UTF-8 text, but has NUL characters as UTF-16 does; "" for others."""
    return "the input is not UTF-8 text: it has NUL characters, as UTF-16 does" if "\0" in text else ""


def _checked(text: str, source: str) -> str:
    """Return a text without NUL characters, or raise FileError with the name of its source."""
    if problem := encoding_problem(text):
        raise FileError(f"{source}: {problem}")
    return text


def content_lines(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number, from 1, and the words of each line; skip blank lines and comments."""
    for number, line in enumerate(lines, start=1):
        words = line.replace("\ufeff", " ").partition("#")[0].split()
        if words:
            yield number, words


def parse_lines(lines: Iterable[str], source: str, parse: Callable[[list[str]], T]) -> Iterator[T]:
    """Yield ``parse(words)`` for each line.

    Raises:
        FileError: naming the source and the line, if ``parse`` raises ValueError.
    """
    for number, words in content_lines(lines):
        try:
            parsed = parse(words)
        except ValueError as error:
            raise FileError(f"{source}, line {number}: {error}") from error
        yield parsed

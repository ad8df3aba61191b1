"""Texts that are wider than a terminal."""

import io

import pytest

from alphac4.machine import wrapped


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_long_lines_break_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "short\nlearning in bf16 and self-play by openvino-int8 go on\n\033[91m" + "x" * 40 + "\033[0m"
    assert wrapped(text, io.StringIO()) == text
    short, *long, coloured = wrapped(text, Terminal()).split("\n")
    assert (short, coloured) == ("short", text.split("\n")[2])  # colours take no room
    assert [line.strip() for line in long] == ["learning in bf16 and self-play by", "openvino-int8 go on"]

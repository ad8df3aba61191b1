"""Text files of positions and games as common editors save them, and the standard input."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alphac4.commands.play import SolveCommand
from alphac4.evaluation.positions import load_positions, parse_position
from alphac4.game import STANDARD
from alphac4.play.games import Session, read_games
from alphac4.storage.files import FileError
from alphac4.storage.text import parse_lines, read_text_lines

PUBLIC = (
    "2252576253462244111563365343671351441 -1",
    "7422341735647741166133573473242566 1",
)  # the beginning of Test_L3_R1
SCORED = ("112233 -2 -1 -1 18 -2 -2 -3", "444444 -1 0 1 . 1 0 -1")
FORMS = {
    "plain": b"{0}\n{1}\n",
    "byte-order mark": b"\xef\xbb\xbf{0}\n{1}\n",
    "CRLF": b"\xef\xbb\xbf{0}\r\n{1}\r\n",
    "CR": b"{0}\r{1}\r",
    "blanks around": b"  {0} \t\n\t{1}  \n",
    "blank lines": b"\n{0}\n \n\t\n{1}\n\n",
    "no last line end": b"{0}\n{1}",
    "comments": b"# mine\n{0} # a note\n  # more\n{1}#\n",
    "joined files": "\ufeff{0}\n\ufeff{1}\n".encode(),
}


def written(form: str, lines: tuple[str, str], blank: str) -> bytes:
    """Return two lines as a file of this form, with ``blank`` between words."""
    return FORMS[form].decode().format(*(line.replace(" ", blank) for line in lines)).encode()


def read_sample(path: Path) -> list[str]:
    return [position.moves or "" for position, _ in parse_lines(read_text_lines(path), str(path), parse_position)]


def read_scored(path: Path) -> list[tuple[str | None, list[int]]]:
    part = load_positions(path)
    return [(position.moves, row.tolist()) for position, row in zip(part.positions, part.scores, strict=True)]


def read_saved_game(path: Path) -> str:
    session = Session()
    session.open(str(path))
    return session.moves


READERS: dict[str, tuple[Callable[[Path], object], tuple[str, str], object]] = {
    "positions": (
        read_scored,
        SCORED,
        [("112233", [-2, -1, -1, 18, -2, -2, -3]), ("444444", [-1, 0, 1, -128, 1, 0, -1])],
    ),
    "sample": (read_sample, PUBLIC, [line.split()[0] for line in PUBLIC]),
    "games": (lambda path: read_games(str(path), [], STANDARD), ("4455", "1 1 2"), ["4455", "112"]),
    "saved game": (read_saved_game, ("4455", ""), "4455"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("blank", [" ", "\t "], ids=["blank", "tab and blank"])
def test_text_files_of_any_editor_are_read(form: str, kind: str, blank: str, tmp_path: Path) -> None:
    read, lines, expected = READERS[kind]
    path = tmp_path / "mine.txt"
    path.write_bytes(written(form, lines, blank))
    assert read(path) == expected


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("positions", "4455 1 1 1 1 1 1"),
        ("positions", "44444 1 1 1 . 1 1 1"),  # column 4 can be played
        ("positions", "4455 1 1 99 1 1 1 1"),
        ("sample", "44 5x"),
        ("sample", "48"),
        ("sample", "1212121"),  # the game is over
        ("sample", "44 1 1"),
        ("sample", "4455 4433"),  # two games in one line
        ("sample", f"{PUBLIC[0].split()[0]} . . . . . -1 ."),
        ("sample", "4455 \u0661"),
        ("positions", "112233 -2 0 1 18 0 -3 -\u0661"),
        ("games", "44 5"),
        ("games", "48"),
    ],
)
def test_an_error_in_a_text_file_names_the_file_and_the_line(kind: str, line: str, tmp_path: Path) -> None:
    read, lines, _ = READERS[kind]
    path = tmp_path / "mine.txt"
    path.write_text(f"\ufeff{lines[0]}\n# a comment\n\t{line}\n", encoding="utf-8")
    with pytest.raises(FileError, match=f"^{path}, line 3: "):
        read(path)


def test_a_file_of_comments_contains_no_positions(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("# a comment\n\n")
    with pytest.raises(FileError, match=f"^{path}: contains no positions"):
        load_positions(path)


@pytest.mark.parametrize("kind", READERS)
def test_a_text_file_in_another_encoding_is_rejected_by_name(kind: str, tmp_path: Path) -> None:
    read, lines, _ = READERS[kind]
    path = tmp_path / "mine.txt"
    for encoding, message in (("utf-16", "not UTF-8 text; save it in that encoding"), ("utf-16-le", "")):
        path.write_bytes("\n".join(lines).encode(encoding))
        with pytest.raises(ValueError, match=f"^{path}.*: {message}"):
            read(path)


class Stream(io.StringIO):
    """Standard input in an encoding without a byte-order mark, as on Windows."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content.decode("cp1252", errors="replace"))
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("form", ["byte-order mark", "CR"])
def test_standard_input_of_any_editor_is_read(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Stream(written(form, PUBLIC, "\t")))
    assert SolveCommand(batch=True)() == 0
    assert capsys.readouterr().out.splitlines() == list(PUBLIC)  # our scores agree with the published ones


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({}, ["1", "-2", ". . . . . -2 -2", ". . . . . -1 -1"]),
        ({"column_scores": True}, ["1", "-2", ". . . . . -2 -2", ". . . . . -1 -1"]),
        ({"weak": True}, ["1", "0", ". . . . . 1 -2", ". . . . . -1 0"]),
    ],
    ids=str,
)
def test_a_batch_reports_every_line_with_a_wrong_score(
    options: dict[str, Any], wrong: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A game with one word per column, such as "4 4", looks like a position with a score."""
    moves, right = PUBLIC[0].split()
    lines = [right, "", ". . . . . -1 -2", *wrong]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{moves} {given}\n" for given in lines)))
    assert SolveCommand(batch=True, **options)() == 2
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == len(lines)
    reported = [line.partition(", but")[0] for line in output.err.splitlines()]
    last = -1 if "weak" in options else -2
    assert reported == [
        "line 4: the score is -1",
        "line 5: the score is -1",
        "line 6: the score of column 6 is -1",
        f"line 7: the score of column 7 is {last}",
    ]


def test_too_large_file_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("alphac4.storage.text.MAX_TEXT_BYTES", 2**20)
    path = tmp_path / "large"
    path.write_text("4" * 2**20)
    assert len(read_text_lines(path)) == 1
    path.write_text("4" * (2**20 + 1))
    with pytest.raises(FileError, match="large: larger than 1 MiB"):
        read_text_lines(path)


def test_games_are_read_from_the_command_line_and_the_standard_input() -> None:
    assert read_games("-", io.StringIO("44\n"), STANDARD) == ["44"]
    assert read_games(" 4 4 5 5", [], STANDARD) == ["4455"]
    with pytest.raises(ValueError, match=r"'nofile.txt' is neither a game .* nor an existing file"):
        read_games("nofile.txt", [], STANDARD)

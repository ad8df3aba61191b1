import json
from collections.abc import Callable
from pathlib import Path

import pytest

from alphac4.arena.match import MatchResult
from alphac4.arena.record import TournamentError, TournamentRecord, read_settings
from alphac4.evaluation.proof import CONTINUES, DRAWS, MoveRecord
from alphac4.game import STANDARD, Position
from alphac4.solver.book import load_book
from alphac4.training.config import load_config

SETTINGS = {"players": ["a", "b"], "seed": 1}
RESULT = MatchResult(wins=1, draws=1, losses=0, pair_scores=(1.5,), games=("1234", "4321"))
WALK: dict[str, object] = {"player": "best@600", "seed": 0}


def test_no_changed_character_of_a_tournament_is_believed(tmp_path: Path) -> None:
    """Its first line is refused, any other is left out; the others are read."""
    path = tmp_path / "t.jsonl"
    record = TournamentRecord(path, SETTINGS)
    for part in range(3):
        record.add(("a", "b"), part, RESULT)
    content, refusals = path.read_bytes(), []
    for index in range(0, len(content), 3):
        changed = bytearray(content)
        changed[index] ^= 1
        path.write_bytes(changed)
        try:
            found = TournamentRecord(path, SETTINGS).parts
        except TournamentError as error:
            refusals.append(str(error))
        else:
            assert all(result == RESULT for result in found.values())
            assert len(found) in (1, 2, 3)
    assert len(refusals) > 20
    assert all(str(path) in refusal and "\n" not in refusal for refusal in refusals)


def test_a_tournament_without_checksums_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As earlier versions wrote it; what does not add up in it is reported and left out."""
    path = tmp_path / "old.jsonl"
    line = {"players": ["a", "b"], "wins": 1, "draws": 1, "losses": 0, "pair_scores": [1.5], "games": ["12", "21"]}
    lines = [
        {"format": "alphac4-tournament", "settings": SETTINGS},
        {**line, "part": 0},
        {**line, "part": 1, "wins": 2},
        {**line, "part": "2"},
    ]
    nested = '{"players":' + "[" * 100_000 + "]" * 100_000 + "}"
    path.write_text("\n".join([*map(json.dumps, lines), nested, ""]))
    record = TournamentRecord(path, SETTINGS)
    assert [part for _, part in record.parts] == [0]
    for number in (3, 4, 5):
        assert f"old.jsonl: line {number} is damaged and left out" in caplog.text
    record.add(("a", "b"), 1, RESULT)
    assert sorted(part for _, part in TournamentRecord(path, SETTINGS).parts) == [0, 1]


def test_a_deeply_nested_tournament_is_refused_in_one_line(tmp_path: Path) -> None:
    """Not with a traceback."""
    path = tmp_path / "deep.jsonl"
    path.write_text("[" * 200_000)
    with pytest.raises(TournamentError, match=r"deep\.jsonl") as caught:
        read_settings(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "read",
    [
        load_config,
        lambda path: MoveRecord(path, dict(WALK)),
        lambda path: TournamentRecord(path, SETTINGS),
        lambda path: load_book(path, STANDARD),
    ],
    ids=["settings", "walk", "tournament", "book"],
)
def test_every_reader_names_the_file_that_is_nested_too_deeply(read: Callable[[Path], object], tmp_path: Path) -> None:
    """In one line; a message of Python's own tells nobody what to mend."""
    path = tmp_path / "deep"
    path.write_text("[" * 200_000 + "\n")
    with pytest.raises(ValueError, match=r"/deep\b") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_no_changed_character_of_a_walk_is_believed(tmp_path: Path) -> None:
    """A position whose line is damaged counts as one that the player was not asked about."""
    path = tmp_path / "walk"
    positions = [Position.from_moves(moves) for moves in ("", "4", "44")]
    MoveRecord(path, WALK).add(positions, [3, 2, 3], [CONTINUES, CONTINUES, DRAWS])
    asked = MoveRecord(path, WALK)
    expected = [asked[position] for position in positions]
    content, refusals = path.read_bytes(), []
    for index in range(len(content)):
        changed = bytearray(content)
        changed[index] ^= 1
        path.write_bytes(changed)
        try:
            record = MoveRecord(path, WALK)
        except ValueError as error:
            refusals.append(str(error))
            continue
        for position, answer in zip(positions, expected, strict=True):
            assert position not in record or record[position] == answer
        assert not any(Position.from_moves(moves) in record for moves in ("1", "2", "3", "5", "45", "54"))
    assert len(refusals) > 20
    assert all(str(path) in refusal and "\n" not in refusal for refusal in refusals)


def test_a_walk_without_checksums_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As earlier versions wrote it; an impossible move is reported and left out."""
    path = tmp_path / "old"
    path.write_text(f"{json.dumps(WALK)}\n- 4 goes on\n44 9 goes on\n4x4 1 goes on\n4 4 go")
    record = MoveRecord(path, WALK)
    assert record[Position()] == (3, CONTINUES)
    assert Position.from_moves("44") not in record
    for number in (3, 4, 5):
        assert f"old: line {number} is damaged and left out" in caplog.text
    record.add([Position.from_moves("4")], [2], [CONTINUES])
    assert MoveRecord(path, WALK)[Position.from_moves("4")] == (2, CONTINUES)

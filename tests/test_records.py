from collections.abc import Iterator
from pathlib import Path

import numpy as np

from alphac4.arena.match import MatchResult
from alphac4.arena.tournament import TournamentRecord
from alphac4.certificate.walk import ASK, stones_of
from alphac4.evaluation.walks import Kind, KnownMoves, Moves
from alphac4.game import STANDARD
from alphac4.storage.journal import JournalError

SETTINGS = {"players": ["a", "b"], "seed": 1}
RESULT = MatchResult(wins=1, draws=1, losses=0, pair_scores=(1.5,), games=("1234", "4321"))
WALK: dict[str, object] = {"player": "best@600", "seed": 0}


def changed_copies(path: Path, step: int = 1) -> Iterator[None]:
    """Change one character after another in a file."""
    content = path.read_bytes()
    for index in range(0, len(content), step):
        changed = bytearray(content)
        changed[index] ^= 1
        path.write_bytes(changed)
        yield


def check_refusals(path: Path, refusals: list[str]) -> None:
    """A changed first line was refused in one line that names the file."""
    assert len(refusals) > 20
    assert all(str(path) in refusal and "\n" not in refusal for refusal in refusals)


def test_no_changed_character_of_a_tournament_is_believed(tmp_path: Path) -> None:
    """Its first line is refused, any other is left out; the others are read."""
    path, refusals = tmp_path / "t.jsonl", []
    record = TournamentRecord(path, SETTINGS)
    for part in range(3):
        record.add(("a", "b"), part, RESULT)
    for _ in changed_copies(path, step=3):
        try:
            found = TournamentRecord(path, SETTINGS).parts
        except JournalError as error:
            refusals.append(str(error))
        else:
            assert all(result == RESULT for result in found.values())
            assert len(found) in (1, 2, 3)
    check_refusals(path, refusals)


def test_no_changed_character_of_a_walk_is_believed(tmp_path: Path) -> None:
    """A position whose line is damaged counts as one that the player was not asked about."""
    path, refusals = tmp_path / "walk", []
    keys, columns = np.array([0, 70, 900], np.uint64), np.array([3, 2, 3], np.int8)
    known = KnownMoves(STANDARD, path, WALK)
    for row in range(3):
        known.add([Moves.of_kind(Kind.ANSWER, keys[row : row + 1], columns[row : row + 1])])
        known.save()

    def read() -> dict[int, int]:
        found = KnownMoves(STANDARD, path, WALK)
        stones = stones_of(STANDARD, keys).tolist()
        return {int(key): int(found.find(n, np.array([key]))[0][0]) for n, key in zip(stones, keys, strict=True)}

    expected = read()
    assert list(expected.values()) == [3, 2, 3]
    for _ in changed_copies(path, step=3):
        try:
            found = read()
        except JournalError as error:
            refusals.append(str(error))
        else:
            assert all(column in (expected[key], ASK) for key, column in found.items())
    check_refusals(path, refusals)

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from alphac4.certificate.file import (
    SHIPPED,
    Certificate,
    CertificateError,
    read_certificate,
    walk_certificate,
    write_certificate,
)
from alphac4.certificate.moves import KnownMoves, proof_moves
from alphac4.certificate.walk import ASK, Columns, Keys, follow, rule_moves, unpack_key
from alphac4.checkpoint_header import shipped_checkpoint
from alphac4.cli import main
from alphac4.commands.certificate import positions_left
from alphac4.evaluation.certification import build, moves_in_order, position_of
from alphac4.game import Geometry, Outcome, Position, make_geometry
from alphac4.game.rules import STANDARD
from alphac4.game.symmetry import canonical_key
from alphac4.mcts import Budget, NetworkSearch
from alphac4.mcts.results import SearchResult
from alphac4.mcts.tree import UNPROVEN
from alphac4.nn.evaluator import UniformEvaluator
from alphac4.shipped import shipped_file
from alphac4.solver import Solver

pytestmark = pytest.mark.beside
SMALL = make_geometry(4, 4, 3)  # three in a row on 4 x 4: the first player wins
POSITIONS = 8_295_279  # in which the shipped certificate's player is to move


class BestByMinimax:
    """A player that looks to the end of every game, by a search of its own in plain Python."""

    name = "minimax"
    budget = Budget(simulations=1)
    reuse = "nothing"

    def __init__(self, geometry: Geometry, blunder_in: Position | None = None) -> None:
        self.geometry = geometry
        self.blunder_in = blunder_in
        self.asked = 0
        self._known: dict[tuple[int, int], int] = {}

    def value(self, position: Position) -> int:
        """1, 0 or -1 for the side to move."""
        outcome = position.outcome()
        if outcome is not None:
            return int(outcome)
        key = int(position.own), int(position.occupied)
        if key not in self._known:
            self._known[key] = max(-self.value(position.play(column)) for column in position.legal_columns())
        return self._known[key]

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """The first best move; the worst one where it is to blunder."""
        pick = {position: min if position == self.blunder_in else max for position in positions}
        return [
            pick[position](position.legal_columns(), key=lambda column, p=position: -self.value(p.play(column)))
            for position in positions
        ]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:  # noqa: ARG002
        """Only the moves and values mean anything; nothing is proven."""
        self.asked += len(positions)
        search = NetworkSearch(UniformEvaluator(), geometry=self.geometry, rng=np.random.default_rng(0))
        result = search.search(positions, Budget(simulations=1))
        result.proofs[:] = UNPROVEN
        result.value[:] = [self.value(position) for position in positions]
        result.moves[:] = self.choose(positions)
        return result

    def winning_moves(self, index: int) -> tuple[Keys, Columns]:  # noqa: ARG002
        """There are none."""
        raise AssertionError("nothing was proven")


@pytest.fixture(scope="module")
def small() -> Certificate:
    """A certificate for the small board."""
    known = KnownMoves(SMALL)
    levels = list(build([BestByMinimax(SMALL), BestByMinimax(SMALL)], known, SMALL))
    assert not any(level.errors for level in levels)
    assert levels[-1].last
    return Certificate(geometry=SMALL, columns=moves_in_order(known, SMALL), about={"player": "minimax"})


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    """The stand-alone script as a module."""
    path = Path(__file__).parent.parent / "scripts" / "verify_certificate.py"
    spec = importlib.util.spec_from_file_location("verify_certificate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_stand_alone_checker_confirms_the_shipped_certificate() -> None:
    """In a process of its own, without any package; the first test, for it compiles nothing while others do."""
    script = Path(__file__).parent.parent / "scripts" / "verify_certificate.py"
    done = subprocess.run([sys.executable, "-I", "-S", str(script)], capture_output=True, text=True, check=True)
    *_, last = done.stdout.splitlines()
    assert last == f"{POSITIONS:,} positions, the last with 40 stones: the first player always wins."


@pytest.mark.parametrize("content", [None, b"", b"\xcd\xcd", b"[]\n", b'{"format": "alphac4-certificate"}\n112'])
def test_the_stand_alone_checker_tells_what_is_no_certificate(
    content: bytes | None,
    checker: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the standard error stream and with an exit code of its own: 1 is for a certificate that does not hold."""
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr("sys.argv", ["verify_certificate.py", str(path)])
    assert checker.main() == 2
    out, error = capsys.readouterr()
    assert not out
    assert error.startswith(f"{path}: ")
    assert len(error.splitlines()) == 1


def test_the_stand_alone_checker_knows_where_four_are_completed(checker: ModuleType) -> None:
    """For stones strewn at random, and every cell: by looking at each line of four cells through it.

    Of an upright line only the topmost cell can be the last.
    """
    rng = np.random.default_rng(0)
    lines = [
        [(column + i * right, row + i * up) for i in range(4)]
        for column in range(7)
        for row in range(6)
        for right, up in ((0, 1), (1, 0), (1, 1), (1, -1))
        if column + 3 * right < 7 and 0 <= row + 3 * up < 6
    ]
    assert len(lines) == 69
    for share in (0.2, 0.5, 0.8):
        for _ in range(100):
            grid = rng.random((7, 6)) < share
            stones = sum(1 << (7 * column + row) for column, row in np.argwhere(grid).tolist())
            for column, row in np.argwhere(~grid).tolist():
                through = [
                    line for line in lines if (column, row) in line and (line[0][0] < line[3][0] or row == line[3][1])
                ]
                expected = any(sum(bool(grid[cell]) for cell in line) == 3 for line in through)
                assert bool(checker.completing(stones) >> (7 * column + row) & 1) == expected


def random_positions(geometry: Geometry, count: int) -> list[Position]:
    """Unfinished positions of random games."""
    rng = np.random.default_rng(3)
    found: list[Position] = []
    while len(found) < count:
        position = Position(geometry=geometry)
        for _ in range(rng.integers(0, geometry.cells)):
            position = position.play(int(rng.choice(position.legal_columns())))
            if position.outcome() is not None:
                break
        else:
            found.append(position)
    return found


def test_keys_can_be_read_back() -> None:
    """To the position or its mirror image."""
    for geometry in (STANDARD, SMALL):
        for position in random_positions(geometry, 200):
            key = canonical_key(geometry, position.own, position.occupied)
            own, occupied = (int(word) for word in unpack_key(geometry, np.uint64(key)))
            assert own + occupied == int(key)
            mirrored = Position.from_moves(
                "".join(str(geometry.columns + 1 - int(name)) for name in position.moves or ""), geometry
            )
            assert (own, occupied) in [(int(p.own), int(p.occupied)) for p in (position, mirrored)]


def test_the_walk_visits_what_any_opponent_can_bring_about(small: Certificate) -> None:
    """Counted by playing all games move by move; the player is asked for nothing that the rules decide."""
    player = BestByMinimax(SMALL)
    positions, count = {Position(geometry=SMALL)}, 0
    visited: set[int] = set()
    while positions:
        following = set()
        for position in positions:
            key = int(canonical_key(SMALL, position.own, position.occupied))
            canonical = position_of(SMALL, key)
            if key in visited:
                continue
            visited.add(key)
            wins = [c for c in canonical.legal_columns() if canonical.play(c).outcome() == Outcome.LOSS]
            if wins:
                continue
            losing = [c for c in canonical.legal_columns() if loses_at_once(canonical.play(c))]
            threatened = any(
                Position(canonical.opponent, canonical.occupied, SMALL, None).play(c).outcome() == Outcome.LOSS
                for c in canonical.legal_columns()
            )
            if threatened:
                (move,) = [c for c in canonical.legal_columns() if c not in losing] or [-1]
                if move < 0:  # it blocks and is beaten elsewhere: minimax would not have come here
                    raise AssertionError(str(canonical))
            else:
                count += 1
                move = player.choose([canonical])[0]
            after = canonical.play(move)
            following |= {after.play(column) for column in after.legal_columns()}
        positions = following
    walked = walk_certificate(small)
    assert walked.positions == len(visited)
    assert walked.named == count == len(small.columns)


def loses_at_once(position: Position) -> bool:
    """Whether the side to move can complete a run."""
    return any(position.play(column).outcome() == Outcome.LOSS for column in position.legal_columns())


def named_keys(certificate: Certificate) -> Keys:
    """Of the positions whose moves a certificate names."""
    levels = walk_certificate(certificate).levels
    return np.concatenate([keys[rule_moves(certificate.geometry, keys) == ASK] for keys, _ in levels])


def test_every_altered_move_is_found_or_wins_as_well(small: Certificate) -> None:
    """The verdict of the walk on each single change agrees with minimax on the position it leads to."""
    player = BestByMinimax(SMALL)
    named = named_keys(small)
    rejected = 0
    for index in range(min(20, len(named))):
        position = position_of(SMALL, int(named[index]))
        for column in range(SMALL.columns):
            if column == small.columns[index]:
                continue
            columns = small.columns.copy()
            columns[index] = column
            wins = position.is_legal(column) and player.value(position.play(column)) == -1
            if not wins:
                rejected += 1
                with pytest.raises(CertificateError):
                    walk_certificate(Certificate(geometry=SMALL, columns=columns))
    assert rejected > 5


def test_missing_and_superfluous_moves_are_found(small: Certificate) -> None:
    """One move more or less is another walk."""
    with pytest.raises(CertificateError, match="missing"):
        walk_certificate(Certificate(geometry=SMALL, columns=small.columns[:-1]))
    with pytest.raises(CertificateError, match="left over"):
        walk_certificate(Certificate(geometry=SMALL, columns=np.append(small.columns, np.int8(0))))


def test_files_are_read_as_written_and_refused_if_altered(tmp_path: Path, small: Certificate) -> None:
    """In one line that names the file."""
    path = tmp_path / "small.certificate"
    write_certificate(path, small)
    found = read_certificate(path)
    assert found.geometry == SMALL
    assert found.about == small.about
    np.testing.assert_array_equal(found.columns, small.columns)
    content, refused = path.read_bytes(), list[str]()
    for index in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[index] ^= 0x15
        path.write_bytes(bytes(damaged))
        try:
            again = read_certificate(path)
        except CertificateError as error:
            refused.append(str(error))
        else:  # a header that says something else of the same moves
            np.testing.assert_array_equal(again.columns, small.columns)
    assert len(refused) > 10
    assert all(str(path) in line and "\n" not in line for line in refused)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CertificateError, match=str(path)):
        read_certificate(path)


def blunder(small: Certificate) -> Position:
    """The first position of the walk in which a move does not win."""
    player = BestByMinimax(SMALL)
    positions = [position_of(SMALL, int(key)) for key in named_keys(small)]
    return next(p for p in positions if any(player.value(p.play(c)) > -1 for c in p.legal_columns()))


def test_a_judge_tells_an_error_and_the_walk_goes_on_elsewhere(small: Certificate) -> None:
    """It is counted once, where it is made."""
    start = blunder(small)
    levels = list(build([BestByMinimax(SMALL, blunder_in=start)], KnownMoves(SMALL), SMALL, judge=Solver(SMALL)))
    errors = [error for level in levels for error in level.errors]
    assert errors == [int(canonical_key(SMALL, start.own, start.occupied))]
    assert not any(level.mended for level in levels)


def test_a_move_that_a_line_refutes_is_taken_back(small: Certificate, tmp_path: Path) -> None:
    """Without a judge: by the rules alone, and what is remembered in the folder leads to the same certificate."""
    start = blunder(small)
    known = KnownMoves(SMALL, tmp_path)
    levels = list(build([BestByMinimax(SMALL, blunder_in=start)], known, SMALL))
    assert not levels[-1].errors
    assert levels[-1].last
    assert {level.stones: level.mended for level in levels if level.mended} == {start.plies: 1}
    columns = moves_in_order(known, SMALL)
    walk_certificate(Certificate(geometry=SMALL, columns=columns))
    known.save()
    again = BestByMinimax(SMALL)
    assert list(build([again], KnownMoves(SMALL, tmp_path), SMALL))[-1].last
    first = KnownMoves(SMALL, tmp_path, first_answers=True)
    judged = list(build([again], first, SMALL, judge=Solver(SMALL)))
    errors = [error for level in judged for error in level.errors]
    assert errors == [int(canonical_key(SMALL, start.own, start.occupied))]
    assert again.asked == 0
    np.testing.assert_array_equal(moves_in_order(KnownMoves(SMALL, tmp_path), SMALL), columns)


def test_where_nothing_wins_the_first_position_is_the_error() -> None:
    """On 4 x 4 with four in a row, perfect play draws: every move is taken back in the end."""
    geometry = make_geometry(4, 4)
    known = KnownMoves(geometry)
    *_, last = build([BestByMinimax(geometry)], known, geometry)
    assert (last.stones, last.errors) == (0, [0])
    assert set(known.taken_back[0]) >= {0, 1}


def test_a_later_proof_counts_more_than_giving_up(tmp_path: Path) -> None:
    """The player saw no win in a position, and a search of an earlier one then proves it; so it is when read again."""
    position = Position.from_moves("44")
    key = np.array([canonical_key(STANDARD, position.own, position.occupied)], np.uint64)
    known = KnownMoves(STANDARD, tmp_path, {"player": "x"})
    known.take_back(np.repeat(key, 7), np.arange(7, dtype=np.int8))
    known.add(proof_moves([(key, np.array([3], np.int8))]))
    for _ in range(2):
        assert known.find(2, key)[0].tolist() == [3]
        assert not known.is_taken_back(key).any()
        known.save()
        known = KnownMoves(STANDARD, tmp_path, {"player": "x"})
    known.take_back(key, np.array([3], np.int8))  # the end of a line says otherwise
    with pytest.raises(ValueError, match="does not hold"):
        known.find(2, key)


def test_damaged_answers_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever bit of their file has changed: they are asked for again, or it made no difference."""
    player = BestByMinimax(SMALL)
    known = KnownMoves(SMALL, tmp_path, {"player": "x"})
    list(build([player], known, SMALL, most_stones=4))
    known.save()
    (path,) = tmp_path.glob("*.npz")
    good = path.read_bytes()
    keys = np.array([0], np.uint64)
    damaged = 0
    for place in range(0, len(good), 3):
        changed = bytearray(good)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        caplog.clear()
        found, _ = KnownMoves(SMALL, tmp_path, {"player": "x"}).find(0, keys)
        damaged += "damaged and left out" in caplog.text
        assert found[0] == (ASK if "damaged and left out" in caplog.text else known.find(0, keys)[0][0])
    assert damaged > 100


def test_an_interrupted_walk_asks_nothing_twice(tmp_path: Path) -> None:
    """What was answered is kept in the folder, which belongs to one player."""
    whole = BestByMinimax(SMALL)
    list(build([whole], KnownMoves(SMALL, tmp_path / "a", {"player": "x"}), SMALL))
    first, second = BestByMinimax(SMALL), BestByMinimax(SMALL)
    known = KnownMoves(SMALL, tmp_path / "b", {"player": "x"})
    list(build([first], known, SMALL, most_stones=4))
    known.save()
    with pytest.raises(ValueError, match="holds the moves of"):
        KnownMoves(SMALL, tmp_path / "b", {"player": "y"})
    again = KnownMoves(SMALL, tmp_path / "b", {"player": "x"})
    assert list(build([second], again, SMALL))[-1].last
    assert first.asked > 0
    assert first.asked + second.asked == whole.asked


def test_a_player_limited_by_time_cannot_build_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its moves could not be found again, and of its trees only the last is there."""
    assert main(["certificate", "build", "--player", "fast@0.01s", "--record", str(tmp_path)]) == 2
    assert "'fast@0.01s': limit it by simulations" in capsys.readouterr().err


def test_damage_is_told_with_the_files_name(tmp_path: Path, small: Certificate) -> None:
    """Of a record that says whose moves it holds, and of a header whose board is none."""
    KnownMoves(SMALL, tmp_path, {"player": "x"})
    (about,) = tmp_path.glob("*.json")
    about.write_text("{")
    with pytest.raises(ValueError, match=str(about)):
        KnownMoves(SMALL, tmp_path, {"player": "x"})
    path = tmp_path / "small.certificate"
    write_certificate(path, small)
    path.write_bytes(path.read_bytes().replace(b'"rows": 4', b'"rows": true', 1))
    with pytest.raises(CertificateError, match=str(path)):
        read_certificate(path)


def late_start() -> tuple[Position, int]:
    """A won position in the second half of a game, and its canonical key."""
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    rng = np.random.default_rng(5)
    while True:
        position = Position()
        while position.plies < 22 and position.outcome() is None:
            position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is not None:
            continue
        key = int(canonical_key(STANDARD, position.own, position.occupied))
        canonical = position_of(STANDARD, key)
        result = search.search([canonical], Budget(simulations=4000))
        if result.proven_wins[0] and len(search.winning_moves(0)[0]) > 20:
            return canonical, key


def test_a_proof_of_a_search_is_a_certificate_from_there(checker: ModuleType) -> None:
    """The moves taken from the tree win against every reply, as the stand-alone checker finds as well."""
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    position, key = late_start()
    search.search([position], Budget(simulations=4000))
    known = KnownMoves(STANDARD)
    known.add(proof_moves([search.winning_moves(0)]))
    columns = moves_in_order(known, STANDARD, key)
    assert len(columns) > 10
    walked = walk_certificate(Certificate(geometry=STANDARD, columns=columns), key)
    digits = "".join(str(column + 1) for column in columns).encode()
    own, occupied = int(position.own), int(position.occupied)
    assert checker.check(digits, own, occupied) == (walked.positions, walked.longest)
    with pytest.raises(checker.Failure, match="missing"):
        checker.check(digits[:-1], own, occupied)
    with pytest.raises(checker.Failure, match="left over"):
        checker.check(digits + b"1", own, occupied)
    agreed = 0
    for index in range(len(digits)):
        changed = bytearray(digits)
        changed[index] = 49 + (changed[index] - 48) % 7
        altered = np.frombuffer(bytes(changed), np.uint8).astype(np.int8) - 49
        try:
            walk_certificate(Certificate(geometry=STANDARD, columns=altered.astype(np.int8)), key)
        except CertificateError:
            with pytest.raises(checker.Failure):
                checker.check(bytes(changed), own, occupied)
            agreed += 1
        else:
            checker.check(bytes(changed), own, occupied)
    assert agreed > 0


def test_what_is_left_is_estimated_by_the_shape_of_the_shipped_walk() -> None:
    """Half as many positions at one level, half as many later."""
    assert positions_left(28, 2_637) == 187 + 2
    assert positions_left(28, 5_274) == 2 * (187 + 2)
    assert positions_left(32, 2) == 0


def test_the_checker_needs_nothing_but_pythons_own_library() -> None:
    """It must be readable, and runnable, without the package."""
    text = (Path(__file__).parent.parent / "scripts" / "verify_certificate.py").read_text()
    imported = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= set(sys.stdlib_module_names)


def test_rules_decide_wins_blocks_and_losses() -> None:
    """Worked by hand: three stones on the ground, open at one end or both."""
    open_at_both = Position.from_moves("2277334")  # second to move; the first has 2, 3 and 4 on the ground
    blocked = open_at_both.play(0)
    keys = np.array([canonical_key(STANDARD, blocked.own, blocked.occupied)], np.uint64)
    assert rule_moves(STANDARD, keys).tolist() == [-1]
    double = Position.from_moves("1122667")
    keys = np.array([canonical_key(STANDARD, Position().own, Position().occupied)], np.uint64)
    assert rule_moves(STANDARD, keys).tolist() == [ASK]
    assert double.outcome() is None
    following, not_won = follow(STANDARD, keys, np.array([3], np.int8))
    assert len(following) == 4  # seven replies, three of them mirror images of others
    assert not not_won.any()


def test_the_shipped_certificate_holds() -> None:
    """For the shipped network; the number of positions is that of the stand-alone checker below."""
    certificate = read_certificate(shipped_file(SHIPPED))
    network = hashlib.sha256(shipped_checkpoint("best").read_bytes()).hexdigest()
    assert certificate.about["network"] == network
    assert certificate.geometry == STANDARD
    walked = walk_certificate(certificate)
    assert (walked.positions, walked.named) == (POSITIONS, len(certificate.columns))

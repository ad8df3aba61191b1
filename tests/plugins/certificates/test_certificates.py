"""Certificates: how they are built, read and walked, the stand-alone checker, and the player."""

import json
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import naive
import numpy as np
import pytest
from helpers import DRAWN, SCRIPTS, ConstantEvaluator, load_script, save_untrained

from alphac4.arena import PlayerError
from alphac4.arena.players import NetworkPlayer, SearchingPlayer, backends_of
from alphac4.arena.registry import parse_player, player_digest
from alphac4.cli import main
from alphac4.evaluation.walks import KnownMoves, MoveKind, Moves
from alphac4.game import Board, Outcome, Position, make_board
from alphac4.game.position import count_of
from alphac4.game.rules import STANDARD, canonical_key
from alphac4.game.walk import NO_MOVE, Columns, Keys, play_moves, play_replies, position_of, unpack_key
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.results import SearchResults, describe_proof
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import PROVEN_DRAW, UNPROVEN
from alphac4.play.proofs import ProvenResult
from alphac4.plugins.certificates.build import build, moves_in_order
from alphac4.plugins.certificates.file import (
    Certificate,
    CertificateError,
    Claim,
    Level,
    forced_moves,
    read_certificate,
    shipped_certificates,
    walk_certificate,
    write_certificate,
)
from alphac4.plugins.certificates.player import CertificatePlayer, Certificates
from alphac4.storage.checkpoints import shipped_file
from alphac4.storage.locks import lock_folder

SMALL = make_board(4, 4, 3)  # three in a row on 4 x 4: the first player wins
CLAIM = Claim(board=SMALL)
CLAIMS = {
    "best.certificate": (Claim(), 7_159_239, 40),
    "after-1.certificate": (Claim(side="second", after="1"), 4_948_673, 41),
    "after-2.certificate": (Claim(side="second", after="2"), 27_257_970, 41),
    "after-3.certificate": (Claim(side="second", after="3", result="draw"), 3_945_574, 41),
}
"""Claims of the shipped files, with the number of positions with the player to move and the most stones of any.

The figures are those of `scripts/verify_certificate.py`.
"""
WALKED_LEVELS = 8  # by the stand-alone checker in plain Python


def canonical(stacks: naive.Stacks) -> naive.Stacks:
    """Return the canonical one of a board and its mirror image."""
    return min(stacks, stacks[::-1])


def open_columns(stacks: naive.Stacks, rows: int = SMALL.rows) -> list[int]:
    return [column for column in range(len(stacks)) if len(stacks[column]) < rows]


def board_of(position: Position) -> naive.Stacks:
    return tuple("".join(".xo"[cell] for cell in stack if cell) for stack in position.grid().T)


def best_column(stacks: naive.Stacks, board: Board = SMALL, pick: Callable[..., Any] = max) -> int:
    """Return the move with the highest value, or the one that ``pick`` selects; mirror images have mirrored moves."""

    def worth(column: int) -> tuple[int, naive.Stacks]:
        after = naive.drop(stacks, column, "xo"[sum(map(len, stacks)) % 2])
        return -naive.minimax(after, board.rows, board.run_length)[0], canonical(after)

    return int(pick(open_columns(stacks, board.rows), key=worth))


def value(position: Position) -> int:
    """Return 1, 0 or -1 for the side to move."""
    return naive.minimax(board_of(position), position.board.rows, position.board.run_length)[0]


class BestByMinimax:
    """Player that searches to the end of every game, but plays its worst move in one position."""

    name = "minimax"
    budget = Budget(simulations=1)
    reuse = "nothing"

    def __init__(self, board: Board, blunder_in: Position | None = None) -> None:
        self.board = board
        self.blunder_in = blunder_in
        self.asked: list[Position] = []

    def choose(self, positions: Sequence[Position]) -> list[int]:
        self.asked += positions
        return [best_column(board_of(p), self.board, min if p == self.blunder_in else max) for p in positions]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResults:  # noqa: ARG002
        """Return a result of which only the moves and values are meaningful; nothing is proven."""
        search = NetworkSearch(UniformEvaluator(), board=self.board, rng=np.random.default_rng(0))
        result = search.search(positions, Budget(simulations=1))
        result.proofs[:] = UNPROVEN
        result.value[:] = [value(position) for position in positions]
        result.moves[:] = self.choose(positions)
        return result

    def proven_moves(self, index: int, least: int) -> tuple[Keys, Columns]:  # noqa: ARG002
        raise AssertionError("nothing was proven")


def certify(claim: Claim, blunder_in: Position | None = None) -> Certificate:
    """Build the certificate of a true claim with two copies of that player."""
    known = KnownMoves(claim.board)
    levels = list(build([BestByMinimax(claim.board, blunder_in) for _ in range(2)], known, claim))
    assert not any(level.failures for level in levels)
    assert levels[-1].is_last
    return Certificate(claim=claim, columns=moves_in_order(known, claim), about={"player": "minimax"})


@pytest.fixture(scope="module")
def small() -> Certificate:
    return certify(CLAIM)


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    return load_script("verify_certificate")


# Digest of the former network `best`: git show 1aa89068:checkpoints/best.safetensors | sha256sum
NETWORK = "3d6c7c1973e1e1c468757f40244a1f0c21fd73b943047dc9e8aca574041bf303"


@pytest.fixture(scope="module", params=CLAIMS)
def shipped(request: pytest.FixtureRequest) -> tuple[str, Certificate, list[Level]]:
    """A shipped certificate with its name and all levels of its walk."""
    certificate = read_certificate(shipped_file(request.param))
    return request.param, certificate, list(walk_certificate(certificate))


@pytest.mark.slow
def test_shipped_certificates_hold_and_name_their_network(shipped: tuple[str, Certificate, list[Level]]) -> None:
    name, certificate, levels = shipped
    assert {path.name for path in shipped_certificates()} == set(CLAIMS)
    assert certificate.about["network"] == NETWORK
    assert (certificate.claim, sum(len(level.keys) for level in levels), levels[-1].stones) == CLAIMS[name]


@pytest.mark.slow
def test_stand_alone_checker_walks_the_same_positions(
    checker: ModuleType, shipped: tuple[str, Certificate, list[Level]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It walks the first levels, and some later positions to the end; a whole walk would take minutes."""
    levels = shipped[2]
    printed: list[str] = []

    def record(*words: str, **_options: object) -> None:
        printed.append(" ".join(words))
        if len(printed) > WALKED_LEVELS:
            raise KeyboardInterrupt

    monkeypatch.setattr(checker, "print", record, raising=False)
    monkeypatch.setattr("sys.argv", ["verify_certificate.py", str(shipped_file(shipped[0]))])
    with pytest.raises(KeyboardInterrupt):
        checker.main()
    expected = [f"{count_of(level.stones, 'stone'):>9}: {count_of(len(level.keys), 'position')}" for level in levels]
    assert printed[1:] == expected[:WALKED_LEVELS]

    monkeypatch.setattr(checker, "print", lambda *_words, **_options: None)
    for key in np.random.default_rng(0).choice(levels[11].keys, 40):
        number, keys, visited, parts = 11, np.array([key]), 0, []
        while len(keys):
            visited += len(keys)
            level = levels[number]
            moves = level.moves[np.searchsorted(level.keys, keys)]
            parts.append(moves[forced_moves(STANDARD, keys) == NO_MOVE])
            longest = level.stones
            own, occupied, _ = play_moves(STANDARD, keys, moves)
            keys, number = np.unique(play_replies(STANDARD, own, occupied, STANDARD.playable).keys), number + 1
        digits = "".join(str(column + 1) for column in np.concatenate(parts)).encode()
        own, occupied = map(int, unpack_key(STANDARD, key))
        draw = shipped[1].claim.result == "draw"
        assert checker.check(digits, {int(key): (own, occupied)}, draw) == (visited, longest)


def test_stand_alone_checker_rejects_files_that_are_not_certificates(
    checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2; 1 would mean that a certificate does not hold."""
    path = tmp_path / "file"
    monkeypatch.setattr("sys.argv", ["verify_certificate.py", str(path)])
    shipped = shipped_file("after-3.certificate").read_bytes()
    bomb = shipped.partition(b"\n")[0] + b"\n" + zlib.compress(b"1" * 10**7, 9)
    listed = shipped.replace(b'"after": "3"', b'"after": ["3"]')
    assert listed != shipped
    others = (b"\xcd\xcd", b"[]\n", b"[" * 100_000, b'{"format": "alphac4-certificate"}\n112')
    for content in (*others, bomb, listed, shipped + b"more"):
        path.write_bytes(content)
        assert checker.main() == 2
        assert capsys.readouterr().err.startswith(f"{path}: ")
        with pytest.raises(CertificateError, match="not a valid certificate"):
            read_certificate(path)
    monkeypatch.setattr("sys.argv", ["verify_certificate.py", "-v", str(path)])
    assert checker.main() == 2
    assert "unknown option -v" in capsys.readouterr().err


def test_stand_alone_checker_imports_only_the_standard_library() -> None:
    lines = (SCRIPTS / "verify_certificate.py").read_text().splitlines()
    imported = {line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert imported <= set(sys.stdlib_module_names)


OPEN_THREE = Claim(after="3344")  # column 5 makes three in a row that are open on both sides
TWO_THREATS = "33445"  # after that move
REPLY_WINS = "1415263"  # column 7 wins
ONE_COLUMN = DRAWN[:36]  # only one column is open, and brings no win
WINS_ABOVE_4 = "316666131311753542532667377741245272"  # the opponent wins on top of a stone in column 4
WINS_ABOVE_2 = "473725347123341712511124675567466466"  # the same in column 2
LOST = "642277715441112426224714165565367763"  # the first player has lost
FALSE = "does not hold in this position"
HAND_WRITTEN = {
    "won": (OPEN_THREE, "5", ""),
    "altered move": (OPEN_THREE, "7", "the move is missing"),
    "lost": (Claim(side="second", after=TWO_THREATS), "", FALSE),
    "lost instead of drawn": (Claim(side="second", after=TWO_THREATS, result="draw"), "", FALSE),
    "lost by the first reply": (Claim(after=REPLY_WINS), "", "the opponent's first move refutes"),
    "lost instead of drawn by it": (Claim(after=REPLY_WINS, result="draw"), "", "the opponent's first move refutes"),
    "drawn": (Claim(after=ONE_COLUMN, result="draw"), "777", ""),
    "drawn instead of won": (Claim(after=ONE_COLUMN), "777", FALSE),
    "drawn by the player's move": (Claim(side="second", after=ONE_COLUMN, result="draw"), "777", ""),
    "drawn instead of won by it": (Claim(side="second", after=ONE_COLUMN), "777", FALSE),
    "lost above a move": (Claim(after=WINS_ABOVE_4, result="draw"), "4", FALSE),
    "lost above a move before others": (Claim(after=WINS_ABOVE_2, result="draw"), "22", FALSE),
    "lost above a move after a reply": (Claim(side="second", after=WINS_ABOVE_4, result="draw"), "44", FALSE),
}
"""Claims, 1-based moves, and why they do not hold."""


@pytest.fixture
def verify(
    checker: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run_command: Callable[..., str],
) -> Callable[..., list[str]]:
    """Verifies files by both programs, which must end with this exit code; returns their outputs."""

    def run(*paths: Path, status: int) -> list[str]:
        monkeypatch.setattr("alphac4.plugins.certificates.file.shipped_certificates", lambda: list(paths))
        monkeypatch.setattr("sys.argv", ["verify_certificate.py", *map(str, paths)])
        shown = run_command("certificate verify", status=status)
        assert checker.main() == status
        return [shown, capsys.readouterr().out]

    return run


def write_by_hand(path: Path, claim: Claim, moves: str) -> Path:
    columns = np.array([int(move) - 1 for move in moves], np.int8)
    write_certificate(path, Certificate(claim=claim, columns=columns))
    return path


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_hand_written_certificates_are_accepted_only_if_they_hold(
    name: str, verify: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The order of several files does not matter."""
    claim, moves, error = HAND_WRITTEN[name]
    path = write_by_hand(tmp_path / "one.certificate", claim, moves)
    right = write_by_hand(tmp_path / "right.certificate", OPEN_THREE, "5")
    status = int(error != "")
    shown, printed = verify(path, status=status)
    assert error in shown
    assert (f"{claim}." in shown) == (f"{claim}." in printed) == (not error)
    verify(path, right, status=status)
    verify(right, path, status=status)


def test_verification_prints_the_positions_of_each_level(verify: Callable[..., list[str]], tmp_path: Path) -> None:
    path = write_by_hand(tmp_path / "right.certificate", OPEN_THREE, "5")
    levels = " 4 stones: 1 position\n 6 stones: 7 positions\n"
    shown, printed = verify(path, status=0)
    assert re.sub(r"in \d\.\d s", "in 0.0 s", shown) == (
        f"{path}: moves of an unnamed player\n{levels}8 positions (1 with a stored move), the last with 6 stones, "
        "in 0.0 s: after 3344 the first player always wins.\n"
    )
    assert printed == (
        f"{path}: certificate of an unnamed player\n{levels}"
        "8 positions, the last with 6 stones: after 3344 the first player always wins.\n"
    )


@pytest.mark.parametrize("player", ["x\n1 position: the first player always wins.\x1b[2J\ud800", ["x"]])
def test_verification_prints_any_players_name_on_the_first_line(
    player: object, verify: Callable[..., list[str]], tmp_path: Path
) -> None:
    path, columns = tmp_path / "named.certificate", np.array([4], np.int8)
    write_certificate(path, Certificate(claim=OPEN_THREE, columns=columns, about={"player": player}))
    for shown in verify(path, status=0):
        lines = shown.encode("ascii").decode().split("\n")
        assert lines[0].endswith(f" of {player!a}")
        assert lines[1] == " 4 stones: 1 position"


def test_stand_alone_checker_rejects_certificates_of_other_boards(
    checker: ModuleType, tmp_path: Path, run_command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claim(after=OPEN_THREE.after, board=make_board(7, 7, 4))  # the same moves win
    path = write_by_hand(tmp_path / "high.certificate", claim, "5")
    run_command("certificate verify", path)
    monkeypatch.setattr("sys.argv", ["verify_certificate.py", str(path)])
    assert checker.main() == 2


def named_positions(certificate: Certificate) -> list[Position]:
    levels = [level.keys for level in walk_certificate(certificate)]
    keys = np.concatenate([keys[forced_moves(certificate.claim.board, keys) == NO_MOVE] for keys in levels])
    return [position_of(certificate.claim.board, int(key)) for key in keys]


def test_wrong_missing_and_surplus_moves_are_rejected(small: Certificate) -> None:
    rejected = 0
    for index, position in enumerate(named_positions(small)[:20]):
        for column in set(range(SMALL.columns)) - {int(small.columns[index])}:
            columns = small.columns.copy()
            columns[index] = column
            if not position.is_legal(column) or value(position.play(column)) > -1:
                rejected += 1
                with pytest.raises(CertificateError):
                    list(walk_certificate(Certificate(claim=CLAIM, columns=columns)))
    assert rejected > 5
    for columns, message in ((small.columns[:-1], "missing"), (np.append(small.columns, np.int8(0)), "1 unused move:")):
        with pytest.raises(CertificateError, match=message):
            list(walk_certificate(Certificate(claim=CLAIM, columns=columns)))


def test_certificate_files_round_trip_and_are_rejected_if_altered(tmp_path: Path, small: Certificate) -> None:
    path = tmp_path / "small.certificate"
    write_certificate(path, small)
    found = read_certificate(path)
    assert (found.claim, found.about) == (CLAIM, small.about)
    np.testing.assert_array_equal(found.columns, small.columns)
    content, refused = path.read_bytes(), 0
    altered = [content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :] for place in range(len(content))]
    for damaged in (content[: len(content) // 2], *altered[::7]):
        path.write_bytes(damaged)
        try:  # an altered header may still belong to the same moves
            np.testing.assert_array_equal(read_certificate(path).columns, small.columns)
        except CertificateError:
            refused += 1
    assert refused > 10


def blunder(small: Certificate) -> Position:
    """Return the first position of the walk in which some move does not win."""
    return next(p for p in named_positions(small) if any(value(p.play(c)) > -1 for c in p.legal_columns()))


def test_a_refuted_move_is_taken_back(small: Certificate, tmp_path: Path) -> None:
    """Only the rules decide that; the recorded moves lead to the same certificate."""
    position, path = blunder(small), tmp_path / "moves.jsonl"
    known = KnownMoves(SMALL, path)
    levels = list(build([BestByMinimax(SMALL, blunder_in=position)], known, CLAIM))
    assert not levels[-1].failures
    assert levels[-1].is_last
    assert {level.stones: level.taken_back for level in levels if level.taken_back} == {position.plies: 1}
    columns = moves_in_order(known, CLAIM)
    list(walk_certificate(Certificate(claim=CLAIM, columns=columns)))
    again = BestByMinimax(SMALL)
    assert list(build([again], KnownMoves(SMALL, path), CLAIM))[-1].is_last
    assert not again.asked
    np.testing.assert_array_equal(moves_in_order(KnownMoves(SMALL, path), CLAIM), columns)


def test_a_false_claim_fails_in_its_first_position() -> None:
    """On 3 x 4 with four in a row, perfect play draws, so that every first move is taken back."""
    board = make_board(3, 4, 4)
    assert value(Position(board=board)) == 0
    known = KnownMoves(board)
    *_, last = build([BestByMinimax(board)], known, Claim(board=board))
    assert (last.stones, last.failures) == (0, [Position(board=board)])
    assert set(known.taken_back[0]) >= {0, 1}


def test_a_later_proof_replaces_moves_that_were_taken_back(tmp_path: Path) -> None:
    """The player found no win in a position, and a search of an earlier one proves one; the record keeps that."""
    position, path = Position.from_moves("44"), tmp_path / "moves.jsonl"
    key = np.array([canonical_key(STANDARD, position.own, position.occupied)], np.uint64)
    known = KnownMoves(STANDARD, path, {"player": "x"})
    known.take_back(np.repeat(key, 7), np.arange(7, dtype=np.int8))
    known.add([Moves.of_kind(MoveKind.PROOF, key, np.array([3], np.int8))])
    for _ in range(2):
        assert known.find(2, key)[0].tolist() == [3]
        assert not known.is_taken_back(key).any()
        known = KnownMoves(STANDARD, path, {"player": "x"})
    known.take_back(key, np.array([3], np.int8))  # as if the end of a line contradicted the proof
    with pytest.raises(ValueError, match=r"the proof of position \d+ is wrong"):
        known.find(2, key)


@pytest.mark.parametrize(
    "claim",
    [
        Claim(after="145254644542113431257116"),
        Claim(after="5426244732676124124531177425737", side="second", result="draw"),
    ],
    ids=str,
)
def test_a_searchs_proof_is_a_valid_certificate(
    claim: Claim, checker: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moves of the tree win, or draw, against every reply; the stand-alone checker agrees."""
    monkeypatch.setattr(checker, "print", lambda *_words, **_options: None, raising=False)
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    search.search([claim.start], Budget(simulations=2000))
    known = KnownMoves(STANDARD)
    known.add([Moves.of_kind(MoveKind.PROOF, *search.proven_moves(0, PROVEN_DRAW + claim.min_outcome))])
    columns = moves_in_order(known, claim)
    assert len(columns) > 10

    def ours(columns: Columns) -> tuple[int, int]:
        levels = list(walk_certificate(Certificate(claim=claim, columns=columns)))
        return sum(len(level.keys) for level in levels), levels[-1].stones

    def theirs(columns: Columns) -> Any:
        digits = "".join(str(column + 1) for column in columns).encode()
        begun = checker.begin({"side": claim.side, "after": claim.after, "result": claim.result})
        return checker.check(digits, begun, claim.result == "draw")

    assert ours(columns) == theirs(columns)
    for other, message in ((columns[:-1], "missing"), (np.append(columns, np.int8(0)), "unused")):
        with pytest.raises(checker.Failure, match=message):
            theirs(other)
    refused = 0
    for index in range(len(columns)):
        other = columns.copy()
        other[index] = (other[index] + 1) % 7
        try:
            found = ours(other)
        except CertificateError:
            refused += 1
            with pytest.raises(checker.Failure):
                theirs(other)
        else:
            assert theirs(other) == found
    assert refused > 0


@pytest.fixture
def player(small: Certificate, tmp_path: Path) -> tuple[CertificatePlayer, BestByMinimax]:
    """The player of the small board's certificate, and its other player."""
    other = BestByMinimax(SMALL)
    write_certificate(tmp_path / "small.certificate", small)
    return CertificatePlayer(Certificates([tmp_path / "small.certificate"], SMALL), lambda: other), other


def longest_game(player: CertificatePlayer, position: Position) -> int:
    """Return the most plies to the player's win, by playing every reply; the player must win every game."""
    then = position.play(player.choose([position])[0])
    if then.outcome() is not None:
        assert then.outcome() == Outcome.LOSS
        return 1
    return 2 + max(longest_game(player, then.play(reply)) for reply in then.legal_columns())


def test_certificate_player_wins_every_game_within_the_plies_that_it_proves(
    player: tuple[CertificatePlayer, BestByMinimax],
) -> None:
    """Either side may be to move. Positions that its own moves do not lead to have no proven result."""
    certificate, other = player
    position = start = Position(board=SMALL)
    while position.outcome() is None:
        assert certificate.certificates.proven_result(position) == ProvenResult(
            first=True, plies=longest_game(certificate, position), column=certificate.choose([position])[0]
        )
        position = position.play(certificate.choose([position])[0])
        if position.outcome() is None:
            replies = [position.play(reply) for reply in position.legal_columns()]
            plies = 1 + max(longest_game(certificate, p) for p in replies)
            assert certificate.certificates.proven_result(position) == ProvenResult(
                first=True, plies=plies, column=None
            )
            position = replies[0]
    assert not other.asked
    strayed = next(column for column in start.legal_columns() if column != certificate.choose([start])[0])
    assert certificate.certificates.proven_result(start.play(strayed).play(strayed)) is None
    for moves in ("112", "123"):  # one of four replies is covered
        assert certificate.certificates.proven_result(Position.from_moves(moves, SMALL)) is None
    found = certificate.search([start])
    moves = (longest_game(certificate, start) + 1) // 2
    assert describe_proof(int(found.proofs[0, found.moves[0]])) == f"wins within {moves} moves"


def test_openings_have_the_certified_moves_and_the_plies_to_the_win(
    player: tuple[CertificatePlayer, BestByMinimax],
) -> None:
    """Column -1 represents an immediate win."""
    stones = set()
    for key, column, plies in player[0].certificates.early_wins(10):
        position = position_of(SMALL, key)
        stones.add(position.plies)
        assert plies == longest_game(player[0], position)
        assert column == (-1 if plies == 1 else player[0].choose([position])[0])
    assert stones == {0, 2, 4, 6, 8, 10}


def test_certificate_player_uses_the_other_player_where_no_certificate_applies(
    player: tuple[CertificatePlayer, BestByMinimax],
) -> None:
    certificate, other = player
    start, elsewhere = Position(board=SMALL), Position(board=SMALL).play(0)
    (own,), (others,) = certificate.choose([start]), other.choose([elsewhere])
    other.blunder_in = start
    assert other.choose([start]) != [own]
    assert certificate.search([start]).variations == [[own]]  # not the other player's line
    other.asked.clear()
    assert certificate.choose([elsewhere, start, elsewhere]) == [others, own, others]
    assert other.asked == [elsewhere, elsewhere]
    found = certificate.search([elsewhere, start])
    assert found.value.tolist() == [value(elsewhere), 1.0]
    assert found.chosen_moves_win.tolist() == [False, True]
    assert found.wdl[1].tolist() == [1.0, 0.0, 0.0]
    assert isinstance(certificate, SearchingPlayer)


def test_a_network_at_certificate_combines_certificates_and_auto(
    small: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, path, rng = tmp_path / "small.safetensors", tmp_path / "small.certificate", np.random.default_rng(0)
    save_untrained(file, SMALL)
    write_certificate(path, small)
    monkeypatch.setattr("alphac4.plugins.certificates.file.shipped_certificates", lambda: [path])
    player, certificate, auto = (
        parse_player(name, rng=rng, board=SMALL)
        for name in (f"{file}@certificate", f"certificate:{path}", f"{file}@auto")
    )
    known, unknown = Position(board=SMALL), Position(board=SMALL).play(0)
    assert player.choose([known, unknown]) == [*certificate.choose([known]), *auto.choose([unknown])]
    assert player.name == "small@certificate"
    with pytest.raises(PlayerError, match="leave out temperature"):
        parse_player(f"{file}@certificate,temperature=1", rng=rng, board=SMALL)


def test_invalid_certificates_raise_errors_instead_of_playing(
    small: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate for another board raises immediately; a wrong move raises when a game reaches it."""
    path, rng = tmp_path / "bad.certificate", np.random.default_rng(0)
    write_certificate(path, Certificate(claim=CLAIM, columns=small.columns[:-1]))
    with pytest.raises(PlayerError, match="another board"):
        parse_player(f"certificate:{path}", rng=rng, board=STANDARD)
    player = parse_player(f"certificate:{path}", rng=rng, board=SMALL)
    player.choose([Position(board=SMALL)])
    for _ in range(2):  # also after its walk has failed
        with pytest.raises(PlayerError, match="the move is missing"):
            player.choose(named_positions(small)[-1:])
    ran = tmp_path / "ran"
    (tmp_path / "unwanted.py").write_text(f"open({str(ran)!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    write_certificate(path, Certificate(claim=CLAIM, columns=small.columns, about={"player": "unwanted:Player"}))
    player = parse_player(f"certificate:{path}", rng=rng, board=SMALL)
    assert backends_of([player]) == ""  # as a record names it
    with pytest.raises(PlayerError, match="neither a network nor uct"):
        player.choose([Position.from_moves("1", SMALL)])  # which the certificate does not cover
    assert not ran.exists()


TWO_COLUMNS = "56456571115224462151362454133467622"  # columns 3 and 7 are open; only column 7 wins
BUILD_HEADING = "    stones  positions   by rules   by proof    by move\n"


def test_build_prints_the_positions_of_each_level_and_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    """The player prefers columns on the left. Its first move is replaced after the line 3337, which is drawn.

    After column 7 it wins immediately by either of two moves.
    """
    evaluator = ConstantEvaluator(-np.arange(7))

    def player(_name: str, *, rng: np.random.Generator, **_options: object) -> NetworkPlayer:
        return NetworkPlayer("left", NetworkSearch(evaluator, rng=rng), Budget(simulations=1))

    monkeypatch.setattr("alphac4.arena.registry.parse_player", player)
    command = "certificate build --player best@1 --side second --backend torch-fp32 --moves"

    lost = run_command(f"{command} {TWO_THREATS} --output", tmp_path / "lost", status=1)
    assert lost == (
        f"{BUILD_HEADING}         5          1          1          0          0\n"
        f"\nbest@1 does not prove that after {TWO_THREATS} the second player always wins. It fails in 1 position, such "
        f"as\n{Position.from_moves(TWO_THREATS)}\n"
    )
    command += f" {TWO_COLUMNS} --output {tmp_path}"
    table = f"{BUILD_HEADING}        35          1          0          0          1\n"
    table += "        37          2          1          0          1\n"
    assert run_command(f"{command} --max-stones 38") == (
        f"{table}\nNo line up to 38 stones is lost by best@1; no certificate was written.\n"
    )
    path = tmp_path / "best.certificate"
    assert not path.exists()
    table += "        39          1          0          0          1\n"
    assert run_command(command) == (
        f"{table}\n{path}: 1 move for 3 positions, by best@1, with 1 move replaced: after {TWO_COLUMNS} the second "
        "player always wins.\n"
    )


AFTER = "114"  # moves after which the second player wins on the small board
DRAWN_BOARD = make_board(3, 4, 4)
SECOND_WINS = Claim(board=SMALL, side="second", after=AFTER)
FIRST_DRAWS, SECOND_DRAWS = (Claim(board=DRAWN_BOARD, side=side, result="draw") for side in ("first", "second"))


@pytest.mark.parametrize("claim", [SECOND_WINS, FIRST_DRAWS, SECOND_DRAWS], ids=str)
def test_claims_of_wins_and_draws_for_both_sides_are_built_and_verified(
    claim: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain minimax agrees that every move keeps the result, also after a blunder. Each level has several batches."""
    monkeypatch.setattr("alphac4.plugins.certificates.build.BATCH", 2)
    board, path = claim.board, tmp_path / "claim.certificate"
    blunder_in = claim.start if claim.start.first_to_move == (claim.side == "first") else claim.start.play(0)
    certificate = certify(claim, blunder_in)
    write_certificate(path, certificate)
    assert read_certificate(path).claim == claim
    for _, keys, moves in walk_certificate(read_certificate(path)):
        for key, move in zip(keys, moves, strict=True):
            position = position_of(board, key)
            assert move < 0 or value(position.play(int(move))) <= -claim.min_outcome
            assert position.first_to_move == (claim.side == "first")
    other = Claim(board=board, side="second" if claim.side == "first" else "first", after=claim.after)
    with pytest.raises(CertificateError):  # the moves of one side do not fit the other
        list(walk_certificate(Certificate(claim=other, columns=certificate.columns)))


def test_a_proven_draw_ends_a_line_of_a_draw_claim() -> None:
    """No position after it needs a move; the proof does not count for a claim of a win."""
    board, claim, known = DRAWN_BOARD, FIRST_DRAWS, KnownMoves(DRAWN_BOARD)
    search = NetworkSearch(UniformEvaluator(), board=board)
    player = NetworkPlayer("uniform", search, Budget(simulations=300))
    levels = list(build([player], known, claim))
    assert levels[-1].is_last
    assert any(level.count(MoveKind.PROOF) and not level.count(MoveKind.ANSWER) for level in levels)
    list(walk_certificate(Certificate(claim=claim, columns=moves_in_order(known, claim))))
    player.search([Position(board=board)])
    assert not len(player.proven_moves(0, PROVEN_DRAW + 1)[0])


def test_a_claim_in_which_its_player_never_moves_is_rejected(checker: ModuleType) -> None:
    """The opponent's first move wins, or fills the board, or the game is over: drawn or lost."""
    with pytest.raises(ValueError, match="the opponent's first move ends the game"):
        list(build([BestByMinimax(SMALL)], KnownMoves(SMALL), Claim(board=SMALL, side="second", after="1424")))
    for after, side in ((DRAWN[:41], "first"), (DRAWN, "first"), (DRAWN, "second"), (LOST, "first")):
        claim = {"after": after, "side": side, "result": "draw"}
        with pytest.raises(ValueError, match=r"has no move|the game is over"):
            Claim(side=side, after=after, result="draw")  # type: ignore[arg-type]
        with pytest.raises(checker.Failure):
            checker.check(b"", checker.begin(claim), True)


def test_a_draw_certificate_never_loses(tmp_path: Path) -> None:
    """Every reply leads to a win or a draw; the number of plies is unknown."""
    claim, path = FIRST_DRAWS, tmp_path / "draw.certificate"
    write_certificate(path, certify(claim))
    player = CertificatePlayer(Certificates([path], claim.board), lambda: BestByMinimax(claim.board))

    def follow(position: Position) -> int:
        (column,) = player.choose([position])
        assert player.certificates.proven_result(position) == ProvenResult(first=True, plies=None, column=column)
        then = position.play(column)
        if then.outcome() is not None:
            assert then.outcome() != Outcome.WIN
            return 1
        replies = [then.play(reply) for reply in then.legal_columns()]
        if all(after.outcome() is None for after in replies):
            assert player.certificates.proven_result(then) == ProvenResult(first=True, plies=None, column=None)
        assert all(after.outcome() != Outcome.LOSS for after in replies)
        return 1 + sum(follow(after) for after in replies if after.outcome() is None)

    assert follow(claim.start) > 20


def test_certificate_player_combines_several_certificates(small: Certificate, tmp_path: Path) -> None:
    """It wins as first player, and as second player after a losing first move."""
    claim = SECOND_WINS
    paths = [tmp_path / "first.certificate", tmp_path / "second.certificate"]
    write_certificate(paths[0], small)
    write_certificate(paths[1], certify(claim))
    other = BestByMinimax(SMALL)
    player = CertificatePlayer(Certificates(paths, SMALL), lambda: other)
    for start in (Position(board=SMALL), claim.start, claim.start.mirror()):
        plies = longest_game(player, start)
        assert player.certificates.proven_result(start) == ProvenResult(
            first=start.plies == 0, plies=plies, column=player.choose([start])[0]
        )
    then = claim.start.play(player.choose([claim.start])[0])
    assert player.certificates.proven_result(then) == ProvenResult(first=False, plies=plies - 1, column=None)
    assert not other.asked
    write_certificate(paths[1], certify(Claim(board=SMALL, result="draw")))
    for given in (paths, paths[::-1]):  # a win is preferred to a draw
        proven = CertificatePlayer(Certificates(given, SMALL), lambda: other).certificates.proven_result(
            Position(board=SMALL)
        )
        assert proven == ProvenResult(first=True, plies=15, column=1)
    write_certificate(paths[1], certify(claim))
    parsed = parse_player(f"certificate:{paths[0]},{paths[1]}", rng=np.random.default_rng(0), board=SMALL)
    assert parsed.choose([claim.start]) == player.choose([claim.start])


def test_the_command_builds_a_certificate_that_it_verifies(
    tmp_path: Path, run_command: Callable[..., str], error_line: Callable[..., str]
) -> None:
    """The player is an untrained network that moves second; a record belongs to one claim and one search."""
    network, record = save_untrained(tmp_path / "small.safetensors", SMALL), tmp_path / "record"
    command = f"certificate build --player {network}@300 --output {record}"
    command += f" --side second --moves {AFTER} --backend torch-fp32"
    assert f"after {AFTER} the second player always wins" in run_command(command)
    path = record / "best.certificate"
    made = path.read_bytes()
    assert f"after {AFTER} the second player always wins" in run_command("certificate verify", path)
    path.unlink()
    run_command(command)  # from the journal
    assert path.read_bytes() == made
    assert "holds claim" in error_line(f"{command} --result draw")
    for limit in ("@0.01s", "@300,temperature=1"):
        error = error_line(f"{command} --player {network}{limit}")
        assert "limit it by simulations, not by time, and leave out temperature" in error


@pytest.mark.parametrize("player", ["certificate"])
def test_record_of_a_certificate_player_names_the_backend_of_its_network(
    player: str, tmp_path: Path, run_command: Callable[..., str]
) -> None:
    """The network is loaded only when a position is not certified."""
    path = tmp_path / "moves.jsonl"
    run_command(f"audit {player} --max-stones 0 --output", path)
    about = json.loads(path.read_text().splitlines()[0])["about"]
    assert about["backend"] not in ("", "auto")


def test_the_digest_of_a_certificate_player_changes_with_its_files(tmp_path: Path) -> None:
    path = tmp_path / "won.certificate"
    digests = []
    for side in ("first", "second"):
        claim = Claim(board=make_board(4, 5, 3), side=side, result="win" if side == "first" else "draw")
        write_certificate(path, Certificate(claim=claim, columns=np.zeros(0, np.int8), about={"player": "uct:9"}))
        digests.append(player_digest(f"certificate:{path}"))
    assert None not in digests
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("certificate bild", "Expected one of ('build', 'verify')"),
        ("certificate build --max-stones 65", "max_stones must be at most 64, not 65"),
        ("search 44 --player certificate:", "a file's name is missing; write certificate:FILE"),
        ("search 44 --player best@certificates", "is not a budget (is it certificate?)"),
    ],
)
def test_invalid_commands_and_players_are_rejected(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert message in re.sub(r"[\s│─]+", " ", capsys.readouterr().err)


BUILD = "certificate build --player quick@1 --max-stones 0 --backend torch-fp32 --output"


def test_build_replaces_no_other_file(checkpoint: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    for name, content in (
        ("mine", checkpoint.read_bytes()),
        ("mine", b"4444452226671\n"),
        ("mine.certificate", b"somebody's"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        assert str(path) in error_line(f"{BUILD} {tmp_path / 'folder'}", path)
        assert path.read_bytes() == content


def test_a_folder_in_use_is_rejected(
    tmp_path: Path, error_line: Callable[..., str], run_command: Callable[..., str]
) -> None:
    with lock_folder(tmp_path):
        assert f"{tmp_path} is in use by process" in error_line(BUILD, tmp_path)
    run_command(BUILD, tmp_path)

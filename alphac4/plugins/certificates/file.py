"""Certificates: their claims, their files, and their check by the rules.

The first line of a file is a JSON header with the claim. The rest is compressed by zlib (RFC 1950): one character per
position, the 1-based column of the player's move, in the order of `alphac4.game.walk`. No character is stored for a
position in which the player can complete a run, or must block the opponent's. The file stores no positions: the check
walks from the start of the claim and reads the moves in order.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating
from alphac4.game.position import COLUMN_NAMES, count_of
from alphac4.game.rules import U64_0, U64_1, Board, board_settings, column_cells, legal_cells, winning_cells
from alphac4.game.walk import (
    CAN_WIN,
    NO_MOVE,
    Columns,
    Keys,
    Replies,
    Walk,
    WalkScope,
    play_moves,
    play_replies,
    position_of,
    unpack_key,
)
from alphac4.storage.checkpoints import shipped_file
from alphac4.storage.files import read_bytes, write_atomically
from alphac4.storage.records import BoardConfig, parse_json, read_record, read_value

SHIPPED = "best.certificate"
"""Certificate of the first player; `shipped_file` finds it."""
FORMAT, VERSION = "alphac4-certificate", 2
MAX_MOVES_PER_BYTE = 64  # moves per byte of compressed text; the shipped files have fewer than 5
LOST = -3
"""In place of a move: the opponent threatens two immediate wins, and the player has none."""


class CertificateError(ValueError):
    """Error for a certificate that is invalid or does not prove its claim."""


@dataclass(frozen=True, kw_only=True)
class Claim(WalkScope):
    """Claim that a player wins, or at least draws, every game of a `WalkScope`."""

    result: Literal["win", "draw"] = "win"  # outcome that the player reaches at least

    @property
    def min_outcome(self) -> int:
        """The worst outcome that the claim allows: 1 win, 0 draw."""
        return 1 if self.result == "win" else 0

    def __str__(self) -> str:
        after = f"after {self.after} " if self.after else ""
        return f"{after}the {self.side} player {'always wins' if self.result == 'win' else 'never loses'}"


class Level(NamedTuple):
    """The B positions of a walk that have the same number of stones; the player is to move."""

    stones: int
    keys: Keys  # [B]
    moves: Columns  # [B] 0-based, in the canonical orientation, or CAN_WIN


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A claim and the moves of its player, in the order of the walk."""

    claim: Claim
    columns: Columns  # [N] 0-based, in the canonical orientation
    about: Mapping[str, Any] = field(default_factory=dict)  # player, digest of its network, backend, version


def shipped_certificates() -> list[Path]:
    """Return the files of all shipped certificates, `SHIPPED` first."""
    best = shipped_file(SHIPPED)
    return [best, *sorted(path for path in best.parent.glob("*.certificate") if path != best)]


def write_certificate(path: Path, certificate: Certificate) -> None:
    """Write a certificate atomically.

    Raises:
        OSError: if the file cannot be written.
    """
    claim = certificate.claim
    text = "".join(COLUMN_NAMES[column] for column in certificate.columns.tolist()).encode()
    header = {
        "format": FORMAT,
        "version": VERSION,
        "board": board_settings(claim.board),
        "claim": {"side": claim.side, "after": claim.after, "result": claim.result},
        "moves": len(text),
        "sha256": hashlib.sha256(text).hexdigest(),
        **certificate.about,
    }
    write_atomically(path, json.dumps(header).encode() + b"\n" + zlib.compress(text, 9))


def read_certificate(path: Path) -> Certificate:
    """Read a certificate; only `walk_certificate` checks whether its moves prove the claim.

    Raises:
        CertificateError: if the file is invalid; the message is one line and names the file.
        OSError: if the file cannot be read.
    """
    try:
        first, _, packed = read_bytes(path).partition(b"\n")
        header = read_value(dict[str, Any], parse_json(first), "the header")
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ValueError(f"its header is not that of a certificate of version {VERSION}")
        count = read_value(int, header.get("moves"), "moves")
        if not 0 <= count <= MAX_MOVES_PER_BYTE * (len(packed) + 16):
            raise ValueError(f"it cannot hold {count} moves")
        reader = zlib.decompressobj()
        text = reader.decompress(packed, count + 1)
        is_whole = len(text) == count and reader.eof and not reader.unused_data
        if not is_whole or hashlib.sha256(text).hexdigest() != header.get("sha256"):
            raise ValueError("its moves are damaged or were altered")
        board = read_record(BoardConfig, header.get("board"), "board").make()
        claim = read_record(Claim, {**read_value(dict[str, Any], header.get("claim"), "claim"), "board": board})
        codes = np.full(256, -1, np.int8)
        codes[list(COLUMN_NAMES[: board.columns].encode())] = np.arange(board.columns)
        columns = codes[np.frombuffer(text, np.uint8)]
        if (columns < 0).any():
            raise ValueError("its moves are not columns of the board")
    except (ValueError, TypeError, zlib.error) as error:
        raise CertificateError(f"{path}: not a valid certificate: {error}") from error
    own = ("format", "version", "board", "claim", "moves", "sha256")
    return Certificate(
        claim=claim, columns=columns, about={name: value for name, value in header.items() if name not in own}
    )


def walk_certificate(certificate: Certificate) -> Iterator[Level]:
    """Play the certificate's moves against every reply, from the start of its claim to the end of every game.

    Yields:
        Each level, after checking that all of its moves are legal and that no reply refutes the claim.

    Raises:
        CertificateError: if a move is missing or refuted, with its position, or if moves are unused.
    """
    claim, columns = certificate.claim, certificate.columns
    walk, used = Walk(claim), 0
    if walk.worst_reply_outcome < claim.min_outcome:
        raise CertificateError(f"the opponent's first move refutes the claim that {claim}")
    while len(walk.keys):
        moves = forced_moves(walk.board, walk.keys)
        undecided = np.flatnonzero(moves == NO_MOVE)
        if used + len(undecided) > len(columns):
            missing = walk.keys[undecided[len(columns) - used]]
            raise CertificateError(f"the move is missing in this position:\n{position_of(walk.board, missing)}")
        moves[undecided] = columns[used : used + len(undecided)]
        used += len(undecided)
        refuted = (walk.play(moves) < claim.min_outcome) | (moves == LOST)
        if refuted.any():
            shown = position_of(walk.board, walk.keys[refuted][0])
            raise CertificateError(f"the claim that {claim} does not hold in this position:\n{shown}")
        yield Level(walk.stones, walk.keys, moves)
        walk.advance()
    if used != len(columns):
        raise CertificateError(f"{count_of(len(columns) - used, 'unused move')}: the file does not match its claim")


@allocating
def forced_moves(board: Board, keys: Keys) -> Columns:
    """Return the forced move of each position [B], which blocks the only threat; else CAN_WIN, NO_MOVE or LOST."""
    moves = np.empty(len(keys), np.int8)
    for row in range(len(keys)):
        own, occupied = unpack_key(board, keys[row])
        legal = legal_cells(board, occupied)
        threats = winning_cells(board, own ^ occupied, occupied) & legal
        if winning_cells(board, own, occupied) & legal != U64_0:
            moves[row] = CAN_WIN
        elif threats == U64_0:
            moves[row] = NO_MOVE
        elif threats & (threats - U64_1) != U64_0:
            moves[row] = LOST
        else:
            for column in range(board.columns):
                if threats & column_cells(board, column) != U64_0:
                    moves[row] = column
    return moves


def has_reply_in(board: Board, keys: Keys, moves: Columns, targets: Keys) -> npt.NDArray[np.bool_]:
    """Return for each position [B] whether some reply to its move leads to one of the targets [N]."""
    replies = _replies_to(board, keys, moves)
    leading = np.zeros(len(keys), np.bool_)
    leading[replies.parents[np.isin(replies.keys, targets)]] = True
    return leading


def plies_to_win(board: Board, levels: Sequence[Level], on_level: Callable[[], object] = lambda: None) -> list[Columns]:
    """Return the maximum number of plies to the player's win, for each position [B] of each level.

    The claim must be a win. ``on_level`` is called before each level and may raise to stop.
    """
    plies: list[Columns] = []
    after = (np.empty(0, np.uint64), np.empty(0, np.int8))  # keys of the next level, and their plies
    for _, keys, moves in reversed(levels):
        on_level()
        replies = _replies_to(board, keys, moves)
        longest = np.ones(len(keys), np.int8)
        np.maximum.at(longest, replies.parents, after[1][np.searchsorted(after[0], replies.keys)] + np.int8(2))
        after = keys, longest
        plies.append(longest)
    return plies[::-1]


def _replies_to(board: Board, keys: Keys, moves: Columns) -> Replies:
    own, occupied, _ = play_moves(board, keys, moves)
    return play_replies(board, own, occupied, board.playable)

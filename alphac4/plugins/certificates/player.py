"""Player whose moves provably win or draw in every position that a certificate covers."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from alphac4.arena import PlayerError
from alphac4.arena.players import SearchingPlayer, backends_of, drop_trees, keep_trees
from alphac4.game import Board, Outcome, Position
from alphac4.game.planes import stones
from alphac4.game.rules import canonical_keys
from alphac4.game.walk import CAN_WIN, Columns
from alphac4.mcts.results import NodeView, SearchResults
from alphac4.mcts.search import Budget, Reuse
from alphac4.mcts.tree import PROVEN_WIN, proof_value
from alphac4.play.proofs import ProvenResult
from alphac4.plugins.certificates.file import (
    CertificateError,
    Claim,
    Level,
    plies_to_win,
    read_certificate,
    walk_certificate,
)


class CheckedCertificate:
    """A certificate whose moves are checked by the rules before they are used.

    A level contains the positions with the same number of stones. A look-up first checks all levels up to that of
    the position. The first ones take no time, the largest takes several seconds. Counting plies needs the whole walk.
    """

    def __init__(self, path: Path, board: Board, on_poll: Callable[[], object]) -> None:
        certificate = read_certificate(path)
        self.claim: Claim = certificate.claim
        self.author = str(certificate.about.get("player"))
        if self.claim.board != board:
            raise CertificateError(f"{path}: is a certificate for another board")
        self._path = path
        self._on_poll = on_poll
        self._starts = [start.sides for start in (self.claim.start, self.claim.start.mirror())]
        self._walk = walk_certificate(certificate)
        self._levels: dict[int, Level] = {}  # the checked ones, by the number of stones
        self._failure: CertificateError | None = None  # the error that ended the walk

    def find(self, position: Position, key: np.uint64, mirrored: np.bool_, *, count_plies: bool) -> ProvenResult | None:
        """Return the certificate's move in a position; None if it does not cover the position.

        Args:
            position: the position.
            key: its canonical key.
            mirrored: whether that is the key of the mirror image.
            count_plies: whether to return the plies to a win, which needs the whole walk once.

        Raises:
            CertificateError: if the part checked so far, which includes this position's level, is wrong.
        """
        first, second = position.sides
        if position.first_to_move != (self.claim.side == "first") or not any(
            not (start[0] & ~first or start[1] & ~second) for start in self._starts
        ):
            return None  # the opponent is to move, or the claim's first moves are not on the board
        level = self._level(position.plies)
        if level is None:
            return None
        row = int(np.searchsorted(level.keys, key))
        if row == len(level.keys) or level.keys[row] != key:
            return None
        column = int(level.moves[row])
        if column == CAN_WIN:
            column = next(c for c in position.legal_columns() if position.play(c).outcome() == Outcome.LOSS)
        elif mirrored:
            column = position.board.columns - 1 - column
        plies = int(self._longest[position.plies][row]) if count_plies and self.claim.result == "win" else None
        return ProvenResult(first=position.first_to_move, plies=plies, column=column)

    def early_wins(self, max_stones: int) -> list[tuple[int, int, int]]:
        """Return the positions with up to ``max_stones`` of a certificate of a win, as `Proofs.early_wins` does."""
        longest = self._longest
        levels = [level for level in self._levels.values() if level.stones <= max_stones]
        return [
            opening
            for stones, keys, moves in levels
            for opening in zip(keys.tolist(), moves.tolist(), longest[stones].tolist(), strict=True)
        ]

    def _level(self, stones: int) -> Level | None:
        """Return the level with that number of stones; None if the walk has none.

        Raises:
            CertificateError: if the walk fails or has failed before.
        """
        try:
            while stones not in self._levels and (level := next(self._walk, None)) is not None:
                self._levels[level.stones] = level
                self._on_poll()
        except CertificateError as error:
            self._failure = CertificateError(f"{self._path}: {error}")
        if self._failure is not None:
            raise self._failure
        return self._levels.get(stones)

    @functools.cached_property
    def _longest(self) -> dict[int, Columns]:
        """The maximum number of plies to the win from each position of a level, by the level's number of stones."""
        self._level(self.claim.board.cells + 1)  # no level has this number of stones, so the whole walk is checked
        longest = plies_to_win(self.claim.board, list(self._levels.values()), self._on_poll)
        return dict(zip(self._levels, longest, strict=True))


class Certificates:
    """Certificates that are checked as they are used; they cover the positions that an opponent can reach.

    Args:
        paths: the files; wins are preferred to draws.
        board: the board and the winning condition.
        on_poll: called once per level while a certificate is checked or plies are counted, which takes seconds; may
            raise to stop.

    Raises:
        PlayerError: if a file is invalid; the methods raise it for a wrong certificate.
        OSError: if a file cannot be read.
    """

    def __init__(self, paths: Sequence[Path], board: Board, on_poll: Callable[[], object] = lambda: None) -> None:
        with _as_player_error():
            checked = [CheckedCertificate(path, board, on_poll) for path in paths]
        self.board = board
        self.author = checked[0].author  # specification of the player of the first certificate
        self._certificates = sorted(checked, key=lambda certificate: -certificate.claim.min_outcome)

    def look_up(self, positions: Sequence[Position], *, count_plies: bool = True) -> dict[int, ProvenResult]:
        """Return the certified moves by index in ``positions``, where a certificate has one."""
        keys, mirrored = canonical_keys(self.board, *stones(positions))
        found: dict[int, ProvenResult] = {}
        with _as_player_error():
            for certificate in self._certificates:
                for row, position in enumerate(positions):
                    if row in found:
                        continue
                    move = certificate.find(position, keys[row], mirrored[row], count_plies=count_plies)
                    if move is not None:
                        found[row] = move
        return found

    def proven_move(self, position: Position) -> int | None:
        """Return the certificates' move, a 0-based column; None if they do not cover the position."""
        found = self.look_up([position], count_plies=False).get(0)
        return None if found is None else found.column

    def proven_result(self, position: Position) -> ProvenResult | None:
        """Return the result that the certificates show for an unfinished position; None without one.

        If no certificate covers the position itself, the opponent of a certificate's player may be to move. Then the
        positions after all of the opponent's moves are looked up.
        """
        found = self.look_up([position]).get(0)
        if found is not None:
            return found
        following = [position.play(column) for column in position.legal_columns()]
        if any(after.outcome() is not None for after in following):
            return None
        replies = self.look_up(following).values()
        if len(replies) < len(following):
            return None
        plies = [reply.plies for reply in replies if reply.plies is not None]
        latest = 1 + max(plies) if len(plies) == len(following) else None
        return ProvenResult(first=not position.first_to_move, plies=latest, column=None)

    def early_wins(self, max_stones: int) -> Sequence[tuple[int, int, int]]:
        """Return the won positions with up to ``max_stones``, as `Proofs.early_wins` does."""
        won = [certificate for certificate in self._certificates if certificate.claim.result == "win"]
        with _as_player_error():
            return [position for certificate in won for position in certificate.early_wins(max_stones)]

    def player(self, make_other: Callable[[], SearchingPlayer]) -> "CertificatePlayer":
        """Return a player that plays the certificates' moves, and in all other positions another player's moves."""
        return CertificatePlayer(self, make_other)


class CertificatePlayer:
    """Player that follows certificates in the positions that they cover, and another player in all others.

    Args:
        certificates: the certificates.
        make_other: creates the other player, at its first use.
        name: the player's name.
    """

    def __init__(
        self, certificates: Certificates, make_other: Callable[[], SearchingPlayer], *, name: str = "certificate"
    ) -> None:
        self.name = name
        self.certificates = certificates
        self._make_other = make_other

    @property
    def budget(self) -> Budget:
        return self._other.budget

    @property
    def reuse(self) -> Reuse:
        return self._other.reuse

    @property
    def inference_backend(self) -> str:
        """Backend of the other player's network; "" if the certificates name a player that cannot be created."""
        with contextlib.suppress(PlayerError):
            return backends_of([self._other])
        return ""

    def choose(self, positions: Sequence[Position]) -> list[int]:
        columns = {row: found.column for row, found in self.certificates.look_up(positions, count_plies=False).items()}
        rest = [row for row in range(len(positions)) if row not in columns]
        if rest:
            columns |= zip(rest, self._other.choose([positions[row] for row in rest]), strict=True)
        return [cast(int, columns[row]) for row in range(len(positions))]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResults:
        """Search as the other player does, and insert the certificates' moves and proofs."""
        result = self._other.search(positions, budget)
        moves, proofs = result.moves.copy(), result.proofs.copy()
        value, wdl, variations = result.value.copy(), result.wdl.copy(), list(result.variations)
        for row, found in self.certificates.look_up(positions).items():
            column = moves[row] = cast(int, found.column)
            if found.plies is not None:
                proofs[row, column] = PROVEN_WIN - found.plies
                value[row], wdl[row] = proof_value(PROVEN_WIN - found.plies), (1.0, 0.0, 0.0)
            if variations[row][:1] != [column]:
                variations[row] = [column]
        return dataclasses.replace(result, moves=moves, proofs=proofs, value=value, wdl=wdl, variations=variations)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        return self._other.node(index, path)

    def drop_trees(self) -> None:
        if "_other" in vars(self):
            drop_trees(self._other)

    def detach(self) -> SearchingPlayer:
        """Return the other player with its trees; see `TreePlayer.detach`."""
        return keep_trees(self._other)

    @functools.cached_property
    def _other(self) -> SearchingPlayer:
        return self._make_other()


@contextlib.contextmanager
def _as_player_error() -> Iterator[None]:
    """Convert a `CertificateError` to a `PlayerError` of one line."""
    try:
        yield
    except CertificateError as error:
        raise PlayerError(str(error).replace("\n", " ")) from error

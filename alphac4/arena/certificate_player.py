"""A player whose moves win or draw for certain wherever a certificate holds them."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from alphac4.arena.players import PlayerError, SearchingPlayer, drop_trees, keep_trees
from alphac4.certificate.file import CertificateError, read_certificate, walk_certificate
from alphac4.certificate.walk import WINS_NOW, Claim, Columns, Level, longest_games
from alphac4.game import Geometry, Outcome, Position
from alphac4.game.planes import stones
from alphac4.game.rules import canonical_keys
from alphac4.mcts.results import HasSearchTree, NodeView, SearchResult
from alphac4.mcts.search import Budget, Reuse
from alphac4.mcts.tree import PROVEN_WIN, proof_value


@dataclass(frozen=True, kw_only=True)
class CertifiedResult:
    """The result that certificates show: that a player wins, or that it does not lose."""

    first: bool  # whether it is the first player's
    plies: int | None  # in which the game is won at the latest; None where the player at least draws
    column: int | None  # 0-based, that player's move; None where the other one is to move


class CheckedCertificate:
    """A certificate whose moves are checked from the rules as far as games have come.

    A level of its walk is checked when a position with that many stones comes up: the first ones take no time, and the
    largest some seconds. How long games last is known only at the end of the walk.
    """

    def __init__(self, path: Path, geometry: Geometry, on_pause: Callable[[], object]) -> None:
        certificate = read_certificate(path)
        self.claim: Claim = certificate.claim
        self.author = str(certificate.about.get("player"))
        if self.claim.geometry != geometry:
            raise CertificateError(f"{path}: belongs to another board")
        self._path = path
        self._on_pause = on_pause
        self._starts = [start.sides for start in (self.claim.start, self.claim.start.mirror())]
        self._walk = walk_certificate(certificate)
        self._levels: dict[int, Level] = {}  # by the number of stones, as far as they are checked
        self._failure: CertificateError | None = None  # that ended the walk

    def find(
        self, position: Position, key: np.uint64, mirrored: np.bool_, *, count_plies: bool
    ) -> CertifiedResult | None:
        """Return the certificate's move in a position; None if it does not hold the position.

        Args:
            position: the position.
            key: its canonical key.
            mirrored: whether that is the mirror image's.
            count_plies: whether to return the plies too; the first time, the walk then goes to its end.

        Raises:
            CertificateError: if the certificate does not hold up to this position.
        """
        first, second = position.sides
        if position.first_to_move != (self.claim.side == "first") or not any(
            not (start[0] & ~first or start[1] & ~second) for start in self._starts
        ):
            return None  # it is the opponent's turn, or the claim's first moves are not on the board
        level = self._level(position.plies)
        if level is None:
            return None
        row = int(np.searchsorted(level.keys, key))
        if row == len(level.keys) or level.keys[row] != key:
            return None
        column = int(level.moves[row])
        if column == WINS_NOW:
            column = next(c for c in position.legal_columns() if position.play(c).outcome() == Outcome.LOSS)
        elif mirrored:
            column = position.geometry.columns - 1 - column
        plies = int(self._longest[position.plies][row]) if count_plies and self.claim.result == "win" else None
        return CertifiedResult(first=position.first_to_move, plies=plies, column=column)

    def _level(self, stones: int) -> Level | None:
        """Return the level with that many stones; None if the walk has none.

        Raises:
            CertificateError: once the walk has failed, for every level.
        """
        try:
            while stones not in self._levels and (level := next(self._walk, None)) is not None:
                self._levels[level.stones] = level
                self._on_pause()
        except CertificateError as error:
            self._failure = CertificateError(f"{self._path}: {error}")
        if self._failure is not None:
            raise self._failure
        return self._levels.get(stones)

    @functools.cached_property
    def _longest(self) -> dict[int, Columns]:
        """The longest games from each position in plies, by the number of stones, for a claim of a win."""
        self._level(self.claim.geometry.cells + 1)  # no level has that many stones, so the walk goes to its end
        longest = longest_games(self.claim.geometry, list(self._levels.values()), self._on_pause)
        return dict(zip(self._levels, longest, strict=True))


class CertificatePlayer:
    """Plays the moves of certificates where one of them holds, and as another player does elsewhere.

    A certificate holds every position that an opponent can bring about against its player, and no other. It is checked
    from the rules as far as a game has come. The first count of plies takes seconds. Meanwhile ``on_pause`` is called
    a few times per second; an exception that it raises ends the work.

    Args:
        paths: the files; certificates of a win come before those of a draw.
        geometry: the board.
        make_other: makes the other player when it is first needed, from the specification of the first certificate's
            author.
        on_pause: see above.
        name: see `Player`.

    Raises:
        PlayerError: if a file cannot be read; from `choose` and the other methods, if it does not hold.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        geometry: Geometry,
        make_other: Callable[[str], SearchingPlayer],
        on_pause: Callable[[], object] = lambda: None,
        *,
        name: str = "certificate",
    ) -> None:
        with _as_player_error():
            checked = [CheckedCertificate(path, geometry, on_pause) for path in paths]
        self.name = name
        self.geometry = geometry
        self._certificates = sorted(checked, key=lambda certificate: -certificate.claim.min_outcome)
        self._make_other = make_other
        self._author = checked[0].author

    @property
    def budget(self) -> Budget:
        """See `SearchingPlayer`; the other player's."""
        return self._other.budget

    @property
    def reuse(self) -> Reuse:
        """See `SearchingPlayer`; the other player's."""
        return self._other.reuse

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        columns = {row: found.column for row, found in self._look_up(positions, count_plies=False).items()}
        rest = [row for row in range(len(positions)) if row not in columns]
        if rest:
            columns |= zip(rest, self._other.choose([positions[row] for row in rest]), strict=True)
        return [cast(int, columns[row]) for row in range(len(positions))]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`: the other player's result, with the certificates' moves and proofs."""
        result = self._other.search(positions, budget)
        moves, proofs = result.moves.copy(), result.proofs.copy()
        value, wdl, variations = result.value.copy(), result.wdl.copy(), list(result.variations)
        for row, found in self._look_up(positions).items():
            column = moves[row] = cast(int, found.column)
            if found.plies is not None:
                proofs[row, column] = PROVEN_WIN - found.plies
                value[row], wdl[row] = proof_value(PROVEN_WIN - found.plies), (1.0, 0.0, 0.0)
            if variations[row][:1] != [column]:
                variations[row] = [column]
        return dataclasses.replace(result, moves=moves, proofs=proofs, value=value, wdl=wdl, variations=variations)

    def proven_result(self, position: Position) -> CertifiedResult | None:
        """Return what the certificates show of an unfinished position; None where they show nothing.

        Where none of them holds the position itself, its opponent may be to move: then all replies are looked up.
        """
        found = self._look_up([position]).get(0)
        if found is not None:
            return found
        following = [position.play(column) for column in position.legal_columns()]
        if any(after.outcome() is not None for after in following):
            return None
        replies = self._look_up(following).values()
        if len(replies) < len(following):
            return None
        plies = [reply.plies for reply in replies if reply.plies is not None]
        latest = 1 + max(plies) if len(plies) == len(following) else None
        return CertifiedResult(first=not position.first_to_move, plies=latest, column=None)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`; the other player's tree."""
        return self._other.node(index, path)

    def drop_trees(self) -> None:
        """See `TreePlayer.drop_trees`; the other player's, which has none before it is made."""
        if "_other" in vars(self):
            drop_trees(self._other)

    def detach(self) -> HasSearchTree:
        """See `TreePlayer.detach`; the other player's."""
        return keep_trees(self._other)

    @functools.cached_property
    def _other(self) -> SearchingPlayer:
        return self._make_other(self._author)

    def _look_up(self, positions: Sequence[Position], *, count_plies: bool = True) -> dict[int, CertifiedResult]:
        """The certified moves, by row, of the positions that some certificate holds."""
        keys, mirrored = canonical_keys(self.geometry, *stones(positions))
        found: dict[int, CertifiedResult] = {}
        with _as_player_error():
            for certificate in self._certificates:
                for row, position in enumerate(positions):
                    if row in found:
                        continue
                    move = certificate.find(position, keys[row], mirrored[row], count_plies=count_plies)
                    if move is not None:
                        found[row] = move
        return found


@contextlib.contextmanager
def _as_player_error() -> Iterator[None]:
    """Raise a certificate's error as a `PlayerError` of one line."""
    try:
        yield
    except CertificateError as error:
        raise PlayerError(str(error).replace("\n", " ")) from error

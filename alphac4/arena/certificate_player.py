"""A player whose moves win or draw for certain wherever a certificate holds them."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alphac4.arena.players import PlayerError, SearchingPlayer, drop_trees, keep_trees
from alphac4.certificate.file import CertificateError, read_certificate, walk_certificate
from alphac4.certificate.walk import WINS_NOW, Claim, Columns, Level, longest_games
from alphac4.game import Geometry, Outcome, Position
from alphac4.game.planes import stones
from alphac4.game.rules import canonical_keys
from alphac4.mcts.results import NodeView, Searched, SearchResult
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

    A level of its walk is checked when a position with so many stones comes up: the first ones take no time, and the
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

    def find(self, position: Position, key: np.uint64, mirrored: np.bool_) -> "CertifiedMove | None":
        """The move in a position; None if the certificate does not hold it.

        ``key`` is canonical; ``mirrored`` says whether it is the mirror image's.

        Raises:
            CertificateError: if the certificate does not hold up to this position.
        """
        level = self._level(position.plies) if self._may_hold(position) else None
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
        return CertifiedMove(column=column, certificate=self, stones=position.plies, row=row)

    def plies(self, stones: int, row: int) -> int | None:
        """See `CertifiedMove.plies`; at its first call it walks to the end, and counts for as long again."""
        return int(self._longest[stones][row]) if self.claim.result == "win" else None

    def _may_hold(self, position: Position) -> bool:
        """Return whether the claim's player is to move, and its first moves are on the board, in whatever order."""
        if position.first_to_move != (self.claim.side == "first"):
            return False
        first, second = position.sides
        return any(not (start[0] & ~first or start[1] & ~second) for start in self._starts)

    def _level(self, stones: int) -> Level | None:
        """The level with that many stones; None if the walk has none."""
        try:
            while stones not in self._levels and (level := next(self._walk, None)) is not None:
                self._levels[level.stones] = level
                self._on_pause()
        except CertificateError as error:
            raise CertificateError(f"{self._path}: {error}") from error
        return self._levels.get(stones)

    @functools.cached_property
    def _longest(self) -> dict[int, Columns]:
        """The longest games from each position in plies, by the number of stones, where it wins."""
        self._level(self.claim.geometry.cells + 1)  # which the walk has not: so it is walked to its end
        longest = longest_games(self.claim.geometry, list(self._levels.values()), self._on_pause)
        return dict(zip(self._levels, longest, strict=True))


@dataclass(frozen=True, kw_only=True)
class CertifiedMove:
    """A certificate's move in a position."""

    column: int  # 0-based
    certificate: CheckedCertificate
    stones: int
    row: int  # of the position among those with so many stones

    @property
    def plies(self) -> int | None:
        """Plies in which the player has won at the latest; None where it may only draw. Slow at its first use."""
        return self.certificate.plies(self.stones, self.row)


class CertificatePlayer:
    """Plays the moves of certificates where one of them holds, and as another player does elsewhere.

    A certificate is checked from the rules only, as far as a game has come. It holds every position that an opponent
    can bring about against its player, and no other: for those ``make_other`` makes a player, once one is needed.

    The first question about its longest games takes seconds. Meanwhile ``on_pause`` is called a few times a second, and
    ends it by raising.

    Args:
        paths: the files; what is shown to win comes before what is shown to draw.
        geometry: the board.
        make_other: makes the other player, from the specification of the first certificate's author.
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
        self._made: SearchingPlayer | None = None

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
        columns = {row: found.column for row, found in self._look_up(positions).items()}
        rest = [row for row in range(len(positions)) if row not in columns]
        if rest:
            columns |= zip(rest, self._other.choose([positions[row] for row in rest]), strict=True)
        return [columns[row] for row in range(len(positions))]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`: what the other player thinks, and what the certificates prove."""
        result = self._other.search(positions, budget)
        moves, proofs = result.moves.copy(), result.proofs.copy()
        value, wdl, variations = result.value.copy(), result.wdl.copy(), list(result.variations)
        for row, found in self._look_up(positions).items():
            moves[row] = found.column
            if found.plies is not None:
                proofs[row, found.column] = PROVEN_WIN - found.plies
                value[row], wdl[row] = proof_value(PROVEN_WIN - found.plies), (1.0, 0.0, 0.0)
            if variations[row][:1] != [found.column]:
                variations[row] = [found.column]
        return dataclasses.replace(result, moves=moves, proofs=proofs, value=value, wdl=wdl, variations=variations)

    def proven_result(self, position: Position) -> CertifiedResult | None:
        """What the certificates show of an unfinished position, of whom and by when; None where they show nothing.

        Where none of them knows the position itself, its opponent may be to move: then all replies are looked up.
        """
        found = self._look_up([position]).get(0)
        if found is not None:
            return CertifiedResult(first=position.first_to_move, plies=found.plies, column=found.column)
        following = [position.play(column) for column in position.legal_columns()]
        if any(after.outcome() is not None for after in following):
            return None
        replies = self._look_up(following).values()
        if len(replies) < len(following):
            return None
        plies = [found.plies for found in replies if found.plies is not None]
        latest = 1 + max(plies) if len(plies) == len(following) else None
        return CertifiedResult(first=not position.first_to_move, plies=latest, column=None)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`; the other player's tree."""
        return self._other.node(index, path)

    def drop_trees(self) -> None:
        """See `TreePlayer.drop_trees`; the other player's, which has none before it is made."""
        if self._made is not None:
            drop_trees(self._made)

    def detach(self) -> Searched:
        """See `TreePlayer.detach`; the other player's."""
        return keep_trees(self._other)

    @property
    def _other(self) -> SearchingPlayer:
        if self._made is None:
            self._made = self._make_other(self._author)
        return self._made

    def _look_up(self, positions: Sequence[Position]) -> dict[int, CertifiedMove]:
        """The certified moves, by row, of the positions that some certificate knows."""
        keys, mirrored = canonical_keys(self.geometry, *stones(positions))
        found: dict[int, CertifiedMove] = {}
        with _as_player_error():
            for row, position in enumerate(positions):
                for certificate in self._certificates:
                    move = certificate.find(position, keys[row], mirrored[row])
                    if move is not None:
                        found[row] = move
                        break
        return found


@contextlib.contextmanager
def _as_player_error() -> Iterator[None]:
    """Say in one line what is wrong with a certificate."""
    try:
        yield
    except CertificateError as error:
        raise PlayerError(str(error).replace("\n", " ")) from error

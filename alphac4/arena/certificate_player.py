"""A player that wins every game that it begins, by the moves of a certificate."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from alphac4.arena.players import PlayerError, SearchingPlayer, keep_trees
from alphac4.certificate.file import CertificateError, read_certificate, walk_certificate
from alphac4.certificate.walk import WINS_NOW, Columns, longest_games
from alphac4.game import Geometry, Outcome, Position
from alphac4.game.planes import stones
from alphac4.game.rules import canonical_keys
from alphac4.mcts.results import NodeView, Searched, SearchResult
from alphac4.mcts.search import Budget, Reuse
from alphac4.mcts.tree import PROVEN_WIN, proof_value


class CertificatePlayer:
    """Plays the certificate's move where it holds one, and as another player does elsewhere.

    The certificate is checked first, from the rules alone. It knows every position that an opponent can bring about
    against it as the first player, and none besides: ``make_other`` makes the player for those, once it is needed.

    That takes seconds, and so does the first question about the longest games. Meanwhile ``on_pause`` is called a few
    times a second, and ends it by raising.

    Raises:
        PlayerError: if the file cannot be read, or does not hold.
    """

    def __init__(
        self,
        path: Path,
        geometry: Geometry,
        make_other: Callable[[str], SearchingPlayer],
        on_pause: Callable[[], object] = lambda: None,
    ) -> None:
        try:
            certificate = read_certificate(path)
            if certificate.geometry != geometry:
                raise CertificateError(f"{path}: belongs to another board")
            self._levels = walk_certificate(certificate, on_level=lambda _stones, _positions: on_pause()).levels
        except CertificateError as error:
            raise PlayerError(str(error).replace("\n", " ")) from error
        self.name = "certificate"
        self.geometry = geometry
        self._make_other = make_other
        self._on_pause = on_pause
        self._author = str(certificate.about.get("player"))
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
        columns = {row: column for row, (column, _, _) in self._look_up(positions).items()}
        rest = [row for row in range(len(positions)) if row not in columns]
        if rest:
            columns |= zip(rest, self._other.choose([positions[row] for row in rest]), strict=True)
        return [columns[row] for row in range(len(positions))]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`: what the other player thinks, and what the certificate proves."""
        result = self._other.search(positions, budget)
        moves, proofs = result.moves.copy(), result.proofs.copy()
        value, wdl, variations = result.value.copy(), result.wdl.copy(), list(result.variations)
        for row, (column, level, place) in self._look_up(positions).items():
            plies = int(self._plies[level][place])
            moves[row], proofs[row, column] = column, PROVEN_WIN - plies
            value[row], wdl[row] = proof_value(PROVEN_WIN - plies), (1.0, 0.0, 0.0)
            if variations[row][:1] != [column]:
                variations[row] = [column]
        return dataclasses.replace(result, moves=moves, proofs=proofs, value=value, wdl=wdl, variations=variations)

    def plies_to_win(self, position: Position) -> int | None:
        """In how many plies the player has won at the latest, going on from an unfinished position as the first player.

        The opponent may be to move: then all its replies are looked up. None where the certificate does not say.
        """
        opponent = position.plies % 2
        following = [position.play(column) for column in position.legal_columns()] if opponent else [position]
        if any(after.outcome() is not None for after in following):
            return None
        found = self._look_up(following)
        if len(found) < len(following):
            return None
        return opponent + max(int(self._plies[level][place]) for _, level, place in found.values())

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`; the other player's tree."""
        return self._other.node(index, path)

    def detach(self) -> Searched:
        """See `TreePlayer.detach`; the other player's."""
        return keep_trees(self._other)

    @property
    def _other(self) -> SearchingPlayer:
        if self._made is None:
            self._made = self._make_other(self._author)
        return self._made

    @functools.cached_property
    def _plies(self) -> list[Columns]:
        """In each position of each level, the most plies to the win."""
        return longest_games(self.geometry, self._levels, self._on_pause)

    def _look_up(self, positions: Sequence[Position]) -> dict[int, tuple[int, int, int]]:
        """The move, and the place by level and within it, by row, of the positions that the certificate knows."""
        geometry, last = self.geometry, self.geometry.columns - 1
        wanted, mirrored = canonical_keys(geometry, *stones(positions))
        found: dict[int, tuple[int, int, int]] = {}
        for row, position in enumerate(positions):
            level, odd = divmod(position.plies, 2)
            if odd or level >= len(self._levels):
                continue
            keys, moves = self._levels[level]
            place = int(np.searchsorted(keys, wanted[row]))
            if place == len(keys) or keys[place] != wanted[row]:
                continue
            column = int(moves[place])
            if column == WINS_NOW:
                column = next(c for c in position.legal_columns() if position.play(c).outcome() == Outcome.LOSS)
            elif mirrored[row]:
                column = last - column
            found[row] = column, level, place
        return found

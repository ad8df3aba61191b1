"""The player that plays a certificate's moves."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from test_certificate import SMALL, BestByMinimax, small

from alphac4.arena.certificate_player import CertificatePlayer
from alphac4.arena.players import PlayerError, SearchingPlayer
from alphac4.arena.specifications import parse_player
from alphac4.certificate.file import Certificate, walk_certificate, write_certificate
from alphac4.game import Outcome, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.search import Budget
from alphac4.mcts.uct_search import UctSearch

__all__ = ["small"]  # a fixture


class Other:
    """Plays the last legal column, and remembers where it was asked."""

    def __init__(self) -> None:
        self.asked: list[Position] = []
        self._search = UctSearch(geometry=SMALL, rng=np.random.default_rng(0))
        self.budget, self.reuse, self.name = Budget(simulations=30), "nothing", "other"

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """The last one."""
        self.asked += positions
        return [position.legal_columns()[-1] for position in positions]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> object:
        """Some search's."""
        return self._search.search(positions, budget or self.budget)

    def node(self, index: int, path: Sequence[int]) -> object:
        """Some search's."""
        return self._search.node(index, path)


@pytest.fixture
def player(small: Certificate, tmp_path: Path) -> tuple[CertificatePlayer, Other]:
    """The player of the small board's certificate, and the one that it asks elsewhere."""
    write_certificate(tmp_path / "small.certificate", small)
    other = Other()
    return CertificatePlayer(tmp_path / "small.certificate", SMALL, lambda _name: other), other


def longest_game(player: CertificatePlayer, position: Position) -> int:
    """In how many plies the player has won at the latest, by playing every reply; every game must be won by it."""
    then = position.play(player.choose([position])[0])
    if then.outcome() is not None:
        assert then.outcome() == Outcome.LOSS
        return 1
    return 2 + max(longest_game(player, then.play(reply)) for reply in then.legal_columns())


def test_it_wins_every_game_that_it_begins(player: tuple[CertificatePlayer, Other]) -> None:
    """Within the number of plies that it says, and never asking anybody."""
    certificate, other = player
    start = Position(geometry=SMALL)
    found = certificate.search([start])
    plies = longest_game(certificate, start)
    assert not other.asked
    assert found.value.tolist() == [1.0]
    assert found.describe_proof(0, int(found.moves[0])) == f"wins in {(plies + 1) // 2} moves"


def test_it_says_how_long_the_longest_game_lasts(player: tuple[CertificatePlayer, Other]) -> None:
    """Whoever is to move; nothing of positions that the certificate's own moves do not lead to."""
    certificate, other = player
    position = Position(geometry=SMALL)
    while position.outcome() is None:
        plies = certificate.plies_to_win(position)
        assert plies == longest_game(certificate, position)
        position = position.play(certificate.choose([position])[0])
        if position.outcome() is None:
            assert certificate.plies_to_win(position) == 1 + max(
                longest_game(certificate, position.play(reply)) for reply in position.legal_columns()
            )
            position = position.play(position.legal_columns()[0])
    assert not other.asked
    start = Position(geometry=SMALL)
    strayed = next(column for column in start.legal_columns() if column != certificate.choose([start])[0])
    assert certificate.plies_to_win(start.play(strayed).play(strayed)) is None


def test_elsewhere_it_plays_as_the_other_does(player: tuple[CertificatePlayer, Other]) -> None:
    """Also in a batch of both kinds."""
    certificate, other = player
    start, elsewhere = Position(geometry=SMALL), Position(geometry=SMALL).play(0)
    assert certificate.choose([elsewhere, start, elsewhere]) == [3, certificate.choose([start])[0], 3]
    assert other.asked == [elsewhere, elsewhere]
    found = certificate.search([elsewhere, start])
    assert found.value[1] == 1.0
    assert not found.proven_wins[0] or BestByMinimax(SMALL).value(elsewhere) == 1
    assert isinstance(certificate, SearchingPlayer)


def test_reading_a_certificate_can_be_ended(small: Certificate, tmp_path: Path) -> None:
    """At every level of the walk, and of the longest games; then it begins anew."""
    write_certificate(tmp_path / "small.certificate", small)
    start = Position(geometry=SMALL)

    class EndedError(Exception):
        pass

    def read(most_pauses: int) -> int | None:
        pauses = iter(range(most_pauses))

        def on_pause() -> None:
            if next(pauses, None) is None:
                raise EndedError

        player = CertificatePlayer(tmp_path / "small.certificate", SMALL, lambda _name: Other(), on_pause)
        return player.plies_to_win(start)

    levels = len(walk_certificate(small).levels)
    for most_pauses in range(2 * levels):
        with pytest.raises(EndedError):
            read(most_pauses)
    assert read(2 * levels) == CertificatePlayer(
        tmp_path / "small.certificate", SMALL, lambda _name: Other()
    ).plies_to_win(start)


def test_a_certificate_that_does_not_hold_makes_no_player(small: Certificate, tmp_path: Path) -> None:
    """Nor one of another board, nor none; in one line."""
    path = tmp_path / "bad.certificate"
    write_certificate(path, Certificate(geometry=SMALL, columns=small.columns[:-1]))
    for geometry, message in ((SMALL, "the move is missing"), (STANDARD, "another board")):
        with pytest.raises(PlayerError, match=message) as refused:
            parse_player(f"certificate:{path}", rng=np.random.default_rng(0), geometry=geometry)
        assert "\n" not in str(refused.value)
    with pytest.raises(PlayerError, match="cannot be read"):
        parse_player(f"certificate:{tmp_path / 'none'}", rng=np.random.default_rng(0), geometry=SMALL)

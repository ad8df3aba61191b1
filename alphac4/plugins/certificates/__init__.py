"""Certificates: a player's move in every position that an opponent can reach, as a proof that anybody can check."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alphac4.arena import PlayerError
from alphac4.arena.registry import PlayerKind, find_network, player_kinds, read_player, register
from alphac4.commands import register_command
from alphac4.play.proofs import register_proofs
from alphac4.storage.records import quote

if TYPE_CHECKING:
    from alphac4.arena.kinds import NetworkKind
    from alphac4.arena.players import BuildOptions, Player, SearchingPlayer
    from alphac4.game import Board
    from alphac4.plugins.certificates.player import Certificates

CERTIFICATE = "certificate"  # limit after "@": the shipped certificates' moves; where they have none, those at "auto"

register_command(
    CERTIFICATE,
    group="Measure",
    summary="build or verify a proof that a player wins against every reply",
    target="alphac4.plugins.certificates.command:CertificateCommand",
)


@register
class CertificateKind(PlayerKind):
    """Moves of certificates, and of another player in the positions that they do not cover."""

    forms = {
        "best@certificate": "the moves of the certificates that come with the project, and best@auto in all other "
        "positions: wins every game as first player, and loses as second only if the game begins with 4; also written "
        "certificate",
        "certificate:FILE,...": "the moves of your own certificates, and their author's moves in all other positions",
    }
    names = (CERTIFICATE,)
    rank = 3  # best@certificate also has the form of a network, but this kind reads it
    runs_network = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        other = self._other_text(text)
        self._other = None if other is None else find_network(other)
        if other is None and text != CERTIFICATE and not all(text.removeprefix(f"{CERTIFICATE}:").split(",")):
            form = f"{CERTIFICATE}:FILE"
            raise PlayerError(f"{quote(text)}: a file's name is missing; write {form} or {form},FILE")

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether a text names certificates, or a network at `CERTIFICATE`."""
        return text == CERTIFICATE or text.startswith(f"{CERTIFICATE}:") or cls._other_text(text) is not None

    @staticmethod
    def _other_text(text: str) -> str | None:
        """Convert a network at `CERTIFICATE` to the same network at "auto"; return None for any other text."""
        from alphac4.arena.kinds import AUTO, NetworkKind

        for kind in player_kinds():
            found = kind.form.fullmatch(text) if issubclass(kind, NetworkKind) and kind.matches(text) else None
            if found and found["limit"] == f"@{CERTIFICATE}":
                return f"{found['network']}@{AUTO}{found['options'] or ''}"
        return None

    @property
    def _paths(self) -> list[Path]:
        """The certificates: those of the text, or those that come with the project."""
        from alphac4.plugins.certificates.file import shipped_certificates

        if self._other is not None or self.text == CERTIFICATE:
            return shipped_certificates()
        names = self.text.removeprefix(f"{CERTIFICATE}:")
        return [Path(name) for name in ([names] if os.path.exists(names) else names.split(","))]  # noqa: PTH110

    @property
    def network(self) -> "NetworkKind | None":
        """The network of the other positions."""
        return self._other

    @property
    def files(self) -> Sequence[Path]:
        """The certificates, and the specification's network; without one, the networks that made the certificates."""
        from alphac4.plugins.certificates.file import read_certificate

        authors = sorted({str(read_certificate(path).about.get("player", "")) for path in self._paths})
        networks = map(find_network, authors) if self._other is None else [self._other]
        return [*self._paths, *(network.path for network in networks if network is not None)]

    @property
    def is_repeatable(self) -> bool:
        """Whether the certificates are the shipped ones; other files may name a player that is not repeatable."""
        return self.text == CERTIFICATE or self._other is not None

    def build(self, options: "BuildOptions") -> "Player":
        from alphac4.arena.kinds import NetworkKind, UctKind
        from alphac4.plugins.certificates.player import CertificatePlayer, Certificates

        certificates = Certificates(self._paths, options.board)
        other, name = self._other, CERTIFICATE
        if other is not None:
            name = f"{other.name}@{CERTIFICATE}{other.options}"

        def make() -> "SearchingPlayer":
            if other is not None:
                return other.build(options)
            kind = read_player(certificates.author)
            if not isinstance(kind, UctKind | NetworkKind):
                # Other specifications run programs or import modules, which an untrusted file must not do.
                raise PlayerError(f"the certificate's player {quote(kind.text)} is neither a network nor uct")
            kind.check(options.board)
            return kind.build(dataclasses.replace(options, batch_size=1))

        return CertificatePlayer(certificates, make, name=name)


@register_proofs
def load_certificates(board: "Board", on_poll: Callable[[], object]) -> "Certificates | None":
    """Load the shipped certificates; None for another board, or if a file is missing or invalid."""
    from alphac4.plugins.certificates.file import shipped_certificates
    from alphac4.plugins.certificates.player import Certificates

    try:
        return Certificates(shipped_certificates(), board, on_poll)
    except (PlayerError, OSError):
        return None

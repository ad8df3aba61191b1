"""Players in other programs' environments, and OpenSpiel's bot as a player here."""

from typing import TYPE_CHECKING

from alphac4.arena.registry import CountedKind, register

if TYPE_CHECKING:
    from alphac4.arena.players import BuildOptions, Player
    from alphac4.game import Board


@register
class OpenSpielKind(CountedKind):
    """OpenSpiel's bot."""

    forms = {"openspiel:1000": "OpenSpiel's C++ MCTS bot with 1000 simulations (needs alphac4[openspiel])"}
    names = ("openspiel",)

    @property
    def board(self) -> "Board":
        """The standard board."""
        from alphac4.game.rules import STANDARD

        return STANDARD

    def build(self, options: "BuildOptions") -> "Player":
        from alphac4.plugins.adapters.openspiel_player import OpenSpielPlayer

        return OpenSpielPlayer(self.number, options.rng)

"""`alphac4 players`: how players are written, wherever a command takes one."""

from collections.abc import Sequence
from dataclasses import dataclass

from alphac4.commands.arguments import read_arguments


@dataclass(frozen=True, kw_only=True)
class PlayersOptions:
    """List the players, as every command takes them: arena, evaluate, play, search, review, engine, prove, puzzles."""


def main(arguments: Sequence[str]) -> int:
    """Parse and print."""
    read_arguments(PlayersOptions, arguments, "players")
    from alphac4.arena.specifications import SPECIFICATIONS

    print(SPECIFICATIONS)
    print("\ndocs/players.md describes every option.")
    return 0

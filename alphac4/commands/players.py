"""`alphac4 players`: how players are written, wherever a command takes one."""

from alphac4.arena.forms import SPECIFICATIONS
from alphac4.commands.options.play import PlayersOptions


def run(_options: PlayersOptions) -> int:
    """Print the list."""
    print(SPECIFICATIONS)
    print("\ndocs/players.md describes every option.")
    return 0

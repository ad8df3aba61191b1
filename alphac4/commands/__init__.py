"""Subcommands of `alphac4`. A command is a class whose fields are options; calling an instance runs it.

Modules import PyTorch, Numba and most of the package only when a command runs, so that help and errors are fast.
"""

from pkgutil import resolve_name
from typing import Any, NamedTuple

from alphac4.discovery import add_unique, load_plugins

EXIT_BROKEN_INSTALL, EXIT_BAD_INPUT = 1, 2
EXIT_SIGNAL = 128  # plus the number of the signal that ended the command


class Command(NamedTuple):
    """A command in the overview, and its class."""

    group: str  # heading in the overview
    summary: str
    target: str  # "module:Class"

    def load(self) -> Any:
        """Import the command's class."""
        return resolve_name(self.target)


_commands = {
    name: Command(group, summary, f"alphac4.commands.{group.lower()}:{name.title().replace(' ', '')}Command")
    for name, group, summary in (
        ("play", "Play", "play a game in the terminal"),
        ("play web", "Play", "play and analyse in the browser"),
        ("search", "Play", "search a position and draw the tree"),
        ("solve", "Play", "score positions exactly"),
        ("players", "Play", "list the players that commands accept"),
        ("train", "Train", "train a network: self-play, learning, gating"),
        ("selfplay", "Train", "record games of a network against itself"),
        ("arena", "Measure", "play matches between any players and rate them"),
        ("evaluate", "Measure", "measure a network or any player against exact play"),
        ("audit", "Measure", "check a player's moves against every reply, exhaustively"),
        ("doctor", "Measure", "check the installation and measure the speed of this machine"),
    )
}


def register_command(name: str, *, group: str, summary: str, target: str) -> None:
    """Add a command of a plugin.

    Args:
        name: one word, or two such as "play web".
        group: heading in the overview, an existing one or another.
        summary: what it does, in a few words.
        target: "module:Class" of a frozen dataclass, which is imported when the command runs. Its docstring is the
            help, its fields are the options, and ``__call__`` runs the command and returns the exit code.

    Raises:
        ValueError: if there is a command with this name.
    """
    add_unique(_commands, name, Command(group, summary, target))


def all_commands() -> dict[str, Command]:
    """Return all commands by name, those of the core first."""
    load_plugins()
    return _commands

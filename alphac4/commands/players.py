"""`alphac4 players`: how players are written, wherever a command takes one."""

import re
import shutil
import textwrap

from alphac4.arena.syntax import SPECIFICATIONS
from alphac4.commands.options import PlayersOptions
from alphac4.play.levels import LEVELS


def run(_options: PlayersOptions) -> int:
    """Print the list, as wide as the terminal is."""
    width = min(shutil.get_terminal_size().columns, 120)
    beside = " " * 25  # where the texts on the players stand
    for line in re.sub(r"\n {9,}", " ", SPECIFICATIONS).splitlines():
        print(textwrap.fill(line, width, subsequent_indent=beside, break_on_hyphens=False))
    levels = ", ".join(f"{number} {level.name}" for number, level in enumerate(LEVELS, start=1))
    print()
    print(textwrap.fill(f"`alphac4 play` takes human besides, and its levels by number or name: {levels}.", width))
    print("\ndocs/players.md describes every option.")
    return 0

"""`alphac4 players`: how players are written, wherever a command takes one."""

import re
import shutil
import textwrap

from alphac4.arena.forms import SPECIFICATIONS
from alphac4.commands.options import PlayersOptions


def run(_options: PlayersOptions) -> int:
    """Print the list, as wide as the terminal is."""
    width = min(shutil.get_terminal_size().columns, 120)
    beside = " " * 25  # where the texts on the players stand
    for line in re.sub(r"\n {9,}", " ", SPECIFICATIONS).splitlines():
        print(textwrap.fill(line, width, subsequent_indent=beside, break_on_hyphens=False))
    print("\ndocs/players.md describes every option.")
    return 0

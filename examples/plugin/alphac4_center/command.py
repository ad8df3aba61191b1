"""A command that counts."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class TallyCommand:
    """Count the first moves of recorded games.

    alphac4 tally runs/selfplay/games.txt
    """

    file: Annotated[Path, tyro.conf.Positional]
    """File with a game per line, such as 44 or 4455, as `alphac4 selfplay` writes it."""

    def __call__(self) -> int:
        """Print a line per column; return the exit code."""
        games = self.file.read_text().split()
        for column, count in sorted(Counter(game[0] for game in games).items()):
            print(f"{column}: {count} of {len(games)}")
        return 0

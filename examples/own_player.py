"""Your own player, which has a name and chooses a column for each position.

Commands that take any player accept this one, if you run them in the parent folder of `examples`:

    alphac4 arena examples.own_player:Cautious uct:100 --games 20
    alphac4 evaluate examples.own_player:Cautious
"""

import sys
from collections.abc import Sequence

import numpy as np

import alphac4


class Cautious:
    """Player that wins if it can, blocks if it must, and otherwise plays near the centre.

    `alphac4` calls the class with those of ``rng``, ``board`` and ``threads`` that are among its parameters.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.name = "cautious"
        self.rng = rng

    def choose(self, positions: Sequence[alphac4.Position]) -> list[int]:
        """Return a 0-based column for each position; a match passes many together, so networks get full batches."""
        return [self.move(position) for position in positions]

    def move(self, position: alphac4.Position) -> int:
        """Return the column for one position."""
        columns = position.legal_columns()
        safe = []
        for column in columns:
            after = position.play(column)
            if after.outcome() is not None:
                return column  # a win, or the last stone of a draw
            if not any(after.play(reply).outcome() == -1 for reply in after.legal_columns()):
                safe.append(column)
        centre = position.board.columns // 2
        return min(safe or columns, key=lambda column: (abs(column - centre), self.rng.random()))


if __name__ == "__main__":
    games = 4 if "--fast" in sys.argv else 100
    player = Cautious(np.random.default_rng(0))
    print("cautious against random:", alphac4.play_match(player, "random", games=games))

"""Greedy backups as value targets: A0GB (Willemsen et al. 2020, "Value targets in off-policy AlphaZero").

The value target is the value at the end of the search's most visited line, instead of a mixture of later searches and
the game's result, so that exploring moves do not distort it.

    python examples/ideas/greedy_backup.py

Two runs of all 24 iterations made 10.2 and 9.5 % mistakes raw and 3.6 and 3.7 % with 600 simulations, and
two without it 9.0 and 9.0 %, 2.9 and 3.0 % (3,000 positions; docs/experiments/2026-11-27-five-ideas.md).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from common import train


def greedy_values(games: Any, _rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return win, draw and loss [G, C, 3] from the value and draw probability [G, C] at the end of the greedy line."""
    draw = games.greedy_draw
    value = np.clip(games.greedy_value, draw - 1, 1 - draw)
    return np.stack([(1 - draw + value) / 2, draw, (1 - draw - value) / 2], axis=-1)


if __name__ == "__main__":
    train("greedy-backup", value_target=greedy_values)

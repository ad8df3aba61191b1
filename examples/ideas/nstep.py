"""n-step values: a further head predicts the search's value six plies later (after KataGo, Wu 2019).

The result of a game is a noisy target, and the search's value at a position is a biased one; the values of the next
plies are between the two. The head is used for learning only, and its loss has the weight 0.25.

    python examples/ideas/nstep.py

Four iterations of 10,000 positions with seed 0 (`--iterations 4 --samples 10000`): mistakes of 10.4% raw and 5.4% with
64 simulations, and `quick` without it has 10.0% and 6.0% (the package's 1,145 positions, intervals of about 1.9 and 1.5
points on either side). The difference is inconclusive.
"""

from typing import Any

import numpy as np
from common import train
from torch import Tensor, nn

import alphac4

STEPS, WEIGHT = 6, 0.25  # plies, an even number, after which the same side is to move; weight of the loss


def later_values(games: alphac4.Games, _rng: np.random.Generator) -> dict[str, alphac4.Target]:
    """Return win, draw and loss [G, C, 3] by the search some plies later, or by the result if the game is over then."""
    plies = np.arange(games.value.shape[1])
    later = np.minimum(plies + STEPS, plies[-1])
    is_over = plies + STEPS >= games.plies[:, None]
    result = games.outcome[:, None] * np.where(plies % 2 == 0, 1, -1)
    draw = np.where(is_over, result == 0, games.draw[:, later])
    value = np.where(is_over, result, games.value[:, later]).clip(draw - 1, 1 - draw)
    wdl = np.stack([(1 - draw + value) / 2, draw, (1 - draw - value) / 2], axis=-1)
    return {"later": alphac4.Target(wdl, per_column=False)}


def with_later_value(outputs: alphac4.Outputs, batch: alphac4.TrainingBatch) -> dict[str, Tensor]:
    """Return the default losses [B] and that of the later value."""
    later = alphac4.cross_entropy(outputs.extra["later"], batch.targets["later"])
    return alphac4.default_losses(outputs, batch) | {"later value": WEIGHT * later}


def network(config: Any) -> nn.Module:
    """Return the package's network with a further head."""
    return alphac4.PolicyValueNetwork(config, heads={"later": 3})


if __name__ == "__main__":
    train("nstep", targets=later_values, loss=with_later_value, network=network)

"""Reply head: the network also predicts the opponent's reply (KataGo's auxiliary policy target, Wu 2019).

The target of the further head is the policy that the search found for the next position; its loss has the weight 0.15.
The head is used for learning only, so search is as fast as without it.

    python examples/ideas/reply.py

Four iterations of 10,000 positions with seed 0 (`--iterations 4 --samples 10000`): mistakes of 9.3% raw and 5.6% with
64 simulations, and `quick` without it has 10.0% and 6.0% (the package's 1,145 positions, intervals of about 1.9 and 1.5
points on either side). The difference is inconclusive.
"""

from typing import Any

import numpy as np
from common import train
from torch import Tensor, nn

import alphac4

WEIGHT = 0.15


def replies(games: alphac4.Games, _rng: np.random.Generator) -> dict[str, alphac4.Target]:
    """Return the policy [G, C, A] of the next position at each ply, zeros at the end of a game."""
    following = np.roll(games.policy_target, -1, axis=1)
    has_reply = np.arange(games.policy_target.shape[1]) + 1 < games.plies[:, None]
    return {"reply": alphac4.Target(following * has_reply[:, :, None], per_column=True)}


def with_reply(outputs: alphac4.Outputs, batch: alphac4.TrainingBatch) -> dict[str, Tensor]:
    """Return the default losses [B] and that of the reply."""
    reply = alphac4.cross_entropy(outputs.extra["reply"], batch.targets["reply"])
    return alphac4.default_losses(outputs, batch) | {"reply": WEIGHT * reply}


def network(config: Any) -> nn.Module:
    """Return the package's network with a further head."""
    return alphac4.PolicyValueNetwork(config, heads={"reply": config.columns})


if __name__ == "__main__":
    train("reply", targets=replies, loss=with_reply, network=network)

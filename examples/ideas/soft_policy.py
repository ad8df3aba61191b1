"""A soft policy loss beside the usual one (after KataGo's auxiliary soft policy target, Wu 2022).

The network also learns the search's policy to the power of 1/4, by its own logits divided by 4: so the order of moves
that look bad is learned as well, to which the usual cross-entropy pays little attention. KataGo gives it a head of its
own; here it shares the policy's.

    python examples/ideas/soft_policy.py

Two iterations with seed 0: mistakes of 13.8% raw and 6.7% with 64 simulations, where `quick` without it has 12.1%
and 7.1% (240 positions, intervals of about 4 points on either side). So short a run decides nothing.
"""

from common import train
from torch import Tensor

import alphac4

POWER, WEIGHT = 4.0, 2.0


def with_soft_policy(outputs: alphac4.Outputs, batch: alphac4.LearningBatch) -> dict[str, Tensor]:
    """The standard losses [B], and that of the soft policy."""
    soft = batch.policy ** (1 / POWER)
    soft = soft / soft.sum(dim=1, keepdim=True)
    loss = alphac4.cross_entropy(outputs.policy / POWER, soft)
    return alphac4.standard_losses(outputs, batch) | {"soft policy": WEIGHT * loss * batch.policy_weight}


if __name__ == "__main__":
    train("soft-policy", loss=with_soft_policy)

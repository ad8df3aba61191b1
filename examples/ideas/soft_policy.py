"""A soft policy loss in addition to the usual one (after KataGo's auxiliary soft policy target, Wu 2022).

The network's logits divided by 4 also learn the search's policy to the power of 1/4. So the network also learns the
order of moves with small probabilities, which have little weight in the usual cross-entropy. In KataGo this policy has
a head of its own; here it shares the policy's.

    python examples/ideas/soft_policy.py

Two iterations with seed 0: mistakes of 13.8% raw and 6.7% with 64 simulations, and `quick` without it has 13.3%
and 6.7% (240 positions, intervals of about 4 points on either side). The difference is inconclusive.
"""

from common import train
from torch import Tensor

import alphac4

POWER, WEIGHT = 4.0, 2.0


def with_soft_policy(outputs: alphac4.Outputs, batch: alphac4.TrainingBatch) -> dict[str, Tensor]:
    """Return the default losses [B] and that of the soft policy."""
    soft = batch.policy_target ** (1 / POWER)
    soft = soft / soft.sum(dim=1, keepdim=True)
    loss = alphac4.cross_entropy(outputs.policy / POWER, soft)
    return alphac4.default_losses(outputs, batch) | {"soft policy": WEIGHT * loss * batch.policy_weight}


if __name__ == "__main__":
    train("soft-policy", loss=with_soft_policy)

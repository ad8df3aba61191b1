"""Classic tree search without a network: UCB1 and its variants, random rollouts and hand-written evaluations."""

"""Classic tree search: UCB1 and its variants, with random rollouts and hand-written values in place of a network."""

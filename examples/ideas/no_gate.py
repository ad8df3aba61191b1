"""No gate: every candidate plays the next games (AlphaZero, Silver et al. 2018; AlphaGo Zero had one).

The matches of the gate take a twentieth of an iteration. Without them, a worse network may play for some iterations.

    python examples/ideas/no_gate.py

Two iterations with seed 0: mistakes of 13.3% raw and 6.7% with 64 simulations, as with the gate, which promotes both
candidates.
"""

from typing import Any

from common import train


def promote(_play: Any) -> bool:
    """Promote the candidate; ``_play(pairs=..., simulations=...)`` would play a match and return its result."""
    return True


if __name__ == "__main__":
    train("no-gate", gate=promote)

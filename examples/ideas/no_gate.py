"""No gate: every candidate plays the next games (AlphaZero, Silver et al. 2018; AlphaGo Zero had one).

The matches of the gate take a tenth of an iteration. Without them a worse network may play for a while.

    python examples/ideas/no_gate.py

RESULT
"""

from typing import Any

from common import train


def promote(_play: Any) -> bool:
    """Promote without a match; ``_play(pairs=..., simulations=...)`` would play one and return its report."""
    return True


if __name__ == "__main__":
    train("no-gate", gate=promote)

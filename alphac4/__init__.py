"""AlphaZero-style training, search and exact judging for Connect Four."""

__version__ = "0.1.0"

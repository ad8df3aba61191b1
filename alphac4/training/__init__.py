"""Learning, gating and the loop that joins them with self-play."""

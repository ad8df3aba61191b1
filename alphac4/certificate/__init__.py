"""Certificates: a player's move in every position that an opponent can reach, which anybody can check."""

"""Certificates: a player's move in every position that any opponent can bring about, for anybody to check."""

"""Strength against exact play. Nothing here influences training."""

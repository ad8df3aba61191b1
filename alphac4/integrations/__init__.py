"""Adapters of players for other environments of Connect Four."""

"""Adapters that let our players play where Connect Four agents already live."""

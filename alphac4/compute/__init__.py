"""Devices on which networks run and games are played. `choose_compute` returns a `Compute` for a specification."""

from alphac4.compute.registry import choose_compute

__all__ = ["choose_compute"]

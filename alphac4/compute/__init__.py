"""Where networks run, and the games of a run are played. `choose_compute` returns a `Compute` for a specification."""

from alphac4.compute.registry import choose_compute

__all__ = ["choose_compute"]

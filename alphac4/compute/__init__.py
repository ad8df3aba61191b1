"""Where work runs: the one place that knows whether trees, networks and learning are on the cores, a GPU or a cluster.

Everybody above asks `choose` for a `Compute` and works with what it makes. Nobody asks what kind it is, so that
another kind needs no change in its callers.
"""

from alphac4.compute.choice import choose, choose_for_run, choose_pool
from alphac4.compute.cores import Compute
from alphac4.compute.interface import Actors, Backends, ClusterReport, Pool, Seeds, Shared

__all__ = [
    "Actors",
    "Backends",
    "ClusterReport",
    "Compute",
    "Pool",
    "Seeds",
    "Shared",
    "choose",
    "choose_for_run",
    "choose_pool",
]

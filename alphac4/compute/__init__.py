"""The place where work runs: nobody else knows whether trees, networks and learning are on cores, a GPU or a cluster.

Everybody above asks `choose` for a `Compute` and works with what it makes. It evaluates networks in this process; a
run's games may be played elsewhere, and callers need not know where.
"""

from typing import TYPE_CHECKING

from alphac4.compute.choice import choose, choose_for_run, choose_pool
from alphac4.compute.cores import Compute
from alphac4.compute.gpu.device import captured
from alphac4.compute.interface import Actors, Backends, ClusterReport, Seeds

if TYPE_CHECKING:  # loaded once a cluster is asked for
    from alphac4.compute.cluster.pool import Pool, Shared

__all__ = [
    "Actors",
    "Backends",
    "ClusterReport",
    "Compute",
    "Pool",
    "Seeds",
    "Shared",
    "captured",
    "choose",
    "choose_for_run",
    "choose_pool",
]

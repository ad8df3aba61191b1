"""Computation on cores, a GPU or a cluster, behind one interface.

`choose_compute` returns a `Compute`, which evaluates networks in this process. The games of a run may be
played on a cluster.
"""

from typing import TYPE_CHECKING

from alphac4.compute.choice import choose_compute, open_pool
from alphac4.compute.cores import Actors, ClusterReport, Compute, Seeds
from alphac4.compute.gpu.device import capture_graph

if TYPE_CHECKING:  # loaded only for a cluster
    from alphac4.compute.cluster.pool import Pool, Shared

__all__ = [
    "Actors",
    "ClusterReport",
    "Compute",
    "Pool",
    "Seeds",
    "Shared",
    "capture_graph",
    "choose_compute",
    "open_pool",
]

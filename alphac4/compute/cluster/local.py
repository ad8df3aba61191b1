"""A cluster whose nodes are processes of this machine, for measurements and examples."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from alphac4.compute.cluster.connection import import_ray

OBJECT_STORE_BYTES = 200 * 2**20  # of each node
SETTINGS = {"worker_niceness": 0}  # Ray's actors give way to every other program otherwise


@contextmanager
def local_cluster(cores: Sequence[int]) -> Iterator[str]:
    """The address of a cluster with a node for each number of ``cores``, the head's first; it ends in the end.

    Raises:
        RuntimeError: in one line, if Ray is not installed.
    """
    import_ray()
    make = importlib.import_module("ray.cluster_utils").Cluster
    node = {"object_store_memory": OBJECT_STORE_BYTES}
    head = {**node, "num_cpus": cores[0], "include_dashboard": False, "_system_config": SETTINGS}
    cluster = make(initialize_head=True, head_node_args=head)
    try:
        for count in cores[1:]:
            cluster.add_node(**node, num_cpus=count)
        yield cluster.address
    finally:
        cluster.shutdown()

"""A Ray cluster on this machine, for measurements."""

import contextlib
import importlib
from collections.abc import Iterator, Sequence

from alphac4.plugins.cluster.connection import import_ray

NODE = {"object_store_memory": 200 * 2**20}
SETTINGS = {"worker_niceness": 0}  # by default, Ray's actors have a lower priority than other programs


@contextlib.contextmanager
def local_cluster(cores: Sequence[int]) -> Iterator[str]:
    """Start a cluster with one node per number of ``cores``, the head first, and yield its address.

    Raises:
        RuntimeError: if Ray is not installed.
    """
    import_ray()
    make = importlib.import_module("ray.cluster_utils").Cluster
    head = {**NODE, "num_cpus": cores[0], "include_dashboard": False, "_system_config": SETTINGS}
    cluster = make(initialize_head=True, head_node_args=head)
    try:
        for count in cores[1:]:
            cluster.add_node(**NODE, num_cpus=count)
        yield cluster.address
    finally:
        cluster.shutdown()

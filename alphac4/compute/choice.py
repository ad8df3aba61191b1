"""Choose where work runs, for a device and a backend."""

import logging
from typing import TYPE_CHECKING

from alphac4.compute.cores import Compute
from alphac4.compute.gpu.device import TREES, cuda_device, is_gpu, simulated
from alphac4.compute.gpu.self_test import self_test_error
from alphac4.nn.backends import backend_names

if TYPE_CHECKING:  # Ray is optional, and slow to import
    from alphac4.compute.cluster.pool import Pool

logger = logging.getLogger(__name__)

DEVICES = ("auto", "cpu", "cuda")


def choose(device: str = "auto", backend: str = "auto", *, threads: int | None = None) -> Compute:
    """Choose the fastest on ``device``: "cpu", "cuda", or "auto" for CUDA where it is available.

    A GPU is used if it passes its self-test, with the trees on it as well unless ``backend`` names another one than
    `TREES`. "auto" takes the fastest backend for this processor and the first network, without 8 bits. ``threads``
    cores are used, by default all.

    Raises:
        RuntimeError: for CUDA without a device.
        ValueError: for another device, or no threads.
    """
    if device not in DEVICES:
        reason = ": nothing has been measured on Apple's GPU" if device == "mps" else ""
        raise ValueError(f"a device is {', '.join(DEVICES)}, not {device!r}{reason}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    place = _place(device)
    trees_on_gpu = _has_trees(device, place, backend)
    backend = "auto" if trees_on_gpu else _fitting(device, backend, place)
    return Compute(place, backend, threads, trees_on_gpu=trees_on_gpu)


def choose_for_run(device: str, backend: str, cluster: str | None = None) -> Compute:
    """Choose for a training run, in which only self-play may use 8 bits.

    "auto" is decided for each network by its weights, so a resumed run decides as one that was not interrupted. With
    the address of a ``cluster``, self-play runs on its nodes, and "cuda" and "cuda-trees" mean theirs.

    Raises:
        RuntimeError: for CUDA without a device, or a cluster that cannot be used.
        ValueError: for a backend that a cluster's actors do not have.
    """
    local = "auto" if cluster is not None and device == "cuda" else device
    place = _place(local)
    nodes = None
    trees_on_gpu = cluster is None and _has_trees(device, place, backend)
    if cluster is not None:
        from alphac4.compute.cluster.actors import Cluster

        nodes = Cluster(cluster, device, backend)
    is_elsewhere = trees_on_gpu or nodes is not None
    ours = "auto" if is_elsewhere and backend not in backend_names(place) else _fitting(local, backend, place)
    return Compute(place, ours, alike=True, cluster=nodes, trees_on_gpu=trees_on_gpu)


def choose_pool(address: str) -> "Pool":
    """Start a process on each core of a Ray cluster: "auto" for the one of this machine or job, or HOST:PORT.

    Raises:
        RuntimeError: for a cluster that cannot be used.
        ValueError: for an invalid address.
    """
    from alphac4.compute.cluster.connection import connect
    from alphac4.compute.cluster.pool import Pool

    connection = connect(address)
    try:
        return Pool(connection)
    except BaseException:
        connection.close()
        raise


def _has_trees(device: str, place: str, backend: str) -> bool:
    """Return whether trees are on the GPU.

    Raises:
        RuntimeError: if `TREES` is named and the compiler for the GPU is missing.
    """
    if backend not in ("auto", TREES) or not is_gpu(device) or not (place == "cuda" or simulated()):
        return False
    try:
        cuda_device()
    except RuntimeError as error:
        if backend == TREES:
            raise
        logger.warning("the trees stay on the cores, which is slower: %s", error)
        return False
    return True


def _place(device: str) -> str:
    """Return the device that networks run on, "cpu" or "cuda"."""
    if not is_gpu(device) or simulated():
        return "cpu"
    error = self_test_error()
    if error:
        logger.warning("the GPU is not used: %s", error)
    return "cpu" if error else "cuda"


def _fitting(device: str, backend: str, place: str) -> str:
    """Return the requested backend, but "auto" for one of a GPU that is not used."""
    return "auto" if backend.startswith("cuda-") and place == "cpu" and is_gpu(device) else backend

"""Choice of the device and the backend."""

import logging
from typing import TYPE_CHECKING

from alphac4.compute.cores import Compute
from alphac4.compute.gpu.device import TREES, cuda_device, is_gpu, is_simulated
from alphac4.compute.gpu.self_test import self_test_error
from alphac4.nn.backends import backend_names
from alphac4.storage.records import quote

if TYPE_CHECKING:  # Ray is optional, and slow to import
    from alphac4.compute.cluster.pool import Pool

logger = logging.getLogger(__name__)

DEVICES = ("auto", "cpu", "cuda")


def choose(device: str = "auto", backend: str = "auto", *, threads: int | None = None) -> Compute:
    """Choose where to compute.

    Args:
        device: "cpu", "cuda", or "auto" for CUDA if it is available. A GPU is used if it passes its self-test.
        backend: a backend of inference, or "auto" for the fastest one for this processor and the first network, without
            int8. On a GPU, "auto" and `TREES` keep the trees on it as well.
        threads: cores to use, by default all.

    Raises:
        RuntimeError: for CUDA without a device.
        ValueError: for another device, or less than one thread.
    """
    if device not in DEVICES:
        reason = " (Apple's GPU is not supported)" if device == "mps" else ""
        raise ValueError(f"unknown device {quote(device)}{reason}; available: {', '.join(DEVICES)}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    inference_device = _inference_device(device)
    trees_on_gpu = _uses_gpu_trees(device, inference_device, backend)
    backend = "auto" if trees_on_gpu else _usable_backend(device, backend, inference_device)
    return Compute(inference_device, backend, threads, trees_on_gpu=trees_on_gpu)


def choose_for_run(device: str, backend: str, cluster: str | None = None) -> Compute:
    """Choose where to compute a training run, in which only self-play may use int8.

    "auto" is decided for each network by its weights, so a resumed run decides as an uninterrupted one. With the
    address of a ``cluster``, self-play runs on its nodes, and "cuda" and "cuda-trees" refer to their GPUs.

    Raises:
        RuntimeError: for CUDA without a device, or a cluster that cannot be used.
        ValueError: for a backend that a cluster cannot have.
    """
    local_device = "auto" if cluster is not None and device == "cuda" else device
    inference_device = _inference_device(local_device)
    nodes = None
    trees_on_gpu = cluster is None and _uses_gpu_trees(device, inference_device, backend)
    if cluster is not None:
        from alphac4.compute.cluster.actors import Cluster

        nodes = Cluster(cluster, device, backend)
    local_backend = _usable_backend(local_device, backend, inference_device)
    if (trees_on_gpu or nodes is not None) and backend not in backend_names(inference_device):
        local_backend = "auto"  # it is a backend of self-play
    return Compute(inference_device, local_backend, for_run=True, cluster=nodes, trees_on_gpu=trees_on_gpu)


def choose_pool(address: str) -> "Pool":
    """Start a process on each core of a Ray cluster.

    Args:
        address: HOST:PORT of its head, or "auto" for the cluster of this machine or job.

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


def _uses_gpu_trees(device: str, inference_device: str, backend: str) -> bool:
    """Return whether to keep trees on the GPU.

    Raises:
        RuntimeError: if ``backend`` is `TREES` and the compiler for the GPU is missing.
    """
    if backend not in ("auto", TREES) or not is_gpu(device) or not (inference_device == "cuda" or is_simulated()):
        return False
    try:
        cuda_device()
    except RuntimeError as error:
        if backend == TREES:
            raise
        logger.warning("the trees stay on the cores, which is slower: %s", error)
        return False
    return True


def _inference_device(device: str) -> str:
    """Return the device of networks, "cpu" or "cuda"; log a warning if the GPU fails its self-test."""
    if not is_gpu(device) or is_simulated():
        return "cpu"
    error = self_test_error()
    if error:
        logger.warning("the GPU is not used: %s", error)
    return "cpu" if error else "cuda"


def _usable_backend(device: str, backend: str, inference_device: str) -> str:
    """Return ``backend``, or "auto" if it belongs to a GPU that is not used."""
    return "auto" if backend.startswith("cuda-") and inference_device == "cpu" and is_gpu(device) else backend

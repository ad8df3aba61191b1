"""Choice of the device and the backend."""

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alphac4.compute.cores import Compute
from alphac4.compute.gpu.device import CUDA_TREES, cuda_device, is_gpu, is_simulated
from alphac4.compute.gpu.self_test import self_test_error
from alphac4.nn.backends import check_backend, has_backend
from alphac4.storage.records import quote

if TYPE_CHECKING:  # Ray is optional, and slow to import
    from alphac4.compute.cluster.pool import Pool

logger = logging.getLogger(__name__)

DEVICES = ("auto", "cpu", "cuda")


def choose_compute(
    device: str = "auto",  # "auto": CUDA, if there is a GPU that passes its self-test
    backend: str = "auto",  # "auto": the fastest for the network, without int8; as `CUDA_TREES` on a GPU
    *,
    threads: int | None = None,  # by default all cores
    for_run: bool = False,  # only self-play may use int8; "auto" depends only on the weights, for resuming
    cluster: str | None = None,  # its nodes play a run's games; "cuda" and `CUDA_TREES` mean their GPUs
) -> Compute:
    """Choose where to compute; raise RuntimeError or ValueError for what this machine or cluster lacks."""
    if not isinstance(device, str):
        raise TypeError(f"device must be one of {', '.join(DEVICES)}, not {quote(device)}")
    if device not in DEVICES:
        reason = " (Apple's GPU is not supported)" if device == "mps" else ""
        raise ValueError(f"unknown device {quote(device)}{reason}; available: {', '.join(DEVICES)}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    wants_gpu = is_gpu("auto" if cluster is not None and device == "cuda" else device)
    inference_device = _inference_device() if wants_gpu else "cpu"
    nodes = None
    if cluster is not None:
        from alphac4.compute.cluster.actors import Cluster

        nodes = Cluster(cluster, device, backend)
    trees_on_gpu = nodes is None and wants_gpu and _can_keep_trees(inference_device, backend)
    is_unused = wants_gpu and inference_device == "cpu" and str(backend).startswith("cuda-")
    if trees_on_gpu or is_unused or (nodes is not None and not has_backend(backend, inference_device)):
        backend = "auto"  # a named one is for self-play only, or for a GPU that is not used
    check_backend(backend, inference_device)
    return Compute(inference_device, backend, threads, for_run=for_run, cluster=nodes, trees_on_gpu=trees_on_gpu)


@contextlib.contextmanager
def open_pool(address: str) -> "Iterator[Pool]":
    """Start a process on each core of a Ray cluster, at HOST:PORT or "auto", for the block."""
    from alphac4.compute.cluster.connection import connect
    from alphac4.compute.cluster.pool import Pool

    with contextlib.closing(connect(address)) as connection, contextlib.closing(Pool(connection)) as pool:
        yield pool


def _inference_device() -> str:
    """Return "cuda"; "cpu" in the simulator, and with a warning if the GPU fails its self-test."""
    if is_simulated():
        return "cpu"
    error = self_test_error()
    if error:
        logger.warning("the GPU is not used: %s", error)
    return "cpu" if error else "cuda"


def _can_keep_trees(inference_device: str, backend: str) -> bool:
    """Return whether to keep trees on the GPU; raise RuntimeError if that is requested and its compiler is missing."""
    if backend not in ("auto", CUDA_TREES) or not (inference_device == "cuda" or is_simulated()):
        return False
    try:
        cuda_device()
    except RuntimeError as error:
        if backend == CUDA_TREES:
            raise
        logger.warning("the trees stay on the cores, which is slower: %s", error)
        return False
    return True

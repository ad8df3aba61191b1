"""Choose the kind of compute for a device and a backend."""

import logging
from typing import TYPE_CHECKING

from alphac4.compute.cores import Compute
from alphac4.compute.gpu.device import TREES, on_gpu, simulated, the_device
from alphac4.compute.gpu.self_test import distrust
from alphac4.compute.interface import Backends
from alphac4.nn.backends import INT8, backend_names

if TYPE_CHECKING:  # Ray is optional, and slow to import
    from alphac4.compute.cluster.pool import Pool

logger = logging.getLogger(__name__)

DEVICES = ("auto", "cpu", "cuda")


def choose(device: str = "auto", backend: str = "auto", *, threads: int | None = None) -> Compute:
    """The fastest there is on ``device``: "cpu", "cuda", or "auto" for CUDA where there is one.

    A GPU is used if it computes what the cores do, with the trees on it as well unless ``backend`` names another one
    than `TREES`. "auto" takes the fastest backend for this processor and the first network that does without 8 bits.
    ``threads`` cores are used, by default all.

    Raises:
        RuntimeError: in one line, for CUDA without a device.
        ValueError: in one line, for another device, or no threads.
    """
    if device not in DEVICES:
        reason = ": nothing has been measured on Apple's GPU" if device == "mps" else ""
        raise ValueError(f"a device is {', '.join(DEVICES)}, not {device!r}{reason}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    place = _place(device)
    trees_on_gpu = _has_trees(device, place, backend)
    backend = "auto" if trees_on_gpu else _fitting(device, backend, place)
    return Compute(place, Backends(evaluators=backend, actors=backend), threads, trees_on_gpu=trees_on_gpu)


def choose_for_run(device: str, backend: str, cluster: str | None = None) -> Compute:
    """The same for a training run: whatever backend is asked for, only self-play may use 8 bits.

    "auto" is decided for each network by its weights, so a run that is resumed decides as one that was not interrupted.
    With the address of a ``cluster``, self-play runs on its nodes, and "cuda" and "cuda-trees" mean theirs.

    Raises:
        RuntimeError: in one line, for CUDA without a device, or a cluster that cannot be used.
        ValueError: in one line, for a backend that a cluster's actors do not have.
    """
    local = "auto" if cluster is not None and device == "cuda" else device
    place = _place(local)
    nodes = None
    trees_on_gpu = cluster is None and _has_trees(device, place, backend)
    if cluster is not None:
        from alphac4.compute.cluster.actors import Cluster

        nodes = Cluster(cluster, device, backend)
    here = set(backend_names(place))
    is_elsewhere = trees_on_gpu or nodes is not None
    ours = "auto" if is_elsewhere and backend not in here else _fitting(local, backend, place)
    backends = Backends(evaluators="auto" if ours == INT8 else ours, actors=ours)
    return Compute(place, backends, alike=True, cluster=nodes, trees_on_gpu=trees_on_gpu)


def _has_trees(device: str, place: str, backend: str) -> bool:
    """Whether trees are on the GPU.

    Raises:
        RuntimeError: in one line, if they are asked for by name and what compiles for the GPU is missing.
    """
    if backend not in ("auto", TREES) or not on_gpu(device) or not (place == "cuda" or simulated()):
        return False
    try:
        the_device()
    except RuntimeError as error:
        if backend == TREES:
            raise
        logger.warning("the trees stay on the cores, which is slower: %s", error)
        return False
    return True


def choose_pool(address: str) -> "Pool":
    """A process for each core of a Ray cluster: "auto" for the one that this machine or job belongs to, or HOST:PORT.

    Raises:
        RuntimeError: in one line, for a cluster that cannot be used.
        ValueError: in one line, for anything else than an address.
    """
    from alphac4.compute.cluster.pool import make_pool

    return make_pool(address)


def _place(device: str) -> str:
    """The device that networks run on, "cpu" or "cuda"."""
    if not on_gpu(device) or simulated():
        return "cpu"
    reason = distrust()
    if reason:
        logger.warning("the GPU is not used: %s", reason)
    return "cpu" if reason else "cuda"


def _fitting(device: str, backend: str, place: str) -> str:
    """The backend asked for, but "auto" for one of a GPU that is not used."""
    return "auto" if backend.startswith("cuda-") and place == "cpu" and on_gpu(device) else backend

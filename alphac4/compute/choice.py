"""Which kind of compute serves a device and a backend."""

import logging

import torch

from alphac4.compute.cores import Cores
from alphac4.compute.gpu.device import GPU_BACKENDS, on_gpu, why_not
from alphac4.compute.interface import Backends, Compute, Pool
from alphac4.nn.backends import INT8, backend_names

logger = logging.getLogger(__name__)

DEVICES = ("auto", "cpu", "cuda")


def choose(device: str = "auto", backend: str = "auto", *, threads: int | None = None) -> Compute:
    """The fastest there is on ``device``: "cpu", "cuda", or "auto" for CUDA where there is one.

    On a GPU the trees are there as well, unless the ``backend`` is one of the network alone. On the cores "auto"
    takes the fastest backend for this processor and the first network that does without 8 bits. ``threads`` cores are
    used, by default all.

    Raises:
        RuntimeError: in one line, for CUDA without a device.
        ValueError: in one line, for another device, or no threads.
    """
    if device not in DEVICES:
        raise ValueError(f"a device is {', '.join(DEVICES)}, not {device!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return _choose(device, Backends(evaluators=backend, actors=backend), threads)


def choose_for_run(device: str, backend: str, remembered: Backends, cluster: str | None = None) -> Compute:
    """The same for a training run: whatever backend is asked for, only self-play may use 8 bits.

    In place of "auto" the backends ``remembered`` from an earlier session are taken up where they exist here, so that
    a run goes on as it began. With the address of a ``cluster``, self-play runs on its nodes, and "cuda" means theirs.

    Raises:
        RuntimeError: in one line, for CUDA without a device, or a cluster that cannot be used.
        ValueError: in one line, for a backend that a cluster's actors do not have.
    """
    local = "auto" if cluster is not None and device == "cuda" else device
    here = set(backend_names("cuda" if on_gpu(local) and torch.cuda.is_available() else "cpu"))
    exact = "auto" if backend == INT8 or (cluster is not None and backend in GPU_BACKENDS) else backend
    compute = _choose(
        local,
        Backends(
            evaluators=remembered.evaluators if exact == "auto" and remembered.evaluators in here - {INT8} else exact,
            actors=remembered.actors if backend == "auto" and remembered.actors in here else backend,
        ),
        asked=backend,
    )
    if cluster is None:
        return compute
    from alphac4.compute.cluster.place import Cluster  # Ray is optional, and slow to import

    return Cluster(compute, cluster, device, backend, remembered.actors)


def choose_pool(address: str) -> Pool:
    """A process on each core of a Ray cluster: "auto" for the one that this machine or job belongs to, or HOST:PORT.

    Raises:
        RuntimeError: in one line, for a cluster that cannot be used.
        ValueError: in one line, for anything else than an address.
    """
    from alphac4.compute.cluster.place import make_pool  # Ray is optional, and slow to import

    return make_pool(address)


def _choose(device: str, backends: Backends, threads: int | None = None, asked: str | None = None) -> Compute:
    """``asked`` is the backend before what an earlier session found took its place."""
    asked = asked or backends.actors
    gpu = on_gpu(device)
    if gpu and (asked == "auto" or asked in GPU_BACKENDS):
        reason = why_not()
        if not reason:
            from alphac4.compute.gpu.place import Gpu  # Numba's CUDA part is slow to import, and optional

            return Gpu(GPU_BACKENDS.get(asked))
        if asked != "auto":
            raise RuntimeError(reason)
        logger.warning("the trees stay on the CPU: %s", reason)
    return Cores("cuda" if gpu else "cpu", backends, threads)

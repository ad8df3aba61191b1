"""Whether there is a GPU to work on, and how kernels are launched on PyTorch's stream."""

import contextlib
import importlib.util
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import torch

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_one_at_a_time = threading.Lock()  # the simulator runs a single kernel

GPU_BACKENDS = {f"device-{name}": getattr(torch, name) for name in ("bfloat16", "float16", "float32")}
"""The precisions of networks beside trees that are on the GPU as well, by the names of those backends."""

GAMES = 8192  # of self-play at once, in place of `SelfPlayConfig.games`: a GPU wants many more than cores do

THREADS = 32  # of a block: trees diverge, so small blocks, spread over the whole GPU, wait least for one another

NO_DEVICE = "no CUDA device: PyTorch finds none (`nvidia-smi` lists those of this machine); use --device cpu"


def precision_name(precision: torch.dtype) -> str:
    """A precision by the name of its backend; see `GPU_BACKENDS`."""
    return f"device-{str(precision).removeprefix('torch.')}"


def simulated() -> bool:
    """Whether Numba's simulator stands in for the GPU."""
    config: Any = numba.config
    return bool(config.ENABLE_CUDASIM)


def device_games(games: int) -> int:
    """Games that self-play has at once on a GPU; the ``games`` of the cores in the simulator, which is slow."""
    return games if simulated() else GAMES


def why_not() -> str:
    """What keeps self-play and search off the GPU, in one line; empty if nothing does."""
    if simulated():
        return ""
    if not torch.cuda.is_available():
        return NO_DEVICE
    if importlib.util.find_spec("numba_cuda") is None:
        return "search on the GPU needs numba-cuda: pip install 'alphac4[cuda]'"
    return ""


def the_device() -> torch.device:
    """Where kernels work.

    Raises:
        RuntimeError: in one line, if there is no GPU.
    """
    reason = why_not()
    if reason:
        raise RuntimeError(reason)
    return torch.device("cpu" if simulated() else "cuda")


def on_gpu(name: str) -> bool:
    """Whether the device of this name, "cpu", "cuda" or "auto", is a GPU or stands in for one.

    Raises:
        RuntimeError: in one line, for "cuda" without a device.
    """
    if name == "cuda" and not simulated() and not torch.cuda.is_available():
        raise RuntimeError(NO_DEVICE)
    return name == "cuda" or (name == "auto" and torch.cuda.is_available())


def launch(kernel: Any, count: int, *arguments: Any) -> None:
    """Run a kernel with at least ``count`` threads on PyTorch's current stream; returns before it has run."""
    from numba import cuda

    config: Any = numba.config
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # about small batches, which are small on purpose
    blocks = -(-count // THREADS)
    if simulated():
        with _one_at_a_time:
            kernel[blocks, min(THREADS, count)](*arguments)
    else:
        kernel[blocks, THREADS, cuda.external_stream(torch.cuda.current_stream().cuda_stream)](*arguments)


def synchronise() -> None:
    """Wait for all that was launched, on any stream."""
    if not simulated():
        torch.cuda.synchronize()


def largest_that_fits(make: Callable[[int], _T], count: int, least: int) -> tuple[_T, int]:
    """``make(count)``, or with half as many as often as memory runs out; says so in one line.

    Raises:
        RuntimeError: if there is no room even for ``least``.
    """
    wanted = count
    while True:
        with contextlib.suppress(torch.cuda.OutOfMemoryError):
            made = make(count)
            break
        if count // 2 < least:
            raise RuntimeError(f"the GPU's memory has no room for {count} games at once: free some of it")
        count //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if count < wanted:
        logger.warning("the GPU's memory has room for %d games at once, not for %d", count, wanted)
    return made, count

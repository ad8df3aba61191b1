"""Which numbers a device learns with fastest."""

import functools
import logging
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from alphac4.nn import winograd
from alphac4.nn.backends import has_bf16

logger = logging.getLogger(__name__)

BF16, FP32 = "bf16", "fp32"
PRECISIONS = (BF16, FP32)
ADVANTAGE = 1.1  # times as fast fp32 has to be: otherwise noise would decide where they are alike
ROUNDS = 7
BATCH, CHANNELS, ROWS, COLUMNS = 128, 64, 6, 7  # of the layer that is timed


@functools.cache
def learning_precision(device: torch.device) -> str:
    """`BF16` where it is in hardware and not slower than `FP32`, as it is on some CPUs.

    On a CPU the passes through one layer are timed, for some tenths of a second, by one thread's processor time.
    """
    if not has_bf16(device):
        return FP32
    if device.type != "cpu":
        return BF16
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ratio = time_both()
    finally:
        torch.set_num_threads(threads)
    found = FP32 if ratio > ADVANTAGE else BF16
    logger.info("learning in %s: bf16 takes %.1f times as long as fp32 here", found, ratio)
    return found


def time_both() -> float:
    """The time that a convolution forward and backward takes in bf16, as a multiple of that in fp32."""
    kernel = torch.ones(CHANNELS, CHANNELS, 3, 3, requires_grad=True)
    planes = torch.ones(BATCH, CHANNELS, ROWS, COLUMNS).contiguous(memory_format=torch.channels_last)
    cells_first = torch.ones(ROWS, COLUMNS, BATCH, CHANNELS)
    both: dict[str, Callable[[], float]] = {
        BF16: partial(_time, partial(F.conv2d, padding=1), planes.bfloat16(), kernel.bfloat16()),
        FP32: partial(_time, winograd.convolve, cells_first, kernel),
    }
    times: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(ROUNDS + 1):  # the first one chooses its algorithm
        for name, once in both.items():
            times[name].append(once())
    bf16, fp32 = (statistics.median(times[name][1:]) for name in (BF16, FP32))
    return bf16 / max(fp32, 1e-9)


def _time(convolve: Callable[[Tensor, Tensor], Tensor], x: Tensor, kernel: Tensor) -> float:
    """Seconds of this thread for a pass forward and backward."""
    started = time.thread_time()
    result = convolve(x.requires_grad_(), kernel)
    torch.autograd.grad(result, (x, kernel), torch.ones_like(result))
    return time.thread_time() - started

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
from alphac4.nn.network import NetworkConfig

logger = logging.getLogger(__name__)

BF16, FP32 = "bf16", "fp32"
PRECISIONS = (BF16, FP32)
ADVANTAGE = 1.1  # times as fast fp32 has to be: otherwise noise would decide where they are alike
ROUNDS = 7


@functools.cache
def learning_precision(device: torch.device, network: NetworkConfig, positions: int) -> str:
    """`BF16` where it is in hardware and not slower than `FP32`, as it is on some CPUs.

    On a CPU the passes through one of the tower's layers are timed, for some tenths of a second, by one thread's
    processor time, from batches of as many positions as a core has in learning.
    """
    if not has_bf16(device):
        return FP32
    if device.type != "cpu":
        return BF16
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ratio = time_both(network, positions)
    finally:
        torch.set_num_threads(threads)
    found = FP32 if ratio > ADVANTAGE else BF16
    logger.info("learning in %s: bf16 takes %.1f times as long as fp32 here", found, ratio)
    return found


def time_both(network: NetworkConfig, positions: int) -> float:
    """The time that a convolution forward and backward takes in bf16, as a multiple of that in fp32.

    In fp32 it is computed as learning would, by Winograd's minimal filtering or not.
    """
    rows, columns, channels = network.rows, network.columns, network.channels
    kernel = torch.ones(channels, channels, 3, 3)
    planes = torch.ones(positions, channels, rows, columns).contiguous(memory_format=torch.channels_last)
    fp32 = partial(_time, _convolve, planes, kernel)
    if winograd.pays_in_learning(network, positions):
        fp32 = partial(_time, winograd.convolve, torch.ones(rows, columns, positions, channels), kernel)
    bf16 = partial(_time, lambda x, k: _convolve(x.bfloat16(), k.bfloat16()), planes, kernel)
    times = [(bf16(), fp32()) for _ in range(ROUNDS + 1)][1:]  # the first one chooses its algorithm
    in_bf16, in_fp32 = (statistics.median(found) for found in zip(*times, strict=True))
    return float(in_bf16 / max(in_fp32, 1e-9))


def _convolve(planes: Tensor, kernel: Tensor) -> Tensor:
    return F.conv2d(planes, kernel, padding=1)


def _time(convolve: Callable[[Tensor, Tensor], Tensor], x: Tensor, kernel: Tensor) -> float:
    """Seconds of this thread for a pass forward and backward."""
    started = time.thread_time()
    result = convolve(x.requires_grad_(), kernel.requires_grad_())
    torch.autograd.grad(result, (x, kernel), torch.ones_like(result))
    return time.thread_time() - started

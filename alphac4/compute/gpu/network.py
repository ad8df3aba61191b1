"""The network beside the trees: planes in, logits and probabilities out, always in the same memory."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from alphac4.compute.gpu.arrays import kernel_view
from alphac4.game.rules import Geometry
from alphac4.nn.network import PolicyValueNetwork, fold_batch_norm
from alphac4.nn.precision import has_bf16

logger = logging.getLogger(__name__)

WARM_UPS = 3  # passes before a graph is captured, while libraries choose their algorithms

# The number 1 in each precision, as kernels write it into planes: Numba has no 16-bit floats that torch shares.
ONE = {torch.float32: np.float32(1), torch.float16: np.uint16(0x3C00), torch.bfloat16: np.uint16(0x3F80)}


class Exchange(NamedTuple):
    """What kernels and the network hand each other, in the same memory all along."""

    planes: Any  # [B, P, R, C] in the network's precision; 16-bit floats as their bits
    one: Any  # the number 1 there
    logits: Any  # float32 [B, A]
    wdl: Any  # float32 [B, 3] probabilities


def best_precision(device: torch.device) -> torch.dtype:
    """What a device multiplies fastest that is precise enough."""
    if device.type == "cpu":
        return torch.float32
    return torch.bfloat16 if has_bf16(device) else torch.float16


class DeviceNetwork:
    """A network for batches of a fixed size, which are written and read by kernels."""

    def __init__(
        self,
        network: PolicyValueNetwork,
        geometry: Geometry,
        size: int,
        device: torch.device,
        precision: torch.dtype | None = None,
    ) -> None:
        self.precision = precision or best_precision(device)
        torch.backends.cudnn.benchmark = True  # batches never change their size
        self._module = fold_batch_norm(network)
        self._module.to(device, self.precision, memory_format=torch.channels_last)  # type: ignore[call-overload]
        shape = (size, network.config.input_planes, geometry.rows, geometry.columns)
        self._planes = torch.zeros(shape, dtype=self.precision, device=device).contiguous(
            memory_format=torch.channels_last
        )
        self._logits = torch.zeros((size, geometry.columns), device=device)
        self._wdl = torch.zeros((size, 3), device=device)
        one = ONE[self.precision]
        planes = kernel_view(self._planes, np.asarray(one).dtype)
        self.exchange = Exchange(planes, one, kernel_view(self._logits), kernel_view(self._wdl))

    def update(self, network: PolicyValueNetwork) -> None:
        """Load other weights into the same memory."""
        self._module.load_state_dict(fold_batch_norm(network).state_dict())

    @torch.inference_mode()
    def evaluate(self) -> None:
        """Evaluate the planes; does not wait for the device."""
        policy, value = self._module(self._planes)
        self._logits.copy_(policy)
        self._wdl.copy_(torch.softmax(value.float(), dim=1))


def captured(step: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """The step as a CUDA graph, which costs one launch; as it is where that fails or there is no GPU.

    The step runs a few times first. It must always use the same memory and never wait for the device.
    """
    if device.type != "cuda":
        return step
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
    except RuntimeError as error:
        torch.cuda.synchronize()
        logger.warning("no CUDA graph, so every step is launched anew: %s", str(error).splitlines()[0])
        return step
    return graph.replay

"""Computation on an NVIDIA GPU: trees, networks, the replay window and gradient steps.

The compiled rules and tree functions take arrays and an index, so Numba also compiles them for CUDA; the kernels only
assign trees to threads. Without a GPU, the same kernels run slowly in Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``),
on arrays in the host's memory.
"""

import logging
from typing import TYPE_CHECKING

from alphac4.compute.registry import TorchKind, register

if TYPE_CHECKING:
    from alphac4.compute.cores import Compute

logger = logging.getLogger(__name__)

CUDA_TREES = "cuda-trees"
"""The backend with the trees on the GPU, and the network in its fastest sufficient precision."""


@register
class CudaKind(TorchKind):
    """The GPU. The trees are in its memory, unless a backend of PyTorch is named or Numba's compiler is missing."""

    forms = {form: TorchKind.forms[form] for form in ("auto", "cuda")}
    backends = (CUDA_TREES,)

    def build(self, backend: str, threads: int | None, *, for_run: bool) -> "Compute":
        """Create the compute, on the cores if the GPU fails its self-test."""
        from alphac4.compute.cores import Compute
        from alphac4.compute.devices import choose_device
        from alphac4.plugins.cuda.device import is_simulated

        if is_fake := self.text == "cuda" and is_simulated():
            device = "cpu"
        else:
            device, backend = choose_device(self.text, backend)
        if backend in ("auto", CUDA_TREES) and (device == "cuda" or is_fake):
            from alphac4.plugins.cuda.compute import DeviceCompute  # imports the learner

            try:
                return DeviceCompute(device, threads, for_run=for_run)
            except RuntimeError as error:
                if backend == CUDA_TREES:
                    raise
                logger.warning("the trees stay on the cores, which is slower: %s", error)
        return Compute(device, backend, threads, for_run=for_run)

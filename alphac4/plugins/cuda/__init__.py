"""Computation on an NVIDIA GPU: trees, networks, the replay window and gradient steps.

The compiled rules and tree functions take arrays and an index, so Numba also compiles them for CUDA; the kernels only
assign trees to threads. Without a GPU, the same kernels run slowly in Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``),
on arrays in the host's memory.
"""

from typing import TYPE_CHECKING

from alphac4.compute.registry import TorchKind, register

if TYPE_CHECKING:
    from alphac4.compute.cores import Compute

CUDA_TREES = "cuda-trees"
"""The backend with the trees on the GPU, and the network in its fastest sufficient precision."""


@register
class CudaKind(TorchKind):
    """The GPU with the trees in its memory, unless a backend of PyTorch is named."""

    forms = {form: TorchKind.forms[form] for form in ("auto", "cuda")}
    rank = 1
    backends = (CUDA_TREES,)

    def build(self, backend: str, threads: int | None, *, for_run: bool) -> "Compute":
        """Create the compute, on the cores if the GPU fails its self-test."""
        from alphac4.compute.cores import Compute
        from alphac4.compute.devices import choose_device
        from alphac4.plugins.cuda.compute import DeviceCompute, can_keep_trees, is_simulated

        if self.text == "cuda" and is_simulated():
            device, is_usable = "cpu", True
        else:
            device, backend = choose_device(self.text, backend)
            is_usable = device == "cuda"
        if is_usable and backend in ("auto", CUDA_TREES) and can_keep_trees(backend):
            return DeviceCompute(device, threads=threads, for_run=for_run)
        return Compute(device, backend, threads, for_run=for_run)

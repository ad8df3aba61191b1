"""The precision that the hardware multiplies fastest, which inference and learning take."""

from collections.abc import Mapping
from typing import Any

import torch

from alphac4.machine import processor_name

BF16, FP32 = "bf16", "fp32"


def learning_precision(device: torch.device) -> str:
    """`BF16` where the hardware multiplies it faster than `FP32`.

    By what the hardware is and not by a timing, so that the same machine always learns with the same numbers.
    """
    fast = multiplies_bf16_faster() if device.type == "cpu" else has_bf16(device)
    return BF16 if fast else FP32


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 arithmetic is in hardware; emulated, it is slower than fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    available = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def multiplies_bf16_faster() -> bool:
    """Whether the CPU has instructions for bf16, and two of its products in the time of one of fp32.

    Without instructions bf16 is emulated. AMX and Arm's are taken to be fast, which is a guess: nobody has measured one
    (`alphac4 benchmark --only learning inference` does). AVX-512 BF16 is fast on AMD's processors: gradients
    of the quick preset's network take 14.8 ms a part on a Zen 5 where they take 18.6 in fp32, and those of the standard
    one's 41.5 where Winograd's filtering in fp32 takes 49.3. On an Intel Xeon with AVX-512 BF16 and without AMX they
    take 98 where they take 80 in fp32 (EXPERIMENTS.md).
    """
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in old versions
    if capabilities.get("amx_bf16") or capabilities.get("bf16"):
        return True
    return bool(capabilities.get("avx512_bf16")) and "Intel" not in processor_name()

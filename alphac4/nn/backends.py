"""Ways to run the network forward: PyTorch on CPU or CUDA, and OpenVINO where it is installed."""

import ctypes
import functools
import importlib.util
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from alphac4.nn import winograd
from alphac4.nn.network import PolicyValueNetwork, Tower, fold_batch_norm
from alphac4.nn.quantization import LEVELS, WEIGHT_LEVELS, boards_for, input_ranges

Array = npt.NDArray[np.float32]

INT8 = "openvino-int8"  # the one backend whose answers are rounded noticeably
WINOGRAD = "winograd-fp32"
CALIBRATION_BOARDS = 512


class Backend(Protocol):
    """A loaded network that several threads may call at once."""

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """``planes`` [B, P, R, C] to policy logits [B, C] and win/draw/loss logits [B, 3]."""


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 arithmetic is in hardware; emulated, it is slower than fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    available = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class TorchBackend:
    """PyTorch in eager mode, batch norm folded, channels last.

    On the CPU one thread computes a single position: more wait for each other after every layer, which is hardly faster
    on an idle machine and many times slower where another program has one of the cores.
    """

    def __init__(self, network: PolicyValueNetwork, device: str, dtype: torch.dtype, threads: int) -> None:
        self._device = torch.device(device)
        self._dtype = dtype
        self._threads = threads if device == "cpu" else 0
        self._network = fold_batch_norm(network)
        self._network.to(self._device, dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
        if device == "cpu":
            keep_freed_memory()

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """See `Backend`."""
        threads = min(self._threads, 1) if len(planes) == 1 else self._threads  # 0 on a GPU
        if threads and torch.get_num_threads() != threads:
            torch.set_num_threads(threads)  # holds for the calling thread
        with torch.inference_mode():
            x = torch.from_numpy(planes).to(self._device, self._dtype).contiguous(memory_format=torch.channels_last)
            policy, value, _ = self._network.forward_all(x, self._tower_for(len(planes)))
            return policy.float().cpu().numpy(), value.float().cpu().numpy()

    def _tower_for(self, positions: int) -> Tower:  # noqa: ARG002
        return self._network.tower


class WinogradBackend(TorchBackend):
    """PyTorch in fp32 on the CPU, with the tower's convolutions by Winograd's minimal filtering where that pays."""

    def __init__(self, network: PolicyValueNetwork, threads: int) -> None:
        super().__init__(network, "cpu", torch.float32, threads)
        config = network.config
        self._for_batches: Tower = self._network.tower
        if winograd.fits(config):
            self._for_batches = winograd.FoldedTower(self._network.tower, config.rows, config.columns)

    def _tower_for(self, positions: int) -> Tower:
        return self._for_batches if positions >= winograd.LEAST_POSITIONS else self._network.tower


class OpenVinoBackend:
    """OpenVINO with static batches: one compiled model a batch size and calling thread.

    A model of its own for each thread runs twice as fast as one model with several streams. ``precision`` is "f32",
    "bf16", or "int8" for 8-bit convolutions with the rest in f32.
    """

    def __init__(self, network: PolicyValueNetwork, precision: str, batch: int, threads: int) -> None:
        self._network = fold_batch_norm(network)
        self._ranges: Mapping[str, float] | None = None
        if precision == "int8":
            precision = "f32"
            boards = boards_for(network.config, CALIBRATION_BOARDS, np.random.default_rng(0))
            self._ranges = input_ranges(self._network, boards)
        self._options = {
            "INFERENCE_PRECISION_HINT": precision,
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,  # pinned streams of several models would share one core
        }
        # Padding a single position up to a whole batch would make interactive play slow.
        self._sizes = sorted({1, 8, 32, batch // 2, batch} - {0})
        self._sizes = [size for size in self._sizes if size <= batch]
        self._lock = threading.Lock()
        self._local = threading.local()

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """See `Backend`; larger batches run in pieces, smaller ones are padded."""
        largest = self._sizes[-1]
        if len(planes) > largest:
            parts = [self(planes[start : start + largest]) for start in range(0, len(planes), largest)]
            return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        size = next(size for size in self._sizes if size >= len(planes))
        padded = planes
        if len(planes) < size:
            padded = np.zeros((size, *planes.shape[1:]), np.float32)
            padded[: len(planes)] = planes
        outputs = self._request(size).infer({0: np.ascontiguousarray(padded)}, share_inputs=True)
        return outputs[0][: len(planes)], outputs[1][: len(planes)]

    def _request(self, size: int) -> Any:
        requests: dict[int, Any] = self._local.__dict__.setdefault("requests", {})
        if size not in requests:
            with self._lock:
                requests[size] = self._compile(size).create_infer_request()
        return requests[size]

    def _compile(self, size: int) -> Any:
        return openvino_core().compile_model(
            build_openvino_model(self._network, size, self._ranges), "CPU", self._options
        )


def import_openvino() -> Any:
    """OpenVINO without its telemetry, which waits for the network at exit and sends what nobody asked it to."""
    modules: dict[str, Any] = sys.modules
    modules.setdefault("openvino_telemetry", None)  # makes OpenVINO fall back to a stub of its own
    import openvino

    return openvino


@functools.cache
def openvino_core() -> Any:
    """OpenVINO's runtime with its CPU plugin loaded, one for the process."""
    core = import_openvino().Core()
    core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the plugin
    drop_alternate_signal_stack()
    return core


def drop_alternate_signal_stack() -> None:
    """Let this thread handle signals on its own stack again. No effect elsewhere than on Linux.

    OpenVINO's plugin gives the thread that loads it a signal stack of 11 KB. Python's handlers ask to run there, and on
    processors with wide registers the first lookup of a symbol in them overflows it: Ctrl-C was a segmentation fault.
    """
    if not sys.platform.startswith("linux"):
        return

    class SignalStack(ctypes.Structure):
        _fields_ = [("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

    disabled = 2  # SS_DISABLE
    ctypes.CDLL(None).sigaltstack(ctypes.byref(SignalStack(None, disabled, 0)), None)


def build_openvino_model(network: PolicyValueNetwork, batch: int, ranges: Mapping[str, float] | None = None) -> Any:
    """The folded network as an OpenVINO graph for a fixed batch; tracing it from PyTorch would take seconds.

    With the ``ranges`` of their inputs, by layer, the convolutions compute on 8-bit integers: unsigned activations
    with one scale a layer, signed weights with one a channel (as in Jacob et al. 2018).
    """
    import_openvino()
    from openvino import Model, opset13

    config = network.config
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}

    def convolve(x: Any, name: str) -> Any:
        kernel, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        if ranges is not None:
            top = np.abs(kernel).max(axis=(1, 2, 3), keepdims=True).clip(min=1e-8)
            kernel = opset13.fake_quantize(kernel, -top, top, -top, top, WEIGHT_LEVELS)
        pad = [weights[f"{name}.weight"].shape[-1] // 2] * 2
        return opset13.add(
            opset13.convolution(x, kernel, [1, 1], pad, pad, [1, 1]), bias.reshape(1, -1, 1, 1).astype(np.float32)
        )

    def quantized(x: Any, name: str) -> Any:
        """``x`` as the 8-bit input of layer ``name``."""
        if ranges is None:
            return x
        low, high = np.float32(0), np.float32(max(ranges[name], 1e-8))
        return opset13.fake_quantize(x, low, high, low, high, LEVELS)

    def linear(x: Any, name: str) -> Any:
        return opset13.add(opset13.matmul(x, weights[f"{name}.weight"], False, True), weights[f"{name}.bias"])

    planes = opset13.parameter([batch, config.input_planes, config.rows, config.columns], np.float32)
    x = opset13.relu(convolve(quantized(planes, "stem"), "stem"))
    for block in range(config.blocks):
        first, second = f"tower.{block}.first", f"tower.{block}.second"
        x = quantized(x, first)
        inner = quantized(opset13.relu(convolve(x, first)), second)
        x = opset13.relu(opset13.add(x, convolve(inner, second)))
    heads = opset13.split(opset13.relu(convolve(quantized(x, "heads"), "heads")), np.int64(1), 2)
    flat = np.array([batch, -1], np.int64)
    policy = linear(opset13.reshape(heads.output(0), flat, False), "policy")
    hidden = opset13.relu(linear(opset13.reshape(heads.output(1), flat, False), "value_hidden"))
    return Model([policy, linear(hidden, "value")], [planes])


def available_backends(
    device: str, batch: int, streams: int, threads: int
) -> dict[str, Callable[[PolicyValueNetwork], Backend]]:
    """The backends that this machine can run on ``device`` ("cpu" or "cuda"), by name.

    ``batch`` is the usual number of positions a call, ``streams`` the number of threads that call at once, and
    ``threads`` the cores to use in all.

    Raises:
        RuntimeError: if CUDA is asked for and there is none.
    """
    if device == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError("no CUDA device is available; use --device cpu")
        return {
            "cuda-bf16": lambda network: TorchBackend(network, "cuda", torch.bfloat16, 0),
            "cuda-fp32": lambda network: TorchBackend(network, "cuda", torch.float32, 0),
        }
    each = max(1, threads // streams)
    found: dict[str, Callable[[PolicyValueNetwork], Backend]] = {
        "torch-fp32": lambda network: TorchBackend(network, "cpu", torch.float32, each),
        "torch-bf16": lambda network: TorchBackend(network, "cpu", torch.bfloat16, each),
        WINOGRAD: lambda network: WinogradBackend(network, each),
    }
    if importlib.util.find_spec("openvino") is not None:
        for name, precision in (("openvino-fp32", "f32"), ("openvino-bf16", "bf16"), (INT8, "int8")):
            found[name] = lambda network, precision=precision: OpenVinoBackend(  # type: ignore[misc]
                network, precision, batch, each
            )
    return found


def is_candidate(name: str, batch: int, int8: bool) -> bool:
    """Whether a backend is measured for usual batches of that size: some are only right for other ones."""
    if name == WINOGRAD and batch < winograd.LEAST_POSITIONS:
        return False  # it would be PyTorch under another name
    return int8 or name != INT8


def backend_or_auto(name: str) -> str:
    """A backend of another machine's core, or "auto" if this one does not have it."""
    return name if name in available_backends("cpu", 1, 1, 1) else "auto"


def require_backend(name: str) -> str:
    """The named backend, which this machine must have too for its answers to be the same; "auto" stays.

    Raises:
        RuntimeError: in one line, if this machine does not have it: its answers would be others.
    """
    if name != "auto" and name != backend_or_auto(name):
        raise RuntimeError(
            f"{socket.gethostname()} does not have {name}: install the same on every node, or take --backend torch-fp32"
        )
    return name


def keep_freed_memory() -> None:
    """Tell glibc to keep the memory that each forward frees instead of returning it to the system.

    The page faults of getting it back took a third of the time of a forward. No effect elsewhere than on glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL(None)
        m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
        libc.mallopt(m_trim_threshold, 2**31 - 1)
        libc.mallopt(m_top_pad, 64 * 2**20)
        libc.mallopt(m_mmap_threshold, 32 * 2**20)  # the most that glibc accepts
    except (OSError, AttributeError):  # another C library
        return

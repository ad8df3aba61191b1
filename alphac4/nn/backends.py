"""Ways to run the network forward: PyTorch on a CPU or with CUDA, and OpenVINO on a CPU where it is installed.

Which of them is taken follows from the processor, the network's size and the usual batch alone, so that the same
command computes the same whenever it is given on a machine: `backend_order`.
"""

import contextlib
import ctypes
import functools
import importlib.util
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from alphac4.game.planes import PLANES, make_planes
from alphac4.game.rules import Geometry, make_geometry
from alphac4.machine import processor_name
from alphac4.nn import winograd
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Network, PolicyValueNetwork, Tower, fold_batch_norm

Array = npt.NDArray[np.float32]

logger = logging.getLogger(__name__)

BF16, FP32 = "bf16", "fp32"  # precisions of learning
INT8 = "openvino-int8"  # the one backend whose answers are rounded noticeably
CALIBRATION_BOARDS = 512
_LIMITS = np.float32(-1), np.float32(1)
MIN_WINOGRAD_BATCH = 64  # positions in a batch from which on Winograd's filtering is faster than OpenVINO in fp32
LEVELS = 256  # of an unsigned 8-bit activation
WEIGHT_LEVELS = 255  # of a signed, symmetric 8-bit weight
LARGEST_WEIGHT = WEIGHT_LEVELS // 2
# Largest quantised weight where two products are added in 16 bits: 2 * 255 * 64 < 2**15, which leaves weights 7 bits.
LARGEST_SAFE_WEIGHT = 64


def learning_precision(device: torch.device) -> str:
    """`BF16` where the hardware multiplies it faster than `FP32`.

    By what the hardware is and not by a timing, so that the same machine always learns with the same numbers.
    """
    fast = is_bf16_faster() if device.type == "cpu" else cuda_has_bf16()
    return BF16 if fast else FP32


def cuda_has_bf16() -> bool:
    """Whether the GPU has bf16 arithmetic in hardware; emulated, it is slower than fp32."""
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def is_bf16_faster() -> bool:
    """Whether the CPU has instructions for bf16, and two of its products in the time of one of fp32.

    Without instructions bf16 is emulated. AMX is five times as fast in inference (docs/speed.md); that it is fast in
    learning, and Arm's in both, is a guess (`alphac4 doctor --only inference presets` measures it). AVX-512 BF16 is
    fast on AMD's processors: gradients of the quick preset's network take 14.8 ms a part on a Zen 5 where they take
    18.6 in fp32, and those of the standard one's 41.5 where Winograd's filtering in fp32 takes 49.3. On an Intel Xeon
    with AVX-512 BF16 and without AMX they take 98 where they take 80 in fp32 (EXPERIMENTS.md).

    ``ONEDNN_MAX_CPU_ISA`` limits the instructions of oneDNN, which computes for PyTorch and for OpenVINO.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper()
    if not any(part in limit for part in ("ALL", "DEFAULT", "BF16", "FP16", "AMX", "AVX10")):
        return False
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in old versions
    if capabilities.get("amx_bf16") or capabilities.get("bf16"):
        return True
    return bool(capabilities.get("avx512_bf16")) and "Intel" not in processor_name()


class Backend(Protocol):
    """A loaded network that several threads may call at once."""

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """``planes`` [B, P, R, C] to policy logits [B, C] and win/draw/loss logits [B, 3]."""


def backend_names(device: str, network: NetworkConfig | None = None) -> list[str]:
    """The backends that can be asked for on ``device``, "cpu" or "cuda"; only those that run ``network``, if given."""
    if device == "cuda":
        return ["cuda-bf16", "cuda-fp32"]
    has_openvino = importlib.util.find_spec("openvino") is not None
    names = ["torch-fp32", "torch-bf16", "winograd-fp32"]
    names += ["openvino-fp32", "openvino-bf16", INT8] if has_openvino else []
    of_residual_blocks = ("winograd-fp32", INT8) if network is not None and network.is_custom else ()
    return [name for name in names if name not in of_residual_blocks]


def backend_order(network: NetworkConfig, device: str, batch: int, *, int8: bool) -> list[str]:
    """The backends for a network in the order of their speed here, for usual batches of so many positions.

    The rules follow what was measured (docs/speed.md): 8 bits are the fastest for every network, but for small ones
    with AMX, then bf16 where the processor multiplies faster in it, then fp32, in which large batches of wide
    networks gain from Winograd's filtering. OpenVINO is faster than PyTorch, most of all for single positions.
    """
    if device == "cuda":
        return ["cuda-bf16", "cuda-fp32"] if cuda_has_bf16() else ["cuda-fp32"]
    order = [INT8] if int8 else []
    many = batch >= winograd.MIN_POSITIONS
    if is_bf16_faster():
        order += ["openvino-bf16", "torch-bf16"] if many else ["openvino-bf16"]
    if many and network.channels >= winograd.MIN_CHANNELS and batch >= MIN_WINOGRAD_BATCH:
        order += ["winograd-fp32", "openvino-fp32"]
    else:
        order += ["openvino-fp32", "winograd-fp32"] if many else ["openvino-fp32"]
    return [name for name in [*order, "torch-fp32"] if name in backend_names(device, network)]


def make_backend(name: str, network: Network, batch: int, threads: int) -> Backend:
    """Load a network into one of `backend_names`.

    Args:
        name: the backend.
        network: the weights.
        batch: positions in a usual call.
        threads: cores to use for each call, where it runs on a CPU.
    """
    library, _, precision = name.partition("-")
    if library == "openvino":
        return OpenVinoBackend(network, precision, batch, threads)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    device = "cuda" if library == "cuda" else "cpu"
    return TorchBackend(network, device, dtype, threads, by_winograd=library == "winograd")


def backend_or_auto(name: str) -> str:
    """A backend of another machine's core, or "auto" if this one does not have it."""
    return name if name in backend_names("cpu") else "auto"


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


class TorchBackend:
    """PyTorch in eager mode, batch norm folded, channels last.

    On the CPU one thread computes a single position: more wait for each other after every layer, which is hardly faster
    on an idle machine and many times slower where another program has one of the cores.

    Args:
        network: the weights.
        device: "cpu" or "cuda".
        dtype: the precision.
        threads: cores to use on a CPU.
        by_winograd: whether the tower's convolutions are filtered by `alphac4.nn.winograd`, in batches where that pays.
    """

    def __init__(
        self,
        network: Network,
        device: str,
        dtype: torch.dtype,
        threads: int,
        *,
        by_winograd: bool = False,
    ) -> None:
        self._device = torch.device(device)
        self._dtype = dtype
        self._threads = threads if device == "cpu" else 0
        self._network = fold_batch_norm(network)
        self._network.to(self._device, dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._filtered: Tower | None = None
        if by_winograd and isinstance(self._network, PolicyValueNetwork) and winograd.fits(network.config):
            self._filtered = winograd.inference_tower(self._network.tower, network.config.rows, network.config.columns)

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """See `Backend`."""
        threads = min(self._threads, 1) if len(planes) == 1 else self._threads  # 0 on a GPU
        tower = self._filtered if len(planes) >= winograd.MIN_POSITIONS else None
        with torch_threads(threads or torch.get_num_threads()), torch.inference_mode():
            x = torch.from_numpy(planes).to(self._device, self._dtype).contiguous(memory_format=torch.channels_last)
            policy, value, *_ = self._network.forward_all(x, tower)
            return policy.float().cpu().numpy(), value.float().cpu().numpy()


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with ``count`` of PyTorch's threads in this block; then restore the number of before.

    PyTorch's number holds for the calling thread, and for threads that have not used PyTorch yet.
    """
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class OpenVinoBackend:
    """OpenVINO with static batches: one compiled model a batch size and calling thread.

    A model of its own for each thread runs twice as fast as one model with several streams. All are copies of the first
    thread's, which take a quarter of the time that compiling does. ``precision`` is "fp32", "bf16", or "int8" for 8-bit
    convolutions with the rest in fp32.
    """

    def __init__(self, network: Network, precision: str, batch: int, threads: int) -> None:
        self._network = fold_batch_norm(network)
        self._ranges: Mapping[str, float] | None = None
        if precision == "int8" and isinstance(self._network, PolicyValueNetwork):
            boards = random_inputs(network.config, CALIBRATION_BOARDS, np.random.default_rng(0))
            self._ranges = _input_ranges(self._network, boards)
        self._options = {
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,  # pinned streams of several models would share one core
        }
        # Padding a single position up to a whole batch would make interactive play slow.
        self._sizes = sorted(size for size in {1, 8, 16, 32, batch // 2, batch} if 0 < size <= batch)
        self._lock = threading.Lock()
        self._local = threading.local()
        self._models: dict[int, Any] = {}  # the first thread's, by size
        self._exported: dict[int, Any] = {}  # the same for further threads

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """See `Backend`; larger batches run in pieces, smaller ones are padded."""
        largest = self._sizes[-1]
        if len(planes) > largest:
            parts = [self(planes[start : start + largest]) for start in range(0, len(planes), largest)]
            return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        size = next(size for size in self._sizes if size >= len(planes))
        request, padded = self._request(size)
        padded[: len(planes)] = planes
        outputs = request.infer(share_outputs=True)
        return outputs[0][: len(planes)].copy(), outputs[1][: len(planes)].copy()

    def _request(self, size: int) -> tuple[Any, Array]:
        """This thread's request for batches of this size, and the array that it reads.

        To hand over an array with each call takes longer than a tenth of a small batch.
        """
        requests: dict[int, tuple[Any, Array]] = self._local.__dict__.setdefault("requests", {})
        if size not in requests:
            from openvino import Tensor

            with self._lock:
                request = self._model(size).create_infer_request()
            config = self._network.config
            planes = np.zeros((size, config.input_planes, config.rows, config.columns), np.float32)
            request.set_input_tensor(Tensor(planes, shared_memory=True))
            requests[size] = request, planes
        return requests[size]

    def _model(self, size: int) -> Any:
        core = _openvino_core()
        if size not in self._models:
            if isinstance(self._network, PolicyValueNetwork):
                graph = _openvino_model(self._network, size, self._ranges)
            else:
                graph = _converted_model(self._network, size)
            self._models[size] = core.compile_model(graph, "CPU", self._options)
            return self._models[size]
        if size not in self._exported:
            self._exported[size] = self._models[size].export_model()
        return core.import_model(self._exported[size], "CPU", self._options)


@functools.cache
def _openvino_core() -> Any:
    """OpenVINO's runtime with its CPU plugin loaded, one for the process.

    Without its telemetry, which waits for the network at exit and sends what nobody asked it to.
    """
    modules: dict[str, Any] = sys.modules
    is_loaded = "openvino_telemetry" in modules
    modules.setdefault("openvino_telemetry", None)  # makes OpenVINO fall back to a stub of its own
    try:
        from openvino import Core
    finally:
        if not is_loaded:
            del modules["openvino_telemetry"]

    core = Core()
    core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the plugin
    _drop_alternate_signal_stack()
    return core


def _drop_alternate_signal_stack() -> None:
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


@functools.cache
def has_int8_saturation() -> bool:
    """Return whether 8-bit convolutions are wrong for large weights on this processor.

    x86 without VNNI adds pairs of products in 16 bits, which cannot hold the sum of the largest ones. A convolution of
    such weights shows it. Lists of instructions would not: OpenVINO can be told to use fewer than there are.
    """
    core = _openvino_core()
    from openvino import Model, opset13

    channels = 64
    planes = opset13.parameter([1, channels, 6, 7], np.float32)
    kernel = opset13.fake_quantize(np.ones((channels, channels, 3, 3), np.float32), *_LIMITS, *_LIMITS, WEIGHT_LEVELS)
    zero, one = np.float32(0), np.float32(1)
    quantised = opset13.fake_quantize(opset13.relu(planes), zero, one, zero, one, LEVELS)
    model = Model([opset13.convolution(quantised, kernel, [1, 1], [1, 1], [1, 1], [1, 1])], [planes])
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    answers = compiled(np.ones((1, channels, 6, 7), np.float32))[0]
    expected = 9 * channels  # in the middle of the board
    return bool(abs(float(answers[0, 0, 3, 3]) - expected) > 0.01 * expected)


def _openvino_model(network: PolicyValueNetwork, batch: int, ranges: Mapping[str, float] | None) -> Any:
    """The folded network as an OpenVINO graph for a fixed batch; tracing it from PyTorch would take seconds.

    With the ``ranges`` of their inputs, by layer, the convolutions compute on 8-bit integers: unsigned activations
    with one scale per layer, signed weights with one per channel (as in Jacob et al. 2018). Weights use 7 of their 8
    bits where products saturate.
    """
    _openvino_core()
    from openvino import Model, opset13

    config = network.config
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}

    def convolve(x: Any, name: str) -> Any:
        kernel, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        pad = [kernel.shape[-1] // 2] * 2
        if ranges is not None:
            top = np.abs(kernel).max(axis=(1, 2, 3), keepdims=True).clip(min=1e-8)
            if has_int8_saturation():  # the same 255 levels over twice the range: other numbers of levels are not fused
                top = top * np.float32(LARGEST_WEIGHT / LARGEST_SAFE_WEIGHT)
            kernel = opset13.fake_quantize(kernel, -top, top, -top, top, WEIGHT_LEVELS)
        product = opset13.convolution(x, kernel, [1, 1], pad, pad, [1, 1])
        return opset13.add(product, bias.reshape(1, -1, 1, 1).astype(np.float32))

    def quantised(x: Any, name: str) -> Any:
        """``x`` as the 8-bit input of layer ``name``."""
        if ranges is None:
            return x
        low, high = np.float32(0), np.float32(max(ranges[name], 1e-8))
        return opset13.fake_quantize(x, low, high, low, high, LEVELS)

    def linear(x: Any, name: str, rows: int, columns: int) -> Any:
        """A linear layer of x [B, C, rows, columns], as a convolution: sums of matrices depend on the batch's size."""
        kernel = weights[f"{name}.weight"]
        kernel = kernel.reshape(len(kernel), -1, rows, columns)
        product = opset13.convolution(x, kernel, [1, 1], [0, 0], [0, 0], [1, 1])
        return opset13.add(product, weights[f"{name}.bias"].reshape(1, -1, 1, 1))

    planes = opset13.parameter([batch, config.input_planes, config.rows, config.columns], np.float32)
    x = opset13.relu(convolve(quantised(planes, "stem"), "stem"))
    for block in range(config.blocks):
        first, second = f"tower.{block}.first", f"tower.{block}.second"
        x = quantised(x, first)  # for the shortcut as well, so that it need not be kept in fp32
        inner = quantised(opset13.relu(convolve(x, first)), second)
        x = opset13.relu(opset13.add(x, convolve(inner, second)))
    heads = opset13.split(opset13.relu(convolve(quantised(x, "heads"), "heads")), np.int64(1), 2)
    policy = linear(heads.output(0), "policy", config.rows, config.columns)
    hidden = opset13.relu(linear(heads.output(1), "value_hidden", config.rows, config.columns))
    flat = np.array([batch, -1], np.int64)
    outputs = [opset13.reshape(logits, flat, False) for logits in (policy, linear(hidden, "value", 1, 1))]
    return Model(outputs, [planes])


def _converted_model(network: Network, batch: int) -> Any:
    """A custom network as an OpenVINO graph for a fixed batch, traced from PyTorch, which takes half a second."""
    _openvino_core()
    from openvino import convert_model

    config = network.config
    shape = [batch, config.input_planes, config.rows, config.columns]
    model = convert_model(network, example_input=torch.zeros(shape))
    model.reshape(shape)
    return model


def _input_ranges(folded: PolicyValueNetwork, planes: Array) -> dict[str, float]:
    """The largest input of every convolution of a network with folded norms, by layer name.

    All inputs are at least 0: the planes, and what a ReLU left. One thread computes them, so that they are the same on
    any number of cores.
    """
    ranges: dict[str, float] = {}

    def watch(name: str, module: nn.Module) -> torch.utils.hooks.RemovableHandle:
        def hook(_module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            ranges[name] = float(inputs[0].max())

        return module.register_forward_pre_hook(hook)

    layers = [(name, module) for name, module in folded.named_modules() if isinstance(module, nn.Conv2d)]
    handles = [watch(name, module) for name, module in layers]
    try:
        with torch_threads(1), torch.inference_mode():
            folded(torch.from_numpy(planes))
    finally:
        for handle in handles:
            handle.remove()
    return ranges


def random_boards(geometry: Geometry, count: int, rng: np.random.Generator, planes: int = PLANES["stones"]) -> Array:
    """Planes [count, planes, rows, columns] after 0 to ``cells - 1`` random drops; runs end no game here.

    They stand in for real positions where only the size of activations matters.
    """
    own, occupied = random_stones(geometry, count, rng)
    return make_planes(geometry, own, occupied, planes)


def random_stones(
    geometry: Geometry, count: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """``own`` and ``occupied`` uint64 [count] of `random_boards`."""
    wanted = rng.integers(0, geometry.cells, count)
    heights = np.zeros((count, geometry.columns), np.uint64)
    sides = np.zeros((2, count), np.uint64)  # the stones of the side to move, and its opponent's
    for ply in range(geometry.cells - 1):
        column = (rng.random(heights.shape) * (heights < geometry.rows)).argmax(axis=1)
        (playing,) = np.nonzero(ply < wanted)
        height = heights[playing, column[playing]]
        cell = np.uint64(1) << (column[playing].astype(np.uint64) * geometry.height + height)
        sides[(wanted[playing] - ply) % 2, playing] |= cell
        heights[playing, column[playing]] += np.uint64(1)
    return sides[0], sides[0] | sides[1]


def random_inputs(config: NetworkConfig, count: int, rng: np.random.Generator) -> Array:
    """`random_boards` as a network sees them; by the usual rules, whatever those of its own board are."""
    geometry = make_geometry(config.rows, config.columns, min(4, max(config.rows, config.columns)))
    return random_boards(geometry, count, rng, config.input_planes)

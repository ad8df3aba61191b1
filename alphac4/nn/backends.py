"""Backends of inference: PyTorch on a CPU or with CUDA, and OpenVINO on a CPU if it is installed.

`backend_order` depends on the processor, what is installed, the network's size and the usual batch, but not on timings.
So the same command on the same machine uses the same backend.
"""

import contextlib
import copy
import ctypes
import functools
import importlib.util
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from alphac4.game.planes import PLANES, make_planes
from alphac4.game.rules import Board, make_board
from alphac4.machine import processor_name
from alphac4.nn import winograd
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Network, PolicyValueNetwork, fold_batch_norm
from alphac4.storage.records import quote

Array = npt.NDArray[np.float32]

logger = logging.getLogger(__name__)

BF16, FP32 = "bf16", "fp32"  # precisions of learning
INT8 = "openvino-int8"  # the only backend with large rounding errors
CALIBRATION_BOARDS = 512
_LIMITS = np.float32(-1), np.float32(1)
MIN_WINOGRAD_BATCH = 64  # from this batch size, Winograd's filtering is faster for wide networks than OpenVINO in fp32
ACTIVATION_LEVELS = 256  # levels of an unsigned 8-bit activation
WEIGHT_LEVELS = 255  # levels of a signed, symmetric 8-bit weight
LARGEST_WEIGHT = WEIGHT_LEVELS // 2
# Largest quantised weight where two products are added in 16 bits: 2 * 255 * 64 < 2**15, which leaves weights 7 bits.
LARGEST_SAFE_WEIGHT = 64


def learning_precision(device: torch.device) -> str:
    """Return `BF16` if this kind of processor is faster with it; nothing is timed, so that runs are reproducible."""
    fast = is_bf16_faster() if device.type == "cpu" else cuda_has_bf16()
    return BF16 if fast else FP32


def cuda_has_bf16() -> bool:
    """Return whether the GPU has bf16 arithmetic in hardware; emulated bf16 is slower than fp32."""
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def is_bf16_faster() -> bool:
    """Return whether the CPU multiplies bf16 faster than fp32.

    AMX is five times as fast in inference (docs/speed.md). We did not compare bf16 with fp32 in learning with AMX, nor
    on Arm; `alphac4 doctor --only inference` compares them in inference. AVX-512 BF16 is fast on AMD's processors
    (docs/speed.md). An Intel Xeon with AVX-512 BF16 but without AMX is slower
    (docs/experiments/2026-11-22-bf16-slower.md). ``ONEDNN_MAX_CPU_ISA`` limits what PyTorch and OpenVINO use.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper()
    if not any(part in limit for part in ("ALL", "DEFAULT", "BF16", "FP16", "AMX", "AVX10")):
        return False
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # missing in old versions
    if capabilities.get("amx_bf16") or capabilities.get("bf16"):
        return True
    return bool(capabilities.get("avx512_bf16")) and "Intel" not in processor_name()


class Backend(Protocol):
    """A loaded network that several threads may call concurrently."""

    sizes: Sequence[int]
    """Batch sizes that run different code; checks at these sizes and with one large batch cover the backend."""

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """Compute policy logits [B, C] and win/draw/loss logits [B, 3] of ``planes`` [B, P, R, C]."""


def backend_names(device: str, network: NetworkConfig | None = None) -> list[str]:
    """Return the backends of a device, "cpu" or "cuda"; with ``network``, only those that can run it."""
    if device == "cuda":
        return ["cuda-bf16", "cuda-fp32"]
    has_openvino = importlib.util.find_spec("openvino") is not None
    names = ["torch-fp32", "torch-bf16", "winograd-fp32"]
    names += ["openvino-fp32", "openvino-bf16", INT8] if has_openvino else []
    unsuitable = ("winograd-fp32", INT8) if network is not None and network.is_custom else ()
    return [name for name in names if name not in unsuitable]


def backend_order(network: NetworkConfig, device: str, batch: int, *, int8: bool) -> list[str]:
    """Return the backends for a network in the order in which "auto" tries them; a usual call has ``batch`` positions.

    The order follows measurements (docs/speed.md): int8 if allowed, although bf16 is a little faster for small networks
    with AMX; then bf16, if the processor multiplies it faster; then fp32. In fp32, PyTorch with Winograd's filtering
    comes first for large batches of wide networks. Otherwise OpenVINO precedes PyTorch, which is slower, most of all
    for single positions.
    """
    if device == "cuda":
        return ["cuda-bf16", "cuda-fp32"] if cuda_has_bf16() else ["cuda-fp32"]
    order = [INT8] if int8 else []
    is_large = batch >= winograd.MIN_POSITIONS
    if is_bf16_faster():
        order += ["openvino-bf16", "torch-bf16"] if is_large else ["openvino-bf16"]
    if is_large and network.channels >= winograd.MIN_CHANNELS and batch >= MIN_WINOGRAD_BATCH:
        order += ["winograd-fp32", "openvino-fp32"]
    else:
        order += ["openvino-fp32", "winograd-fp32"] if is_large else ["openvino-fp32"]
    return [name for name in [*order, "torch-fp32"] if name in backend_names(device, network)]


def make_backend(
    name: str,
    network: Network,
    batch: int,  # positions in a usual call
    threads: int,  # cores per call, on a CPU
    min_batch: int = 1,  # positions in the smallest call, at most ``batch``
) -> Backend:
    library, _, precision = name.partition("-")
    if library == "openvino":
        return OpenVinoBackend(network, precision, batch, threads, min_batch)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    device = "cuda" if library == "cuda" else "cpu"
    return TorchBackend(network, device, dtype, threads, by_winograd=library == "winograd")


def has_backend(name: str, device: str, network: NetworkConfig | None = None) -> bool:
    """Return whether a device of this machine has a backend; with ``network``, whether the backend can run it."""
    return name in backend_names(device, network) and (name != "openvino-bf16" or openvino_has_bf16())


def check_backend(name: str, device: str, network: NetworkConfig | None = None) -> None:
    """Raise ValueError unless a backend is "auto" or `has_backend` returns True; TypeError if it is not a string."""
    if not isinstance(name, str):
        raise TypeError(f"backend must be a name such as 'auto', not {quote(name)}")
    if name == "auto" or has_backend(name, device, network):
        return
    available = [each for each in backend_names(device, network) if has_backend(each, device, network)]
    where = " for this network" if network is not None else ""
    raise ValueError(f"unknown backend {quote(name)}{where} on this machine; available: auto, {', '.join(available)}")


def require_backend(name: str) -> str:
    """Return ``name``; raise RuntimeError if this CPU lacks it, because another backend would round differently."""
    if name != "auto" and not has_backend(name, "cpu"):
        raise RuntimeError(
            f"{socket.gethostname()} does not have {name}: install the same on every node, or use torch-fp32"
        )
    return name


class TorchBackend:
    """PyTorch in eager mode, batch norm folded, channels last.

    On the CPU, a batch of one position uses one thread. More threads would wait for one another after every layer: this
    is hardly faster on an idle machine, and many times slower while another program runs.
    """

    def __init__(
        self,
        network: Network,
        device: str,
        dtype: torch.dtype,
        threads: int,
        *,
        by_winograd: bool = False,  # for the tower, from `alphac4.nn.winograd.MIN_POSITIONS` positions on
    ) -> None:
        self._device = torch.device(device)
        self._dtype = dtype
        self._threads = threads if device == "cpu" else 0
        self.sizes: Sequence[int] = [1, winograd.MIN_POSITIONS] if by_winograd else [1]
        self._network = fold_batch_norm(network)
        self._network.to(self._device, dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._for_batches = self._network
        if by_winograd and winograd.is_supported(network.config):
            self._for_batches = copy.deepcopy(self._network)
            winograd.use_winograd(self._for_batches)

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        threads = min(self._threads, 1) if len(planes) == 1 else self._threads  # 0 on a GPU
        network = self._for_batches if len(planes) >= winograd.MIN_POSITIONS else self._network
        limit = torch_threads(threads) if threads else contextlib.nullcontext()
        with limit, torch.inference_mode():
            x = torch.from_numpy(planes).to(self._device, self._dtype).contiguous(memory_format=torch.channels_last)
            policy, value = network(x)
            return policy.float().cpu().numpy(), value.float().cpu().numpy()


class _ThreadCounts:
    """State shared by the `torch_threads` blocks in progress, of all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks = 0  # in progress
        self.default = 0  # PyTorch's number of threads before the first of them
        self.latest = 0  # the number that was set last, with which new threads start
        self.thread = threading.local()  # has `is_known` once the thread's own number has been read


_thread_counts = _ThreadCounts()


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with ``count`` of PyTorch's threads in this block, then restore the previous number.

    PyTorch stores the number per thread. A thread that is new to PyTorch starts with the number that was set last,
    which may be the ``count`` of another thread's block. After its own block, the new thread gets the number from
    before that other block. The last of several overlapping blocks restores the number for threads that start later.
    """
    state = _thread_counts
    with state.lock:
        before = torch.get_num_threads()
        if state.blocks == 0:
            state.default = before
        elif before == state.latest and not hasattr(state.thread, "is_known"):
            before = state.default
        state.thread.is_known = True
        state.blocks += 1
        _set_torch_threads(count)
    try:
        yield
    finally:
        with state.lock:
            state.blocks -= 1
            _set_torch_threads(before)
            if state.blocks == 0 and before != state.default:  # by a thread, as this one keeps its own number
                setter = threading.Thread(target=_set_torch_threads, args=(state.default,))
                setter.start()
                setter.join()


def _set_torch_threads(count: int) -> None:
    """Set PyTorch's number of threads for this thread and for new ones; the caller holds the lock."""
    _thread_counts.latest = count
    torch.set_num_threads(count)


class OpenVinoBackend:
    """OpenVINO with static batches: one compiled model per batch size and calling thread.

    One model per thread is twice as fast as one model with several streams. Models of further threads are copies,
    because copying takes a quarter of the time of compiling. ``precision`` is "fp32", "bf16", or "int8": 8-bit
    convolutions, the rest in fp32.
    """

    def __init__(self, network: Network, precision: str, batch: int, threads: int, min_batch: int = 1) -> None:
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
        # With few sizes, small batches would be padded to large ones, which is slow.
        self.sizes: Sequence[int] = sorted(
            size for size in {1, 8, 16, 32, batch // 2, batch} if min_batch <= size <= batch
        )
        self._lock = threading.Lock()
        self._local = threading.local()
        self._models: dict[int, Any] = {}  # models of the first thread, by size
        self._exported: dict[int, Any] = {}  # serialised, for further threads

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """Compute the logits of any number of positions; larger batches are split, smaller ones padded."""
        largest = self.sizes[-1]
        if len(planes) > largest:
            parts = [self(planes[start : start + largest]) for start in range(0, len(planes), largest)]
            return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        size = next(size for size in self.sizes if size >= len(planes))
        request, padded = self._request(size)
        padded[: len(planes)] = planes
        outputs = request.infer(share_outputs=True)
        return outputs[0][: len(planes)].copy(), outputs[1][: len(planes)].copy()

    def _request(self, size: int) -> tuple[Any, Array]:
        """Return this thread's inference request for a batch size and its input [size, P, R, C]; both are kept."""
        requests: dict[int, tuple[Any, Array]] = self._local.__dict__.setdefault("requests", {})
        if size not in requests:
            with self._lock:
                request = self._model(size).create_infer_request()
            config = self._network.config
            planes = np.zeros((size, config.input_planes, config.rows, config.columns), np.float32)
            request.set_input_tensor(_openvino().Tensor(planes, shared_memory=True))
            requests[size] = request, planes
        return requests[size]

    def _model(self, size: int) -> Any:
        """Compile the model for a batch size, or copy it for a further thread; the caller holds the lock."""
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
def _openvino() -> Any:
    """Import `openvino` without its telemetry, which sends data, writes to the user's folder and waits at exit."""
    modules: dict[str, Any] = sys.modules
    is_loaded = "openvino_telemetry" in modules
    modules.setdefault("openvino_telemetry", None)  # OpenVINO then uses a stub
    try:
        return importlib.import_module("openvino")
    finally:
        if not is_loaded:
            modules.pop("openvino_telemetry", None)  # unless another thread did so


@functools.cache
def _openvino_core() -> Any:
    core = _openvino().Core()
    with _preserve_signal_stack():
        core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the plugin
    return core


@contextlib.contextmanager
def _preserve_signal_stack() -> Iterator[None]:
    """Restore this thread's alternate signal stack, or its absence, after the block; only on Linux.

    OpenVINO's plugin gives the thread that loads it a signal stack of 11 KB. Python's handlers run there, and on
    processors with wide registers the first lookup of a symbol overflows it, so that Ctrl-C caused a segmentation
    fault. The plugin also replaced the stack of `faulthandler`, which then could not report a stack overflow.
    """
    if not sys.platform.startswith("linux"):
        yield
        return

    class SignalStack(ctypes.Structure):
        _fields_ = [("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

    libc, before = ctypes.CDLL(None), SignalStack()
    libc.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        libc.sigaltstack(ctypes.byref(before), None)


@functools.cache
def openvino_has_bf16() -> bool:
    """Return whether OpenVINO computes in bf16 here; with AVX2 only, it fails to compile a network."""
    planes = _openvino().opset13.parameter([1, 16, 6, 7], np.float32)
    try:
        _compiled_convolution(planes, planes, np.ones((16, 16, 3, 3), np.float32), "bf16")
    except Exception:
        return False
    return True


@functools.cache
def has_int8_saturation() -> bool:
    """Return whether 8-bit convolutions overflow for large weights: x86 without VNNI adds pairs of products in 16 bits.

    The check runs a convolution, because OpenVINO can be configured to use fewer instructions than the processor has.
    """
    opset13, channels = _openvino().opset13, 64
    planes = opset13.parameter([1, channels, 6, 7], np.float32)
    kernel = opset13.fake_quantize(np.ones((channels, channels, 3, 3), np.float32), *_LIMITS, *_LIMITS, WEIGHT_LEVELS)
    zero, one = np.float32(0), np.float32(1)
    quantised = opset13.fake_quantize(opset13.relu(planes), zero, one, zero, one, ACTIVATION_LEVELS)
    answers = _compiled_convolution(planes, quantised, kernel, "f32")(np.ones((1, channels, 6, 7), np.float32))[0]
    expected = 9 * channels  # in the middle of the board
    return not abs(float(answers[0, 0, 3, 3]) - expected) <= 0.01 * expected  # so that NaN is detected as well


def _compiled_convolution(planes: Any, x: Any, kernel: Any, precision: str) -> Any:
    """Compile a model that maps ``planes`` to a 3 x 3 convolution of ``x``, which is made from them."""
    openvino = _openvino()
    model = openvino.Model([openvino.opset13.convolution(x, kernel, [1, 1], [1, 1], [1, 1], [1, 1])], [planes])
    options = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": 1}
    return _openvino_core().compile_model(model, "CPU", options)


def _openvino_model(network: PolicyValueNetwork, batch: int, ranges: Mapping[str, float] | None) -> Any:
    """Return the folded network as an OpenVINO graph for a fixed batch; tracing it from PyTorch would be much slower.

    With ``ranges``, the largest input of each layer, convolutions use 8-bit integers: unsigned activations with one
    scale per layer, signed weights with one scale per channel (as in Jacob et al. 2018). Weights use 7 of their 8 bits
    if products saturate.
    """
    openvino, config = _openvino(), network.config
    opset13 = openvino.opset13
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}

    def convolve(x: Any, name: str) -> Any:
        kernel, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        pad = [kernel.shape[-1] // 2] * 2
        if ranges is not None:
            top = np.abs(kernel).max(axis=(1, 2, 3), keepdims=True).clip(min=1e-8)
            if has_int8_saturation():  # 255 levels over twice the range: OpenVINO fuses no other number of levels
                top = top * np.float32(LARGEST_WEIGHT / LARGEST_SAFE_WEIGHT)
            kernel = opset13.fake_quantize(kernel, -top, top, -top, top, WEIGHT_LEVELS)
        product = opset13.convolution(x, kernel, [1, 1], pad, pad, [1, 1])
        return opset13.add(product, bias.reshape(1, -1, 1, 1).astype(np.float32))

    def quantise(x: Any, name: str) -> Any:
        if ranges is None:
            return x
        low, high = np.float32(0), np.float32(max(ranges[name], 1e-8))
        return opset13.fake_quantize(x, low, high, low, high, ACTIVATION_LEVELS)

    def linear(x: Any, name: str, rows: int, columns: int) -> Any:
        """Apply a linear layer to x [B, C, rows, columns] as a convolution: matrix products are not batch-invariant."""
        kernel = weights[f"{name}.weight"]
        kernel = kernel.reshape(len(kernel), -1, rows, columns)
        product = opset13.convolution(x, kernel, [1, 1], [0, 0], [0, 0], [1, 1])
        return opset13.add(product, weights[f"{name}.bias"].reshape(1, -1, 1, 1))

    planes = opset13.parameter([batch, config.input_planes, config.rows, config.columns], np.float32)
    x = opset13.relu(convolve(quantise(planes, "stem"), "stem"))
    for block in range(config.blocks):
        first, second = f"tower.{block}.first", f"tower.{block}.second"
        x = quantise(x, first)  # the shortcut as well, which then needs no copy in fp32
        inner = quantise(opset13.relu(convolve(x, first)), second)
        x = opset13.relu(opset13.add(x, convolve(inner, second)))
    heads = opset13.split(opset13.relu(convolve(quantise(x, "heads"), "heads")), np.int64(1), 2)
    policy = linear(heads.output(0), "policy", config.rows, config.columns)
    hidden = opset13.relu(linear(heads.output(1), "value_hidden", config.rows, config.columns))
    flat = np.array([batch, -1], np.int64)
    outputs = [opset13.reshape(logits, flat, False) for logits in (policy, linear(hidden, "value", 1, 1))]
    return openvino.Model(outputs, [planes])


def _converted_model(network: Network, batch: int) -> Any:
    """Return a custom network as an OpenVINO graph for a fixed batch, by tracing it from PyTorch."""
    config = network.config
    shape = [batch, config.input_planes, config.rows, config.columns]
    model = _openvino().convert_model(network, example_input=torch.zeros(shape))
    model.reshape(shape)
    return model


def _input_ranges(folded: PolicyValueNetwork, planes: Array) -> dict[str, float]:
    """Return the largest input of every convolution of a folded network, by layer name, computed by one thread.

    All inputs are at least 0: they are planes, or follow a ReLU.
    """
    ranges: dict[str, float] = {}

    def record_input(name: str, _module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        ranges[name] = float(inputs[0].max())

    with contextlib.ExitStack() as hooks, torch_threads(1), torch.inference_mode():
        for name, module in folded.named_modules():
            if isinstance(module, nn.Conv2d):
                hooks.enter_context(module.register_forward_pre_hook(functools.partial(record_input, name)))
        folded(torch.from_numpy(planes))
    return ranges


def random_boards(board: Board, count: int, rng: np.random.Generator, planes: int = PLANES["stones"]) -> Array:
    """Return planes [count, planes, rows, columns] of boards after random moves, which a win does not end.

    No board is full.
    """
    own, occupied = random_stones(board, count, rng)
    return make_planes(board, own, occupied, planes)


def random_stones(
    board: Board, count: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return ``own`` and ``occupied``, uint64 [count], of `random_boards`."""
    plies = rng.integers(0, board.cells, count)
    heights = np.zeros((count, board.columns), np.uint64)
    sides = np.zeros((2, count), np.uint64)  # the stones of the side to move, and its opponent's
    for ply in range(board.cells - 1):
        column = (rng.random(heights.shape) * (heights < board.rows)).argmax(axis=1)
        (playing,) = np.nonzero(ply < plies)
        height = heights[playing, column[playing]]
        cell = np.uint64(1) << (column[playing].astype(np.uint64) * board.column_bits + height)
        sides[(plies[playing] - ply) % 2, playing] |= cell
        heights[playing, column[playing]] += np.uint64(1)
    return sides[0], sides[0] | sides[1]


def random_inputs(config: NetworkConfig, count: int, rng: np.random.Generator) -> Array:
    """Return planes [count, P, R, C] of `random_boards`."""
    board = make_board(config.rows, config.columns, min(4, max(config.rows, config.columns)))
    return random_boards(board, count, rng, config.input_planes)

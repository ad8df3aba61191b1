"""Arrays and networks in a GPU's memory, shared by Numba and PyTorch, and launches on PyTorch's stream."""

import contextlib
import importlib
import importlib.util
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alphac4.compiled import cached_on_disk
from alphac4.compute.devices import NO_DEVICE
from alphac4.game.rules import Board
from alphac4.machine import SharedSetting, install_advice
from alphac4.mcts.tree import Trees
from alphac4.nn.backends import cuda_has_bf16
from alphac4.nn.network import Network, fold_batch_norm
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_Arrays = TypeVar("_Arrays", bound=tuple[Any, ...])  # Trees or Games

_launch_lock = threading.Lock()  # neither the simulator nor loading kernels from disk is thread-safe

THREADS_PER_BLOCK = 32  # the smallest useful size: trees diverge, and small blocks spread over the whole GPU

SECTOR_BYTES = 32  # the smallest unit that a GPU fetches

NODE_FIELDS = {  # fields of Trees: type, and whether there is one per action
    "value_sum": (np.float32, True),
    "priors": (np.float32, True),
    "value": (np.float32, False),
    "draw": (np.float32, False),
    "visits": (np.int32, True),
    "child": (np.int32, True),
    "parent": (np.int32, False),
    "proof": (np.int8, True),
    "parent_action": (np.int8, False),
}

# Whether cuDNN chooses the fastest algorithms by measurement.
_CUDNN_BENCHMARK = SharedSetting(
    lambda: torch.backends.cudnn.benchmark, lambda value: setattr(torch.backends.cudnn, "benchmark", value)
)

WARM_UP_STEPS = 3  # before a graph is captured; libraries choose their algorithms in them

# The number 1 as kernels write it into planes; 16-bit floats as their bits, as Numba and PyTorch share no such type.
ONE = {torch.float32: np.float32(1), torch.float16: np.uint16(0x3C00), torch.bfloat16: np.uint16(0x3F80)}


def is_simulated() -> bool:
    config: Any = numba.config
    return bool(config.ENABLE_CUDASIM)


def cuda_device() -> torch.device:
    """Return the device of kernels: the GPU, or "cpu" in the simulator.

    Raises:
        RuntimeError: outside the simulator, if there is no GPU or the compiler numba-cuda is missing.
    """
    if is_simulated():
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RuntimeError(NO_DEVICE)
    if importlib.util.find_spec("numba_cuda") is None:
        raise RuntimeError(f"trees on the GPU need numba-cuda: {install_advice('cuda')}")
    return torch.device("cuda")


def kernel(function: Callable[..., None]) -> Any:
    """Turn a function into a kernel. It is compiled at its first launch and cached on disk."""
    cuda: Any = importlib.import_module("numba.cuda")
    return cuda.jit(function) if is_simulated() else cached_on_disk(cuda.jit(function))


def launch(kernel: Any, count: int, *arguments: Any) -> None:
    """Launch a kernel with at least ``count`` threads on PyTorch's current stream, without waiting for it."""
    from numba import cuda

    config: Any = numba.config
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # small batches are intended
    blocks = -(-count // THREADS_PER_BLOCK)
    with _launch_lock:
        if is_simulated():
            kernel[blocks, min(THREADS_PER_BLOCK, count)](*arguments)
        else:
            kernel[blocks, THREADS_PER_BLOCK, cuda.external_stream(torch.cuda.current_stream().cuda_stream)](*arguments)


def synchronise() -> None:
    if not is_simulated():
        torch.cuda.synchronize()


def allocate_with_backoff(make: Callable[[int], _T], count: int, min_count: int) -> _T:
    """Return ``make(count)``; while the GPU runs out of memory, halve the count, down to ``min_count``."""
    requested = count
    while True:
        with contextlib.suppress(torch.cuda.OutOfMemoryError):
            result = make(count)
            break
        if count // 2 < min_count:
            raise RuntimeError(f"the GPU's memory has no room for {count} concurrent games: free some of it")
        count //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if count < requested:
        logger.warning("the GPU's memory has room for %d concurrent games, not for %d", count, requested)
    return result


class _CudaArray:
    """A tensor's memory as another type of the same size, with the CUDA array interface."""

    def __init__(self, tensor: Tensor, dtype: np.dtype[Any]) -> None:
        self._tensor = tensor  # keeps the memory alive
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "strides": tuple(step * tensor.element_size() for step in tensor.stride()),
            "typestr": dtype.str,
            "data": (tensor.data_ptr(), False),
            "version": 3,
        }


def kernel_view(tensor: Tensor, dtype: npt.DTypeLike | None = None) -> Any:
    """Return a view of the tensor for kernels, read as ``dtype``; in the simulator a NumPy array."""
    if tensor.is_cuda:
        cuda: Any = importlib.import_module("numba.cuda")
        dtype = np.dtype(dtype) if dtype is not None else torch.empty(0, dtype=tensor.dtype).numpy().dtype
        return cuda.as_cuda_array(_CudaArray(tensor, dtype), sync=False)
    if dtype is not None and tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.view(torch.int16)
    array = tensor.numpy()
    return array if dtype is None else array.view(dtype)


def to_tensor(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to the device. Unsigned 64-bit integers become signed, because PyTorch hardly supports them."""
    return torch.from_numpy(as_signed(array).copy()).to(device)


def _fields(arrays: Any) -> dict[str, npt.NDArray[Any]]:
    return {name: array for name, array in arrays._asdict().items() if isinstance(array, np.ndarray)}


def as_signed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(np.int64) if array.dtype == np.uint64 else array


class DeviceArrays(Generic[_Arrays]):
    """A tuple of arrays on the device: as ``tensors`` by name, and as ``arrays`` for kernels."""

    def __init__(self, tensors: Mapping[str, Tensor], like: _Arrays) -> None:
        self.tensors = dict(tensors)
        self._dtypes = {name: getattr(like, name).dtype for name in self.tensors}
        views = {
            name: kernel_view(tensor, np.uint64 if self._dtypes[name] == np.uint64 else None)
            for name, tensor in self.tensors.items()
        }
        template: Any = like  # other fields are the same on the device
        self.arrays: _Arrays = template._replace(**views)

    def read(self, name: str, rows: Tensor | slice = slice(None)) -> npt.NDArray[Any]:
        """Copy an array, or some of its rows, to the host, and wait for the device."""
        dtype = self._dtypes[name]
        array = self.tensors[name][rows].cpu().numpy()
        return array.view(dtype).copy() if dtype == np.uint64 else array.astype(dtype)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        self.tensors[name].copy_(torch.from_numpy(as_signed(np.ascontiguousarray(array))))


def copy_to_device(arrays: _Arrays, device: torch.device) -> DeviceArrays[_Arrays]:
    """Copy a tuple of arrays to the device in the same layout."""
    return DeviceArrays({name: to_tensor(array, device) for name, array in _fields(arrays).items()}, arrays)


def make_device_trees(like: Trees, nodes: int, device: torch.device) -> DeviceArrays[Trees]:
    """Create empty trees of ``nodes`` nodes on the device, with the roots and random states of ``like``.

    All fields of a node form one record. Every thread walks its own tree, so a visit reads one or two cache lines
    instead of one per array. For 7 actions a record has 128 bytes if indices and counts fit in two bytes each,
    otherwise 160.
    """
    trees, _, actions = like.visits.shape
    counts = np.int16 if nodes < 2**15 else np.int32
    fields = [
        (name, counts if dtype is np.int32 else dtype, (actions,) if has_actions else ())
        for name, (dtype, has_actions) in NODE_FIELDS.items()
    ]
    record = np.dtype(sorted(fields, key=lambda field: -np.dtype(field[1]).itemsize))  # so that all are aligned
    size = -(-record.itemsize // SECTOR_BYTES) * SECTOR_BYTES
    memory = torch.zeros((trees, nodes, size), dtype=torch.uint8, device=device)
    tensors = {name: to_tensor(array, device) for name, array in _fields(like).items() if name not in NODE_FIELDS}
    for name, (dtype, offset, *_) in (record.fields or {}).items():
        part = memory[:, :, offset : offset + dtype.itemsize].view(getattr(torch, dtype.base.name))
        tensors[name] = part if dtype.shape else part[:, :, 0]
    return DeviceArrays(tensors, like)


class IoBuffers(NamedTuple):
    """Inputs and outputs of a network, which kernels write and read; always in the same memory."""

    planes: Any  # [B, P, R, C] in the network's precision; 16-bit floats as their bits
    one: Any  # the number 1 in the type of ``planes``
    logits: Any  # float32 [B, A]
    wdl: Any  # float32 [B, 3] probabilities


def best_precision(device: torch.device) -> torch.dtype:
    """Return the fastest sufficient precision of inference on a device."""
    if device.type == "cpu":
        return torch.float32
    return torch.bfloat16 if cuda_has_bf16() else torch.float16


class DeviceNetwork:
    """A network for batches of a fixed size, with inputs and outputs in `IoBuffers`."""

    def __init__(
        self,
        network: Network,
        board: Board,
        size: int,
        device: torch.device,
        precision: torch.dtype | None = None,
    ) -> None:
        precision = precision or best_precision(device)
        self._module = fold_batch_norm(network)
        self._module.to(device, precision, memory_format=torch.channels_last)  # type: ignore[call-overload]
        shape = (size, network.config.input_planes, board.rows, board.columns)
        self._planes = torch.zeros(shape, dtype=precision, device=device).contiguous(memory_format=torch.channels_last)
        self._logits = torch.zeros((size, board.columns), device=device)
        self._wdl = torch.zeros((size, 3), device=device)
        one = ONE[precision]
        planes = kernel_view(self._planes, np.asarray(one).dtype)
        self.io = IoBuffers(planes, one, kernel_view(self._logits), kernel_view(self._wdl))

    def update(self, network: Network) -> None:
        self._module.load_state_dict(fold_batch_norm(network).state_dict())

    @torch.inference_mode()
    def evaluate(self) -> None:
        """Evaluate the planes in the buffers, without waiting for the device."""
        policy, value = self._module(self._planes)
        self._logits.copy_(policy)
        self._wdl.copy_(torch.softmax(value.float(), dim=1))


def capture_graph(step: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """Capture a step as a CUDA graph, which needs one launch; return the step itself if that is impossible.

    Before that, the step runs `WARM_UP_STEPS` times. It must always use the same memory and never wait for the device.
    """
    if device.type != "cuda":
        return step
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), _CUDNN_BENCHMARK.changed_to(True):
        for _ in range(WARM_UP_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
    except RuntimeError as error:
        torch.cuda.synchronize()
        logger.warning(
            "cannot capture a CUDA graph, so steps are launched singly, which is slower: %s", first_line(error)
        )
        return step
    return graph.replay

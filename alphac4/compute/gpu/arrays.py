"""Arrays that kernels and PyTorch share: tensors on the device, which Numba sees without copying."""

import importlib
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alphac4.mcts.tree import Trees

NODE_FIELDS = {  # of Trees: type, and whether there is one for each action
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
_T = TypeVar("_T", bound=tuple[Any, ...])  # Trees, Games or Finished

SECTOR = 32  # bytes that a GPU fetches at least


class _Interface:
    """A tensor's memory as another type of the same size, by the CUDA array interface."""

    def __init__(self, tensor: Tensor, dtype: np.dtype[Any]) -> None:
        self._tensor = tensor  # keeps the memory
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "strides": tuple(step * tensor.element_size() for step in tensor.stride()),
            "typestr": dtype.str,
            "data": (tensor.data_ptr(), False),
            "version": 3,
        }


def kernel_view(tensor: Tensor, dtype: npt.DTypeLike | None = None) -> Any:
    """The tensor as an array for kernels; in the simulator an ordinary array. ``dtype`` re-reads its bits."""
    if tensor.is_cuda:
        cuda: Any = importlib.import_module("numba.cuda")
        dtype = np.dtype(dtype) if dtype is not None else torch.empty(0, dtype=tensor.dtype).numpy().dtype
        return cuda.as_cuda_array(_Interface(tensor, dtype), sync=False)
    if dtype is not None and tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.view(torch.int16)
    array = tensor.numpy()
    return array if dtype is None else array.view(dtype)


def to_tensor(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """A copy on the device; PyTorch has next to no unsigned integers, so their bits become signed ones."""
    return torch.from_numpy(_signed(array).copy()).to(device)


def _fields(arrays: Any) -> dict[str, npt.NDArray[Any]]:
    return {name: array for name, array in arrays._asdict().items() if isinstance(array, np.ndarray)}


def _signed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(np.int64) if array.dtype == np.uint64 else array


class Shared(Generic[_T]):
    """A tuple of arrays on the device: as tensors, and as kernels take them."""

    def __init__(self, tensors: Mapping[str, Tensor], like: _T) -> None:
        self.tensors = dict(tensors)
        self._dtypes = {name: getattr(like, name).dtype for name in self.tensors}
        views = {
            name: kernel_view(tensor, np.uint64 if self._dtypes[name] == np.uint64 else None)
            for name, tensor in self.tensors.items()
        }
        rest: Any = like  # what is no array is the same on the device
        self.arrays: _T = rest._replace(**views)

    def read(self, name: str, *lengths: int) -> npt.NDArray[Any]:
        """A copy on the host of an array, or of its first ``lengths`` rows (and columns); waits for the device."""
        dtype = self._dtypes[name]
        array = self.tensors[name][tuple(slice(length) for length in lengths)].cpu().numpy()
        return array.view(dtype).copy() if dtype == np.uint64 else array.astype(dtype)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Overwrite the beginning of an array from the host."""
        tensor = self.tensors[name]
        region = tuple(slice(0, length) for length in array.shape)
        tensor[region] = torch.from_numpy(_signed(np.ascontiguousarray(array))).to(tensor.device, tensor.dtype)


def share(arrays: _T, device: torch.device) -> Shared[_T]:
    """Copies of all arrays on the device, laid out as they are."""
    return Shared({name: to_tensor(array, device) for name, array in _fields(arrays).items()}, arrays)


def share_trees(like: Trees, nodes: int, device: torch.device) -> Shared[Trees]:
    """Empty trees of ``nodes`` nodes on the device, with the roots' positions and random states of ``like``.

    All that is known of a node lies together in one record, 128 bytes for 7 actions: every thread walks a tree of
    its own, so a visit costs one cache line or two instead of one for each array. Indices and counts take two bytes
    where they suffice.
    """
    trees, _, actions = like.visits.shape
    counts = np.dtype(np.int16 if nodes < 2**15 else np.int32)
    fields, offset = {}, 0
    sized = {
        name: (counts if dtype == np.int32 else np.dtype(dtype), each) for name, (dtype, each) in NODE_FIELDS.items()
    }
    for name, (dtype, each) in sorted(sized.items(), key=lambda item: -item[1][0].itemsize):
        fields[name] = (offset, dtype, each)
        offset += dtype.itemsize * (actions if each else 1)
    record = -(-offset // SECTOR) * SECTOR
    memory = torch.zeros((trees, nodes, record), dtype=torch.uint8, device=device)
    tensors = {name: to_tensor(array, device) for name, array in _fields(like).items() if name not in fields}
    for name, (start, dtype, each) in fields.items():
        part = memory[:, :, start : start + dtype.itemsize * (actions if each else 1)]
        typed = part.view(getattr(torch, dtype.name))
        tensors[name] = typed if each else typed[:, :, 0]
    return Shared(tensors, like)
